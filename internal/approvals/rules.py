"""What approvals of a kind are, and which fields of its spec decide what needs one. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

import orjson

from ctrlruntime.json import Json, copied

REQUIRED: Final = "requireApprovalBy"
"""The field of a spec that names the groups."""
RECORD: Final = "ctrlruntime.dev/approvals"
"""Annotation that admission writes: who changed the spec last, and who gave each approval, signed."""

Protection = dict[str, Json]
"""`requireApprovalBy` and the fields beside it, by path; an absent field has its default."""


def digest_of(value: Json) -> str:
    """Return 16 hex digits that name a JSON value, whatever the order of its keys."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Policy:
    """Whose approvals count."""

    groups: tuple[str, ...]
    other_than_author: bool = False

    @classmethod
    def of(cls, value: Json) -> Self | None:
        """Return what the field `requireApprovalBy` means; None if it is absent.

        What cannot be read names a group that no user is in, so that no approval counts.
        """
        if value is None:
            return None
        if not isinstance(value, Mapping):
            return cls(("",))
        further = value.get("furtherGroups")
        named = [value.get("group"), *(further if isinstance(further, list) else ())]
        groups = tuple(
            each for each in named if isinstance(each, str) and not each.startswith("system:")
        )
        return cls(groups or ("",), value.get("otherThanAuthor") is True)

    def membership(self, groups: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of a user's groups whose members may approve."""
        return tuple(each for each in self.groups if each and each in groups)

    def __str__(self) -> str:
        if not any(self.groups):
            return f"a group that is not on record (give the object, or the one that it is of, {REQUIRED})"
        names = " or ".join(repr(each) for each in self.groups)
        return f"the group {names}"


class ProtectedFields(Protocol):
    """The fields of a spec, beside `requireApprovalBy`, that decide what needs an approval."""

    def read(self, spec: Mapping[str, Json]) -> Protection:
        """Return them."""
        ...

    def restore(self, spec: dict[str, Json], protection: Mapping[str, Json]) -> None:
        """Put into a spec what `read` returned."""
        ...


@dataclass(frozen=True, slots=True)
class Paths:
    """Fields by their dotted paths, with their defaults."""

    defaults: Mapping[str, Json]

    def read(self, spec: Mapping[str, Json]) -> Protection:
        """Return the fields; one that is absent has its default."""
        return {path: _at(spec, path, default) for path, default in self.defaults.items()}

    def restore(self, spec: dict[str, Json], protection: Mapping[str, Json]) -> None:
        """Put the fields back."""
        for path in self.defaults.keys() & protection.keys():
            *parents, last = path.split(".")
            place = spec
            for name in parents:
                inner = place.get(name)
                if not isinstance(inner, dict):
                    inner = place[name] = {}
                place = inner
            if protection[path] is None:
                place.pop(last, None)
            else:
                place[last] = protection[path]


def _at(spec: Json, path: str, default: Json) -> Json:
    for name in path.split("."):
        spec = spec.get(name) if isinstance(spec, Mapping) else None
    return default if spec is None else spec


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """The approvals of one kind."""

    annotations: frozenset[str]
    """Annotations by which a person approves something."""
    fields: ProtectedFields = field(default_factory=lambda: Paths({}))
    listed: frozenset[str] = frozenset()
    """Those of them with several approvals, separated by commas."""
    of_spec: frozenset[str] = frozenset()
    """Those whose value does not name what is approved: they count for the spec that they were given for."""
    of_manager: frozenset[str] = frozenset()
    """Those that the manager itself writes as well, once it has permitted the same."""

    def items(self, annotation: str, text: str | None) -> tuple[str, ...]:
        """Return the approvals that an annotation gives, in order."""
        if text is None:
            return ()
        if annotation not in self.listed:
            return (text,)
        return tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))

    def protection(self, spec: Json) -> Protection:
        """Return what of a spec decides whether and by whom an approval is needed."""
        spec = spec if isinstance(spec, Mapping) else {}
        return {REQUIRED: spec.get(REQUIRED), **self.fields.read(spec)}

    def restored(self, spec: Json, protection: Mapping[str, Json]) -> Json:
        """Return a spec with another protection."""
        found = copied(spec) if isinstance(spec, dict) else {}
        self.fields.restore(found, protection)
        if protection.get(REQUIRED) is None:
            found.pop(REQUIRED, None)
        else:
            found[REQUIRED] = protection[REQUIRED]
        return found
