"""Removals: what would go, why, and how certain that is. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum

import orjson

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.fast_dataclass import fast_dataclass


class Cause(StrEnum):
    """Why an object is to go. Recorded with each removal, and shown by plans in the same word."""

    ROW_GONE = "RowGone"
    ROW_INACTIVE = "RowInactive"
    ROW_VALUES = "RowValues"
    """The values of a row select another set of objects, or other names."""
    TEMPLATE_CHANGED = "TemplateChanged"
    TEMPLATE_GONE = "TemplateGone"
    REGISTRY_GONE = "RegistryGone"
    PARENT_DELETED = "ParentDeleted"
    SPEC_CHANGED = "SpecChanged"
    RETENTION = "Retention"
    """Its time or its number is up: a snapshot, a finished run, an ended lease."""
    PRUNE = "Prune"
    ORPHANED = "Orphaned"
    REPLACED = "Replaced"
    """It is deleted to be created again, or another object takes its place."""
    MOVED = "Moved"
    UNINSTALLED = "Uninstalled"
    REQUESTED = "Requested"
    """A person named this object in a command."""


class Evidence(StrEnum):
    """How certain it is that the object is the owner's and is to go."""

    CERTAIN = "certain"
    """The object has the owner reference or an entry of our field manager, or the caller's own record names it."""
    INFERRED = "inferred"
    """A resemblance, a lossy conversion, an annotation alone. No approval lifts what is held for it."""
    PARTIAL = "partial"
    """What could contradict it was not read in full. A person who approves the set by its digest confirms it."""


@fast_dataclass(frozen=True, slots=True, order=True)
class Victim:
    """The object that would go; its version does not count."""

    kind: GroupKind
    namespace: str
    """Empty for a cluster-scoped object."""
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """One object that is to go, and what is known of it."""

    victim: Victim
    uid: str
    holds_state: bool
    cause: Cause
    evidence: Evidence
    parent: str = ""
    """The key of the owner whose budget counts it."""
    member: str = ""
    """The member of the parent that loses the object; empty: the object itself is the member."""
    holder: str = ""
    """Another owner that has the object, in words: such an object never goes."""
    in_rollout: bool = False
    """A rollout with a budget of its own takes it, so that no other budget counts it."""

    @property
    def counted_as(self) -> str:
        """The member under which a budget counts it."""
        return self.member or str(self.victim)


def digest_of(removals: Iterable[Removal]) -> str:
    """Return 16 hex digits that name a set of removals: parent, victims, UIDs and causes, in whatever order."""
    lines = {(each.parent, str(each.victim), each.uid, str(each.cause)) for each in removals}
    return hashlib.sha256(orjson.dumps(sorted(lines))).hexdigest()[:16]


def unused_digest(removals: Iterable[Removal], used: Mapping[str, int]) -> str:
    """Return the digest that approves a set now: `digest_of`, but another one after each time that it was used."""
    digest = digest_of(removals)
    while digest in used:
        digest = hashlib.sha256(f"{digest} {used[digest]}".encode()).hexdigest()[:16]
    return digest
