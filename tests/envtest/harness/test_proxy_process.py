"""The proxy as its own process, steered over its control endpoint."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest

from ctrlruntime.envtest.process import ChildProcess, ProcessFailed
from ctrlruntime.envtest.proxy import Fail, Mark, Match, ProxyControl
from ctrlruntime.envtest.users import User, write_token_file
from tests.support.waiting import eventually

from .upstream import Upstream

PODS = "/api/v1/namespaces/ns/pods"


@pytest.fixture
async def child(upstream: Upstream, tmp_path: Path) -> AsyncIterator[ChildProcess]:
    write_token_file(tmp_path / "tokens.csv", [User(name="alice", token="t-alice")])
    process = await ChildProcess.start(
        [sys.executable, "-m", "ctrlruntime.envtest.proxy", "--upstream", upstream.url,
         "--tokens", str(tmp_path / "tokens.csv"), "--export", str(tmp_path / "log.json")],
        log=tmp_path / "proxy.log",
    )  # fmt: skip
    yield process
    await process.stop()


async def test_log_and_rules_are_reached_over_the_control_endpoint(
    child: ChildProcess, session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    url = child.facts["url"]
    async with ProxyControl(child.facts["control"], child.facts["control_token"]) as control:
        await (await session.get(f"{url}{PODS}")).read()
        mark = await control.mark()
        rule = await control.add(Fail(429, retry_after=1), Match(verb="create"))
        response = await session.post(f"{url}{PODS}", data=b"{}")
        await response.read()

        assert response.status == 429
        since = await control.since(mark)
        assert (since.writes, since.reads) == (1, 0)
        assert [e.injected for e in await control.entries(mark)] == ["Fail"]
        assert [(r.id, r.fired) for r in await control.rules()] == [(rule.id, 1)]
        await control.remove(rule)
        assert await control.rules() == []

    assert await child.stop(grace=60) == 0
    exported = msgspec.json.decode((tmp_path / "log.json").read_bytes(), type=Mark)
    assert sum(row.count for row in exported.rows) == 2


async def test_control_needs_its_token_and_reports_what_is_wrong(child: ChildProcess) -> None:
    async with ProxyControl(child.facts["control"], "wrong") as control:
        with pytest.raises(ValueError, match="control token"):
            await control.mark()
    headers = {"Authorization": f"Bearer {child.facts['control_token']}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        bad = await http.post(child.facts["control"] + "/rules", data=b'{"match":{"verbs":"x"}}')
        assert bad.status == 400
        assert "verbs" in await bad.text()


async def test_a_child_that_fails_to_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed, match="no http:// or https:// URL"):
        await ChildProcess.start(
            [sys.executable, "-m", "ctrlruntime.envtest.proxy", "--upstream", "nonsense"],
            log=tmp_path / "log",
        )


@pytest.mark.criterion("EN-01")
async def test_children_die_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from ctrlruntime.envtest.process import ChildProcess\n"
        "async def main():\n"
        "    child = await ChildProcess.start([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " log=Path(sys.argv[1]), ready=False)\n"
        "    print(child.pid, flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(tmp_path / "log"),
        stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    try:
        await eventually(lambda: not _runs(pid))  # the kernel kills it at once
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
