"""What every provider of runs keeps, whatever it runs them on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from apis.references import SecretKeyRef
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.process import ChildProcess
from internal.cloud.runs import Run, RunOwner, RunProvider, RunRequest, RunState
from internal.cloud.runs.cloudrun import CloudError
from internal.cloud.runs.jobs import JobRuns
from tests.cloud.runs.benches import Bench, request_of

RUN = "work-0123456789ab"
PATIENCE = 60.0


async def ended(provider: RunProvider, owner: RunOwner, run_id: str = RUN) -> Run:
    """The run once it is over."""

    async def over() -> Run | None:
        run = await provider.get(owner, run_id)
        assert run is not None, "the run is gone"
        assert run.state.finished, run
        return run

    run: Run = await eventually_holds(over, timeout=PATIENCE, interval=0.05)
    return run


async def carried_out(provider: RunProvider, request: RunRequest) -> Run:
    await provider.start(request)
    return await ended(provider, request.input.owner, request.run_id)


async def shows(question: Callable[[], Any]) -> None:
    await eventually_holds(question, timeout=PATIENCE)


def starts(marks: Path) -> list[str]:
    return marks.read_text().splitlines() if marks.exists() else []


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class TestIdentity:
    """One id, one run."""

    async def test_started_twice_it_runs_once(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        request = request_of(owner, {"mark": str(marks)})
        await carried_out(provider, request)
        again = await provider.start(request)
        assert again.state is RunState.SUCCEEDED
        assert (await ended(provider, owner)).state is RunState.SUCCEEDED
        assert len(starts(marks)) == 1

    async def test_started_at_once_by_two_managers_it_runs_once(
        self, bench: Bench, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        request = request_of(owner, {"mark": str(marks)}, {"wait_for": str(tmp_path / "go")})
        managers = [bench.provider() for _ in range(3)]
        try:
            begun = await asyncio.gather(*(m.start(request) for m in managers for _ in range(2)))
            assert {run.run_id for run in begun} == {RUN}
            await shows(lambda: starts(marks))
            (tmp_path / "go").touch()
            assert (await ended(managers[0], owner)).state is RunState.SUCCEEDED
        finally:
            await asyncio.gather(*(manager.aclose() for manager in managers))
        assert len(starts(marks)) == 1

    async def test_another_manager_sees_the_run_through(
        self, bench: Bench, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks, go = tmp_path / "marks", tmp_path / "go"
        request = request_of(owner, {"mark": str(marks)}, {"wait_for": str(go)})
        first, second = bench.provider(), bench.provider()
        try:
            await first.start(request)
            await first.aclose()
            await shows(lambda: starts(marks))
            adopted = await second.start(request)
            assert adopted.state in (RunState.CREATED, RunState.RUNNING)
            go.touch()
            assert (await ended(second, owner)).state is RunState.SUCCEEDED
        finally:
            await second.aclose()
        assert len(starts(marks)) == 1

    @pytest.mark.criterion("SG-27")
    async def test_a_killed_manager_leaves_its_run_to_the_next(
        self, bench: Bench, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks, go, started = tmp_path / "marks", tmp_path / "go", tmp_path / "started"
        request = request_of(owner, {"mark": str(marks)}, {"wait_for": str(go)})
        plan = {
            "settings": bench.settings,
            "input": request.input,
            "timeout": request.timeout,
            "started": str(started),
        }
        manager = await ChildProcess.start(
            [sys.executable, "-m", "tests.cloud.runs.starter", orjson.dumps(plan).decode()],
            log=tmp_path / "manager.log",
            ready=False,
        )
        await shows(lambda: started.exists() or manager.returncode is not None)
        assert started.exists(), manager.log_tail()
        os.kill(manager.pid, signal.SIGKILL)
        await manager.wait()
        await shows(lambda: starts(marks))
        adopted = await provider.start(request)
        assert not adopted.state.finished
        go.touch()
        assert (await ended(provider, owner)).state is RunState.SUCCEEDED
        assert len(starts(marks)) == 1

    async def test_what_was_never_started_is_not_there(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        assert await provider.get(owner, "work-ffffffffffff") is None
        assert list(await provider.list(owner)) == []
        await provider.cancel(owner, "work-ffffffffffff")
        await provider.delete(owner, "work-ffffffffffff")

    async def test_each_owner_has_its_own_runs_in_the_order_they_were_made(
        self, bench: Bench, provider: RunProvider
    ) -> None:
        mine, other = await bench.owner("mine"), await bench.owner("other")
        ids = ["work-cccccccccccc", "work-aaaaaaaaaaaa", "work-bbbbbbbbbbbb"]
        for run_id in ids:
            await provider.start(request_of(mine, run_id=run_id))
        await provider.start(request_of(other, run_id="work-dddddddddddd"))
        listed = await provider.list(mine)
        moments = [run.created_at for run in listed]
        assert sorted(run.run_id for run in listed) == sorted(ids)
        assert moments == sorted(m for m in moments if m is not None)
        if len(set(moments)) == len(ids):  # some tell the time in whole seconds
            assert [run.run_id for run in listed] == ids
        assert [run.run_id for run in await provider.list(other)] == ["work-dddddddddddd"]
        assert await provider.get(other, ids[0]) is None


class TestOutcome:
    """What a run says is what its provider tells."""

    async def test_success_reports_outputs_and_times(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        result = {"message": "made it", "outputs": {"project": "p-1", "größe": "zwölf ✓"}}
        run = await carried_out(provider, request_of(owner, {"result": result}))
        assert (run.state, run.message) == (RunState.SUCCEEDED, "made it")
        assert run.outputs == result["outputs"]
        moments = [run.created_at, run.started_at, run.finished_at]
        known = [moment for moment in moments if moment is not None]
        assert len(known) == 3
        assert known == sorted(known)
        assert run.logs

    async def test_the_task_gets_its_input(self, provider: RunProvider, owner: RunOwner) -> None:
        fields = ["instance", "inputs_version", "attempt", "annotations", "operation"]
        request = request_of(
            owner, {"echo": fields}, attempt=3, annotations={"note": "Grüße, $(HOME) ${x}"}
        )
        run = await carried_out(provider, request)
        assert run.outputs["annotations"] == "{'note': 'Grüße, $(HOME) ${x}'}"
        assert run.outputs["attempt"] == "3"
        assert run.outputs["operation"] == "Apply"

    async def test_secret_outputs_are_handed_over_and_nowhere_to_be_seen(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        result = {"secret_outputs": {"kubeconfig": "hush " * 200, "password": "s3cr3t-π"}}
        run = await carried_out(provider, request_of(owner, {"result": result}))
        assert run.secret_outputs == result["secret_outputs"]
        assert "s3cr3t" not in repr(run)
        assert run.outputs == {}

    async def test_the_task_reads_the_secrets_it_was_given(
        self, bench: Bench, provider: RunProvider, owner: RunOwner
    ) -> None:
        await bench.put_secret("cloud", {"token": "to-ken-π", "other": "not asked for"})
        ref = SecretKeyRef(name="cloud", key="token")
        request = request_of(owner, {"reveal": ref.to_wire()}, secrets=[ref])
        run = await carried_out(provider, request)
        assert run.state is RunState.SUCCEEDED, run
        assert run.secret_outputs == {"seen": "to-ken-π"}
        assert run.message == "it is ***"

    @pytest.mark.criterion("C-10")
    @pytest.mark.parametrize("end", ["success", "fail", "cancel", "kill"])
    async def test_c_10_no_secret_outlives_its_run(
        self, bench: Bench, provider: RunProvider, owner: RunOwner, tmp_path: Path, end: str
    ) -> None:
        marks = tmp_path / "marks"
        await bench.put_secret("cloud", {"token": "to-ken-of-one-run"})
        ref = SecretKeyRef(name="cloud", key="token")
        last: dict[str, Any] = {"success": {}, "fail": {"fail": "no"}}.get(
            end, {"wait_for": "/never"}
        )
        steps: list[dict[str, Any]] = [{"reveal": ref.to_wire()}, {"mark": str(marks)}, last]
        await provider.start(request_of(owner, *steps, secrets=[ref]))
        await shows(lambda: starts(marks))
        if end == "cancel":
            await provider.cancel(owner, RUN)
        if end == "kill":
            os.kill(int(starts(marks)[0].split()[1]), signal.SIGKILL)
        assert (await ended(provider, owner)).state.finished
        assert await bench.places_of("to-ken-of-one-run") == []

    async def test_a_secret_that_is_not_there_is_said_by_the_task(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        ref = SecretKeyRef(name="absent", key="token")
        run = await carried_out(
            provider, request_of(owner, {"reveal": ref.to_wire()}, secrets=[ref])
        )
        assert (run.state, run.retryable) == (RunState.FAILED, False)
        assert "key 'token' of Secret 'absent'" in run.message

    async def test_outputs_that_do_not_fit_fail_the_run_and_report_it(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        run = await carried_out(
            provider, request_of(owner, {"result": {"outputs": {"large": "x" * 5000}}})
        )
        assert (run.state, run.retryable) == (RunState.FAILED, False)
        assert "the outputs take 5012 bytes" in run.message

    async def test_a_long_message_is_cut_and_the_outputs_are_not(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        result = {"message": "ü" * 9000, "outputs": {"large": "x" * 3000}}
        run = await carried_out(provider, request_of(owner, {"result": result}))
        assert run.state is RunState.SUCCEEDED
        assert run.outputs == result["outputs"]
        assert run.message.startswith("üüü")
        assert run.message.endswith(" …")

    @pytest.mark.parametrize(
        ("step", "retryable", "message"),
        [
            ({"fail": "no quota left"}, True, "no quota left"),
            ({"reject": "zone is unknown"}, False, "zone is unknown"),
        ],
    )
    async def test_a_failure_reports_why_and_if_it_may_go_away(
        self,
        provider: RunProvider,
        owner: RunOwner,
        step: dict[str, Any],
        retryable: bool,
        message: str,
    ) -> None:
        run = await carried_out(provider, request_of(owner, step))
        assert (run.state, run.retryable) == (RunState.FAILED, retryable)
        assert run.message == message

    @pytest.mark.parametrize(
        ("end", "message"),
        [
            ({"code": 0}, "ended with exit code 0, and it wrote no result"),
            ({"code": 0, "words": '{"message": "cut o'}, "its result cannot be read"),
        ],
    )
    async def test_nonsense_is_never_a_success(
        self, provider: RunProvider, owner: RunOwner, end: dict[str, Any], message: str
    ) -> None:
        run = await carried_out(provider, request_of(owner, {"exit": end}))
        assert run.state is RunState.FAILED
        assert message in run.message

    async def test_killed_it_reports_what_it_was_at(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        steps = [{"progress": "growing grass"}, {"mark": str(marks)}, {"wait_for": "/never"}]
        await provider.start(request_of(owner, *steps))
        await shows(lambda: starts(marks))
        os.kill(int(starts(marks)[0].split()[1]), signal.SIGKILL)
        run = await ended(provider, owner)
        assert (run.state, run.retryable) == (RunState.FAILED, True)
        assert "exit code 137 while it was at: growing grass" in run.message

    async def test_a_run_that_takes_too_long_is_ended(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        steps = [{"mark": str(marks)}, {"wait_for": "/never"}]
        run = await carried_out(provider, request_of(owner, *steps, timeout=4))
        assert run.state is RunState.TIMED_OUT
        assert "4 s" in run.message
        assert not any(runs(int(line.split()[1])) for line in starts(marks))

    async def test_the_task_may_write_into_a_folder_of_its_own(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        run = await carried_out(provider, request_of(owner, {"write": "kept"}))
        assert run.outputs == {"note": "kept"}


class TestEnd:
    """Cancelling and deleting."""

    async def test_cancelled_while_it_starts(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        await provider.start(request_of(owner, {"wait_for": str(tmp_path / "never")}))
        await eventually_holds(lambda: cancelled(provider, owner), timeout=PATIENCE)
        run = await ended(provider, owner)
        assert run.state is RunState.CANCELLED

    @pytest.mark.parametrize("grace", [60])
    async def test_cancelled_it_may_put_things_in_order(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks, says, until = (tmp_path / name for name in ("marks", "says", "until"))
        leisure = {"stop_at_leisure": {"says": str(says), "until": str(until)}}
        await provider.start(request_of(owner, {"mark": str(marks)}, leisure))
        await shows(lambda: starts(marks))
        await provider.cancel(owner, RUN)
        await shows(says.exists)
        run = await provider.get(owner, RUN)
        assert run is not None
        assert not run.state.finished
        until.touch()
        await provider.cancel(owner, RUN)
        assert (await ended(provider, owner)).state is RunState.CANCELLED
        assert not runs(int(starts(marks)[0].split()[1]))

    async def test_one_that_heeds_nothing_is_killed(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks, deaf = tmp_path / "marks", tmp_path / "deaf"
        await provider.start(request_of(owner, {"mark": str(marks)}, {"heed_nothing": str(deaf)}))
        await shows(deaf.exists)
        await provider.cancel(owner, RUN)
        assert (await ended(provider, owner)).state is RunState.CANCELLED
        assert not runs(int(starts(marks)[0].split()[1]))

    async def test_cancelling_what_is_over_changes_nothing(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        before = await carried_out(provider, request_of(owner, {"result": {"message": "done"}}))
        await provider.cancel(owner, RUN)
        assert await provider.get(owner, RUN) == before

    @pytest.mark.criterion("SG-52")
    async def test_deleted_it_is_gone_and_may_be_made_anew(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        request = request_of(owner, {"mark": str(marks)})
        await carried_out(provider, request)
        await provider.delete(owner, RUN)
        await provider.delete(owner, RUN)
        await gone(provider, owner)
        assert list(await provider.list(owner)) == []
        await carried_out(provider, request)
        assert len(starts(marks)) == 2

    async def test_deleting_ends_it_first(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        await provider.start(request_of(owner, {"mark": str(marks)}, {"wait_for": "/never"}))
        await shows(lambda: starts(marks))
        await provider.delete(owner, RUN)
        await gone(provider, owner)
        assert not runs(int(starts(marks)[0].split()[1]))

    async def test_no_process_is_left_behind(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        child = tmp_path / "child"
        steps: list[dict[str, Any]] = [
            {"leave_behind": {"file": str(child)}},
            {"wait_for": "/never"},
        ]
        await provider.start(request_of(owner, *steps))
        await shows(lambda: child.exists() and child.read_text())
        await provider.cancel(owner, RUN)
        await ended(provider, owner)
        assert not runs(int(child.read_text()))

    @pytest.mark.criterion("SG-30")
    async def test_deleted_behind_our_back_it_is_gone(
        self, bench: Bench, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        await provider.start(request_of(owner, {"mark": str(marks)}, {"wait_for": "/never"}))
        await shows(lambda: starts(marks))
        await bench.take_away(owner, RUN)
        await gone(provider, owner)
        assert list(await provider.list(owner)) == []
        await shows(lambda: not runs(int(starts(marks)[0].split()[1])))


@pytest.mark.criterion("G-C3")
class TestKept:
    """What a task has in its reports outlives it, however it ends without success."""

    @pytest.mark.parametrize("end", ["fail", "cancel", "kill"])
    async def test_g_c3_it_is_in_the_report_of_a_run_without_success(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path, end: str
    ) -> None:
        marks = tmp_path / "marks"
        kept = {"keep": {"lock:holder": "root@host"}}
        last = {"fail": "no"} if end == "fail" else {"wait_for": str(tmp_path / "never")}
        await provider.start(request_of(owner, kept, {"mark": str(marks)}, last))
        await shows(lambda: starts(marks))
        if end == "cancel":
            await provider.cancel(owner, RUN)
        if end == "kill":
            os.kill(int(starts(marks)[0].split()[1]), signal.SIGKILL)
        run = await ended(provider, owner)
        assert run.state in (RunState.FAILED, RunState.CANCELLED)
        # The Pod of a Job that is cancelled goes at once; a lock names that Pod as its host.
        lost = end == "cancel" and isinstance(provider, JobRuns)
        assert run.outputs == ({} if lost else {"lock:holder": "root@host"})

    async def test_g_c3_a_success_has_its_own_outputs_alone(
        self, provider: RunProvider, owner: RunOwner
    ) -> None:
        result = {"result": {"outputs": {"size": "3"}}}
        run = await carried_out(provider, request_of(owner, {"keep": {"a": "b"}}, result))
        assert run.outputs == {"size": "3"}


@pytest.mark.parametrize("bench", ["local", "job"], indirect=True)
class TestNews:
    """Those who subscribe need not ask. Cloud Run tells nobody, and says so."""

    async def test_the_end_of_a_run_is_reported(
        self, provider: RunProvider, owner: RunOwner, tmp_path: Path
    ) -> None:
        told: list[RunOwner] = []
        assert provider.subscribe(told.append)
        go = tmp_path / "go"
        await provider.start(request_of(owner, {"wait_for": str(go)}))
        await running(provider, owner)
        told.clear()
        go.touch()
        await end_reported(provider, owner, told)

    async def test_the_end_of_an_adopted_run_is_reported(
        self, bench: Bench, owner: RunOwner, tmp_path: Path
    ) -> None:
        go = tmp_path / "go"
        first, second = bench.provider(), bench.provider()
        told: list[RunOwner] = []
        try:
            await first.start(request_of(owner, {"wait_for": str(go)}))
            await first.aclose()
            assert second.subscribe(told.append)
            await running(second, owner)
            told.clear()
            go.touch()
            await end_reported(second, owner, told)
        finally:
            await second.aclose()


async def cancelled(provider: RunProvider, owner: RunOwner) -> bool:
    """Again, as a driver would, where the provider cannot say yes yet."""
    try:
        await provider.cancel(owner, RUN)
    except CloudError:
        return False
    return True


async def running(provider: RunProvider, owner: RunOwner) -> None:
    async def is_running() -> bool:
        run = await provider.get(owner, RUN)
        return run is not None and run.state is RunState.RUNNING

    await eventually_holds(is_running, timeout=PATIENCE)


async def end_reported(provider: RunProvider, owner: RunOwner, told: list[RunOwner]) -> None:
    """Whoever asks only when it was told something sees the end."""

    async def seen() -> bool:
        while told:
            assert told.pop() == owner
            run = await provider.get(owner, RUN)
            if run is not None and run.state is RunState.SUCCEEDED:
                return True
        return False

    await eventually_holds(seen, timeout=PATIENCE)


async def gone(provider: RunProvider, owner: RunOwner) -> None:
    async def is_gone() -> bool:
        return await provider.get(owner, RUN) is None

    await eventually_holds(is_gone, timeout=PATIENCE)
