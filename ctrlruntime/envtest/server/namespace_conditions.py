"""The conditions of a terminating namespace about the content that keeps it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.storage import Record

_FINE: Final = (
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    (
        "NamespaceFinalizersRemaining",
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
)


@dataclass(slots=True)
class Remaining:
    """Objects that a deletion left, by resource and by finalizer."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)

    def note(self, kind: Kind, record: Record) -> None:
        self.resources[f"{kind.plural}.{kind.group}"] += 1
        self.finalizers.update(record.obj["metadata"].get("finalizers") or ())

    def __bool__(self) -> bool:
        return bool(self.resources)

    def conditions(self, before: list[Manifest], now: str) -> list[Manifest]:
        """Return the conditions now; one that is the same as before keeps its time."""
        said = {
            "NamespaceContentRemaining": (
                "SomeResourcesRemain",
                "Some resources are remaining: ",
                [f"{name} has {n} resource instances" for name, n in self.resources.items()],
            ),
            "NamespaceFinalizersRemaining": (
                "SomeFinalizersRemain",
                "Some content in the namespace has finalizers remaining: ",
                [f"{name} in {n} resource instances" for name, n in self.finalizers.items()],
            ),
        }
        known = {condition["type"]: condition for condition in before}
        found = []
        for type_, reason, message in _FINE:
            status = "False"
            problem, lead, items = said.get(type_, ("", "", []))
            if items:
                status, reason, message = "True", problem, lead + ", ".join(sorted(items))
            new = {"type": type_, "status": status, "reason": reason, "message": message}
            old = known.pop(type_, {})
            same = all(old.get(name) == value for name, value in new.items())
            new["lastTransitionTime"] = old["lastTransitionTime"] if same else now
            found.append(new)
        return [*known.values(), *found]
