"""What a pass does about the Pods of a workload: scale first, then update, all within one budget. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import REVISION, Desired
from ctrlruntime.resources.diff import Diff, Reason, Update, is_builder_change
from internal.cosmos.workload.halting import NOT_ASKED, Halting, HaltRules, halting
from internal.cosmos.workload.pod_failure import is_stuck
from internal.cosmos.workload.probe import Health
from internal.cosmos.workload.rollout import MaxUnavailable, compute_rollout, tolerated

Urgent = Callable[[Update], bool]
"""Whether an outdated Pod goes before others, such as one whose image is another."""

SCALING: Final = "the number of Pods comes first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass does. Creates and deletes are done first; replacements only where there are none."""

    creates: Sequence[Desired] = ()
    deletes: Sequence[Entry] = ()
    """Pods no longer wanted, highest number first, as far as the budget allows it now."""
    pauses: Sequence[Entry] = ()
    """Pods that are to be away for a while, as far as the budget allows it now."""
    waiting: Sequence[Entry] = ()
    """Those that the budget does not allow to be away yet."""
    repairs: Sequence[Update] = ()
    """Pods to be fixed in place: another manager changed them, or our record on them is not as it should be."""
    replacements: Sequence[Update] = ()
    """Outdated Pods to be deleted now."""
    outdated: int = 0
    """Pods of another revision, those to be replaced now among them."""
    budget: int = 0
    """How many Pods that work may be taken down now."""
    frozen: frozenset[str] = frozenset()
    """Names of the Pods that are not taken away or replaced because changes are held."""
    blocked: str = ""
    """Why outdated Pods, or those to be away for a while, have to wait, in words."""
    halting: Halting = field(default_factory=Halting)
    """What the halt rules say."""

    @property
    def fixes(self) -> frozenset[str]:
        """Names of the replaced Pods that had failed before."""
        replaced = {update.entry.name for update in self.replacements}
        return self.halting.fixes & replaced

    @property
    def takes_down(self) -> bool:
        """Whether Pods are deleted."""
        return bool(self.deletes or self.pauses or self.replacements)


@dataclass(frozen=True, slots=True)
class Availability:
    """How the Pods of a workload are."""

    pods: Mapping[str, Entry]
    """Those that exist, are wanted and not being deleted, by name."""
    health: Mapping[str, Health]
    well: frozenset[str]
    """Those that work. If none does, and all were asked, those that answer at least: the workload is down anyway."""

    @classmethod
    def of(cls, pods: Iterable[Entry], health: Mapping[str, Health]) -> "Availability":
        """`pods` without those no longer wanted; of one that `health` lacks nothing is known."""
        present = {each.name: each for each in pods if each.deletion_timestamp is None}
        said = {name: health.get(name, NOT_ASKED) for name in sorted(present)}
        well = frozenset(name for name, each in said.items() if each.available)
        if not well and all(each.known for each in said.values()):
            well = frozenset(name for name, each in said.items() if each.reachable)
        return cls(present, said, well)

    def budget(self, max_unavailable: MaxUnavailable, replicas: int) -> int:
        """How many of those that work may be taken down."""
        return compute_rollout(max_unavailable, replicas, min(len(self.well), replicas))

    def holds(self, entry: Entry) -> bool:
        """Whether this very Pod is among them."""
        found = self.pods.get(entry.name)
        return found is not None and found.uid == entry.uid

    def is_down(self, entry: Entry) -> bool:
        """Whether the Pod is known not to work: taking it away costs nothing."""
        return entry.name not in self.well and self.health.get(entry.name, NOT_ASKED).known


def plan(
    diff: Diff,
    pods: Iterable[Entry],
    health: Mapping[str, Health],
    *,
    replicas: int,
    max_unavailable: MaxUnavailable,
    urgent: Urgent = lambda _update: False,
    paused: Collection[str] = (),
    held: str = "",
    kept: Mapping[str, str] = MappingProxyType({}),
    rules: HaltRules | None = None,
    going: int = 0,
) -> Plan:
    """Return what to do about the differences of the Pods of one workload.

    `pods`: all that exist, those being deleted too; `health` of each by name. `replicas` counts those that are `paused`
    (by name) too, which will be wanted again. `held`: why Pods that work stay as they are, in words. `kept`: Pods that
    nothing takes down, and why. `rules`: when failed Pods halt the replacements. `going`: those that are being deleted.
    """
    surplus = [entry for entry in diff.deletes if entry.name not in paused]
    leaving = [entry for entry in diff.deletes if entry.name in paused and entry.name not in kept]
    allowed = tolerated(max_unavailable, max(replicas, len(surplus))) - going
    everyone = Availability.of(there := list(pods), health)
    deletes = [] if held else _leaving(surplus, everyone, replicas, allowed, kept)
    availability = Availability.of((pod for pod in there if pod not in surplus), health)
    budget = max(availability.budget(max_unavailable, replicas) - going, 0)
    old = list(filter(is_outdated, diff.updates))
    outdated = [update for update in old if availability.holds(update.entry)]
    pauses = _within(leaving, availability, budget)
    names = {update.entry.name for update in outdated}
    found = halting(rules, availability.pods, availability.health, names, replicas)
    made = Plan(
        creates=tuple(diff.creates),
        deletes=tuple(deletes),
        pauses=tuple(pauses),
        waiting=_staying(leaving, pauses) + (() if held else _staying(surplus, deletes)),
        repairs=tuple(update for update in diff.updates if update not in old),
        outdated=len(outdated),
        budget=budget,
        halting=found,
        frozen=frozenset(entry.name for entry in surplus if held),
    )
    if made.creates or made.deletes or made.pauses:
        return replace(made, blocked=SCALING if outdated or len(pauses) < len(leaving) else "")
    chosen = _movable(outdated, kept, urgent)
    room = _room(availability, outdated, tolerated(max_unavailable, replicas) - going, replicas)
    taken = [] if found.waits else _down(chosen, availability, room)
    if held:
        return _frozen(made, taken, names, held)
    if found.waits:
        return replace(made, blocked=found.waits if outdated else "")
    if not leaving:
        taken += [each for each in chosen if each.entry.name in availability.well][:budget]
    staying = (set() if chosen else names) if outdated else {each.name for each in made.waiting}
    stays = next((kept[name] for name in sorted(staying) if name in kept), "")
    waits = (made.waiting or outdated) and not taken
    blocked = stays or _why(availability, replicas, max_unavailable) if waits else ""
    return replace(made, replacements=tuple(taken), blocked=blocked)


def _frozen(made: Plan, taken: Collection[Update], names: Collection[str], held: str) -> Plan:
    """Return the plan while changes wait: what does not work is made again."""
    frozen = made.frozen | (set(names) - {update.entry.name for update in taken})
    blocked = held if frozen else ""
    return replace(made, replacements=tuple(taken), frozen=frozen, blocked=blocked)


def _movable(outdated: Iterable[Update], kept: Mapping[str, str], urgent: Urgent) -> list[Update]:
    """Return the Pods that may be made anew, the urgent ones first."""
    movable = (update for update in outdated if update.entry.name not in kept)
    return sorted(movable, key=lambda update: not urgent(update))


def is_outdated(update: Update) -> bool:
    """Whether the Pod is of another revision, so that it has to be made anew. All else is fixed in place."""
    if update.reason is Reason.ADOPTION:
        differs = update.entry.annotations.get(REVISION) != update.desired.revision
        return differs and not is_builder_change(update.desired, update.entry)
    return update.reason is Reason.REVISION


def _down(chosen: Iterable[Update], availability: Availability, room: int) -> list[Update]:
    """Return the Pods that are down anyway: all that are down by their own status, of the others as many as there is room for."""
    down = [update for update in chosen if availability.is_down(update.entry)]
    stuck = [update for update in down if is_stuck(update.entry)]
    return stuck + [update for update in down if update not in stuck][: max(room - len(stuck), 0)]


def _staying(entries: Iterable[Entry], going: Collection[Entry]) -> tuple[Entry, ...]:
    return tuple(entry for entry in entries if entry not in going)


def _leaving(
    surplus: Iterable[Entry],
    everyone: Availability,
    replicas: int,
    allowed: int,
    kept: Collection[str],
) -> list[Entry]:
    """Return the Pods no longer wanted that go now: each counts as down, as do those wanted that do not work.

    So renumbered nodes stay until those in their place work. What is down itself waits for no other, but no more than
    `allowed` go at once: a look that finds all of them down by mistake cannot take all of them away.
    """
    unwanted = list(surplus)
    names = {entry.name for entry in unwanted}
    spare = allowed - max(replicas - len(everyone.well - names), 0)
    chosen: list[Entry] = []
    for entry in unwanted:
        if entry.name in kept:
            continue
        if is_stuck(entry):
            chosen.append(entry)
        elif (everyone.is_down(entry) and allowed > 0) or (
            entry.name in everyone.well and min(allowed, spare) > 0
        ):
            chosen.append(entry)
            allowed, spare = allowed - 1, spare - 1
    return chosen


def _within(leaving: Iterable[Entry], availability: Availability, budget: int) -> list[Entry]:
    """Those that may go: what is down costs nothing, of what works only as many as the budget has."""
    chosen, left = [], budget
    for entry in leaving:
        if availability.is_down(entry):
            chosen.append(entry)
        elif entry.name in availability.well and left > 0:
            chosen.append(entry)
            left -= 1
    return chosen


def _room(
    availability: Availability, outdated: Iterable[Update], allowed: int, replicas: int
) -> int:
    """How many Pods that are down anyway may be replaced.

    No more are ever on their way at once than may be down: those that are missing, and those that are
    as they should be and do not work yet, are waited for. So a look that finds all of them down by
    mistake cannot take all of them away.
    """
    old = {update.entry.name for update in outdated}
    missing = max(replicas - len(availability.pods), 0)
    starting = sum(name not in availability.well and name not in old for name in availability.pods)
    return max(allowed - missing - starting, 0)


def _why(availability: Availability, replicas: int, max_unavailable: MaxUnavailable) -> str:
    allowed = tolerated(max_unavailable, replicas)
    down = [name for name in availability.pods if name not in availability.well]
    count = max(replicas - len(availability.well), 0)
    told = f"{count} of {replicas} Pods do not work, and no more than {allowed} may"
    if not down:
        return f"{told}: some are missing"
    first = min(down)
    return f"{told}; {first}: {availability.health[first].detail or 'it does not say why'}"
