"""The steps of an uninstallation. Each can be repeated: an interrupted one is finished by running it again."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.client import APIError, Client, Forbidden, NotFound, PatchType
from ctrlruntime.clock import monotonic, wall
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import removal_of, remove_object
from manager.commands.leases import LEASE, find_held, find_member, list_shards
from manager.commands.owned_objects import OwnedObject, is_ours, owned_objects, release
from manager.kinds import KINDS
from manager.options import LEASES

NAME: Final = "ctrlruntime-crds"
"""The admission policy of `config/guard`, by which CRDs of this product are deleted only with an approval."""
_GROUP: Final = "admissionregistration.k8s.io"
BINDING: Final = BUILTIN[GroupVersionKind(_GROUP, "v1", "ValidatingAdmissionPolicyBinding")]
POLICY: Final = BUILTIN[GroupVersionKind(_GROUP, "v1", "ValidatingAdmissionPolicy")]

CRD: Final = BUILTIN[GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")]
DEPLOYMENT: Final = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
MANAGER: Final = "app.kubernetes.io/name=ctrlruntime,control-plane=controller-manager"
POLL: Final = 0.5
APPROVALS: Final[dict[str, dict[str, Any]]] = {
    "Instance": {"spec": {"deletionProtection": False}},
    "TenantRegistry": {
        "metadata": {"annotations": {"tenancy.ctrlruntime.dev/approve-deletion": "true"}}
    },
}
"""By kind, the patch that lifts deletion protection: the number of objects was typed."""

Report = Callable[[str], None]


class UninstallError(Exception):
    """The uninstallation stopped before anything was lost; the message names the remedy."""


async def custom_resources(client: Client) -> list[OwnedObject]:
    """Return every object of our kinds, owners before what they own."""
    found: list[OwnedObject] = []
    for kind in KINDS:
        mapping = kind.mapping()
        try:
            items = await client.list(mapping, metadata_only=True)
        except NotFound:
            continue
        found += [OwnedObject(mapping, each["metadata"]) for each in items]
    return found


def count(found: list[OwnedObject]) -> list[str]:
    """Return a line for each kind, most numerous first."""
    kinds = Counter(each.mapping.gvk.kind for each in found)
    return [f"{number:7}  {kind}" for kind, number in kinds.most_common()]


async def stop_manager(client: Client, report: Report, timeout: float) -> None:
    """Delete the manager's Deployment, and wait until no manager works. Raises UninstallError."""
    for each in await client.list(DEPLOYMENT, labels=MANAGER, metadata_only=True):
        metadata = each["metadata"]
        await _remove(client, DEPLOYMENT, metadata)
        report(f"deleted Deployment {metadata['namespace']}/{metadata['name']}")
    end = monotonic() + timeout
    while running := await _running(client):
        if monotonic() > end:
            raise UninstallError(
                f"a manager is still running ({running}); stop it and run this again"
            )
        await asyncio.sleep(POLL)


async def _running(client: Client) -> str:
    """Name what shows that a manager works: its Pod, or a Lease that is renewed. Empty if nothing."""
    for pod in await client.list(POD, labels=MANAGER, metadata_only=True):
        return f"Pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for lease in LEASES:
        if held := await find_held(client, lease, now=wall()):
            return f"Lease of {held.holder}"
    member = find_member(await list_shards(client), now=wall())
    return "" if member is None else f"Lease of {member.holder}"


async def delete_shards(client: Client, report: Report) -> None:
    """Delete the Leases of managers that shared work, and the assignment: none of them works any more."""
    found = await list_shards(client)
    for each in found:
        with contextlib.suppress(NotFound):
            await _remove(client, LEASE, each["metadata"])
    if found:
        report(f"deleted {len(found)} Leases of managers that shared work")


async def release_objects(client: Client, report: Report) -> int:
    """Release every object that custom resources own. Returns how many are kept in all."""
    kept = [each async for each in owned_objects(client)]
    written = sum([await release(client, each) for each in kept])
    report(f"{len(kept)} objects are kept, {written} of them were released now")
    left = [each async for each in owned_objects(client) if await release(client, each)]
    if left:
        raise UninstallError(
            f"{left[0].label} got an owner meanwhile: a manager is still running; stop it and run "
            "this again"
        )
    return len(kept)


async def release_custom_resources(client: Client) -> None:
    """Take our finalizers off all custom resources. Raises UninstallError for finalizers of others."""
    for each in await custom_resources(client):
        await release(client, each)
    for each in await custom_resources(client):
        if others := each.metadata.get("finalizers"):
            raise UninstallError(
                f"{each.label} has the finalizers {', '.join(others)} of others: remove them, "
                "and run this again"
            )


async def delete_definitions(client: Client, report: Report, timeout: float) -> None:
    """Delete our CRDs and what is left of their objects. Raises UninstallError if one stays."""
    end = monotonic() + timeout
    if await remove_guard(client):
        report("deleted the guard of the CRDs (config/guard)")
    for kind in KINDS:
        name = f"{kind.mapping().plural}.{kind.gvk().group}"
        try:
            await _delete_definition(client, name, end)
            while True:
                await client.get(CRD, name, metadata_only=True)
                if monotonic() > end:
                    raise UninstallError(f"the CRD {name} is still being deleted; run this again")
                await asyncio.sleep(POLL / 5)
        except NotFound:
            report(f"CRD {name} is gone")


async def _delete_definition(client: Client, name: str, end: float) -> None:
    """Delete one CRD, and again while the server still enforces the guard. Raises the client's errors."""
    while True:
        try:
            await _remove(client, CRD, {"name": name})
            return
        except Forbidden as error:
            if not is_denied_by_guard(error) or monotonic() > end:
                raise
        await asyncio.sleep(POLL / 5)


async def remove_custom_resources(client: Client, report: Report, timeout: float) -> None:
    """Delete all custom resources, and wait until the manager has removed what they own."""
    end = monotonic() + timeout
    before = -1
    while found := await custom_resources(client):
        # What is owned goes with its owner; what is left without one, by itself.
        roots = [each for each in found if not any(map(is_ours, each.references))] or found
        for each in roots:
            if "deletionTimestamp" not in each.metadata:
                await _delete(client, each)
        if len(found) != before:
            report(f"{len(found)} objects of our kinds are left")
            before = len(found)
        if monotonic() > end:
            shown = ", ".join(each.label for each in found[:5])
            raise UninstallError(
                f"still there: {shown}; their conditions say why (is a manager running?). Run this "
                "again to go on"
            )
        await asyncio.sleep(POLL)


async def _delete(client: Client, each: OwnedObject) -> None:
    try:
        if (approval := APPROVALS.get(each.mapping.gvk.kind)) is not None:
            await client.patch(
                each.mapping, each.name, approval, namespace=each.namespace, type=PatchType.MERGE
            )
        await _remove(client, each.mapping, each.metadata)
    except NotFound:
        return


async def _remove(client: Client, mapping: RESTMapping, metadata: Mapping[str, Any]) -> None:
    """Delete what the user has confirmed. Raises the client's errors."""
    removal = removal_of(mapping, metadata, Cause.UNINSTALLED, Evidence.CERTAIN)
    await remove_object(client, mapping, removal)


async def remove_guard(client: Client) -> bool:
    """Delete the policy and its binding, the binding first. Return whether there was one.

    The server may enforce it for a moment longer. Raises the client's errors, other than NotFound.
    """
    found = False
    for mapping in (BINDING, POLICY):
        removal = removal_of(mapping, {"name": NAME}, Cause.UNINSTALLED, Evidence.CERTAIN)
        try:
            await remove_object(client, mapping, removal)
        except NotFound:
            continue
        found = True
    return found


def is_denied_by_guard(error: APIError) -> bool:
    """Return whether the policy refused a request."""
    return isinstance(error, Forbidden) and f"ValidatingAdmissionPolicy '{NAME}'" in str(error)
