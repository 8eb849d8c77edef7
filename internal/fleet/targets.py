"""Which namespaces get a stack, which had one, and what is known of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from apis.fleet import FleetConfig, Reason, TargetResult
from apis.fleet.fleetconfig import DEFAULT_NAMESPACE, StackPods
from apis.fleet.labels import DATA_PLANE, TARGET_NAMESPACE
from ctrlruntime.resources import Desired

TRUE = "true"
"""The only value of the labels that counts."""


class NamespaceState(Protocol):
    """A namespace as it was read, such as an entry of the cache."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Mode:
    """What a FleetConfig specifies: a stack for each data plane, or one in `namespace`."""

    scale: bool = False
    namespace: str = ""
    pods: StackPods = field(default_factory=StackPods, compare=False)
    """How Pods of stacks are."""

    def wants(self, namespace: NamespaceState) -> bool:
        """Return whether a stack is deployed to the namespace."""
        if self.scale:
            return namespace.labels.get(DATA_PLANE) == TRUE
        return namespace.name == self.namespace


def mode_of(config: FleetConfig) -> Mode | None:
    """Return the mode; None for a configuration that contradicts itself, by which nothing is changed."""
    spec = config.spec
    if spec.scale_mode.enabled:
        return None if spec.target_namespace else Mode(scale=True, pods=spec.stack_pods)
    return Mode(namespace=spec.target_namespace or DEFAULT_NAMESPACE, pods=spec.stack_pods)


def is_former(namespace: NamespaceState, mode: Mode) -> bool:
    """Return whether a stack was deployed to the namespace that is not wanted there any more."""
    return namespace.labels.get(TARGET_NAMESPACE) == TRUE and not mode.wants(namespace)


def is_mistyped(namespace: NamespaceState) -> bool:
    """Return whether the label is there with a value that looks as if `true` was meant."""
    value = namespace.labels.get(DATA_PLANE, TRUE)
    return value != TRUE and value.strip().lower() in {TRUE, "yes", "on", "1", "y", "t"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the stack of one namespace is."""

    reason: Reason
    message: str

    @property
    def result(self) -> TargetResult:
        """Success or Failure."""
        success = self.reason is Reason.SUCCESSFUL_DEPLOYMENT
        return TargetResult.SUCCESS if success else TargetResult.FAILURE


class TargetError(Exception):
    """A stack is not deployed, or not healthy."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.outcome = Outcome(reason, message)


def left_message(item: Desired, holder: str, place: str = "") -> str:
    """Return that an object in the way is left, and whose it is; `place`: its namespace, unless the target's."""
    where = f" in namespace {place}" if place else ""
    return f"{item.mapping.gvk.kind} {item.name}{where} is left: {holder}"


def conflict_error(conflicts: Sequence[str]) -> TargetError:
    """Return the error of objects that are in the way, or being deleted still."""
    return TargetError(
        Reason.DEPLOYMENT_FAILURE,
        f"{', '.join(conflicts)}; rename or remove what is in the way",
    )


@dataclass(slots=True)
class KnownTargets:
    """What was found out about namespaces since this process was started."""

    on_change: Callable[[], None] = lambda: None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """How each stack is; a namespace that was not looked at yet is missing."""
    leftovers: dict[str, str] = field(default_factory=dict)
    """What is left in each former target namespace."""

    def record(self, name: str, outcome: Outcome) -> None:
        """Record how a stack is."""
        changed = self.outcomes.get(name) != outcome or name in self.leftovers
        self.leftovers.pop(name, None)
        self.outcomes[name] = outcome
        if changed:
            self.on_change()

    def record_leftover(self, name: str, what: str) -> None:
        """Record what is left of a former stack."""
        changed = self.leftovers.get(name) != what or name in self.outcomes
        self.outcomes.pop(name, None)
        self.leftovers[name] = what
        if changed:
            self.on_change()

    def forget(self, name: str) -> None:
        """Forget a namespace that has no stack."""
        known = self.outcomes.pop(name, None) is not None
        known |= self.leftovers.pop(name, None) is not None
        if known:
            self.on_change()
