"""Checks of data planes in the background, one task each: no namespace waits for another's data plane."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from apis.fleet import Reason
from ctrlruntime.client.config import Config
from ctrlruntime.clock import monotonic
from internal.fleet.plane_access import PlaneAccess
from internal.fleet.plane_check import FAILURES, PlaneAnswer, outcome_of
from internal.fleet.targets import Outcome, TargetError

Check = Callable[[Config, bool], Awaitable[PlaneAnswer]]
"""Returns the answer of the data plane. Raises TargetError. The flag: whether a write is tried too."""
Done = Callable[[str, str], None]
"""Receives the namespace and a reason when a check has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTimes:
    """Seconds."""

    timeout: float = 30.0
    """For one check."""
    retry: float = 5.0
    """Until a failed check is repeated; it doubles each time."""
    longest_retry: float = 60.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What the last check of a data plane found."""

    digest: str
    """Of the kubeconfig."""
    identity: str = ""
    """The data plane's id; empty if the check failed."""
    renewal: str = ""
    """Holder and time of its Lease, where a write was tried."""
    failure: Outcome | None = None
    at: float = 0.0


@dataclass(slots=True)
class _Plane:
    digest: str
    task: asyncio.Task[None] | None = None
    result: CheckResult | None = None
    failures: int = 0


_DEFECT: Final = (
    "the check of the data plane failed ({error}); the operator's log has the traceback"
)


@dataclass(slots=True)
class PlaneChecks:
    """Starts checks and keeps their results, by namespace."""

    check: Check
    done: Done
    times: CheckTimes = field(default_factory=CheckTimes)
    clock: Callable[[], float] = monotonic
    _planes: dict[str, _Plane] = field(default_factory=dict)

    def result(self, name: str, access: PlaneAccess) -> CheckResult | None:
        """Return what the last check with this kubeconfig found, None before the first."""
        plane = self._planes.get(name)
        return None if plane is None or plane.digest != access.digest else plane.result

    def request(self, name: str, access: PlaneAccess, *, write: bool = False) -> float:
        """Start a check, unless one runs or failed just now. Return the seconds until one may be started."""
        plane = self._planes.get(name)
        if plane is None or plane.digest != access.digest:
            self.forget(name)
            plane = self._planes[name] = _Plane(access.digest)
        if plane.task is not None:
            return self.times.timeout
        wait = self._wait(plane)
        if wait > 0:
            return wait
        plane.task = asyncio.create_task(
            self._run(name, plane, access, write=write), name=f"check of data plane {name}"
        )
        return self.times.timeout

    def forget(self, name: str) -> None:
        """End the check of a data plane and forget what it found."""
        plane = self._planes.pop(name, None)
        if plane is not None and plane.task is not None:
            plane.task.cancel()

    async def close(self) -> None:
        """End all checks."""
        tasks = [plane.task for plane in self._planes.values() if plane.task is not None]
        for name in list(self._planes):
            self.forget(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _wait(self, plane: _Plane) -> float:
        if plane.result is None:
            return 0.0
        pause = self.times.longest_retry
        if plane.failures:
            pause = min(pause, self.times.retry * 2.0 ** min(plane.failures - 1, 16))
        wait: float = plane.result.at + pause - self.clock()
        return wait

    async def _run(self, name: str, plane: _Plane, access: PlaneAccess, *, write: bool) -> None:
        answer, failure = PlaneAnswer(""), None
        try:
            async with asyncio.timeout(self.times.timeout):
                answer = await self.check(access.config, write)
        except TargetError as error:
            failure = error.outcome
        except FAILURES as error:
            failure = outcome_of(error)
        except Exception as error:  # noqa: BLE001 - an answer that is unexpected costs this plane alone
            failure = Outcome(Reason.UNREACHABLE, _DEFECT.format(error=type(error).__name__))
        plane.failures = plane.failures + 1 if failure is not None else 0
        plane.result = CheckResult(
            plane.digest, answer.identity, answer.renewal, failure, self.clock()
        )
        plane.task = None
        self.done(name, "its data plane was checked")
