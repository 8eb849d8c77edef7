"""The status of the FleetConfig. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from apis.fleet import FleetConfigStatus, TargetNamespace
from apis.fleet.fleetconfig import LONGEST_MESSAGE, TargetResult
from ctrlruntime.api import Condition
from ctrlruntime.api.conditions import (
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
    shorten_before_remedy,
)
from internal.fleet.targets import Outcome

READY: Final = "Ready"
TEARDOWN_COMPLETE: Final = "TeardownComplete"
ORPHANS_HELD: Final = "OrphansHeld"
HELD: Final = "Held"
NOTHING_HELD: Final = "NothingHeld"
DEPLOYED: Final = "SuccessfulDeployment"
FAILED: Final = "DeploymentFailure"
DEPLOYING: Final = "Deploying"
INVALID: Final = "InvalidConfiguration"
COMPLETE: Final = "NothingLeft"
TEARING_DOWN: Final = "TearingDown"
EXCLUDE: Final = "spec.targetNamespace and spec.scaleMode.enabled exclude each other, nothing is changed; remove one"


def target_list(
    wanted: Collection[str],
    outcomes: Mapping[str, Outcome],
    before: Sequence[TargetNamespace],
    now: datetime,
) -> list[TargetNamespace]:
    """Return the entries of the wanted namespaces, failures first, then by name.

    A namespace without an outcome keeps its entry of before, if it has one. The time of an entry changes
    with its result or reason only.
    """
    known = {entry.name: entry for entry in before}
    entries: list[TargetNamespace] = []
    for name in wanted:
        old, outcome = known.get(name), outcomes.get(name)
        if outcome is not None:
            entries.append(_entry(name, outcome, old, now))
        elif old is not None:
            entries.append(old)
    return sorted(entries, key=lambda entry: (entry.result, entry.name))


def _entry(
    name: str, outcome: Outcome, old: TargetNamespace | None, now: datetime
) -> TargetNamespace:
    same = old is not None and (old.result, old.reason) == (outcome.result, outcome.reason)
    return TargetNamespace(
        name=name,
        result=outcome.result,
        reason=outcome.reason,
        message=shorten_before_remedy(outcome.message, LONGEST_MESSAGE),
        last_transition_time=old.last_transition_time
        if same and old is not None
        else now.replace(microsecond=0),
    )


def ready(
    wanted: Collection[str], entries: Sequence[TargetNamespace], generation: int
) -> Condition:
    """Return the condition Ready: how many stacks are not healthy."""
    failed = sum(entry.result is TargetResult.FAILURE for entry in entries)
    unknown = len(wanted) - len(entries)
    if failed:
        message = (
            f"{failed} target namespace(s) did not deploy successfully -- see the 'targetNamespaces' status "
            "object for details"
        )
        return new_condition(READY, False, FAILED, message, generation=generation)
    if unknown:
        message = f"{unknown} target namespace(s) are being deployed"
        return new_condition(READY, False, DEPLOYING, message, generation=generation)
    message = f"{len(entries)} target namespace(s) deployed successfully"
    return new_condition(READY, True, DEPLOYED, message, generation=generation)


def invalid(generation: int) -> Condition:
    """Return the condition Ready of a configuration that contradicts itself."""
    return new_condition(READY, False, INVALID, EXCLUDE, generation=generation)


def teardown(leftovers: Mapping[str, str], generation: int) -> Condition:
    """Return the condition TeardownComplete: what is left in which namespace."""
    if not leftovers:
        message = "No former target namespace has anything left of a stack"
        return new_condition(TEARDOWN_COMPLETE, True, COMPLETE, message, generation=generation)
    sentences = [f"{name}: {what}" for name, what in sorted(leftovers.items())]
    message = list_sentences("", sentences)
    return new_condition(TEARDOWN_COMPLETE, False, TEARING_DOWN, message, generation=generation)


def orphans(held: Mapping[str, str], before: FleetConfigStatus, generation: int) -> list[Condition]:
    """Return the condition OrphansHeld; none before the first hold.

    `held`: what waits on data planes for an approval, by target namespace, with names, count and command.
    """
    if not held and find_condition(before.conditions, ORPHANS_HELD) is None:
        return []
    if not held:
        message = "No deletion of objects whose owners are gone waits"
        return [new_condition(ORPHANS_HELD, False, NOTHING_HELD, message, generation=generation)]
    message = list_sentences("", [f"{name}: {what}" for name, what in sorted(held.items())])
    return [new_condition(ORPHANS_HELD, True, HELD, message, generation=generation)]


def updated(
    before: FleetConfigStatus,
    *,
    generation: int,
    entries: list[TargetNamespace],
    conditions: Sequence[Condition],
    now: datetime,
) -> FleetConfigStatus:
    """Return the status as it should be; equal to `before` if nothing of it changed."""
    kept = [each.model_copy() for each in before.conditions]
    for condition in conditions:
        set_condition(kept, condition, now)
    changes = {
        "observed_generation": generation,
        "target_namespaces": entries,
        "conditions": kept,
    }
    return before.model_copy(update=changes)
