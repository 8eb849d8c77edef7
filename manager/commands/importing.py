"""The steps of `manager import`. Each can be repeated: an interrupted one is finished by running it again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from apis.tenancy import GROUP, Tenant
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import APIError, Conflict, NoKindMatch, NotFound
from ctrlruntime.clock import wall
from ctrlruntime.resources import OWNER, OWNER_UID, Desired, Owner
from ctrlruntime.resources.field_changes import FieldChange, field_changes
from internal.tenancy.importing import (
    FORMERS,
    IMPORTED,
    FormerOperator,
    confirm_patch,
    is_held_by,
    is_taken_over,
    takeover_patch,
    undo_patch,
)
from internal.tenancy.objects.builder import build
from internal.tenancy.objects.graph import GraphError
from internal.tenancy.objects.values import decoded
from internal.tenancy.objects.variables import VariablesError, variables_of
from internal.tenancy.rendering import Renderer
from internal.tenancy.shared.labels import FIELD_MANAGER, kinds_of
from internal.tenancy.shared.policies import CREATED_ONCE
from internal.tenancy.shared.privileges import Privileges
from manager.commands.leases import find_held

SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]
AT_ONCE: Final = 8
"""Requests under way at the same time."""
OUR_PREFIXES: Final = (GROUP, OWNER.partition("/")[0])
HEAD: Final = ("apiVersion", "kind", "metadata", "status")


class Standing(StrEnum):
    """What an object is to the import."""

    TAKE = "take over"
    CHANGED = "differs"
    """It is the former operator's, and what the template makes is not the same: its Pods might restart."""
    TAKEN = "taken over"
    OWNED = "owned"
    MISSING = "missing"
    """The manager creates it."""
    FOREIGN = "held by others"
    BROKEN = "cannot be rendered"
    NO_TENANT = "no Tenant"
    """There is none by the name of the former operator's."""


@dataclass(frozen=True, slots=True)
class Item:
    """An object that a tenant wants, or a tenant that is not there."""

    standing: Standing
    place: str
    """`Kind namespace/name`."""
    note: str = ""
    mapping: RESTMapping | None = None
    namespace: str = ""
    name: str = ""
    patch: Manifest = field(default_factory=dict)
    """The takeover."""
    body: Manifest = field(default_factory=dict)
    """What the manager is going to apply, without an owner reference."""


class StillRunning(Exception):
    """The former operator works: it would write against the import."""


def place_of(mapping: RESTMapping, namespace: str, name: str) -> str:
    """Return `Kind namespace/name`."""
    return f"{mapping.gvk.kind} {f'{namespace}/' if namespace else ''}{name}"


async def find_former(client: Client, name: str | None) -> FormerOperator | None:
    """Return the former operator of that name, or the one whose kinds are served; None if there is none."""
    for each in [FORMERS[name]] if name else FORMERS.values():
        try:
            await client.list(each.tenant, metadata_only=True)
        except (NotFound, NoKindMatch):
            continue
        return each
    return None


async def require_stopped(client: Client, former: FormerOperator) -> None:
    """Raise StillRunning if a Lease of the former operator is renewed."""
    held = await find_held(client, former.lease, now=wall())
    if held is not None:
        raise StillRunning(
            f"{former.name} is running: {held.holder} renews the Lease {former.lease}. "
            f"Scale its Deployment in namespace {held.namespace} to 0, and run this again"
        )


class Import:
    """What is there, read once: the former operator's tenants, this product's of the same names, and the objects."""

    def __init__(
        self, client: Client, former: FormerOperator, privileges: Privileges, namespace: str | None
    ) -> None:
        self._client, self._former, self._privileges = client, former, privileges
        self._namespace = namespace
        self._live: dict[RESTMapping, dict[tuple[str, str], Mapping[str, Any]]] = {}
        self._mappings: dict[GroupVersionKind, RESTMapping | None] = {}
        self._limit = asyncio.Semaphore(AT_ONCE)

    async def items(self) -> list[Item]:
        """Return every object that our tenants want, with what it is to the import."""
        nodes = await self._client.list(self._former.tenant, self._namespace, metadata_only=True)
        tenants = {
            (each.metadata.namespace, each.metadata.name): each
            for each in await self._client.list(Tenant, self._namespace)
        }
        renderer = Renderer()
        found: list[Item] = []
        try:
            for metadata in (each["metadata"] for each in nodes):
                tenant = tenants.get((metadata["namespace"], metadata["name"]))
                if tenant is None:
                    found.append(_without_tenant(self._former, metadata))
                else:
                    found += await self._of(tenant, metadata, renderer)
        finally:
            await renderer.close()
        return list(await asyncio.gather(*map(self._compared, found)))

    async def _of(self, tenant: Tenant, node: Mapping[str, Any], renderer: Renderer) -> list[Item]:
        place = f"Tenant {tenant.metadata.namespace}/{tenant.metadata.name}"
        try:
            variables = variables_of(tenant, await self._sensitive(tenant))
            await self._look_up(tenant)
            made = await build(tenant, variables, renderer, self._mappings.get, self._privileges)
        except (VariablesError, GraphError) as error:
            return [Item(Standing.BROKEN, place, str(error))]
        owner, found = Owner.of(tenant), []
        for each in made.resources:
            if each.desired is None:
                found.append(
                    Item(Standing.BROKEN, f"{place}, resource {each.resource.id}", each.problem)
                )
            else:
                found.append(await self._judged(each.desired, owner, node))
        return found

    async def _judged(self, desired: Desired, owner: Owner, node: Mapping[str, Any]) -> Item:
        live = await self._objects(desired.mapping)
        metadata = live.get((desired.namespace, desired.name))
        place = place_of(desired.mapping, desired.namespace, desired.name)
        item = Item(
            Standing.MISSING,
            place,
            mapping=desired.mapping,
            namespace=desired.namespace,
            name=desired.name,
        )
        if metadata is None:
            return item
        if is_taken_over(metadata):
            return replace(item, standing=Standing.TAKEN)
        if (metadata.get("annotations") or {}).get(OWNER_UID) == owner.uid:
            return replace(item, standing=Standing.OWNED)
        if not is_held_by(metadata, self._former, node):
            return replace(item, standing=Standing.FOREIGN, note=_holder(metadata))
        patch = takeover_patch(metadata, self._former, node, desired, owner)
        body = replace(desired, reference=False, revision=desired.revision).body(owner)
        return replace(item, standing=Standing.TAKE, patch=patch, body=body)

    async def _compared(self, item: Item) -> Item:
        """Have the server say what an apply of the template would change in an object that is to be taken over."""
        if item.standing is not Standing.TAKE or item.mapping is None:
            return item
        if CREATED_ONCE in item.body["metadata"]["annotations"]:
            return item  # its content is never written again
        async with self._limit:
            try:
                changes = await self._changes(item.mapping, item)
            except APIError as error:
                return replace(item, standing=Standing.CHANGED, note=error.message)
        if not changes:
            return item
        paths = ", ".join(each.path for each in changes[:3])
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        return replace(item, standing=Standing.CHANGED, note=f"{paths}{more}")

    async def _changes(self, mapping: RESTMapping, item: Item) -> list[FieldChange]:
        space = item.namespace or None
        before = await self._client.get(mapping, item.name, namespace=space)
        after = await self._client.patch(
            mapping,
            item.name,
            item.body,
            namespace=space,
            type=PatchType.APPLY,
            field_manager=self._former.field_manager,
            force=True,
            dry_run=True,
        )
        return field_changes(_content(before, self._former), _content(after, self._former))

    async def _objects(self, mapping: RESTMapping) -> dict[tuple[str, str], Mapping[str, Any]]:
        if mapping not in self._live:
            found = await self._client.list(mapping, metadata_only=True)
            self._live[mapping] = {
                (each["metadata"].get("namespace", ""), each["metadata"]["name"]): each["metadata"]
                for each in found
            }
        return self._live[mapping]

    async def _look_up(self, tenant: Tenant) -> None:
        """Learn how the kinds of a tenant are served."""
        for kind in kinds_of(tenant):
            if kind not in self._mappings:
                try:
                    self._mappings[kind] = await self._client.mapper.resolve(kind)
                except NoKindMatch:
                    self._mappings[kind] = None

    async def _sensitive(self, tenant: Tenant) -> dict[str, str]:
        named = tenant.spec.sensitive_variables
        if named is None:
            return {}
        try:
            secret = await self._client.get(
                SECRET, named.secret_name, namespace=tenant.metadata.namespace
            )
        except NotFound:
            return {}
        return decoded(secret.get("data"))


def _content(manifest: Manifest, former: FormerOperator) -> Manifest:
    """Return the content of an object without its identity, its status and the marks of either operator."""
    metadata = manifest["metadata"]
    words = {
        part: {
            name: value
            for name, value in (metadata.get(part) or {}).items()
            if name.partition("/")[0] not in (former.prefix, *OUR_PREFIXES)
        }
        for part in ("labels", "annotations")
    }
    return {"metadata": words, **{key: each for key, each in manifest.items() if key not in HEAD}}


def _holder(metadata: Mapping[str, Any]) -> str:
    references = metadata.get("ownerReferences") or ()
    named = ", ".join(f"{each['kind']} {each['name']}" for each in references)
    return named or "nothing on it names a tenant of the former operator"


def _without_tenant(former: FormerOperator, metadata: Mapping[str, Any]) -> Item:
    place = place_of(former.tenant, metadata["namespace"], metadata["name"])
    note = "no Tenant of this name yet: apply the translated registry and template (--manifests)"
    return Item(Standing.NO_TENANT, place, note)


async def take_over(client: Client, items: list[Item]) -> int:
    """Write the takeovers, one write an object. Returns how many; an object that changed meanwhile is left out."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(item: Item) -> int:
        if item.mapping is None:
            return 0
        async with limit:
            return await _write(client, item.mapping, item.namespace, item.name, item.patch)

    return sum(await asyncio.gather(*map(one, items)))


async def taken_over(
    client: Client, former: FormerOperator, namespace: str | None
) -> AsyncIterator[tuple[RESTMapping, Mapping[str, Any]]]:
    """Yield every object that was taken over, of the kinds that Tenants name."""
    kinds: set[GroupVersionKind] = set()
    for tenant in await client.list(Tenant, namespace):
        kinds |= kinds_of(tenant)
    for kind in sorted(kinds, key=str):
        try:
            mapping = await client.mapper.resolve(kind)
        except NoKindMatch:
            continue
        for each in await client.list(mapping, metadata_only=True):
            metadata = each["metadata"]
            if is_taken_over(metadata) and f'"{former.name}"' in metadata["annotations"][IMPORTED]:
                yield mapping, metadata


async def give_back(client: Client, former: FormerOperator, namespace: str | None) -> int:
    """Undo every takeover that was not confirmed. Returns how many. Raises ValueError for an edited record."""
    return await _rewrite(client, former, namespace, lambda each: undo_patch(each, FORMERS))


async def confirm(client: Client, former: FormerOperator, namespace: str | None) -> int:
    """Remove the records and the former operator's marks. Returns how many objects were written."""
    return await _rewrite(client, former, namespace, lambda each: confirm_patch(each, former))


async def _rewrite(
    client: Client,
    former: FormerOperator,
    namespace: str | None,
    patch_of: Callable[[Mapping[str, Any]], Manifest | None],
) -> int:
    done = 0
    async for mapping, metadata in taken_over(client, former, namespace):
        patch = patch_of(metadata)
        if patch is not None:
            space = metadata.get("namespace", "")
            done += await _write(client, mapping, space, metadata["name"], patch)
    return done


async def _write(
    client: Client, mapping: RESTMapping, namespace: str, name: str, patch: Manifest
) -> int:
    try:
        await client.patch(
            mapping, name, patch, namespace=namespace or None, field_manager=FIELD_MANAGER
        )
    except (Conflict, NotFound):
        return 0
    return 1
