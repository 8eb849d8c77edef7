"""Numbered Pods: as many as wanted first, then those brought up to date within the rollout's budget.

A Pod is brought up to date by deleting it; the next pass makes it anew.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.selectors import LabelSelector
from ctrlruntime.resources.control import Control
from ctrlruntime.resources.desired import Desired, ObjectKey
from ctrlruntime.resources.diff import Diff, Foreign, Update
from ctrlruntime.resources.ownership import Owner
from ctrlruntime.resources.probe import Health, Probe, pod_readiness
from ctrlruntime.resources.rollout import MaxUnavailable

Urgent = Callable[[Update], bool]
"""Whether an outdated Pod goes before others, such as one whose image is another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass does. Creates and deletes are done first; replacements only where there are none."""

    creates: Sequence[Desired] = ()
    deletes: Sequence[Entry] = ()
    """Pods no longer wanted, highest number first."""
    pauses: Sequence[Entry] = ()
    """Pods that are to be away for a while, as far as the budget allows it now."""
    repairs: Sequence[Update] = ()
    """Pods to be put right in place: somebody changed them, or our record on them is not as it should be."""
    replacements: Sequence[Update] = ()
    """Outdated Pods to be deleted now, within the budget."""
    outdated: int = 0
    """Pods of another revision, those to be replaced now among them."""
    budget: int = 0
    """How many Pods that work may be taken down now."""
    blocked: str = ""
    """Why outdated Pods have to wait, in words."""


def plan(
    diff: Diff,
    pods: Iterable[Entry],
    health: Mapping[str, Health],
    *,
    replicas: int,
    max_unavailable: MaxUnavailable,
    urgent: Urgent = lambda _update: False,
    paused: Collection[str] = (),
) -> Plan:
    """What to do about the differences of the Pods of one workload. Pure.

    `pods`: all that exist, those being deleted too; `health` of each by name, none being unknown.
    `replicas`: how many there are to be, with those that are `paused` (by name).
    """
    raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class Progress:
    """What one pass did. Names are those of Pods."""

    requeue: bool = False
    """Something is under way: look again soon."""
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    """Those no longer wanted, and those paused."""
    replaced: list[str] = field(default_factory=list)
    """Those deleted to be made anew."""
    repaired: list[str] = field(default_factory=list)
    outdated: int = 0
    """Pods of another revision, those replaced now among them."""
    budget: int = 0
    """How many Pods that work could be taken down."""
    blocked: str = ""
    """Why outdated Pods have to wait, in words."""
    conflicts: list[Foreign] = field(default_factory=list)
    """Pods of a wanted name that are not ours."""
    held: list[str] = field(default_factory=list)
    """Pods that only a new builder would make in another way."""
    errors: list[Exception] = field(default_factory=list)
    """What failed; all else was done nevertheless."""


class WorkloadControl:
    """Brings the Pods of numbered instances about. One for each kind of instance; it keeps no state."""

    def __init__(
        self,
        control: Control,
        client: CachedClient,
        mapping: RESTMapping,
        *,
        default_probe: Probe = pod_readiness,
    ) -> None:
        """`mapping` is that of Pods. `client` reads them live before one is taken down."""
        raise NotImplementedError

    async def reconcile(
        self,
        desired: Iterable[Desired],
        current: Iterable[Entry],
        owner: Owner,
        *,
        replicas: int,
        max_unavailable: MaxUnavailable,
        probe: Probe | None = None,
        urgent: Urgent = lambda _update: False,
        paused: Collection[str] = (),
        selector: LabelSelector | None = None,
    ) -> Progress:
        """One pass: scale, or else update.

        `current`: the Pods that exist, from the cache. `replicas` counts the `paused` ones too: Pods (by
        name) that are missing from `desired` for a while only; one that works is taken away only if the
        budget allows it. `selector` chooses the Pods where they are listed live (default: all of the namespace).
        """
        raise NotImplementedError

    async def disrupt(
        self,
        chosen: Iterable[Entry],
        current: Iterable[Entry],
        owner: Owner,
        *,
        replicas: int,
        max_unavailable: MaxUnavailable,
        probe: Probe | None = None,
        selector: LabelSelector | None = None,
    ) -> list[str]:
        """Delete chosen Pods, in the order given, as far as the budget goes. Returns the names of those deleted."""
        raise NotImplementedError


def keyed(mapping: RESTMapping, entries: Iterable[Entry]) -> dict[ObjectKey, Entry]:
    """Entries of one kind by their key, as `diff` takes them."""
    kind = mapping.gvk.group_kind
    return {ObjectKey(kind, entry.namespace, entry.name): entry for entry in entries}
