"""`manager demo`, which `make run` starts: it converges, and leaves no process behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.manager_cli.program import Program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]


async def test_from_nothing_to_ready(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    arguments = ("demo", "--rows", "3", "--folder", folder, "--exit-when-ready")
    async with await Program.start(*arguments) as program:
        assert await program.wait() == 0, program.output
        assert await program.left() == []
    assert "all 6 tenants are ready" in program.output
    assert f"export KUBECONFIG={folder}/admin.kubeconfig" in program.output
    assert program.output.endswith("stopping ...\neverything is stopped.\n")


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("starting an API server", signal.SIGINT),
        ("starting an API server", signal.SIGKILL),
        ("kubectl describe", signal.SIGTERM),
        ("tenants ready", signal.SIGINT),
        ("tenants ready", signal.SIGKILL),
    ],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else value.replace(" ", "-"),
)
async def test_ended_at_any_moment_it_leaves_nothing_behind(
    moment: str, number: signal.Signals, tmp_path: Path
) -> None:
    async with await Program.start("demo", "--rows", "3", "--folder", tmp_path) as program:
        await program.prints(moment)
        program.send(number)
        code = await program.wait(30)
        assert await program.left() == []
    if number is signal.SIGKILL:
        assert code == -signal.SIGKILL
    else:
        assert code == 0, program.output
        assert program.lines[-1] == "everything is stopped.\n"


async def test_two_in_one_folder_do_not_meet(tmp_path: Path) -> None:
    arguments = ("demo", "--rows", "1", "--folder", tmp_path)
    async with await Program.start(*arguments) as first:
        await first.prints("starting an API server")
        async with await Program.start(*arguments) as second:
            assert await second.wait() == 1
        assert second.output.startswith(f"Error: another demo runs in {tmp_path}")
        await first.prints("all 2 tenants are ready")
        first.send(signal.SIGTERM)
        assert await first.wait() == 0
