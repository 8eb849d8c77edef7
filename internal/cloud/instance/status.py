"""The status of an instance: what its subresources say, in one sentence that a human can act on. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from apis.cloud import (
    GROUP,
    ChildSummary,
    GCPStatus,
    InstanceStatus,
    NamedResource,
    Phase,
    TaskState,
    Waiting,
    WaitingReason,
)
from ctrlruntime.api import Condition, find_condition, remove_condition, set_condition
from ctrlruntime.api.conditions import new_condition
from ctrlruntime.api.omit_empty import status_fields
from ctrlruntime.intake import DOCUMENT, read_json
from ctrlruntime.lifecycle.remote import ClusterTrouble, report_hub
from internal.cloud.change_holds import is_held, waits_for_people
from internal.cloud.concurrency.grants import is_passing
from internal.cloud.hub_instances import CONFLICTED
from internal.cloud.instance.held_runs import held_child, held_conditions
from internal.cloud.instance.order import Child, outputs
from internal.cloud.labels import ALLOW_VERSION
from internal.cloud.subresource import ObjectStrategy
from internal.cloud.taskdriver.record import is_excused_loss, is_live
from internal.cloud.taskdriver.summary import ADVICE
from internal.cloud.taskdriver.unavailable import PROVIDER_FAILED, failure_of

READY: Final = "Ready"
DOMAIN_CONFLICT: Final = "DomainConflict"
"""Condition: True while another instance has a name that this one wants."""
FORGED: Final = "AssignmentForged"
"""Condition, only while True: an annotation assigns a version that no rollout recorded."""
LEASE_ENDED: Final = "LeaseEnded"
"""Condition: True while an ephemeral instance should have gone, and has not."""
CHANGES_HELD: Final = "ChangesHeld"
"""Condition: True while a change waits for a freeze or a window; its transition to False is when it went on."""
VERSION_HELD: Final = "VersionHeld"
"""Condition, only while True: a version waits for the end of a first roll-out of another one, or for a person."""
PASSING: Final = (DOMAIN_CONFLICT, FORGED, LEASE_ENDED, VERSION_HELD)
"""Conditions that are there only while they are True."""

_WRITTEN_AT_ONCE: Final = (Phase.FAILED, Phase.RETRYING, Phase.PAUSED, Phase.EXTRACTED)
_WORST_FIRST: Final = (Phase.FAILED, Phase.RETRYING, Phase.RUNNING, Phase.WAITING, Phase.PAUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """Why nothing is done for an instance, and what to do about it."""

    reason: str
    message: str
    phase: Phase = Phase.FAILED
    condition: str = ""
    """A condition of its own that shows it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a pass found out."""

    generation: int
    place: str
    """The Instance as commands take it: `src-1 -n production`."""
    version: str
    """That is deployed; empty before anything is."""
    children: Sequence[Child] | None = None
    """None: not checked, and the last state stands."""
    hindrance: Hindrance | None = None
    begun: str = ""
    """The version of a first roll-out that has begun, for which `next_version` waits."""
    next_version: str = ""
    paused: bool = False
    handled_retry: str = ""
    lease: str = ""
    """What is wrong with the end of its lease."""
    forged: str = ""
    """What is wrong with an annotation that assigns what no rollout recorded."""
    shared_inputs: str = ""
    """Digest of what it shares with other instances; empty: not known."""
    assigned_by: str = ""
    """The FleetRollout whose version counts; empty: the spec's does."""
    on_hub: bool = False
    """Whether its runs are on a hub."""
    hub_trouble: ClusterTrouble | None = None
    """Why the hub does not take them; None: it does."""


@dataclass(frozen=True, slots=True)
class _Word:
    phase: Phase
    message: str
    ready: bool = False
    reason: str = ""
    """Of the condition Ready; empty: the phase."""


def _aggregate(status: InstanceStatus, children: Sequence[Child]) -> None:
    busy = _busy(children)
    status.task = "" if busy is None or busy.status.run is None else busy.status.run.run_id
    status.waiting = _waiting(children)
    status.children = [_summary(child) for child in children if child.object is not None]
    status.outputs = outputs(children)
    status.records = _records(status.records, children)
    status.gcp = gcp_of(status.outputs)


def _records(
    before: Mapping[str, dict[str, str]], children: Sequence[Child]
) -> dict[str, dict[str, str]]:
    """Return the records of the subresources; that of one whose object is gone stays while it is wanted."""
    known = {child.kind: child.status.record for child in children if child.status.record}
    gone = {child.kind for child in children if not child.wanted and child.object is None}
    kept = {kind: record for kind, record in before.items() if kind not in gone}
    return {**kept, **known}


def leaving(before: InstanceStatus, generation: int, message: str, now: datetime) -> InstanceStatus:
    """Return the status of an instance that is being deleted: the rest stays as it was."""
    status = before.model_copy(deep=True)
    status.observed_generation = generation
    status.phase, status.message = Phase.DELETING, message
    gone = new_condition(READY, False, Phase.DELETING.value, message, generation=generation)
    set_condition(status.conditions, gone, now)
    return status


def summarize(before: InstanceStatus, facts: Facts, now: datetime) -> InstanceStatus:
    """Return the status to write. Every field that is not set here stays as it was."""
    status = before.model_copy(deep=True)
    word = _word(facts)
    status.observed_generation = facts.generation
    status.phase, status.message = word.phase, word.message
    status.version = facts.version
    status.last_handled_retry = facts.handled_retry
    if facts.children is not None:
        _aggregate(status, facts.children)
    conditions = [*_conditions(word, facts), *_changes_held(before, facts)]
    if facts.children is not None:
        held = held_child(facts.children)
        conditions += held_conditions(before.conditions, held, facts.generation)
    for condition in conditions:
        set_condition(status.conditions, condition, now)
    for kind in set(PASSING) - {condition.type for condition in conditions}:
        remove_condition(status.conditions, kind)
    if facts.on_hub:
        troubles = () if facts.hub_trouble is None else (facts.hub_trouble,)
        report_hub(status.conditions, troubles, facts.generation, now, used=True)
    return status


def hub_hindrance(trouble: ClusterTrouble) -> Hindrance:
    """Return that nothing can be run for an instance, because of the hub. A name that is taken is a failure."""
    phase = Phase.FAILED if trouble.reason == CONFLICTED else Phase.PENDING
    return Hindrance(reason=trouble.reason, message=f"{trouble.message}.", phase=phase)


def is_news(before: InstanceStatus, after: InstanceStatus, *, quiet: bool) -> bool:
    """Whether a status is worth a write.

    The numbers of a queue change all the time: they go along with the next write. `quiet`: a
    subresource was written just now and will say something itself; until then only what does not
    come from it is news.
    """
    if _steady(before) == _steady(after):
        return False
    if not quiet:
        return True
    return (
        before.observed_generation != after.observed_generation
        or before.last_handled_retry != after.last_handled_retry
        or after.phase in _WRITTEN_AT_ONCE
        or before.phase in _WRITTEN_AT_ONCE
        or after.domains != before.domains
    )


def _steady(status: InstanceStatus) -> dict[str, object]:
    """Return a status without the numbers of a queue."""
    fields = status_fields(status)
    if status.waiting is not None:
        waiting = status.waiting
        fields["waiting"] = (waiting.reason, waiting.since, waiting.priority)
    return fields


def _word(facts: Facts) -> _Word:
    if facts.hindrance is not None:
        return _Word(facts.hindrance.phase, facts.hindrance.message)
    children = facts.children or ()
    stuck = next((child for child in children if child.problem), None)
    if stuck is not None:
        return _Word(Phase.FAILED, stuck.problem)
    gating = [child for child in children if child.subresource.gates]
    if facts.paused:
        return _Word(Phase.PAUSED, _paused(facts), ready=_all_ready(gating))
    if _all_ready(gating):
        return _Word(Phase.READY, _deployed(facts), ready=True)
    word = _unfinished(gating, facts)
    return replace(word, message=f"{word.message}{_waits_for_first(facts)}")


def _waits_for_first(facts: Facts) -> str:
    """Return what holds another version than that of the first roll-out, and what to do where that one cannot succeed."""
    if facts.begun in ("", facts.next_version):
        return ""
    name, flag, namespace = facts.place.split(" ")
    return (
        f" {facts.next_version} waits until the first roll-out of {facts.begun} has succeeded, since the data may have"
        f" that version; an upgrade follows. If it cannot succeed and the data may be taken as they are: `kubectl annotate"
        f" instances.{GROUP} {name} {flag} {namespace} --overwrite {ALLOW_VERSION}={facts.next_version}`."
    )


def _all_ready(gating: Sequence[Child]) -> bool:
    return bool(gating) and all(child.settled for child in gating)


def _unfinished(gating: Sequence[Child], facts: Facts) -> _Word:
    at_work = [child for child in gating if not child.settled and not child.waits_for]
    phases = {child.status.phase: child for child in reversed(at_work) if not child.silent}
    failing = next(
        (child for child in at_work if not child.silent and failure_of(child.status)), None
    )
    if failing is not None and not phases.keys() & {Phase.FAILED, Phase.RETRYING}:
        message = f"{failing.kind}: {failure_of(failing.status)}"
        return _Word(failing.status.phase, message, reason=PROVIDER_FAILED)
    for phase in _WORST_FIRST:
        if phase in phases:
            return _Word(phase, _sentence(phases[phase], gating, facts.place))
    if not at_work:
        return _Word(Phase.PENDING, "Nothing has begun yet.")
    return _Word(_begun(facts), _sentence(at_work[0], gating, facts.place))


def _begun(facts: Facts) -> Phase:
    return Phase.RUNNING if any(child.object for child in facts.children or ()) else Phase.PENDING


def _sentence(child: Child, gating: Sequence[Child], place: str) -> str:
    said = child.status.message.rstrip(".") or "it does not say why"
    name = child.kind
    match Phase.PENDING if child.silent else child.status.phase:
        case Phase.FAILED:
            said = said.partition(ADVICE)[0].rstrip(". ")  # of an Instance there are other ways
            return (
                f"{name} failed: {said}. Mend the cause, then change the spec or ask for another "
                f"attempt with `manager instance retry {place}`."
            )
        case Phase.RETRYING:
            return f"{name} failed and is tried again by itself: {said}."
        case Phase.WAITING:
            return f"{name} {_turn(child.status.waiting)}{_next(child, gating)}"
        case Phase.PAUSED:
            return f"{name} is paused by an annotation of its own: remove it to go on."
        case Phase.DELETING:
            return f"{name} is {said[:1].lower()}{said[1:]}{_next(child, gating)}"
    run = child.status.run
    if run is not None and is_live(run) and not child.silent:
        if run.state is not TaskState.STARTED and run.message:
            return f"{name} has not begun as {run.run_id}: {said}{_next(child, gating)}"
        if run.state is TaskState.CREATING:
            return f"{name} is being started as {run.run_id}{_next(child, gating)}"
        return f"{name} is at work as {run.run_id}{_next(child, gating)}"
    ready = find_condition(child.status.conditions, "Ready")
    if not child.silent and ready is not None and ready.reason != child.status.phase.value:
        return (
            f"{name} does not begin: {said}."  # what it waits for: a label, a namespace, a cluster
        )
    return f"{name} is about to begin{_next(child, gating)}"


def _changes_held(before: InstanceStatus, facts: Facts) -> list[Condition]:
    """Return the condition ChangesHeld: none before the first hold, and as it was while nothing was checked."""
    if facts.children is None:
        return []
    statuses = (child.status for child in facts.children)
    waiting = next((item.waiting for item in statuses if is_held(item.waiting)), None)
    generation = facts.generation
    if waiting is not None:
        reason, message = waiting.reason.value, waiting.message
        return [new_condition(CHANGES_HELD, True, reason, message, generation=generation)]
    if find_condition(before.conditions, CHANGES_HELD) is None:
        return []
    message = "No change waits for a freeze or a window."
    return [new_condition(CHANGES_HELD, False, "NotHeld", message, generation=generation)]


def _turn(waiting: Waiting | None) -> str:
    if waiting is None:
        return "waits for its turn"
    if waits_for_people(waiting):
        return f"waits: {waiting.message}"
    if waiting.reason is WaitingReason.INSTANCE_BUSY:
        return f"waits until {waiting.holder or 'another task of this instance'} has ended"
    if waiting.reason is WaitingReason.RATE:
        return f"waits because only {waiting.limit} runs of its type may start in a minute"
    return f"waits for one of {waiting.limit} places for runs of its type"


def _next(child: Child, gating: Sequence[Child]) -> str:
    later = [other for other in gating if child.kind in _before(other, gating)]
    shown = [other.kind for other in later if other.subresource.strategy is ObjectStrategy.UPDATE]
    return f"; then {', '.join(shown)}." if shown else "."


def _before(child: Child, gating: Sequence[Child]) -> set[str]:
    """All that a kind comes after, near and far."""
    known = {other.kind: other.subresource.after for other in gating}
    found: set[str] = set()
    rest = list(child.subresource.after)
    while rest:
        kind = rest.pop()
        if kind not in found:
            found.add(kind)
            rest += known.get(kind, ())
    return found


def _deployed(facts: Facts) -> str:
    trouble = [
        f" {child.kind}: {child.status.message.rstrip('.')}."
        for child in facts.children or ()
        if not child.subresource.gates and child.status.phase in (Phase.FAILED, Phase.RETRYING)
    ]
    by = f"assigned by FleetRollout {facts.assigned_by!r}" if facts.assigned_by else "in the spec"
    return f"Version {facts.version} is deployed as {by}.{''.join(trouble)}"


def _paused(facts: Facts) -> str:
    busy = _busy(facts.children or ())
    awaited = ""
    if busy is not None and busy.status.run is not None:
        awaited = f" {busy.kind} is still at work as {busy.status.run.run_id}."
    return (
        f"Paused: nothing new is begun. `manager instance resume {facts.place}` goes on.{awaited}"
    )


def _busy(children: Sequence[Child]) -> Child | None:
    """Return the first subresource with a run under way, gating ones first."""
    live = [child for child in children if is_live(child.status.run)]
    return min(live, key=lambda child: not child.subresource.gates, default=None)


def _waiting(children: Sequence[Child]) -> Waiting | None:
    """Return what the first of them waits for that is worth showing: a start that the leader is about to grant is not."""
    gating = (child for child in children if child.subresource.gates and not child.ready)
    found = (child.status.waiting for child in gating if child.status.waiting is not None)
    return next((each for each in found if not is_passing(each)), None)


def _summary(child: Child) -> ChildSummary:
    status, run = child.status, child.status.run
    message = child.problem
    if not message and status.phase in (Phase.FAILED, Phase.RETRYING, Phase.PAUSED):
        message = status.message
    name = "" if child.object is None else child.object.metadata.name or ""
    return ChildSummary(
        kind=child.kind,
        name=name,
        phase=status.phase,
        ready=child.ready,
        message=message,
        run_id="" if run is None else run.run_id,
        run_lost=is_excused_loss(status),
    )


def _conditions(word: _Word, facts: Facts) -> list[Condition]:
    hindrance = facts.hindrance
    reason = word.reason or word.phase.value
    if hindrance is not None:
        reason = hindrance.reason
    found = [new_condition(READY, word.ready, reason, word.message, generation=facts.generation)]
    if hindrance is not None and hindrance.condition:
        found.append(
            new_condition(
                hindrance.condition,
                True,
                hindrance.reason,
                hindrance.message,
                generation=facts.generation,
            )
        )
    if facts.forged:
        found.append(
            new_condition(FORGED, True, "NotRecorded", facts.forged, generation=facts.generation)
        )
    if waits := _waits_for_first(facts).strip():
        found.append(
            new_condition(VERSION_HELD, True, "FirstRollOut", waits, generation=facts.generation)
        )
    if facts.lease:
        found.append(
            new_condition(LEASE_ENDED, True, "LeaseEnded", facts.lease, generation=facts.generation)
        )
    return found


PROJECT = "project_id"
REGION = "region"
CLUSTERS = "gke_clusters"
DATABASES = "cloudsql_instances"


def gcp_of(outputs: Mapping[str, str]) -> GCPStatus | None:
    """Project, region, clusters and databases; None if the outputs tell of none of them.

    Names are a JSON list of texts, or one text.
    """
    if not any(outputs.get(name) for name in (PROJECT, REGION, CLUSTERS, DATABASES)):
        return None
    return GCPStatus(
        project_id=outputs.get(PROJECT, ""),
        region=outputs.get(REGION, ""),
        gke_clusters=_names(outputs.get(CLUSTERS, "")),
        cloud_sql=_names(outputs.get(DATABASES, "")),
    )


def _names(text: str) -> list[NamedResource]:
    if not text:
        return []
    try:
        found = read_json(text, DOCUMENT)
    except ValueError:
        found = text
    items = found if isinstance(found, list) else [text]
    return [NamedResource(name=str(item)) for item in items]
