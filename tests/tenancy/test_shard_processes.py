"""`manager run --slots` and `--shards`: processes that share the tenants of one server, with the rights of config/sharded."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from apis.tenancy import TenantTemplate
from ctrlruntime.clock import Sources, replaced
from ctrlruntime.envtest.backends import KubeApiserverBackend
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import LEASES, Cut, CutWatch, Delay, Mark, Match
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding.leases import ASSIGNED
from manager.cli import main
from tests.audit.request_recorder import ANY
from tests.manifests.installation import NAMESPACE as SYSTEM
from tests.manifests.installation import add, kustomized
from tests.real_servers import NO_SERVER, is_there
from tests.support.manager_harness import LIMIT
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, REGISTRY, TenancyHarness, config_map
from tests.tenancy.manager_forkserver import MANAGER, ForkServer
from tests.tenancy.members import FIRST, SECOND, USERS, Members, changed_in_turn, kind_of, named
from tests.tenancy.test_hooks import JOB, end, hook

ALL = (*USERS, "third", "fourth")
AHEAD = 30.0
"""Seconds that a clock is ahead of the others'."""


def skewed(args: Sequence[str]) -> None:
    """Run `manager` with a clock that is ahead."""
    with replaced(Sources(wall=lambda: time.time() + AHEAD)):
        main(args)


async def fork(
    harness: TenancyHarness,
    forkserver: ForkServer,
    user: str,
    *flags: str,
    entry: str = MANAGER,
) -> ChildProcess:
    """Start `manager run` as a user, beside others."""
    command = ["run", "--system", "tenancy", "--allow-sqlite", str(harness.folder)]
    command += ["--kubeconfig", str(harness.environment.kubeconfig(user)), "--status-period", "0.1"]
    command += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
    command += ["--leader-elect", "--leader-election-namespace", SYSTEM, *flags]
    return await forkserver.start(command, log=harness.folder / f"{user}.log", entry=entry)


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[Members]:
    async with TenancyHarness.start(tmp_path, manager=False, users=ALL) as harness:
        rights = [each for each in kustomized("sharded") if "shards" in each["metadata"]["name"]]
        await add(harness.client, rights, users=ALL[1:])
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
    one, other = await sharing(harness, forkserver)
    async with stopped(one, other):
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


async def sharing(harness: TenancyHarness, forkserver: ForkServer) -> list[ChildProcess]:
    """Start two members. Each has got slots when this returns."""
    pairs = (("manager", "one"), ("member", "other"))
    flags = ("--shards", "--shard-name")
    held = _times(harness, "one"), _times(harness, "other")
    made = [await fork(harness, forkserver, user, *flags, name) for user, name in pairs]
    for (_, name), times in zip(pairs, held, strict=True):
        await harness.eventually(lambda: _held(harness, name, times + 1), timeout=60)  # noqa: B023
    return made


def _times(harness: TenancyHarness, name: str) -> int:
    """Return how often a member got slots, by its log."""
    user = {"one": "manager", "other": "member"}.get(name, name)
    log = harness.folder / f"{user}.log"
    return log.read_text().count("Slots are held") if log.exists() else 0


async def _all(members: Members, there: set[str], mark: Mark) -> bool:
    return wrote(members, "member", mark) == there


async def _held(harness: TenancyHarness, name: str, times: int = 1) -> bool:
    """Whether a member has got slots so often, by its log."""
    return _times(harness, name) >= times


@pytest.mark.criterion("SH-33")
async def test_a_leader_that_is_stopped_beyond_its_lease_writes_nothing_when_it_goes_on(
    members: Members, forkserver: ForkServer
) -> None:
    """Half a minute: a Lease runs out. The clock of the other is ahead, which nothing depends on."""
    harness = members.harness
    uids = [f"u{number}" for number in range(8)]
    there = {f"{uid}-cm" for uid in uids}
    await harness.registry()
    one = await fork(harness, forkserver, "manager", "--shards", "--shard-name", "one")
    await harness.eventually(lambda: _held(harness, "one"))
    ahead = f"{__name__}:{skewed.__name__}"
    flags = ("--shards", "--shard-name", "other")
    other = await fork(harness, forkserver, "member", *flags, entry=ahead)
    async with stopped(one, other):
        await harness.eventually(lambda: _held(harness, "other"))
        await fill(harness, uids)
        mark = harness.mark()
        for uid in uids:
            harness.row(uid, plan="pro")
        await harness.eventually(lambda: _some(members, mark))
        os.killpg(one.pid, signal.SIGSTOP)
        mark = harness.mark()
        for uid in uids:
            harness.row(uid, plan="top")
        await harness.eventually(lambda: _all(members, there, mark))
        await harness.ready(*(f"{uid}-app" for uid in uids))
        mark = harness.mark()
        os.killpg(one.pid, signal.SIGCONT)
        assert await one.wait() != 0
        assert members.writes("manager", mark) == []
        assert other.returncode is None
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")


async def _some(members: Members, mark: Mark) -> bool:
    return bool(wrote(members, "manager", mark))


CUT_OFF = {
    "from the server": (Match(user="member"), (Cut(), CutWatch())),
    "from its Leases": (Match(user="member", resource=LEASES, verb="write"), (Cut(),)),
}


@pytest.mark.criterion("SH-33")
@pytest.mark.parametrize("off", CUT_OFF)
async def test_a_member_that_is_cut_off_writes_nothing_once_another_has_its_slots(
    members: Members, forkserver: ForkServer, off: str
) -> None:
    """Half a minute: a Lease runs out. One that cannot renew alone could write all the time."""
    harness = members.harness
    proxy = harness.environment.proxy
    uids = [f"u{number}" for number in range(8)]
    await harness.registry()
    one, other = await sharing(harness, forkserver)
    async with stopped(one, other):
        await fill(harness, uids)
        await members.silent()
        before = wrote(members, "manager")
        match, actions = CUT_OFF[off]
        rules = [proxy.add(each, match, times=None) for each in actions]
        mark = harness.mark()
        taken = {f"{uid}-cm" for uid in uids} - before
        changing = asyncio.create_task(_change_always(harness, uids))
        try:
            await harness.eventually(lambda: _wrote_one_of(members, taken, mark), timeout=60)
            since = harness.mark()
            assert await asyncio.wait_for(other.wait(), LIMIT) != 0
        finally:
            changing.cancel()
            await asyncio.wait([changing])
        for each in rules:
            proxy.remove(each)
        for uid in uids:
            harness.row(uid, plan="pro")
        await harness.eventually(lambda: _carried_out(harness, uids))
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")
        assert members.writes("member", since) == []


async def _change_always(harness: TenancyHarness, uids: Sequence[str]) -> None:
    """Give whoever may write something to write, all the time."""
    for number in itertools.count():
        for uid in uids:
            harness.row(uid, plan=f"p{number}")
        await asyncio.sleep(0.5)


async def _wrote_one_of(members: Members, names: set[str], mark: Mark) -> bool:
    return bool(wrote(members, "manager", mark) & names)


@pytest.mark.criterion("SH-33")
async def test_a_slow_member_keeps_its_slots_and_a_hook_outlasts_members_that_come(
    members: Members, forkserver: ForkServer
) -> None:
    """Every request of one takes a second longer. The hook's Job is made once, whoever looks after its tenant."""
    harness = members.harness
    harness.environment.proxy.add(Delay(seconds=1.0), Match(user="member"), times=None)
    uids = [f"u{number}" for number in range(8)]
    await harness.registry()
    first = await fork(harness, forkserver, "manager", "--shards", "--shard-name", "one")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(stopped(first))
        made = config_map("cm", "{{ .uid }}-cm", {"k": "{{ .planId }}"})
        harness.rows(*uids)
        await harness.template("app", configMaps=[made], hooks=[hook("BeforeCreate")])
        for uid in uids:
            await harness.eventually(lambda uid=uid: harness.get(JOB, f"{uid}-hook"))  # type: ignore[misc]
        other = await fork(harness, forkserver, "member", "--shards", "--shard-name", "other")
        await stack.enter_async_context(stopped(other))
        await harness.eventually(lambda: _held(harness, "other"), timeout=60)
        for uid in uids:
            await end(Fleet(harness, harness.namespace), f"{uid}-hook")
        await harness.ready(*(f"{uid}-app" for uid in uids), timeout=120)
        written = [each for user in USERS[1:] for each in members.writes(user)]
        assert sorted(each.name for each in written if kind_of(each) == "jobs") == [
            f"{uid}-hook" for uid in uids
        ]
        both = wrote(members, "manager"), wrote(members, "member")
        assert both[0] | both[1] == {f"{uid}-cm" for uid in uids}
        assert not both[0] & both[1]
        assert all(both)
        for process in (
            first,
            other,
        ):  # one that the machine let stand still for its term has to end
            assert process.returncode is None or "not renewed in time" in process.log_tail(200), (
                process.log_tail()
            )


@pytest.mark.criterion("SH-33")
async def test_a_rollout_and_a_held_deletion_go_on_as_members_come_and_go(
    members: Members, forkserver: ForkServer
) -> None:
    """From one to four in the midst of a rollout with `maxSkew`; to one, four and two in the midst of a deletion that is held."""
    harness = members.harness
    uids = [f"u{number}" for number in range(12)]
    tenants = [f"{uid}-app" for uid in uids]
    harness.rows(*uids)
    await harness.registry()
    first = await fork(harness, forkserver, "manager", "--shards")
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(stopped(first))
        await put_template(harness, "v")
        await harness.ready(*tenants)
        mark = harness.mark()
        await put_template(harness, "w")

        async def join(*users: str) -> list[ChildProcess]:
            """Start members, and wait until each has slots."""
            times = {user: _times(harness, user) for user in users}
            made = []
            for user in users:
                each = await fork(harness, forkserver, user, "--shards", "--shard-name", user)
                await stack.enter_async_context(stopped(each))
                made.append(each)
            for user in users:
                await harness.eventually(
                    lambda user=user: _held(harness, user, times[user] + 1),  # type: ignore[misc]
                    timeout=60,
                )
            return made

        live = [first, *await join(*ALL[2:])]
        for uid in uids:
            await harness.eventually(
                lambda uid=uid: harness.get(CONFIG_MAP, f"{uid}-cm"),  # type: ignore[misc]
                lambda seen: seen["data"]["k"] == "w",
            )
        await harness.ready(*tenants)
        assert sorted(changed_in_turn(members.requests(mark))) == sorted(tenants)
        await members.silent()

        mark = harness.mark()
        harness.sql("DELETE FROM tenants")
        await harness.registry_condition("DeletionsHeld", "True")
        for keep, users in ((1, ALL[1:4]), (2, ())):
            await asyncio.gather(*(each.stop() for each in live[:-keep]))
            live = [*live[-keep:], *await join(*users)]
            await harness.registry_condition("SlotsOwned", "True", "AllOwned")
            await harness.registry_condition("DeletionsHeld", "True")
            await members.silent()
        assert [each for each in members.requests(mark) if each.verb == "delete"] == []
        harness.rows(*uids)
        await harness.registry_condition("DeletionsHeld", "False")
        await harness.ready(*tenants)


async def put_template(harness: TenancyHarness, value: str) -> None:
    """Write a template that changes one tenant at a time."""
    content = {"configMaps": [config_map("cm", "{{ .uid }}-cm", {"k": value})]}
    metadata = {"name": "app", "namespace": harness.namespace}
    spec = {"registryId": REGISTRY, "rollout": {"maxSkew": 1}, **content}
    head = {"apiVersion": TenantTemplate.gvk().api_version, "kind": "TenantTemplate"}
    await harness.put(TenantTemplate.mapping(), {**head, "metadata": metadata, "spec": spec})


@pytest.mark.criterion("SH-33")
async def test_all_that_start_again_at_once_write_nothing_and_an_older_assignment_ends_them(
    members: Members, forkserver: ForkServer
) -> None:
    harness = members.harness
    uids = [f"u{number}" for number in range(8)]
    await harness.registry()

    both = await sharing(harness, forkserver)
    async with stopped(*both):
        await fill(harness, uids)
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")
        await members.silent()
    mark = harness.mark()
    both = await sharing(harness, forkserver)
    async with stopped(*both):
        await members.silent()
        assert {kind_of(each) for user in USERS[1:] for each in members.writes(user, mark)} <= {
            "tenantregistries"  # SlotsOwned was False in between
        }
        lease = await harness.client.get(LEASE, "manager-slots", namespace=SYSTEM)
        assigned = json.loads(lease["metadata"]["annotations"][ASSIGNED])
        older = json.dumps({**assigned, "epoch": assigned["epoch"] - 1})
        patch = {"metadata": {"annotations": {ASSIGNED: older}}}
        await harness.client.patch(LEASE, "manager-slots", patch, namespace=SYSTEM)
        ended = await asyncio.wait_for(asyncio.gather(*(each.wait() for each in both)), LIMIT)
        assert all(ended)
    both = await sharing(harness, forkserver)
    async with stopped(*both):
        for uid in uids:
            harness.row(uid, plan="pro")
        await harness.eventually(lambda: _carried_out(harness, uids))
        await harness.registry_condition("SlotsOwned", "True", "AllOwned")


async def _carried_out(harness: TenancyHarness, uids: list[str]) -> bool:
    found = [await harness.get(CONFIG_MAP, f"{uid}-cm") for uid in uids]
    return all(each is not None and each["data"]["k"] == "pro" for each in found)


@pytest.mark.criterion("SH-33")
@pytest.mark.matrix
@pytest.mark.embedded("has a real server of its own")
async def test_members_of_a_server_that_is_restored_from_an_older_backup_end_and_make_all_anew(
    tmp_path: Path, forkserver: ForkServer
) -> None:
    """Half a minute, on a real server of its own: etcd goes back to before a change and a new row."""
    if not is_there():
        pytest.skip(NO_SERVER)
    settings = {"apiserver_flags": {"enable-priority-and-fairness": "false"}}
    # A server that has just begun answers before it has read the roles, and refuses everything for a moment.
    async with TenancyHarness.start(
        tmp_path,
        manager=False,
        users=ALL,
        denied=(ANY,),
        backend="kube-apiserver",
        server=settings,
    ) as harness:
        members = Members(harness)
        rights = [each for each in kustomized("sharded") if "shards" in each["metadata"]["name"]]
        await add(harness.client, rights, users=ALL[1:])
        backend = harness.environment.backend
        assert isinstance(backend, KubeApiserverBackend)
        uids = [f"u{number}" for number in range(8)]
        await harness.registry()
        both = await sharing(harness, forkserver)
        async with stopped(*both):
            await fill(harness, uids)
            await harness.registry_condition("SlotsOwned", "True", "AllOwned")
            await members.silent()
            kept = {uid: await harness.get(CONFIG_MAP, f"{uid}-cm") for uid in uids}
            await backend.save(tmp_path / "backup")
            for uid in uids:
                harness.row(uid, plan="pro")
            harness.row("new", plan="pro")
            await harness.eventually(lambda: _carried_out(harness, [*uids, "new"]))
            await backend.restore(tmp_path / "backup")
            ended = await asyncio.wait_for(asyncio.gather(*(each.wait() for each in both)), 60)
            assert all(ended)
        both = await sharing(harness, forkserver)
        async with stopped(*both):
            await harness.eventually(lambda: _carried_out(harness, [*uids, "new"]))
            await harness.registry_condition("SlotsOwned", "True", "AllOwned")
            await members.silent()
            for uid, before in kept.items():
                after = await harness.get(CONFIG_MAP, f"{uid}-cm")
                assert before is not None
                assert after is not None
                assert after["metadata"]["uid"] == before["metadata"]["uid"]
