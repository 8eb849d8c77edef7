"""Which namespace has which data plane: one each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from apis.fleet import Reason
from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID
from ctrlruntime.cache.entry import Entry
from internal.fleet.targets import TargetError

BY_PLANE = "data plane"
"""Index of namespaces by the id of their data plane."""


def plane_of(entry: Entry) -> list[str]:
    """Return the id of the data plane that is recorded on a namespace, if there is one; an index."""
    identity = entry.annotations.get(DATA_PLANE_ID)
    return [identity] if identity else []


@dataclass(slots=True)
class Identities:
    """Keeps two namespaces from one data plane, by the annotation that records whose it is."""

    holders_of: Callable[[str], Iterable[Entry]]
    """Returns the namespaces of the hub that a data plane's id is recorded on; by the index `plane_of`."""
    _claims: dict[str, str] = field(default_factory=dict)

    def holder(self, identity: str) -> str:
        """Return the namespace that has the data plane; of several the oldest. Empty if there is none."""
        claimed = self._claims.get(identity)
        if claimed is not None:
            return claimed
        holders = [(entry.creation_timestamp, entry.name) for entry in self.holders_of(identity)]
        return min(holders)[1] if holders else ""

    def check(self, name: str, identity: str) -> None:
        """Raise TargetError if another namespace has the data plane."""
        holder = self.holder(identity)
        if holder not in {"", name}:
            raise TargetError(
                Reason.NOT_UNIQUE,
                f"namespace {holder} has the same data plane, and one stack only may work on it; remove the label "
                f"{DATA_PLANE} from one of the two, or correct its kubeconfig",
            )

    def claim(self, name: str, identity: str) -> None:
        """Keep others from the data plane until the annotation is written. Raises TargetError."""
        self.check(name, identity)
        self._claims[identity] = name

    def release(self, identity: str) -> None:
        """End a claim: the annotation is written, or could not be."""
        self._claims.pop(identity, None)


def check_same(entry: Entry, identity: str) -> None:
    """Raise TargetError if the namespace's stack was deployed for another data plane than this one."""
    recorded = entry.annotations.get(DATA_PLANE_ID)
    if recorded and identity and recorded != identity:
        raise TargetError(
            Reason.CHANGED,
            f"the kubeconfig leads to data plane {identity}, the annotation {DATA_PLANE_ID} is {recorded}; "
            "correct the kubeconfig, or remove the annotation if it was edited. If the data plane was replaced by a "
            f"restored one: kubectl label namespace {entry.name} {DATA_PLANE}-, after the teardown manager fleet adopt "
            f"{recorded} --to {entry.name}, then kubectl label namespace {entry.name} {DATA_PLANE}=true",
        )
