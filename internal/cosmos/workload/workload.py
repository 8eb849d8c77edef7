"""Numbered Pods: as many as wanted first, then those brought up to date within the rollout's budget.

A Pod is brought up to date by deleting it; the next pass makes it anew.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client import APIError, KeyedLock, TransportError
from ctrlruntime.client.selectors import LabelSelector
from ctrlruntime.gate import Cause
from ctrlruntime.json import Json
from ctrlruntime.resources import Control, Desired, Diff, Foreign, Owner, Update
from ctrlruntime.resources.outcome import Action, taken
from internal.cosmos.labels import NODE_KEY_ID
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM
from internal.cosmos.workload.halting import HaltRules, remaining_fixes
from internal.cosmos.workload.plan import Availability, Plan, Urgent, is_outdated, plan
from internal.cosmos.workload.probe import Health, Probe, pod_readiness
from internal.cosmos.workload.rollout import MaxUnavailable, tolerated

T = TypeVar("T")

RecordFixes = Callable[[Collection[str]], Awaitable[bool]]
"""Records the names of Pods that had failed before they are replaced. False: they must not be replaced now."""


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
    reasons: dict[str, str] = field(default_factory=dict)
    """Why each of the deleted and replaced went, in words, by name."""
    repaired: list[str] = field(default_factory=list)
    outdated: int = 0
    """Pods of another revision, those replaced now among them."""
    budget: int = 0
    """How many Pods that work could be taken down."""
    blocked: str = ""
    """Why outdated Pods have to wait, in words."""
    frozen: frozenset[str] = frozenset()
    """Names of the Pods that are not taken away or replaced because changes are held."""
    failed: int = 0
    """How many Pods of the desired revision have failed, by the halt rules."""
    halted: str = ""
    """Why the rollout is halted; empty: it is not."""
    fixes: frozenset[str] = frozenset()
    """Pods that had failed before their last change, and do not work yet."""
    look_again: datetime | None = None
    """When the deadline of a Pod ends."""
    conflicts: list[Foreign] = field(default_factory=list)
    """Pods of a wanted name with another owner."""
    held: list[str] = field(default_factory=list)
    """Pods that only a new builder would make in another way."""
    errors: list[Exception] = field(default_factory=list)
    """What failed; all else was done nevertheless."""


class WorkloadControl:
    """Brings the Pods of numbered instances about. One for all workloads of a kind.

    The state of Pods comes from the cache and the probe. Before one is taken down, the server is asked
    which are there: one that was just deleted counts as down.
    """

    def __init__(
        self,
        control: Control,
        client: CachedClient,
        mapping: RESTMapping,
        *,
        keeps: Callable[[Entry], str] = lambda _pod: "",
    ) -> None:
        """Use `mapping`, that of Pods: they are declared with all their fields if the probe reads them.

        `keeps(pod)`: why a Pod is not taken down to come back, since something would be lost; empty: it may be.
        """
        self._control = control
        self._client = client
        self._mapping = mapping
        self._keeps = keeps
        self._turns = KeyedLock()

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
        held: str = "",
        rules: HaltRules | None = None,
        record_fixes: RecordFixes | None = None,
    ) -> Progress:
        """One pass: scale, or else update.

        `current`: the Pods that exist, from the cache. `replicas` counts the `paused` ones too: Pods (by
        name) that are missing from `desired` for a while only; one that works is taken away only if the
        budget allows it. `selector` chooses the Pods where they are listed live (default: all of the namespace).
        `held`: why changes of Pods that work wait, in words. `rules`: when failed Pods halt the replacements; what they
        call a fix is recorded by `record_fixes` before it is made.
        """
        pods, wanted = list(current), list(desired)
        diff = self._control.compare(pods, wanted, owner)
        health, kept = self._health(pods, probe), self._kept(pods)
        staying = {*(each.name for each in wanted), *paused}

        def planned(present: Collection[Entry]) -> Plan:
            return plan(
                diff,
                present,
                health,
                replicas=replicas,
                max_unavailable=max_unavailable,
                urgent=urgent,
                paused=paused,
                held=held,
                kept=kept,
                rules=rules,
                going=_going(pods, present, staying),
            )

        made, progress = planned(pods), _begun(diff)
        outdated = {update.entry.name for update in diff.updates if is_outdated(update)}
        progress.fixes = remaining_fixes(rules, {each.name for each in wanted}, outdated, health)
        await self._repair(made, owner, progress)
        await self._create(made, owner, progress)
        if made.takes_down:
            live = partial(self._live, pods, owner, selector)
            made = await self._take_down(made, live, planned, owner, progress, record_fixes)
        return _reported(progress, made)

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
        """Delete chosen Pods, in the order given, as far as the budget goes. Returns the names of those deleted.

        Raises the client's errors.
        """
        pods = list(current)
        kept = self._kept(pods)
        wanted = [pod for pod in chosen if pod.name not in kept]
        health = self._health(pods, probe)
        if not Availability.of(pods, health).budget(max_unavailable, replicas):
            return []
        async with self._turns.of(owner.uid):
            known = Availability.of(await self._live(pods, owner, selector), health)
            budget = known.budget(max_unavailable, replicas)
            there = [entry for entry in wanted if known.holds(entry)][:budget]
            return [
                entry.name
                for entry in there
                if await self._control.remove(self._mapping, entry, owner, Cause.REPLACED)
            ]

    async def restart_down(
        self,
        chosen: Sequence[Entry],
        current: Iterable[Entry],
        owner: Owner,
        *,
        replicas: int,
        max_unavailable: MaxUnavailable,
        probe: Probe,
        selector: LabelSelector | None = None,
    ) -> str:
        """Delete the first of Pods that are all down and hang, if that is within the budget. Returns its name, or nothing.

        Those `chosen` count as outdated ones that are down do in a rollout: they cost nothing, but what is missing or
        down beside them has to leave room. Raises the client's errors.
        """
        pods = list(current)
        kept, health = self._kept(pods), self._health(pods, probe)
        names = {pod.name for pod in chosen}
        async with self._turns.of(owner.uid):
            known = Availability.of(await self._live(pods, owner, selector), health)
            others = sum(name not in known.well and name not in names for name in known.pods)
            missing = max(replicas - len(known.pods), 0)
            room = tolerated(max_unavailable, replicas) - others - missing
            movable = [pod for pod in chosen if known.is_down(pod) and pod.name not in kept]
            for pod in movable[: max(min(room, 1), 0)]:
                if await self._control.remove(self._mapping, pod, owner, Cause.REPLACED):
                    return pod.name
        return ""

    def _kept(self, pods: Iterable[Entry]) -> dict[str, str]:
        """Return the Pods that are not taken down, by name, and why."""
        reasons = {pod.name: self._keeps(pod) for pod in pods}
        return {name: why for name, why in reasons.items() if why}

    def _health(self, pods: Iterable[Entry], probe: Probe | None) -> dict[str, Health]:
        look = probe or pod_readiness
        return {pod.name: look(pod) for pod in pods if pod.deletion_timestamp is None}

    async def _live(
        self, pods: Iterable[Entry], owner: Owner, selector: LabelSelector | None
    ) -> list[Entry]:
        """Those of `pods` that the server has and that are not being deleted."""
        namespace = owner.namespace or next((pod.namespace for pod in pods), None)
        found = await self._client.live.list(
            self._mapping, namespace, labels=selector, metadata_only=True
        )
        metadata = [each["metadata"] for each in found]
        there = {each["uid"] for each in metadata if not each.get("deletionTimestamp")}
        return [pod for pod in pods if pod.uid in there]

    async def _repair(self, made: Plan, owner: Owner, progress: Progress) -> None:
        for update in made.repairs:
            outcome = await self._try(progress, self._control.ensure(update.desired, owner))
            if outcome is None:
                continue
            if outcome.action is Action.CONFLICT:
                progress.conflicts.append(taken(update.desired, outcome, update.entry))
            elif outcome.action is Action.UPDATED:
                progress.repaired.append(update.entry.name)

    async def _create(self, made: Plan, owner: Owner, progress: Progress) -> None:
        for desired in made.creates:
            outcome = await self._try(progress, self._control.ensure(desired, owner))
            if outcome is None:
                continue
            if outcome.action is Action.CREATED:
                progress.created.append(desired.name)
            elif outcome.action is Action.CONFLICT and outcome.entry is not None:
                progress.conflicts.append(taken(desired, outcome, outcome.entry))

    async def _take_down(
        self,
        made: Plan,
        live: Callable[[], Awaitable[list[Entry]]],
        planned: Callable[[Collection[Entry]], Plan],
        owner: Owner,
        progress: Progress,
        record_fixes: RecordFixes | None,
    ) -> Plan:
        """Delete Pods by a plan for those that the server has. Returns that plan."""
        async with self._turns.of(owner.uid):
            there = await self._try(progress, live())
            if there is None:
                return made
            made = planned(there)
            if not await self._recorded(made, progress, record_fixes):
                return made
            away = [(entry, "it is no longer wanted") for entry in made.deletes]
            away += [(entry, "it is to be away for a while") for entry in made.pauses]
            for entry, why in away:
                if await self._removed(entry, owner, Cause.SPEC_CHANGED, progress):
                    progress.deleted.append(entry.name)
                    progress.reasons[entry.name] = why
            for update in made.replacements:
                if await self._removed(update.entry, owner, Cause.REPLACED, progress):
                    progress.replaced.append(update.entry.name)
                    progress.reasons[update.entry.name] = why_replaced(update)
        return made

    async def _recorded(
        self, made: Plan, progress: Progress, record_fixes: RecordFixes | None
    ) -> bool:
        """Record the fixes of a plan; return whether it may be carried out."""
        fixes = made.fixes - progress.fixes
        progress.fixes |= fixes
        if not fixes or record_fixes is None:
            return True
        return await self._try(progress, record_fixes(progress.fixes)) is True

    async def _removed(
        self, entry: Entry, owner: Owner, cause: Cause, progress: Progress
    ) -> bool | None:
        """Delete a Pod; return whether it was. None: it failed, as `progress` shows."""
        return await self._try(progress, self._control.remove(self._mapping, entry, owner, cause))

    async def _try(self, progress: Progress, step: Awaitable[T]) -> T | None:
        try:
            return await step
        except (APIError, TransportError) as error:
            progress.errors.append(error)
            return None


def _begun(diff: Diff) -> Progress:
    held = [update.entry.name for update in diff.held]
    return Progress(conflicts=list(diff.conflicts), held=held)


def _going(pods: Iterable[Entry], present: Collection[Entry], kept: Collection[str]) -> int:
    """Return how many Pods that are not to be kept are on their way out: being deleted, or gone already."""
    staying = {pod.uid for pod in present if pod.deletion_timestamp is None}
    return sum(pod.name not in kept and pod.uid not in staying for pod in pods)


def _reported(progress: Progress, made: Plan) -> Progress:
    progress.outdated, progress.budget, progress.blocked = made.outdated, made.budget, made.blocked
    progress.frozen, progress.failed = made.frozen, len(made.halting.failed)
    progress.halted, progress.look_again = made.halting.halted, made.halting.look_again
    done = progress.created or progress.deleted or progress.replaced
    progress.requeue = bool(done or made.creates or made.deletes or made.outdated or made.waiting)
    return progress


def why_replaced(update: Update) -> str:
    """Return why a Pod is replaced, for the event: images that change, else its key, its configuration or its template."""
    before, after = update.entry, update.desired.manifest
    has, wants = _images(before.field("spec")), _images(after["spec"])
    images = [
        f"{name} runs {wants[name]}, before {image}"
        for name, image in has.items()
        if wants.get(name, image) != image
    ]
    if images:
        return "; ".join(images)
    key = update.desired.annotations.get(NODE_KEY_ID, "")
    if key and before.annotations.get(NODE_KEY_ID, key) != key:
        return "its node key changed"
    recorded = (after["metadata"].get("annotations") or {}).get(CONFIG_CHECKSUM)
    if recorded != before.annotations.get(CONFIG_CHECKSUM):
        return "its configuration changed"
    return "its template changed"


def _images(spec: Json) -> dict[str, object]:
    return {str(each.get("name")): each.get("image") for each in _containers(spec)}


def _containers(spec: Json) -> Iterator[Mapping[str, Json]]:
    for name in ("initContainers", "containers"):
        found = spec.get(name) if isinstance(spec, dict) else None
        yield from (each for each in found or () if isinstance(each, dict))
