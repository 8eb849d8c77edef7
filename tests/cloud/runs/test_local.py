"""Local runs: what the files say, whoever was killed."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.references import SecretKeyRef
from internal.cloud.runs import RunOwner, RunRefused, RunState
from internal.cloud.runs.files import files_of
from internal.cloud.runs.local import LocalOptions, LocalRuns, supervisor
from internal.cloud.runs.local.folder import RunFolder
from internal.cloud.runs.report import LARGEST
from tests.cloud.runs.benches import LocalBench, request_of
from tests.cloud.runs.test_contract import RUN, ended, gone, running, runs, shows, starts


@pytest.fixture
def bench(local_bench: LocalBench) -> LocalBench:
    return local_bench


@pytest.fixture
async def provider(bench: LocalBench) -> AsyncIterator[LocalRuns]:
    made = bench.provider()
    assert isinstance(made, LocalRuns)
    yield made
    await made.aclose()


@pytest.fixture
def folder(tmp_path: Path, owner: RunOwner) -> Path:
    return tmp_path / "runs" / owner.uid / RUN


def supervisor_of(folder: Path) -> int:
    """The process that has the pipe of orders open."""
    orders = folder / supervisor.ORDERS
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if link.readlink() == orders:
                return int(link.parts[2])
        except OSError:
            continue
    raise AssertionError("there is no supervisor")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


async def test_a_killed_supervisor_takes_everything_with_it(
    provider: LocalRuns, owner: RunOwner, folder: Path, tmp_path: Path
) -> None:
    told: list[RunOwner] = []
    provider.subscribe(told.append)
    marks, daemon = tmp_path / "marks", tmp_path / "daemon"
    left = {"file": str(daemon), "daemon": True}
    steps: list[dict[str, Any]] = [
        {"progress": "sowing"},
        {"leave_behind": left},
        {"mark": str(marks)},
    ]
    await provider.start(request_of(owner, *steps, {"wait_for": "/never"}))
    await shows(lambda: starts(marks))
    os.kill(supervisor_of(folder), signal.SIGKILL)
    await shows(lambda: told)
    run = await ended(provider, owner)
    assert (run.state, run.retryable) == (RunState.FAILED, True)
    assert run.message == (
        "the run was killed from outside while it was at: sowing; another attempt may go through"
    )
    pids = [int(starts(marks)[0].split()[1]), int(daemon.read_text())]
    assert not any(map(runs, pids))
    again = await provider.start(request_of(owner, {"mark": str(marks)}))
    assert again == run
    assert len(starts(marks)) == 1


async def test_a_daemon_is_found_and_ended(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    daemon = tmp_path / "daemon"
    await provider.start(request_of(owner, {"leave_behind": {"file": str(daemon), "daemon": True}}))
    assert (await ended(provider, owner)).state is RunState.SUCCEEDED
    assert not runs(int(daemon.read_text()))


async def test_a_folder_without_a_run_is_started_by_the_next_request(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    """The manager was killed after it had made the folder."""
    marks = tmp_path / "marks"
    request = request_of(owner, {"mark": str(marks)})
    made = RunFolder(tmp_path / "runs" / owner.uid / RUN)
    files = await files_of(request, None)
    made.make(provider._plan(request, made), files)
    assert await provider.get(owner, RUN) is None
    [listed] = await provider.list(owner)
    assert (listed.run_id, listed.state, listed.retryable) == (RUN, RunState.FAILED, True)
    await provider.start(request)
    assert (await ended(provider, owner)).state is RunState.SUCCEEDED
    assert len(starts(marks)) == 1


async def test_those_who_look_do_not_take_each_other_for_the_run(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    request = request_of(owner)
    made = RunFolder(tmp_path / "runs" / owner.uid / RUN)
    made.make(provider._plan(request, made), await files_of(request, None))
    with (made.path / "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not made.is_alive()
    with made.locked():
        assert made.is_alive()


async def test_one_that_never_began_is_cancelled_at_once(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    request = request_of(owner, {"mark": str(tmp_path / "marks")})
    made = RunFolder(tmp_path / "runs" / owner.uid / RUN)
    made.make(provider._plan(request, made), await files_of(request, None))
    await provider.cancel(owner, RUN)
    run = await provider.start(request)
    assert (run.state, run.message) == (RunState.CANCELLED, "cancelled before it began")
    assert not (tmp_path / "marks").exists()


@pytest.mark.criterion("S-H1")
def test_a_report_that_cannot_be_opened_at_the_moment_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="Too many open files"):
        RunFolder(tmp_path).last_words()


@pytest.mark.criterion("S-H1")
@pytest.mark.parametrize("left", ["a pipe", "a link", "a folder", "1 GiB"])
async def test_what_a_run_leaves_as_its_report_is_read_to_a_limit(
    tmp_path: Path, left: str
) -> None:
    place = tmp_path / "result"
    match left:
        case "a pipe":
            os.mkfifo(place)
        case "a link":
            (tmp_path / "other").write_text("{}")
            place.symlink_to(tmp_path / "other")
        case "a folder":
            place.mkdir()
        case _:
            place.touch()
            os.truncate(place, 2**30)
    async with asyncio.timeout(60):
        found = await asyncio.to_thread(RunFolder(tmp_path).last_words)
    assert len(found) == (LARGEST + 1 if left == "1 GiB" else 0)


async def test_secrets_are_on_the_disk_only_while_it_runs(
    bench: LocalBench, provider: LocalRuns, owner: RunOwner, folder: Path, tmp_path: Path
) -> None:
    await bench.put_secret("cloud", {"token": "hush", "other": "o"})
    go = tmp_path / "go"
    ref = SecretKeyRef(name="cloud", key="token")
    await provider.start(request_of(owner, {"wait_for": str(go)}, secrets=[ref]))
    kept = sorted(path.relative_to(folder) for path in (folder / "secrets").rglob("*"))
    assert kept == [Path("secrets/cloud"), Path("secrets/cloud/token")]
    for path in (folder, *folder.rglob("*")):  # noqa: ASYNC240
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    go.touch()
    await ended(provider, owner)
    assert list((folder / "secrets").iterdir()) == []


async def test_the_environment_of_the_manager_stays_with_it(
    tmp_path: Path, owner: RunOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANAGERS_TOKEN", "hush")
    command = ("/bin/sh", "-c", 'env > "$TASK_FOLDER/env"')
    options = LocalOptions(
        folder=tmp_path / "runs", command=command, environment={"REGION": "here"}
    )
    provider = LocalRuns(options)
    await provider.start(request_of(owner))
    await ended(provider, owner)
    names = {
        line.partition("=")[0]
        for line in (tmp_path / "runs" / owner.uid / RUN / "work" / "env").read_text().splitlines()
    }
    assert "REGION" in names
    assert "MANAGERS_TOKEN" not in names


async def test_a_program_that_is_not_there_is_a_failure_with_a_clear_message(
    tmp_path: Path, owner: RunOwner
) -> None:
    provider = LocalRuns(LocalOptions(folder=tmp_path / "runs", command=("/does/not/exist",)))
    await provider.start(request_of(owner))
    run = await ended(provider, owner)
    assert run.state is RunState.FAILED
    assert "could not be started: [Errno 2]" in run.message


@pytest.mark.parametrize("run_id", ["../up", "a/b", "", ".hidden"])
async def test_names_that_lead_elsewhere_are_refused(
    provider: LocalRuns, owner: RunOwner, run_id: str
) -> None:
    with pytest.raises(RunRefused):
        await provider.start(request_of(owner, run_id=run_id))


async def test_nothing_is_left_of_what_was_deleted(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    await provider.start(request_of(owner))
    await ended(provider, owner)
    await provider.delete(owner, RUN)
    await gone(provider, owner)
    assert list((tmp_path / "runs").iterdir()) == []


async def test_what_a_crash_left_half_made_is_removed_later(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for name in (".deleted-1", ".making-2", ".making-3"):
        (root / name).mkdir(parents=True)
    os.utime(root / ".making-2", (1, 1))
    LocalRuns(LocalOptions(folder=root))
    assert [path.name for path in root.iterdir()] == [".making-3"]


async def test_the_manager_holds_no_processes_of_its_own(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    """So that there is nothing to be ended with it, and nothing to be waited for."""
    marks, go = tmp_path / "marks", tmp_path / "go"
    await provider.start(request_of(owner, {"mark": str(marks)}, {"wait_for": str(go)}))
    await running(provider, owner)
    pid = supervisor_of(tmp_path / "runs" / owner.uid / RUN)
    assert parent_of(pid) != os.getpid()
    go.touch()
    await ended(provider, owner)


async def test_looking_does_not_keep_a_run_from_its_start(
    provider: LocalRuns, owner: RunOwner, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    request = request_of(owner, {"wait_for": str(go)})

    async def look() -> None:
        while not go.exists():
            await provider.get(owner, RUN)
            await asyncio.sleep(0)

    lookers = [asyncio.create_task(look()) for _ in range(3)]
    begun = await asyncio.gather(*(provider.start(request) for _ in range(4)))
    assert {run.state for run in begun} == {RunState.RUNNING}
    go.touch()
    await asyncio.gather(*lookers)
    assert (await ended(provider, owner)).state is RunState.SUCCEEDED
