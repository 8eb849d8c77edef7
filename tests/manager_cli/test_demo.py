"""`manager demo`, which `make run` starts: it converges, and leaves no process behind."""

from __future__ import annotations

import signal
from pathlib import Path

import aiohttp
import pytest
import yaml

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


async def test_scale_mode_with_two_data_planes_from_nothing_to_ready(tmp_path: Path) -> None:
    arguments = ("demo", "--planes", "2", "--rows", "3", "--folder", tmp_path, "--exit-when-ready")
    async with await Program.start(*arguments) as program:
        assert await program.wait(240) == 0, program.output
        assert await program.left() == []
    for name in ("plane-0", "plane-1"):
        assert f"{name}: 3 of 3 tenants ready, 0 failed" in program.output
    assert "everything is ready" in program.output
    assert program.output.endswith("stopping ...\neverything is stopped.\n")


async def test_the_console_of_the_demo_shows_its_tenants(tmp_path: Path) -> None:
    async with await Program.start("demo", "--rows", "2", "--folder", tmp_path) as program:
        address = (await program.prints("console:")).split()[1]
        await program.prints("all 4 tenants are ready")
        kubeconfig = yaml.safe_load((tmp_path / "admin.kubeconfig").read_text())
        headers = {"Authorization": f"Bearer {kubeconfig['users'][0]['user']['token']}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.get(f"{address}objects/tenants") as answer:
                assert (answer.status, "tenant-01-web-app" in await answer.text()) == (200, True)
            async with session.get(f"{address}queues") as answer:
                assert "tenantregistry" in await answer.text()
            async with session.get(address, headers={"Authorization": "Bearer nobody"}) as answer:
                assert answer.status == 401
        program.send(signal.SIGINT)
        assert await program.wait(30) == 0
        assert await program.left() == []


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
