"""In which order subresources are looked after, and go: predecessors first, and in reverse. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apis.cloud import DeletionPolicy, TaskStatus
from ctrlruntime.api import Resource
from ctrlruntime.cache.entry import Entry
from internal.cloud.subresource import Subresource

Object = Resource[Any, TaskStatus]

PROTECTED = (
    "Deletion is held back, since deletion protection is on: set spec.deletionProtection to false (it wins over spec.debug.enableDeletionProtection) "
    "to tear everything down. Nothing of the instance was touched."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One subresource of an instance, as far as a pass has come."""

    subresource: Subresource[Any]
    object: Object | None = None
    """What is there; of upgrades the one that counts."""
    wanted: bool = True
    ready: bool = False
    """Whether what the instance wants now has been carried out."""
    waits_for: tuple[str, ...] = ()
    """Kinds that are not ready; while there are any, this one is left as it is."""
    written: bool = False
    """Whether this pass wrote it, so that it has yet to say something."""
    problem: str = ""
    """Why it cannot be as it should, and what to do."""

    @property
    def kind(self) -> str:
        return kind_of(self.subresource)

    @property
    def settled(self) -> bool:
        """Whether those after it may go on."""
        return self.ready or (not self.wanted and self.object is None)

    @property
    def silent(self) -> bool:
        """Whether it has yet to say something of what is wanted of it now."""
        if self.written:
            return True
        found = self.object
        return found is not None and found.status.observed_generation != found.metadata.generation

    @property
    def status(self) -> TaskStatus:
        return TaskStatus() if self.object is None else self.object.status


def kind_of(subresource: Subresource[Any]) -> str:
    """Return the name of a subresource's kind."""
    return str(subresource.kind.gvk().kind)


def unmet(subresource: Subresource[Any], before: Iterable[Child]) -> tuple[str, ...]:
    """Kinds that this one comes after and that are not done."""
    settled = {child.kind: child.settled for child in before}
    return tuple(kind for kind in subresource.after if not settled.get(kind, True))


def outputs(children: Iterable[Child]) -> dict[str, str]:
    """Return what the subresources handed back, in their order; later ones win.

    What an instance does not wait for is no input of anything either.
    """
    joined: dict[str, str] = {}
    for child in children:
        if child.subresource.gates:
            joined |= child.status.outputs
    return joined


def outputs_secret(children: Iterable[Child]) -> str:
    """Return the Secret of the first subresource that has one: that of the infrastructure."""
    return next((child.status.outputs_secret_name for child in children if _secret(child)), "")


def _secret(child: Child) -> str:
    return child.status.outputs_secret_name


class OrderError(ValueError):
    """Subresources that cannot be carried out in the order given."""


def check_order(subresources: Sequence[Subresource[Any]]) -> None:
    """Every kind comes after all that it waits for, and once. Raises OrderError."""
    seen: dict[str, str] = {}
    for item in subresources:
        kind = kind_of(item)
        missing = [name for name in item.after if name not in seen]
        if missing:
            raise OrderError(f"{kind} comes after {', '.join(missing)}: put it behind in the tuple")
        if kind in seen:
            raise OrderError(f"{kind} is there twice")
        if item.definition.name in seen.values():
            raise OrderError(f"two subresources have a task named {item.definition.name!r}")
        seen[kind] = item.definition.name


def next_to_go(
    subresources: Sequence[Subresource[Any]], present: Mapping[str, Sequence[Entry]]
) -> tuple[Subresource[Any], Sequence[Entry]] | None:
    """Return the last kind that is still there, with its objects; None once nothing is left.

    Each kind is fully gone before the one before it is touched: alerts and invariants go before
    the workload, the workload before what it runs on.
    """
    for subresource in reversed(subresources):
        entries = present.get(kind_of(subresource), ())
        if entries:
            return subresource, entries
    return None


def is_protected(entry: Entry) -> bool:
    """Whether an instance is protected from deletion: by default it is.

    Read from the object as it stands, which may not be readable as its kind.
    """
    spec = entry.field("spec") or {}
    given = spec.get("deletionProtection")
    if given is None:
        given = (spec.get("debug") or {}).get("enableDeletionProtection")
    return given is not False


def is_orphaning(entry: Entry) -> bool:
    """Whether an instance goes and leaves behind what was built."""
    policy = (entry.field("spec") or {}).get("deletionPolicy")
    return entry.deletion_timestamp is not None and policy == DeletionPolicy.ORPHAN.value


def teardown_progress(kind: str, said: str) -> str:
    """One sentence on a teardown under way."""
    reason = f": {said.rstrip('.')}" if said else ""
    return f"{kind} is being torn down, and what it runs on after it{reason}."
