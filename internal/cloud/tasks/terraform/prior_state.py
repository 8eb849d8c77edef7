"""Compares the state that is there with what the last success recorded. Absence of a state is no absence of what was built. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import orjson

from internal.cloud.labels import MISSING_STATE
from internal.cloud.tasks.task import POSSIBLY_BUILT, TORN_DOWN, TaskError, TaskHeld

if TYPE_CHECKING:
    from internal.cloud.runs import RunInput

LINEAGE: Final = "lineage"
"""Of a record: what Terraform gives a state when it is created, and never changes."""
SERIAL: Final = "serial"
"""Of a record: the number of the state, which grows with every change."""
RESOURCES: Final = "resources"
"""Of a record: how many resources the state had."""
PLACE: Final = "place"
"""Of a record: where the state was, for people."""
WORKSPACE: Final = "workspaceID"
"""Of a record: the id of the workspace of HCP Terraform."""

MISSING: Final = "MissingState"
"""Reason of a hold: what was built before has another state now, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """What is known of a state; None for what the backend does not show."""

    lineage: str | None = None
    serial: int | None = None
    resources: int = 0
    outputs: bool = False
    """Whether it has any."""
    workspace: str | None = None
    """Id of the workspace that it is in."""

    @property
    def empty(self) -> bool:
        """Whether it describes nothing."""
        return not self.resources and not self.outputs

    def record(self, place: str) -> dict[str, str]:
        """Return what the next runs compare with; `place` is where it is, for people."""
        found = {
            LINEAGE: self.lineage,
            SERIAL: None if self.serial is None else str(self.serial),
            RESOURCES: str(self.resources),
            PLACE: place,
            WORKSPACE: self.workspace,
        }
        return {name: text for name, text in found.items() if text is not None}


NOTHING_KEPT: Final[Mapping[str, str]] = {RESOURCES: "0"}
"""The record of a success that left no state: there was nothing to keep."""


def state_facts(document: bytes) -> StateFacts | None:
    """Return what a state as Terraform writes it is; None for an empty document.

    Raises TaskError for one that cannot be read: that is no absence.
    https://developer.hashicorp.com/terraform/internals/json-format and `terraform state pull`.
    """
    if not document.strip():
        return None
    try:
        found = orjson.loads(document)
        resources = found.get("resources") or []
        managed = [each for each in resources if each.get("mode", "managed") == "managed"]
        serial = found.get("serial")
        return StateFacts(
            lineage=found.get("lineage") or None,
            serial=None if serial is None else int(serial),
            resources=sum(len(each.get("instances") or [1]) for each in managed),
            outputs=bool(found.get("outputs")),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise TaskError(f"the state cannot be read, so nothing is changed: {error}") from error


class Answer(StrEnum):
    """What a person may decide where the state is not the one that was recorded."""

    BUILD_ANEW = "build-anew"
    """What was built before is left to itself; everything is built once more."""
    FORGET = "forget"
    """The object goes, and what was built stays."""
    USE_STATE = "use-state"
    """The state that is there counts."""


@dataclass(frozen=True, slots=True)
class _Difference:
    what: str
    found: StateFacts | None
    """The state that could be used instead; None: there is none."""


def is_built(given: RunInput) -> bool:
    """Whether anything on record shows that a run of the object built something before, or may have."""
    return given.built or bool(given.outputs) or bool(given.record)


def is_torn_down(given: RunInput) -> bool:
    """Whether an earlier teardown destroyed everything and was ended before it could report that."""
    return TORN_DOWN in given.record


def is_absent(found: StateFacts | None) -> bool:
    """Whether there is no state, or only the first one, which is empty: some backends write that before anything is built."""
    return found is None or (found.empty and found.serial is not None and found.serial <= 1)


def _is_unproven(given: RunInput) -> bool:
    """Whether nothing succeeded, and a run that did not may have built something."""
    return POSSIBLY_BUILT in given.record and not (given.built or given.outputs)


def check_state(given: RunInput, found: StateFacts | None, place: str, *, teardown: bool) -> bool:
    """Return whether the run goes on with the state that is there; False: a person decided to forget what was built.

    `place`: where the state is looked for, in words. Raises TaskHeld where what was built before has another
    state now, or none, and no person has decided on exactly that.
    """
    difference = _difference(given, found, teardown=teardown)
    if difference is None:
        return True
    token = _token(given, difference)
    answers = _answers(difference, teardown=teardown)
    decided = given.annotations.get(MISSING_STATE, "")
    answer = next((each for each in answers if decided == f"{each}-{token}"), None)
    if answer is None:
        raise TaskHeld(_refusal(given, difference, place, answers, token), MISSING)
    return answer is not Answer.FORGET


def _difference(given: RunInput, found: StateFacts | None, *, teardown: bool) -> _Difference | None:
    """Return how the state differs from the recorded one; None: it does not, or nothing was built before."""
    record = given.record
    if not is_built(given) or (record.get(RESOURCES) == "0" and LINEAGE not in record):
        return None
    if teardown and is_torn_down(given) and (found is None or found.empty):
        return None
    if found is None:
        return _Difference("there is no state", None)
    if _is_unproven(given):
        return _Difference("there is no state", None) if is_absent(found) else None
    lineage, serial = record.get(LINEAGE), _serial(record)
    if serial is None:
        return _Difference(
            f"the recorded serial {record[SERIAL]!r} is no number, so whether it is an older one is not known",
            None if found.empty else found,
        )
    if WORKSPACE in record and found.workspace != record[WORKSPACE]:
        return _Difference(
            f"the workspace is another one (id {found.workspace}) than the recorded one"
            f" (id {record[WORKSPACE]})",
            None if found.empty else found,
        )
    if lineage is not None and found.lineage != lineage:
        return _Difference(
            f"the state is another one (lineage {found.lineage}) than the recorded one (lineage {lineage})",
            None if found.empty else found,
        )
    if found.serial is not None and found.serial < serial:
        return _Difference(
            f"the state is an older one (serial {found.serial}) than the recorded one (serial {serial})",
            None if found.empty else found,
        )
    emptied = found.empty and record.get(RESOURCES) != "0"
    if emptied and not (teardown and _destroyed(record, found)):
        return _Difference("the state is empty", None)
    return None


def _destroyed(record: Mapping[str, str], found: StateFacts) -> bool:
    """Whether an empty state is a later one than was recorded: an earlier attempt has destroyed all of it."""
    if WORKSPACE in record:
        return found.workspace == record[WORKSPACE]
    same, serial = LINEAGE in record and found.lineage == record[LINEAGE], _serial(record)
    return same and found.serial is not None and serial is not None and found.serial > serial


def _serial(record: Mapping[str, str]) -> int | None:
    """Return the recorded serial, -1 without one; None for what a person wrote there that is no number."""
    text = record.get(SERIAL, "-1")
    return int(text) if text.removeprefix("-").isdecimal() else None


def _answers(difference: _Difference, *, teardown: bool) -> tuple[Answer, ...]:
    last = Answer.FORGET if teardown else Answer.BUILD_ANEW
    return (
        (last,) if difference.found is None else (Answer.USE_STATE, Answer.FORGET)[: 1 + teardown]
    )


def _token(given: RunInput, difference: _Difference) -> str:
    """Return what ties an answer to this loss of this Instance, so that it counts for no later one."""
    lineage = None if difference.found is None else difference.found.lineage
    workspace = None if difference.found is None else difference.found.workspace
    known = [given.instance_uid, dict(given.record), dict(given.outputs), lineage, workspace]
    return hashlib.sha256(orjson.dumps(known, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]


_MEANING: Final[Mapping[Answer, str]] = {
    Answer.BUILD_ANEW: "to build everything once more and leave what was built before to itself",
    Answer.FORGET: "to let the object go and leave what was built to itself",
    Answer.USE_STATE: "to go on with the state that is there",
}


def _refusal(
    given: RunInput,
    difference: _Difference,
    place: str,
    answers: tuple[Answer, ...],
    token: str,
) -> str:
    before = given.record.get(PLACE, "")
    was = f" (the last run that succeeded left it in {before})" if before not in ("", place) else ""
    name, namespace = given.instance, given.owner.namespace
    ways = "; ".join(
        f"{_MEANING[each]}, run `kubectl annotate instance {name} -n {namespace} --overwrite"
        f" {MISSING_STATE}={each}-{token}`"
        for each in answers
    )
    known = "this was built before"
    if _is_unproven(given):
        known = "this may have been built before by a run that did not succeed"
    return (
        f"{known}, and {difference.what} in {place}{was}: nothing was built or destroyed."
        f" Restore the state and run `manager instance retry {name} -n {namespace}`; or, {ways}"
    )
