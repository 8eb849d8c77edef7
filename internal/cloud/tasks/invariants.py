"""Task `invariants`: each checked, fixed if need be and checked again, in order, and one sentence on all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from pydantic import ValidationError

from apis.cloud import HTTPRequest, InstanceInvariantsSpec, Invariant, TaskOperation
from internal.cloud.tasks.http import RetryPolicy
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.requests import Answer, Requests
from internal.cloud.tasks.task import TaskContext, TaskError, TaskRejected, TaskResult

_REASON: Final = 300
"""Most characters of the reason of one failure."""


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


class InvariantsTask:
    """Enforces the invariants of an InstanceInvariants; on teardown, undoes it outside."""

    name = "invariants"

    def __init__(
        self,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        retries: RetryPolicy | None = None,
    ) -> None:
        self._sleep = sleep
        self._retries = retries

    async def run(self, context: TaskContext) -> TaskResult:
        """All are tried, whatever becomes of some.

        Raises TaskError if some are not true; TaskRejected if nothing but faulty requests is the cause.
        """
        try:
            spec = InstanceInvariantsSpec.model_validate(context.input.spec)
        except ValidationError as error:
            raise TaskRejected(f"the spec is not as its kind wants it: {error}") from error
        places = _places(context.input.instance, spec)
        async with Requests(
            places, context.secret, retries=self._retries, sleep=self._sleep
        ) as requests:
            if context.input.operation is TaskOperation.TEARDOWN:
                return _of_teardown(await _release_all(context, requests, spec))
            return _of_apply(await _enforce_all(context, requests, spec))


def _places(instance: str, spec: InstanceInvariantsSpec) -> Places:
    values: dict[str, str | bool | None] = {
        "instance": instance,
        "version": spec.version,
        "domain": spec.domain,
        "alerting": spec.alerting,
        "managedSMTP": not spec.managed_smtp.disabled,
    }
    return Places(values=values, outputs=spec.outputs)


async def _enforce_all(
    context: TaskContext, requests: Requests, spec: InstanceInvariantsSpec
) -> list[Outcome]:
    found: list[Outcome] = []
    for number, invariant in enumerate(spec.invariants, start=1):
        context.progress(f"{number} of {len(spec.invariants)}: {invariant.name}")
        found.append(_logged(context, await enforce(requests, invariant)))
    return found


async def _release_all(
    context: TaskContext, requests: Requests, spec: InstanceInvariantsSpec
) -> list[Outcome]:
    """In reverse: what came last may rest on what came first."""
    wanted = [each for each in reversed(spec.invariants) if each.on_delete]
    found: list[Outcome] = []
    for number, invariant in enumerate(wanted, start=1):
        context.progress(f"undoing {number} of {len(wanted)}: {invariant.name}")
        found.append(_logged(context, await release(requests, invariant)))
    return found


def _logged(context: TaskContext, outcome: Outcome) -> Outcome:
    context.log.info(
        "invariant", invariant=outcome.name, verdict=str(outcome.verdict), reason=outcome.reason
    )
    return outcome


def _of_apply(found: Sequence[Outcome]) -> TaskResult:
    count = {verdict: sum(each.verdict is verdict for each in found) for verdict in Verdict}
    said = f"{count[Verdict.HELD]} held, {count[Verdict.MENDED]} mended"
    mended = [each.name for each in found if each.verdict is Verdict.MENDED]
    if mended:
        said += f" ({', '.join(mended)})"
    _raise_for(found, said)
    return TaskResult(message=said)


def _of_teardown(found: Sequence[Outcome]) -> TaskResult:
    done = sum(each.verdict is Verdict.HELD for each in found)
    said = f"{done} undone" if found else "nothing to undo"
    _raise_for(found, said)
    return TaskResult(message=said)


def _raise_for(found: Sequence[Outcome], said: str) -> None:
    bad = [each for each in found if each.verdict in (Verdict.FAILED, Verdict.REJECTED)]
    if not bad:
        return
    reasons = "; ".join(f"{each.name}: {each.reason[:_REASON]}" for each in bad)
    names = ", ".join(each.name for each in bad)
    text = f"{said}, {len(bad)} failed ({names}). {reasons}"
    rejected = all(each.verdict is Verdict.REJECTED for each in bad)
    raise (TaskRejected if rejected else TaskError)(text)
