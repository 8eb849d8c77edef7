"""One invariant: checked, fixed if need be, and checked again."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from apis.cloud import HTTPRequest, Invariant
from internal.cloud.tasks.requests import Answer
from internal.cloud.tasks.task import TaskRejected


class Sender(Protocol):
    """What sends requests."""

    def check(self, request: HTTPRequest) -> None: ...

    async def send(self, request: HTTPRequest) -> Answer: ...


class Verdict(StrEnum):
    """What became of an invariant."""

    HELD = "held"
    """It was true."""
    MENDED = "mended"
    """It is true now."""
    FAILED = "failed"
    """It is false or unknown; another attempt may help."""
    REJECTED = "rejected"
    """Its requests cannot be sent as they are written."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one invariant, and why."""

    name: str
    verdict: Verdict
    reason: str = ""


async def enforce(sender: Sender, invariant: Invariant) -> Outcome:
    """Make it true.

    Nothing is sent of an invariant of which a single request is faulty, and nothing is changed as long as the
    check gets no answer at all.

    A request that has side effects and is not answered is not sent again: the check that follows shows
    whether it arrived, and the next attempt begins with a check as well.
    """
    try:
        _look_through(sender, [invariant.check, *invariant.ensure])
        return await _enforce(sender, invariant)
    except TaskRejected as error:
        return Outcome(invariant.name, Verdict.REJECTED, str(error))


async def release(sender: Sender, invariant: Invariant) -> Outcome:
    """Undo what the instance leaves behind outside."""
    try:
        _look_through(sender, invariant.on_delete)
        for request in invariant.on_delete:
            answer = await sender.send(request)
            if not answer.good:
                return Outcome(invariant.name, Verdict.FAILED, answer.text)
    except TaskRejected as error:
        return Outcome(invariant.name, Verdict.REJECTED, str(error))
    return Outcome(invariant.name, Verdict.HELD)


async def _enforce(sender: Sender, invariant: Invariant) -> Outcome:
    first = await sender.send(invariant.check)
    if first.good:
        return Outcome(invariant.name, Verdict.HELD)
    unknown = first.status == 0
    if unknown or not invariant.ensure:
        return Outcome(invariant.name, Verdict.FAILED, first.text)
    trouble = ""
    for request in invariant.ensure:
        answer = await sender.send(request)
        if not answer.good:
            trouble = answer.text
            break
    last = await sender.send(invariant.check)
    if last.good:
        return Outcome(invariant.name, Verdict.MENDED)
    return Outcome(invariant.name, Verdict.FAILED, trouble or f"even afterwards, {last.text}")


def _look_through(sender: Sender, requests: list[HTTPRequest]) -> None:
    for request in requests:
        sender.check(request)
