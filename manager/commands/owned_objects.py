"""Objects of any kind that our custom resources own: found, counted, and released.

An owner reference makes the garbage collector delete the object with its owner. Releasing takes the references
and finalizers of our groups off, and nothing else: the object stays as it is, and the annotations that name
its owner let a later installation adopt it.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.resources import OWNER
from manager.kinds import GROUPS

ATTEMPTS: Final = 10
"""How often an object that changes meanwhile is read and patched again."""


@dataclass(frozen=True, slots=True)
class OwnedObject:
    """An object as found: its kind, and its metadata."""

    mapping: RESTMapping
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str | None:
        """The object's namespace; None if its kind has none."""
        return self.metadata.get("namespace")

    @property
    def references(self) -> list[Mapping[str, Any]]:
        """The object's owner references."""
        return self.metadata.get("ownerReferences") or []

    @property
    def label(self) -> str:
        """`kind namespace/name`, for messages."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.mapping.gvk.kind} {place}{self.name}"


def is_ours(reference: Mapping[str, Any]) -> bool:
    """Whether an owner reference names a kind of our groups."""
    return str(reference.get("apiVersion", "")).partition("/")[0] in GROUPS


def is_our_finalizer(name: str) -> bool:
    """Whether a finalizer is of our groups."""
    return name.partition("/")[0] in GROUPS


def is_owned(metadata: Mapping[str, Any]) -> bool:
    """Whether one of our custom resources owns the object, by reference or by annotation."""
    recorded = (metadata.get("annotations") or {}).get(OWNER, "")
    kind = recorded.partition("/")[0]
    return any(map(is_ours, metadata.get("ownerReferences") or ())) or (
        kind.partition(".")[2] in GROUPS
    )


def release_patch(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the merge patch that releases an object; None if none of our objects holds it."""
    references = metadata.get("ownerReferences") or []
    finalizers = metadata.get("finalizers") or []
    kept = [each for each in references if not is_ours(each)]
    left = [each for each in finalizers if not is_our_finalizer(each)]
    if kept == references and left == finalizers:
        return None
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "ownerReferences": kept or None,
            "finalizers": left or None,
        }
    }


async def served_kinds(client: Client) -> list[RESTMapping]:
    """Return every kind whose objects can be listed and patched, one version of each."""
    found = await _resources(client, "/api/v1", "", "v1")
    groups = orjson.loads((await client.transport.request("GET", "/apis")).body)
    for group in groups.get("groups") or ():
        version = group["preferredVersion"]["version"]
        path = f"/apis/{group['name']}/{version}"
        found += await _resources(client, path, group["name"], version)
    return found


async def _resources(client: Client, path: str, group: str, version: str) -> list[RESTMapping]:
    document = orjson.loads((await client.transport.request("GET", path)).body)
    return [
        RESTMapping(
            GroupVersionKind(group, version, each["kind"]), each["name"], each["namespaced"]
        )
        for each in document.get("resources") or ()
        if "/" not in each["name"] and {"list", "patch"} <= set(each.get("verbs") or ())
    ]


async def owned_objects(client: Client) -> AsyncIterator[OwnedObject]:
    """Yield every object that our custom resources own.

    Raises the client's errors: in doubt nothing may be deleted.
    """
    for mapping in await served_kinds(client):
        if mapping.gvk.group in GROUPS:
            continue
        for each in await client.list(mapping, metadata_only=True):
            if is_owned(each["metadata"]):
                yield OwnedObject(mapping, each["metadata"])


async def release(client: Client, found: OwnedObject) -> bool:
    """Remove our references and finalizers from an object. Returns whether anything was written."""
    metadata = found.metadata
    for _ in range(ATTEMPTS):
        patch = release_patch(metadata)
        if patch is None:
            return False
        try:
            await client.patch(
                found.mapping, found.name, patch, namespace=found.namespace, type=PatchType.MERGE
            )
            return True
        except NotFound:
            return False
        except Conflict:
            try:
                read = await client.get(
                    found.mapping, found.name, namespace=found.namespace, metadata_only=True
                )
            except NotFound:
                return False
            metadata = read["metadata"]
    raise Conflict(f"{found.label} is changed by others all the time; stop what writes it")
