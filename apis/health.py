"""Whether an object of the product is as it should be: one reading of phase and conditions for every kind. Pure.

The rule: a state that was not observed, is of an older generation or has an unknown word as its phase is
never good. :data:`RULES` has what each kind adds to that, beside the tables of docs/conditions.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from apis.cloud.common import Phase
from apis.cloud.fleetrollout import FleetRolloutPhase
from apis.cosmos.fullnode_status import FullNodePhase
from apis.cosmos.scheduledvolumesnapshot import SnapshotPhase
from apis.operations.changefreeze import ChangeFreezePhase
from apis.tenancy.places import PLACES_KNOWN
from apis.tenancy.rollout import RolloutPhase
from ctrlruntime.lifecycle.remote import HUB_READY

READY: Final = "Ready"
NOT_OBSERVED: Final = "NotObserved"
"""State of an object whose present generation no controller has reported on."""
DELETING: Final = "Deleting"
PAUSED: Final = "Paused"
"""Condition of an object that an annotation keeps from being reconciled."""


class Health(StrEnum):
    """What a state means for a person, the worst first."""

    FAILING = "Failing"
    """Someone has to do something."""
    UNKNOWN = "Unknown"
    """Nothing was observed of the present spec."""
    WAITING = "Waiting"
    """Work goes on or waits for something that is named."""
    GOOD = "Good"
    """Nothing has to be done."""

    @property
    def rank(self) -> int:
        """Return its place among all, the worst first."""
        return _RANKS[self]


_RANKS: Final = {health: place for place, health in enumerate(Health)}


@dataclass(frozen=True, slots=True)
class State:
    """One word for where an object stands, what that means, and why."""

    word: str
    health: Health
    since: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """The words of status.phase."""

    good: frozenset[str]
    waiting: frozenset[str]
    failing: frozenset[str] = frozenset()

    def health(self, phase: str) -> Health:
        """Return what a phase means; of one that is in none of the sets nothing is known."""
        if phase in self.good:
            return Health.GOOD
        if phase in self.waiting:
            return Health.WAITING
        return Health.FAILING if phase in self.failing else Health.UNKNOWN

    @classmethod
    def of(cls, words: type[StrEnum], *, good: Iterable[str], failing: Iterable[str]) -> Phases:
        """Return the phases of an enumeration: what is neither good nor failing waits."""
        known, bad = frozenset(good), frozenset(failing)
        return cls(good=known, failing=bad, waiting=frozenset(words) - known - bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthRules:
    """How the status of one kind is read."""

    phases: Phases | None = None
    """Of kinds that have status.phase."""
    reasons: Mapping[str, Health] = field(default_factory=dict)
    """What a reason of Ready=False means; every other one: Failing."""
    needed: Mapping[str, Mapping[str, Health]] = field(default_factory=dict)
    """Further conditions that are to be True, and what the reasons of False mean; every other one: Failing."""
    unwanted: Mapping[str, Health] = field(default_factory=dict)
    """Conditions that are to be False or absent, and what True means."""
    neutral: frozenset[str] = frozenset()
    """Conditions that say nothing about health."""
    always: frozenset[str] = frozenset()
    """Conditions beside the answer that every pass which ends well writes: of a status that lost one nothing is known."""
    answers: tuple[str, ...] = (READY,)
    """The condition that every status has, if it has no phase; the first that is there counts."""

    def meets(self, condition: str) -> bool:
        """Return whether it has been decided what a condition means."""
        shared = {*_NEEDED, *_UNWANTED}
        return condition in {*self.answers, *self.needed, *self.unwanted, *self.neutral, *shared}


def state_of(manifest: Mapping[str, Any]) -> State:
    """Return where an object stands: the worst of what its phase and its conditions say."""
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    conditions = {str(item.get("type", "")): item for item in status.get("conditions") or ()}
    rules = RULES.get(str(manifest.get("kind", "")), HealthRules())
    answer = next((conditions[name] for name in rules.answers if name in conditions), None)
    words = _words(status, answer or {})
    if metadata.get("deletionTimestamp"):
        for name in ("RemovalPending", PAUSED):
            held = conditions.get(name) or {}
            if held.get("status") == "True":
                words = _words({}, held)
        return State(DELETING, Health.WAITING, *words)
    phase = _of_phase(rules, status, words)
    if (answer is None and phase is None) or _is_old(metadata, status, answer or {}):
        pause = conditions.get(PAUSED) or {}
        if pause.get("status") == "True":  # which is why nothing was observed
            return State(PAUSED, Health.WAITING, *_words({}, pause))
        return State(NOT_OBSERVED, Health.UNKNOWN, *words)
    found = [] if phase is None else [phase]
    if answer is not None:
        found.append(_of_answer(rules, answer, words, phase))
    elif phase is not None and phase.health is Health.GOOD:
        # Every status that a controller wrote has the answer: this one lost it.
        found.append(State(NOT_OBSERVED, Health.UNKNOWN, *words))
    found += _of_others(rules, conditions)
    lost = sorted(rules.always - conditions.keys())
    if lost and all(state.health is Health.GOOD for state in found):
        message = f"The status has no {', no '.join(lost)}."
        found.append(State(NOT_OBSERVED, Health.UNKNOWN, words[0], message))
    return min(found, key=lambda state: state.health.rank)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a condition has to be, beside the answer and the phase of its kind."""

    status: str
    otherwise: Health
    """What any other status means."""
    reasons: Mapping[str, Health] = field(default_factory=dict)
    """What it means with one of these reasons."""
    always: bool = False
    """Whether a status without it is not good."""


def expected_conditions(kind: str) -> dict[str, Expected]:
    """Return what further conditions of a kind have to be, by type; those that say nothing of health are left out."""
    rules = RULES.get(kind, HealthRules())
    found = {
        name: Expected("True", Health.FAILING, rules.needed.get(name, {}), name in rules.always)
        for name in (*_NEEDED, *rules.needed)
    }
    unwanted = {**_UNWANTED, **rules.unwanted}
    return found | {
        name: Expected("False", means, always=name in rules.always)
        for name, means in unwanted.items()
        if means is not Health.GOOD and name not in found
    }


def phase_health(kind: str, phase: str) -> Health:
    """Return what a phase of a kind, or of a template's rollout, means."""
    phases = ROLLOUT_PHASES if kind == "TenantTemplate" else RULES.get(kind, HealthRules()).phases
    return Health.UNKNOWN if phases is None else phases.health(phase)


def _words(status: Mapping[str, Any], condition: Mapping[str, Any]) -> tuple[str, str]:
    """Return since when, and why."""
    message = status.get("message") or condition.get("message") or status.get("status") or ""
    return str(condition.get("lastTransitionTime", "")), str(message)


def _is_old(
    metadata: Mapping[str, Any], status: Mapping[str, Any], answer: Mapping[str, Any]
) -> bool:
    generation = metadata.get("generation")
    seen = {status.get("observedGeneration"), answer.get("observedGeneration")} - {None}
    # Without any, a status can only be of the first: of what was changed since nothing is known.
    return generation is not None and (seen or {1}) != {generation}


def _of_phase(
    rules: HealthRules, status: Mapping[str, Any], words: tuple[str, str]
) -> State | None:
    if rules.phases is None or not status.get("phase"):
        return None
    phase, (since, message) = str(status["phase"]), words
    # What a phase waits for is its own sentence: Ready may be True meanwhile.
    return State(phase, rules.phases.health(phase), since, str(status.get("status") or message))


def _of_answer(
    rules: HealthRules,
    answer: Mapping[str, Any],
    words: tuple[str, str],
    phase: State | None,
) -> State:
    reason = str(answer.get("reason") or "NotReady")
    if answer.get("status") == "True":
        return State(READY, Health.GOOD, *words)
    if answer.get("status") != "False":
        return State(reason, Health.UNKNOWN, *words)
    if phase is not None and reason == phase.word:
        return phase
    health = rules.reasons.get(reason, Health.FAILING)
    if phase is not None and phase.health is not Health.GOOD:
        reason = phase.word  # the word that kubectl shows; the message has the rest
    return State(reason, health, *words)


def _of_others(rules: HealthRules, conditions: Mapping[str, Mapping[str, Any]]) -> Iterator[State]:
    for name, item in conditions.items():
        status, reason = item.get("status"), str(item.get("reason") or name)
        needed = name in rules.needed or name in _NEEDED
        if needed:
            means = rules.needed.get(name, {}).get(reason, Health.FAILING)
        else:
            means = rules.unwanted.get(name, _UNWANTED.get(name, Health.GOOD))
        if status == ("True" if needed else "False") or means is Health.GOOD:
            continue
        if status not in {"True", "False"}:
            means = Health.UNKNOWN
        yield State(reason if needed else name, means, *_words({}, item))


_W, _F = Health.WAITING, Health.FAILING
_NEEDED: Final = frozenset({HUB_READY, "PermissionsGranted", "CRDsAvailable", "ApprovalsCount"})
"""Conditions of several kinds that are to be True where they are there."""
_UNWANTED: Final = {PAUSED: _W, "DeletionsHeld": _W, "RemovalPending": _W, "RolloutHalted": _F}
"""Conditions of several kinds that are to be False."""

CLOUD_PHASES: Final = Phases.of(
    Phase, good=(Phase.READY, Phase.SUPERSEDED, Phase.EXTRACTED), failing=(Phase.FAILED,)
)
ROLLOUT_PHASES: Final = Phases.of(
    RolloutPhase,
    good=(RolloutPhase.COMPLETE,),
    failing=(RolloutPhase.HALTED, RolloutPhase.ROLLING_BACK, RolloutPhase.ROLLED_BACK),
)
FLEET_ROLLOUT_PHASES: Final = Phases.of(
    FleetRolloutPhase,
    good=(FleetRolloutPhase.COMPLETE, FleetRolloutPhase.SUPERSEDED, FleetRolloutPhase.ABORTED),
    failing=(
        *(FleetRolloutPhase.HALTED, FleetRolloutPhase.ROLLING_BACK),
        *(FleetRolloutPhase.ROLLED_BACK, FleetRolloutPhase.INVALID),
    ),
)
_HELD: Final = dict.fromkeys(
    ("EmptyResult", "TooManyDeletions", "UnidentifiedRows", "TemplateGone"), _W
)
_SUBRESOURCE: Final = HealthRules(
    phases=CLOUD_PHASES,
    unwanted={"Held": _W, "Drifted": _W, "AwaitsApproval": _W},
    neutral=frozenset({"Pending", "Creating", "Created", "Started", "Done"}),
)
RULES: Final[Mapping[str, HealthRules]] = {
    "TenantRegistry": HealthRules(
        reasons={"RemovalPending": _W, "ReplicaBehind": _W},
        needed={
            "RowsValid": {},
            "SlotsLabelled": {"LabelsMissing": _W},
            "SlotsOwned": {},
            "StatesWritten": {},
            "TenantsSynced": _HELD,
        },
        unwanted={"MovePending": _W},
        always=frozenset({"RowsValid", "TenantsSynced", "DeletionsHeld"}),
    ),
    "TenantTemplate": HealthRules(
        answers=(READY, "Valid"),
        always=frozenset({"Valid", "VariablesKnown", "Applied"}),
        needed={
            "Valid": {},
            "VariablesKnown": {"UnknownVariables": _W},
            "Applied": {
                **dict.fromkeys(("NotRolledOut", "NotAllTenantsReady", "NoTenants"), _W),
                **dict.fromkeys(("RegistryNotRead", "PausedByAnnotation"), _W),
            },
        },
    ),
    "Tenant": HealthRules(
        reasons=dict.fromkeys(("NotAllResourcesReady", "RemovalPending", "HookRunning"), _W),
        needed={"ValuesConverted": {}, PLACES_KNOWN: {"PlaceUnknown": _W}},
        unwanted={"Progressing": _W, "Conflicted": _F, "Degraded": _F},
        always=frozenset({"Progressing", "Conflicted", "Degraded"}),
    ),
    "Instance": HealthRules(
        phases=CLOUD_PHASES,
        needed={"SlotsOwned": {}},
        unwanted={
            "DomainConflict": _F,
            "AssignmentForged": _F,
            "VersionHeld": _W,
            "LeaseEnded": _W,
            "ChangesHeld": _W,
        },
    ),
    **dict.fromkeys(
        (
            *("InstanceTerraform", "UpgradeInstanceTask", "InstanceKubernetes"),
            *("InstanceKubernetesPVC", "InstanceInvariants"),
        ),
        _SUBRESOURCE,
    ),
    "FleetRollout": HealthRules(
        phases=FLEET_ROLLOUT_PHASES,
        always=frozenset({"Complete", "RolloutHalted"}),
        needed={
            "Complete": {word: FLEET_ROLLOUT_PHASES.health(word) for word in FleetRolloutPhase}
            | {"Complete": _F}
        },
    ),
    "CosmosFullNode": HealthRules(
        phases=Phases.of(
            FullNodePhase, good=(FullNodePhase.COMPLETE,), failing=(FullNodePhase.ERROR,)
        ),
        reasons=dict.fromkeys(("TransientError", "RolloutInProgress", "NodesBehind"), _W),
        always=frozenset({"Progressing", "ClaimsAsSpecified"}),
        needed={
            "ClaimsAsSpecified": dict.fromkeys(("FileSystemResizePending", "Resizing"), _W),
            "SlotsOwned": {},
        },
        unwanted={
            "DisksBeingDeleted": _F,
            "DisksFull": _W,
            "BuilderChangeHeld": _W,
            "Progressing": _W,
        },
    ),
    "ScheduledVolumeSnapshot": HealthRules(
        phases=Phases.of(
            SnapshotPhase,
            good=(SnapshotPhase.WAITING_FOR_NEXT, SnapshotPhase.SUSPENDED),
            failing=(SnapshotPhase.MISSING_CRDS,),
        ),
        unwanted={"DeprecatedFields": _W},
        always=frozenset({"CRDsAvailable"}),
    ),
    "StatefulJob": HealthRules(reasons={"Waiting": _W}, always=frozenset({"CRDsAvailable"})),
    "FleetConfig": HealthRules(
        reasons={"Deploying": _W},
        needed={"TeardownComplete": {"TearingDown": _W}},
        unwanted={"OrphansHeld": _W},
        always=frozenset({"TeardownComplete"}),
    ),
    "ChangeFreeze": HealthRules(
        phases=Phases.of(
            ChangeFreezePhase,
            good=(
                *(ChangeFreezePhase.SCHEDULED, ChangeFreezePhase.ACTIVE),
                ChangeFreezePhase.ENDED,
            ),
            failing=(ChangeFreezePhase.INVALID,),
        ),
        neutral=frozenset({"Active"}),
    ),
}
"""What each kind adds to the rule."""
