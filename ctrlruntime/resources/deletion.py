"""Removals that are not a control's: of objects that were read live, and of scratch."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.client.client import Client, Propagation
from ctrlruntime.gate import STATE, Cause, Evidence, Gate, Hold, Permit, Removal, StateTable, Victim


def removal_of(
    mapping: RESTMapping,
    metadata: Mapping[str, Any],
    cause: Cause,
    evidence: Evidence,
    *,
    parent: str = "",
    state: StateTable = STATE,
) -> Removal:
    """Return the removal of an object by its metadata, as the server returned it."""
    decoder = EntryDecoder(mapping.gvk, metadata_only=True)
    gvk = mapping.gvk
    entry = decoder.decode_manifest(
        {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": dict(metadata)}
    )
    return Removal(
        victim=Victim(gvk.group_kind, entry.namespace, entry.name),
        uid=entry.uid,
        holds_state=state.holds_state(entry),
        cause=cause,
        evidence=evidence,
        parent=parent,
    )


def evidence_of(metadata: Mapping[str, Any], managers: Collection[str]) -> Evidence:
    """Return how certain it is that one of these field managers wrote an object, by its metadata as the server has it.

    A copy that a person made has labels and annotations of the original, and no entry of theirs in `managedFields`.
    """
    entries = metadata.get("managedFields") or ()
    wrote = any(each.get("manager") in managers for each in entries)
    return Evidence.CERTAIN if wrote else Evidence.INFERRED


async def remove_object(
    client: Client,
    mapping: RESTMapping,
    removal: Removal,
    *,
    gate: Gate | None = None,
    resource_version: str | None = None,
    propagation: Propagation | None = None,
) -> Hold | None:
    """Delete an object if the gate permits it. Returns what holds it, or None. Raises the client's errors.

    `gate`: one without a budget; None: the default gate.
    """
    answer = (gate or Gate()).removal(removal)
    if isinstance(answer, Hold):
        return answer
    await delete_permitted(
        client, mapping, answer, resource_version=resource_version, propagation=propagation
    )
    return None


async def delete_permitted(
    client: Client,
    kind: GroupVersionKind | RESTMapping,
    permit: Permit,
    *,
    resource_version: str | None = None,
    propagation: Propagation | None = None,
) -> None:
    """Delete the object that the permit names, by UID where it has one. Raises the client's errors.

    `resource_version`: only in this version. Raises ValueError for the permit of another kind.
    """
    victim = permit.removal.victim
    group_kind = (kind.gvk if isinstance(kind, RESTMapping) else kind).group_kind
    if victim.kind != group_kind:
        raise ValueError(f"{permit!r} is not for {group_kind}")
    await client.delete(
        kind,
        victim.name,
        namespace=victim.namespace or None,
        uid=permit.removal.uid or None,
        resource_version=resource_version,
        propagation=propagation,
    )
