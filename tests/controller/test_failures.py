"""Failures of a pass: those that go away by themselves, and those that do not."""

import pytest

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    InternalError,
    Invalid,
    NoKindMatch,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    TransportError,
    Unauthorized,
    WriteOutcomeUnknown,
)
from ctrlruntime.controller import AggregateError, TransientError, UnrecoverableError, is_transient

FIELD_CONFLICT = Conflict("taken", details={"causes": [{"reason": "FieldManagerConflict"}]})
PASSING = [
    TransientError("soon"),
    TimeoutError(),
    ConnectionResetError(),
    TransportError("no answer"),
    WriteOutcomeUnknown("no answer"),
    Conflict("changed"),
    AlreadyExists("there"),
    NotFound("gone"),
    TooManyRequests("slowly"),
    InternalError("oops"),
    ServiceUnavailable("later"),
    Timeout("late"),
]
STAYING = [
    UnrecoverableError("wrong"),
    FIELD_CONFLICT,
    BadRequest("what"),
    Unauthorized("who"),
    Forbidden("no"),
    Invalid("not so"),
    NoKindMatch(GroupKind("", "Nothing")),
    ValueError("a defect"),
]


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_it_goes_away(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize("error", STAYING, ids=lambda error: type(error).__name__)
def test_it_stays(error: Exception) -> None:
    assert not is_transient(error)


def test_a_pass_is_transient_only_if_all_of_its_failures_are() -> None:
    failures = AggregateError()
    assert (failures.any, failures.is_transient, failures.message) == (False, False, "")
    failures.append(TransientError("slow"), "services")
    failures.append(TransientError("slow"), "services")
    failures.append(TimeoutError("late"))
    assert (failures.any, failures.is_transient, len(failures)) == (True, True, 3)
    assert failures.message == "services: slow; late"
    failures.append(UnrecoverableError("bad image"), "pods")
    assert not failures.is_transient
    assert [type(error) for error in failures][-1] is UnrecoverableError
