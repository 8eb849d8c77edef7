"""`manager run --slots` and `--shards`: processes that share the tenants of one server, with the rights of config/sharded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Mark
from tests.manifests.installation import NAMESPACE as SYSTEM
from tests.manifests.installation import add, kustomized
from tests.tenancy.harness import TenancyHarness, config_map
from tests.tenancy.manager_forkserver import ForkServer
from tests.tenancy.members import FIRST, SECOND, USERS, Members, kind_of, named


async def fork(
    harness: TenancyHarness, forkserver: ForkServer, user: str, *flags: str
) -> ChildProcess:
    """Start `manager run` as a user, beside others."""
    command = ["run", "--system", "tenancy", "--allow-sqlite", str(harness.folder)]
    command += ["--kubeconfig", str(harness.environment.kubeconfig(user)), "--status-period", "0.1"]
    command += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
    command += ["--leader-elect", "--leader-election-namespace", SYSTEM, *flags]
    return await forkserver.start(command, log=harness.folder / f"{user}.log")


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[Members]:
    async with TenancyHarness.start(tmp_path, manager=False, users=USERS) as harness:
        rights = [each for each in kustomized("sharded") if "shards" in each["metadata"]["name"]]
        await add(harness.client, rights, users=USERS[1:])
        yield Members(harness)


async def fill(harness: TenancyHarness, uids: list[str]) -> None:
    harness.rows(*uids)
    await harness.template(
        "app", configMaps=[config_map("cm", "{{ .uid }}-cm", {"k": "{{ .planId }}"})]
    )
    await harness.ready(*(f"{uid}-app" for uid in uids))


def wrote(members: Members, user: str, since: Mark | None = None) -> set[str]:
    """Return the names of the objects of tenants that a manager wrote."""
    return {each.name for each in members.writes(user, since) if kind_of(each) == "configmaps"}


@contextlib.asynccontextmanager
async def stopped(*processes: ChildProcess) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await asyncio.gather(*(each.stop() for each in processes if each.returncode is None))


@pytest.mark.criterion("SH-21")
async def test_two_processes_with_fixed_slots_share_the_tenants_and_a_third_is_refused(
    members: Members, forkserver: ForkServer
) -> None:
    """Seconds: three processes start."""
    harness = members.harness
    own = [named(slots, harness.namespace, "-app", 3) for slots in (FIRST, SECOND)]
    await harness.registry()
    one = await fork(harness, forkserver, "manager", "--slots", "0-31")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(stopped(one))
        await harness.registry_condition(
            "SlotsOwned", "False", "SlotsWithoutOwner", message="slots 32-63 have no owner"
        )
        other = await fork(harness, forkserver, "member", "--slots", "32-63")
        await stack.enter_async_context(stopped(other))
        await fill(harness, [*own[0], *own[1]])
        assert wrote(members, "manager") == {f"{uid}-cm" for uid in own[0]}
        assert wrote(members, "member") == {f"{uid}-cm" for uid in own[1]}
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")
        await members.silent()
        log = harness.folder / "third"
        log.mkdir()
        third = await forkserver.start(
            [
                *("run", "--system", "tenancy", "--metrics-bind-address", "0"),
                *("--kubeconfig", str(harness.environment.kubeconfig("member"))),
                *("--health-probe-bind-address", "0", "--leader-elect"),
                *("--leader-election-namespace", SYSTEM, "--slots", "31-40"),
            ],
            log=log / "log",
        )
        assert await third.wait() != 0
        text = (log / "log").read_text()
        assert "SlotsTaken" in text
        assert "31" in text
        assert one.returncode is None
        assert other.returncode is None


@pytest.mark.criterion("SH-24")
async def test_members_come_and_go_and_each_tenant_is_written_by_one_at_a_time(
    members: Members, forkserver: ForkServer
) -> None:
    """Seconds: two processes start, and new members wait for others for 2 s."""
    harness = members.harness
    uids = [f"u{number}" for number in range(12)]
    await harness.registry()
    one = await fork(harness, forkserver, "manager", "--shards", "--shard-name", "one")
    other = await fork(harness, forkserver, "member", "--shards", "--shard-name", "other")
    async with stopped(one, other):
        await harness.eventually(lambda: _held(harness, "one"))
        await harness.eventually(lambda: _held(harness, "other"))
        await fill(harness, uids)
        there = {f"{uid}-cm" for uid in uids}
        both = wrote(members, "manager"), wrote(members, "member")
        assert both[0] | both[1] == there
        assert not both[0] & both[1]
        assert all(both)
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")
        await members.silent()
        mark = harness.mark()
        await one.stop()
        for uid in uids:
            harness.row(uid, plan="pro")
        await harness.eventually(lambda: _all(members, there, mark))
        await harness.ready(*(f"{uid}-app" for uid in uids))
        assert wrote(members, "manager", mark) == set()
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")


async def _all(members: Members, there: set[str], mark: Mark) -> bool:
    return wrote(members, "member", mark) == there


async def _held(harness: TenancyHarness, name: str) -> bool:
    """Whether a member has slots, by its log."""
    user = {"one": "manager", "other": "member"}[name]
    log = harness.folder / f"{user}.log"
    return log.exists() and "Slots are held" in log.read_text()
