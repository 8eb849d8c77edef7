"""Which objects hold state: what is lost for good when they go. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.cache.entry import Entry

HOLDS_STATE: Final = "ctrlruntime.dev/holds-state"
"""Annotation: with "true" the object holds state, whatever its kind, as a Secret with a drawn password does."""

Rule = Callable[[Entry], bool]


def _always(_entry: Entry) -> bool:
    return True


def _never(_entry: Entry) -> bool:
    return False


def _has_claim_templates(entry: Entry) -> bool:
    """Whether a StatefulSet has claims; True where only its metadata is known."""
    spec = entry.field("spec")
    return spec is None or bool(spec.get("volumeClaimTemplates"))


STATEFUL: Final[Mapping[GroupKind, Rule]] = {
    GroupKind("", "Namespace"): _always,
    GroupKind("", "PersistentVolume"): _always,
    GroupKind("", "PersistentVolumeClaim"): _always,
    GroupKind("apps", "StatefulSet"): _has_claim_templates,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _always,
}
"""Built-in kinds that hold state; others do not."""

_BUILTIN: Final = frozenset(gvk.group_kind for gvk in BUILTIN)


@dataclass(frozen=True, slots=True)
class StateTable:
    """A rule for each kind. A custom resource without one holds state."""

    rules: Mapping[GroupKind, Rule] = field(default_factory=lambda: STATEFUL)

    def with_stateful(self, *kinds: GroupKind) -> Self:
        """Return a table in which every object of these kinds holds state."""
        return self.with_rules(dict.fromkeys(kinds, _always))

    def with_stateless(self, *kinds: GroupKind) -> Self:
        """Return a table in which no object of these kinds holds state. Built-in rules stay as they are."""
        return self.with_rules({each: _never for each in kinds if each not in STATEFUL})

    def with_rules(self, rules: Mapping[GroupKind, Rule]) -> Self:
        """Return a table with further rules, which replace those of the same kinds."""
        return type(self)({**self.rules, **rules})

    def holds_state(self, entry: Entry) -> bool:
        """Whether something is lost for good when this object goes."""
        if entry.annotations.get(HOLDS_STATE) == "true":
            return True
        kind = entry.gvk.group_kind
        rule = self.rules.get(kind)
        return kind not in _BUILTIN if rule is None else rule(entry)


STATE: Final = StateTable()
"""The rules for built-in kinds alone."""
