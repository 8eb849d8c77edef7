"""What is lost, broken or killed at any request: one run, one apply, the same end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from internal.cloud.tasks import TaskError, TaskResult
from tests.cloud.servers.hcp import HCPServer
from tests.cloud.tasks.terraform.hcp_bench import HCPBench, spec_of
from tests.cloud.tasks.workbench import Workbench

Work = Callable[..., Awaitable[TaskResult]]


def end_state(bench: HCPBench) -> tuple[object, ...]:
    """All that lasts."""
    fake_state = bench.server.fake_state
    found = [
        (each.name, each.attributes, each.resources, each.outputs, each.digest)
        for each in fake_state.workspaces.values()
    ]
    return found, fake_state.applied, fake_state.deleted, bench.server.leaks


async def changed(bench: HCPBench) -> HCPBench:
    """A bench whose instance was built, with other inputs since."""
    await bench.apply(attempt=99)
    bench.server.fake_state.applied.clear()
    bench.server.faults.heal()
    return bench


def work_of(bench: HCPBench, operation: str) -> Work:
    spec = spec_of(bench.server.url, machine="n2-standard-16")

    async def work(attempt: int = 1, tries: int = 4) -> TaskResult:
        act = bench.teardown if operation == "teardown" else bench.apply
        return await act(spec, attempt=attempt, tries=tries)

    return work


@pytest.fixture(params=["create", "teardown"])
def operation(request: pytest.FixtureRequest) -> str:
    return str(request.param)


only_create = pytest.mark.parametrize("operation", ["create"], indirect=True)


class Harness:
    """Makes benches that are alike."""

    def __init__(self, folder: Path, operation: str) -> None:
        self.folder = folder
        self.operation = operation

    async def each(self, act: Callable[[HCPBench, Work, int], Awaitable[None]]) -> int:
        """Do it at every request of the reference; how many there are."""
        reference, length = await self._reference()
        for number in range(1, length + 1):
            async with HCPServer() as server:
                bench = await self._bench(server)
                await act(bench, work_of(bench, self.operation), number)
                assert end_state(bench) == reference, server.faults.log
                for run in server.fake_state.runs.values():
                    assert run.applies <= 1
                    assert run.ended
        return length

    async def _reference(self) -> tuple[Any, int]:
        async with HCPServer() as server:
            bench = await self._bench(server)
            await work_of(bench, self.operation)()
            return end_state(bench), server.faults.count

    async def _bench(self, server: HCPServer) -> HCPBench:
        bench = HCPBench(server, Workbench(self.folder))
        return bench if self.operation == "create" else await changed(bench)


@pytest.fixture
def harness(tmp_path: Path, operation: str) -> Harness:
    return Harness(tmp_path, operation)


def ours(bench: HCPBench, attempt: int = 1) -> int:
    runs = bench.server.fake_state.runs.values()
    return sum(run.message.endswith(f"{attempt:08x})") for run in runs)


@pytest.mark.criterion("SG-27")
async def test_a_lost_reply_is_no_second_run(harness: Harness) -> None:
    async def act(bench: HCPBench, work: Work, number: int) -> None:
        bench.server.faults.lose_reply_of = number
        await work()
        assert ours(bench) == 1, bench.server.faults.log

    assert await harness.each(act) >= 15


@only_create
async def test_a_gateway_that_breaks_is_no_second_run(harness: Harness) -> None:
    async def act(bench: HCPBench, work: Work, number: int) -> None:
        bench.server.faults.broken_at = number
        await work()
        assert ours(bench) == 1, bench.server.faults.log

    await harness.each(act)


@pytest.mark.criterion("SG-27")
@pytest.mark.parametrize("carried_out", [False, True])
async def test_killed_and_started_again(harness: Harness, carried_out: bool) -> None:
    async def act(bench: HCPBench, work: Work, number: int) -> None:
        bench.server.faults.gone_from = number
        bench.server.faults.carried_out = carried_out
        with pytest.raises(TaskError):
            await work(tries=1)
        bench.server.faults.heal()
        await work()
        assert ours(bench) <= 1, bench.server.faults.log

    await harness.each(act)


async def test_killed_and_tried_again_as_the_next_attempt(harness: Harness) -> None:
    async def act(bench: HCPBench, work: Work, number: int) -> None:
        bench.server.faults.gone_from = number
        bench.server.faults.carried_out = True
        with pytest.raises(TaskError):
            await work(tries=1)
        bench.server.faults.heal()
        await work(attempt=2)
        fake_state = bench.server.fake_state
        assert len(fake_state.applied) == 1
        fake_state.applied[:] = [
            each.replace("00000002)", "00000001)") for each in fake_state.applied
        ]
        fake_state.applied[:] = [
            each.replace("attempt 2", "attempt 1") for each in fake_state.applied
        ]

    await harness.each(act)


async def test_cancelled_and_tried_again_as_the_next_attempt(harness: Harness) -> None:
    async def act(bench: HCPBench, work: Work, number: int) -> None:
        task = asyncio.ensure_future(work())
        bench.server.faults.on_arrival[number] = task.cancel
        with pytest.raises(asyncio.CancelledError):
            await task
        fake_state = bench.server.fake_state
        assert all(run.ended for run in fake_state.runs.values()), fake_state.runs
        await work(attempt=2)
        assert len(fake_state.applied) == 1
        fake_state.applied[:] = [
            each.replace("00000002)", "00000001)") for each in fake_state.applied
        ]
        fake_state.applied[:] = [
            each.replace("attempt 2", "attempt 1") for each in fake_state.applied
        ]

    await harness.each(act)


@pytest.mark.parametrize("late", [1, 2, 3])
async def test_a_run_that_shows_up_late_is_not_applied_twice(bench: HCPBench, late: int) -> None:
    await changed(bench)
    fake_state, faults = bench.server.fake_state, bench.server.faults
    work = work_of(bench, "change")

    async with HCPServer() as server:
        twin = await changed(HCPBench(server, Workbench(bench.workbench.folder)))
        await work_of(twin, "change")()
        creation = 1 + server.faults.log.index("POST /api/v2/runs")
    faults.lose_reply_of = creation
    fake_state.late_lists = 0

    def hide(doing: str) -> None:
        if "uploading" in doing:
            fake_state.late_lists = late

    bench.workbench.said = _Heard(hide)
    await work()
    assert len(fake_state.applied) == 1
    assert ours(bench) == (2 if late > 1 else 1)
    assert all(run.ended for run in fake_state.runs.values())


class _Heard(list[str]):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def append(self, said: str) -> None:
        super().append(said)
        self._tell(said)
