"""From what became of each resource to a Tenant's status: counts, lists and conditions.

Pure: the clock is passed in, and equal outcomes give an equal status. Messages name resources by id
and kind only.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from apis.tenancy import PendingRemoval, ResourcePhase, ResourceState, TenantStatus
from ctrlruntime.api.conditions import (
    Condition,
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
    shorten_before_remedy,
)
from ctrlruntime.client.errors import APIError, NotFound
from ctrlruntime.fast_dataclass import fast_dataclass

MOST_NAMED = 5
LONGEST_CAUSE = 400
"""Characters of one resource's message in a list."""
SHORTER_CAUSE = 160
"""The same where there is no room for that."""
LONGEST_LIST = 880
"""Characters of a list in a message; what comes before it has the rest."""
LONGEST_QUOTE = 120
"""Characters of a server's sentence on one field, above which the value that it quotes is left out."""
_QUOTES = "Invalid value: "
MOST_LISTED = 40
"""Resources that a status lists."""
MOST_REMOVALS = 3
"""Objects still to be removed that a message names."""
MOST_PENDING = 20
"""Objects still to be removed that a status lists."""
FROZEN: Final = "Frozen"
"""Reason of an object that would be pruned but for a freeze: nothing that the tenant needs is missing."""
_GRAVEST = (
    "DeletionRefused",
    "FinalizersRemain",
    "KindUnreadable",
    "ReplacementNotReady",
    FROZEN,
)
"""Why objects wait, the reason that needs attention most first."""
_NONE = "NothingPending"


class State(StrEnum):
    """What became of one resource. Every resource is in exactly one state."""

    READY = "ready"
    WAITING = "waiting"
    """Applied, and not ready yet."""
    BLOCKED = "blocked"
    """Not applied: what it depends on is not ready yet."""
    SKIPPED = "skipped"
    """Not applied: what it depends on failed."""
    CONFLICTED = "conflicted"
    FAILED = "failed"


_UNDER_WAY = frozenset({State.READY, State.WAITING, State.BLOCKED})
_PHASES = {
    State.READY: ResourcePhase.AVAILABLE,
    State.WAITING: ResourcePhase.PROGRESSING,
    State.BLOCKED: ResourcePhase.BLOCKED,
    State.SKIPPED: ResourcePhase.SKIPPED,
    State.CONFLICTED: ResourcePhase.FAILED,
    State.FAILED: ResourcePhase.FAILED,
}
_WAS_AVAILABLE = frozenset({ResourcePhase.AVAILABLE, ResourcePhase.DEGRADED})


@fast_dataclass(frozen=True, slots=True)
class Outcome:
    """One resource. `key` is set once it was applied; `message` describes what is wrong."""

    id: str
    state: State
    key: str = ""
    message: str = ""
    further: tuple[str, ...] = ()
    """Keys of the same object in other clusters."""
    waits_for: tuple[str, ...] = ()
    """Ids of the entries that it waits for, or for which it is skipped."""
    pending: bool = False
    """Whether it waits for its place rather than to become ready."""
    unavailable: bool = False
    """Whether it failed because a server did not answer as it should, whatever the content is."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a tenant could not be worked on at all."""

    reason: str
    message: str
    degraded: str = ""


HOOK_RUNNING = "HookRunning"
HOOK_FAILED = "HookFailed"
VARIABLES_ERROR = "VariablesBuildError"
DEPENDENCY_ERROR = "DependencyError"
VALUES_CONVERTED = "ValuesConverted"
"""Condition of tenants: there once a conversion in a template had lost something."""
REMOVAL_PENDING = "RemovalPending"
"""Condition of tenants and registries: there once an object had to wait for its removal. Also the
reason of Ready while nothing else is missing."""


def summarize(
    previous: TenantStatus,
    outcomes: Sequence[Outcome],
    generation: int,
    now: datetime,
    removals: Sequence[PendingRemoval] = (),
) -> TenantStatus:
    """Return the status after a pass over all resources. Compare with the previous one before writing it.

    `removals`: objects that have to be removed and still exist; Ready is not True while there are any
    but those that a freeze keeps.
    """
    by_state = {state: [o for o in outcomes if o.state is state] for state in State}
    # Values are replaced and not changed, but for the list of conditions.
    status = previous.model_copy(update={"conditions": list(previous.conditions)})
    status.observed_generation = generation
    status.desired_resources = len(outcomes)
    status.ready_resources = len(by_state[State.READY])
    status.failed_resources = len(by_state[State.FAILED])
    status.skipped_resources = len(by_state[State.SKIPPED])
    status.skipped_resource_ids = sorted(o.id for o in by_state[State.SKIPPED])
    status.failed_resource_ids = sorted(o.id for o in by_state[State.FAILED])
    status.conflicted_resource_ids = sorted(o.id for o in by_state[State.CONFLICTED])
    status.applied_resources = sorted({key for o in outcomes for key in (o.key, *o.further) if key})
    status.resources = resource_states(outcomes, previous, generation)
    for condition in (
        _ready(by_state, len(outcomes), removals),
        _progressing(by_state),
        _conflicted(by_state),
        _degraded(by_state, previous, generation),
    ):
        condition.observed_generation = generation
        set_condition(status.conditions, condition, now)
    return status


def resource_states(
    outcomes: Sequence[Outcome], previous: TenantStatus, generation: int
) -> list[ResourceState]:
    """Return where each resource stands, as the status lists it."""
    before = {item.id: item.phase for item in previous.resources}
    same = previous.observed_generation == generation
    found = [
        _resource_state(each, before.get(each.id) if same else None)
        for each in sorted(outcomes, key=lambda outcome: outcome.id)
    ]
    if len(found) > MOST_LISTED:
        found.sort(key=lambda each: each.phase is ResourcePhase.AVAILABLE)
    return found[:MOST_LISTED]


def _resource_state(outcome: Outcome, before: ResourcePhase | None) -> ResourceState:
    phase = _PHASES[outcome.state]
    if outcome.pending:
        phase = ResourcePhase.PENDING
    elif outcome.state is State.WAITING and before in _WAS_AVAILABLE:
        phase = ResourcePhase.DEGRADED
    return ResourceState(
        id=outcome.id,
        phase=phase,
        waits_for=list(outcome.waits_for[:MOST_NAMED]),
        message=""
        if phase is ResourcePhase.PROGRESSING  # what it lacks changes often; the conditions say it
        else shorten_before_remedy(outcome.message, SHORTER_CAUSE),
    )


def removal_message(removals: Sequence[PendingRemoval]) -> str:
    """How many objects are still to be removed, and what holds the first of them."""
    count = "1 object has" if len(removals) == 1 else f"{len(removals)} objects have"
    shown = "; ".join(f"{item.resource} ({item.message})" for item in removals[:MOST_REMOVALS])
    more = f"; and {len(removals) - MOST_REMOVALS} more" if len(removals) > MOST_REMOVALS else ""
    return f"{count} still to be removed: {shown}{more}."


def report_removals(
    status: TenantStatus, removals: Sequence[PendingRemoval], generation: int, now: datetime
) -> None:
    """Record what is still to be removed: the list, and a condition once there was anything.

    What only a freeze keeps is listed, and makes the condition not True: it is as it has to be.
    """
    status.pending_removals = list(removals[:MOST_PENDING])
    if not removals and find_condition(status.conditions, REMOVAL_PENDING) is None:
        return
    reasons = {item.reason for item in removals}
    reason = next((each for each in _GRAVEST if each in reasons), min(reasons, default=_NONE))
    message = removal_message(removals) if removals else "No object is still to be removed."
    condition = new_condition(REMOVAL_PENDING, not reasons <= {FROZEN}, reason, message)
    condition.observed_generation = generation
    set_condition(status.conditions, condition, now)


def report_conversions(
    status: TenantStatus, lost: Sequence[str], generation: int, now: datetime
) -> None:
    """Record what conversions lost: a condition once there was anything, which fails nothing."""
    if not lost and find_condition(status.conditions, VALUES_CONVERTED) is None:
        return
    condition = new_condition(VALUES_CONVERTED, True, "AllConverted", "Every value was converted.")
    if lost:
        head = "Correct the values, or give a default before the conversion"
        message = list_sentences(head, lost)
        condition = new_condition(VALUES_CONVERTED, False, "LossyConversion", message)
    condition.observed_generation = generation
    set_condition(status.conditions, condition, now)


def report_teardown(
    previous: TenantStatus, removals: Sequence[PendingRemoval], generation: int, now: datetime
) -> TenantStatus:
    """Return the status of a tenant that is being deleted and waits for objects to be removed."""
    status = previous.model_copy(deep=True)
    report_removals(status, removals, generation, now)
    if removals:
        message = f"The tenant is being deleted; {removal_message(removals)}"
        condition = new_condition("Ready", False, REMOVAL_PENDING, message)
        condition.observed_generation = generation
        set_condition(status.conditions, condition, now)
    return status


def report_hook(
    previous: TenantStatus, reason: str, message: str, generation: int, now: datetime
) -> TenantStatus:
    """Return the status of a tenant that goes no further than a hook: counts and lists stay as they were last known."""
    status = previous.model_copy(deep=True)
    status.observed_generation = generation
    running = reason == HOOK_RUNNING
    shown = shorten_before_remedy(message)
    conditions = [
        new_condition("Ready", False, reason, shown),
        new_condition("Progressing", running, reason, shown),
    ]
    if not running:
        conditions.append(new_condition("Degraded", True, reason, shown))
    for condition in conditions:
        condition.observed_generation = generation
        set_condition(status.conditions, condition, now)
    return status


def refuse(
    previous: TenantStatus, failure: Failure, generation: int, now: datetime
) -> TenantStatus:
    """Return the status when nothing could be done: counts and lists stay as they were last known."""
    status = previous.model_copy(deep=True)
    status.observed_generation = generation
    message = shorten_before_remedy(f"Nothing can be applied: {failure.message}.")
    for kind, state, reason, said in (
        ("Ready", "False", failure.reason, message),
        ("Degraded", "True", failure.degraded or failure.reason, message),
        ("Progressing", "False", "ReconcileComplete", "Nothing is under way."),
    ):
        condition = Condition.model_validate(
            {"type": kind, "status": state, "reason": reason, "message": said}
        )
        condition.observed_generation = generation
        set_condition(status.conditions, condition, now)
    return status


def redact(message: str, sensitive: Mapping[str, str]) -> str:
    """Return a server's message without anything that may hold a sensitive value.

    Without sensitive variables the message is kept. With some, quoted parts go, since a server
    quotes the values it refuses, and so does each value itself, plain or in base64.
    """
    if not any(sensitive.values()):
        return message
    shown = re.sub(r'"(?:\\.|[^"\\])*"|\'[^\']*\'', "…", message)
    for value in sorted(sensitive.values(), key=len, reverse=True):
        if value:
            encoded = base64.b64encode(value.encode()).decode()
            shown = shown.replace(value, "…").replace(encoded, "…")
    return shown


def is_under_way(outcomes: Sequence[Outcome]) -> bool:
    """Return whether some resources are not ready yet, and none is in trouble."""
    states = {outcome.state for outcome in outcomes}
    return states <= _UNDER_WAY and not states <= {State.READY}


def is_unavailable(outcomes: Sequence[Outcome]) -> bool:
    """Return whether something failed, all of it because a server did not answer as it should."""
    failed = [each for each in outcomes if each.state in {State.FAILED, State.CONFLICTED}]
    return bool(failed) and all(each.unavailable for each in failed)


def is_untroubled(outcomes: Sequence[Outcome]) -> bool:
    """Return whether nothing is in trouble, and nothing waits for its place."""
    return all(each.state in _UNDER_WAY and not each.pending for each in outcomes)


def refusal(error: APIError, sensitive: Mapping[str, str]) -> str:
    """Return a server's refusal in words.

    With sensitive variables it is the reason and the places only: a server's text quotes what it
    refuses, and templates may have turned a value into something unrecognizable.
    """
    missing = isinstance(error, NotFound) and error.details.get("kind") == "namespaces"
    what_to_do = "; make that namespace, or name another one" if missing else ""
    if not any(sensitive.values()):
        return _without_long_values(error) + what_to_do
    places = sorted({cause.field for cause in error.causes if cause.field})
    shown = f" at {redact(', '.join(places[:MOST_NAMED]), sensitive)}" if places else ""
    return f"the server refused it: {error.reason or error.code}{shown}{what_to_do}"


def _without_long_values(error: APIError) -> str:
    """Return a server's message in which what is wrong is not behind a long value that it quotes."""
    message = error.message
    for cause in error.causes:
        value, _, what = cause.message.rpartition(": ")
        if value.startswith(_QUOTES) and len(cause.message) > LONGEST_QUOTE:
            message = message.replace(cause.message, f"{_QUOTES}…: {what}")
    return message


ByState = Mapping[State, Sequence[Outcome]]


def _ready(by_state: ByState, total: int, removals: Sequence[PendingRemoval] = ()) -> Condition:
    ready, failed, conflicted = (
        len(by_state[state]) for state in (State.READY, State.FAILED, State.CONFLICTED)
    )
    removals = [item for item in removals if item.reason != FROZEN]
    if ready == total and removals:
        message = f"All {total} resources are ready; {removal_message(removals)}"
        return new_condition("Ready", False, REMOVAL_PENDING, message)
    if ready == total:
        return new_condition("Ready", True, "Reconciled", f"All {total} resources are ready.")
    reason = "NotAllResourcesReady"
    if failed and conflicted:
        reason = "ResourcesFailedAndConflicted"
    elif failed:
        reason = "ResourcesFailed"
    elif conflicted:
        reason = "ResourcesConflicted"
    others = [
        f"{len(by_state[state])} {state}"
        for state in State
        if state is not State.READY and by_state[state]
    ]
    message = f"{ready} of {total} resources are ready, {', '.join(others)}{_named(by_state)}."
    return new_condition("Ready", False, reason, message)


def _progressing(by_state: ByState) -> Condition:
    under_way = [*by_state[State.WAITING], *by_state[State.BLOCKED]]
    if not under_way:
        return new_condition("Progressing", False, "ReconcileComplete", "Nothing is under way.")
    waiting, blocked = len(by_state[State.WAITING]), len(by_state[State.BLOCKED])
    message = f"{waiting} not ready yet, {blocked} waiting for what they depend on"
    return new_condition("Progressing", True, "Reconciling", f"{message}{_list(under_way)}.")


def _conflicted(by_state: ByState) -> Condition:
    found = by_state[State.CONFLICTED]
    if not found:
        return new_condition("Conflicted", False, "NoConflict", "No resource is in conflict.")
    message = f"{_number(found)} in conflict{_list(found)}."
    return new_condition("Conflicted", True, "ResourceConflict", message)


def _degraded(by_state: ByState, previous: TenantStatus, generation: int) -> Condition:
    failed, conflicted = by_state[State.FAILED], by_state[State.CONFLICTED]
    if failed or conflicted:
        reason = "ResourceFailures"
        if failed and conflicted:
            reason = "ResourceFailuresAndConflicts"
        elif conflicted:
            reason = "ResourceConflicts"
        message = f"{_number(failed)} failed, {len(conflicted)} in conflict"
        return new_condition("Degraded", True, reason, f"{message}{_list([*failed, *conflicted])}.")
    waiting = by_state[State.WAITING]
    if waiting and was_ready(previous, generation):
        message = f"{_number(waiting)} not ready any more{_list(waiting)}."
        return new_condition("Degraded", True, "ResourcesNotReady", message)
    return new_condition("Degraded", False, "Healthy", "No resource has failed.")


def was_ready(previous: TenantStatus, generation: int) -> bool:
    """Whether this generation was ready before: only then is waiting a decline, not a start."""
    ready = find_condition(previous.conditions, "Ready")
    degraded = find_condition(previous.conditions, "Degraded")
    if ready is None or ready.observed_generation != generation:
        return False
    declined = degraded is not None and degraded.reason == "ResourcesNotReady"
    return ready.status == "True" or declined


def _number(outcomes: Sequence[Outcome]) -> str:
    return "1 resource" if len(outcomes) == 1 else f"{len(outcomes)} resources"


def _named(by_state: ByState) -> str:
    return _list([*by_state[State.FAILED], *by_state[State.CONFLICTED], *by_state[State.WAITING]])


def _list(outcomes: Sequence[Outcome]) -> str:
    """`: a (why), b (why) and 3 more`, in the order of ids."""
    if not outcomes:
        return ""
    named = sorted(outcomes, key=lambda outcome: outcome.id)[:MOST_NAMED]
    text = ""
    for count, longest in [
        *((len(named), longest) for longest in (LONGEST_CAUSE, SHORTER_CAUSE)),
        *((fewer, SHORTER_CAUSE) for fewer in range(len(named) - 1, 0, -1)),
    ]:
        more = len(outcomes) - count
        shown = ", ".join(_with_cause(outcome, longest) for outcome in named[:count])
        text = f": {shown}" + (f" and {more} more" if more else "")
        if len(text) <= LONGEST_LIST:
            break
    return text


def _with_cause(outcome: Outcome, longest: int) -> str:
    if not outcome.message:
        return outcome.id
    return f"{outcome.id} ({shorten_before_remedy(outcome.message, longest).rstrip('.')})"
