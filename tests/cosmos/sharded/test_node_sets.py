"""Sets of nodes that several managers share: each is worked on, and its nodes are polled, by one at a time."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from apis.cosmos import CosmosFullNode
from apis.operations import ChangeFreeze
from ctrlruntime.api import find_condition
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.manager import Manager
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import slot_owners
from manager.controllers import change_freezes
from tests.cosmos.fullnode.harness import POD, NodeSetHarness, Place, pods
from tests.cosmos.fullnode.test_rollouts import attendance
from tests.cosmos.sharded.members import (
    USERS,
    assert_in_turn,
    member,
    name_of,
    owners,
    writers,
)
from tests.support.freezes import freeze_until, frozen
from tests.support.waiting import eventually
from tests.tenancy.manager_forkserver import ForkServer

ONE, TWO, THREE = USERS


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    real = request.param != "embedded"
    server = request.getfixturevalue("real_server") if real else None
    async with NodeSetHarness.with_members(tmp_path, USERS, server) as harness:
        made = await harness.place()
        yield made
        await made.clear()


def polled(manager: Manager) -> int:
    """How many nodes a manager polls."""
    found = manager.metrics.registry.collect()
    return sum(
        int(sample.value)
        for metric in found
        if metric.name == "cosmos_cache_nodes"
        for sample in metric.samples
    )


def remembered(manager: Manager) -> int:
    """Of how many sets a manager shows metrics."""
    return sum(
        int(sample.value)
        for metric in manager.metrics.registry.collect()
        if metric.name == "cosmos_fullnode_sets"
        for sample in metric.samples
    )


async def until_polled(manager: Manager, nodes: int) -> None:
    await eventually(lambda: polled(manager), lambda found: found == nodes, timeout=60)


@pytest.mark.criterion("SH-27")
async def test_each_set_is_one_members_and_goes_to_another_with_all_that_is_remembered(
    place: Place,
) -> None:
    harness, then = place.harness, owners([ONE], [ONE, TWO], [ONE, TWO, THREE])
    names = [name_of(then, user, place.namespace) for user in USERS]
    async with contextlib.AsyncExitStack() as stack:
        one = await stack.enter_async_context(member(harness, ONE, place.namespace))
        for name in names:
            await place.apply(place.node_set(name, replicas=1))
        for name in names:
            await place.settled(name)
        await until_polled(one, 3)
        mark = harness.mark()
        others = [
            await stack.enter_async_context(member(harness, user, place.namespace))
            for user in USERS[1:]
        ]
        for each in (one, *others):
            await until_polled(each, 1)
            assert remembered(each) <= 1
        await harness.silent()
        assert writers(harness, mark) == {}, "a hand-over writes nothing"
        for name in names:
            await place.edit(name, chain={"config": {"maxInboundPeers": 7}})
        for name in names:
            await place.settled(name)
        await harness.silent()
        found = writers(harness, mark)
        assert_in_turn(found)
        by_set = {
            name: {user for key, users in found.items() if name in key[2] for user in users}
            for name in names
        }
        assert by_set == {name: {user} for name, user in zip(names, USERS, strict=True)}


@pytest.mark.criterion("SH-28")
@pytest.mark.parametrize("goes", [False, True], ids=["one comes", "one goes"])
async def test_a_rollout_goes_on_at_another_member_within_its_budget(
    place: Place, goes: bool
) -> None:
    harness, then = place.harness, owners([ONE], [ONE, TWO])
    name = name_of(then, TWO, place.namespace)
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        await first.enter_async_context(member(harness, ONE, place.namespace))
        await place.apply(place.node_set(name, replicas=4))
        await place.settled(name)
        before = await place.uids()
        mark = harness.mark()
        async with attendance(place, 4) as seen:
            await place.edit(name, chain={"config": {"maxInboundPeers": 7}})
            await eventually(lambda: seen.order, timeout=60)
            await stack.enter_async_context(member(harness, TWO, place.namespace))
            if goes:
                await first.aclose()
            await eventually(
                place.uids,
                lambda uids: len(uids) == 4 and not {*uids.values()} & {*before.values()},
                timeout=120,
            )
        await place.settled(name)
        assert seen.fewest == 3
        assert sorted(seen.order) == pods(range(4), name), "each once"
        found = writers(harness, mark)
        assert_in_turn(found)
        assert any(users == [ONE, TWO] for users in found.values()), "it was handed over"


@pytest.mark.criterion("SH-28")
async def test_a_freeze_counts_and_ends_for_the_sets_of_all_members(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)
    harness, then = place.harness, owners([ONE], [ONE, TWO])
    names = [name_of(then, user, place.namespace) for user in (ONE, TWO)]
    await harness.environment.install_crds(ChangeFreeze)
    async with member(harness, ONE, place.namespace), member(harness, TWO, place.namespace):
        for name in names:
            await place.apply(place.node_set(name, replicas=1))
        for name in names:
            await place.settled(name)
        async with frozen(harness.client, reason="Audit", systems=["Cosmos"]) as freeze:
            await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
            for name in names:
                await place.edit(name, podTemplate={"image": "gaia:v2"})
            await freeze_until(harness.client, freeze, lambda each: each.status.held.cosmos == 2)
        for name in names:
            await place.until(lambda each: each.status.rollout.outdated == 0, name)
            found = await place.settled(name)
            assert found.status.waiting is None


@pytest.mark.criterion("SH-27")
@pytest.mark.parametrize("alone", [False, True], ids=["member", "alone"])
async def test_a_set_that_no_manager_works_on_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    """Until one does: another member, or a manager that shares with none."""
    monkeypatch.setattr(slot_owners, "GRACE", 0.5)
    monkeypatch.setattr(slot_owners, "PERIOD", 0.1)
    mine, other = frozenset(range(32)), frozenset(range(32, 64))
    owned = dict.fromkeys(mine, ONE) | dict.fromkeys(other, TWO)
    names = [name_of(owned, user, place.namespace) for user in (ONE, TWO)]

    def shows(status: str) -> Callable[[CosmosFullNode], bool]:
        def so(found: CosmosFullNode) -> bool:
            condition = find_condition(found.status.conditions, slot_owners.SLOTS_OWNED)
            return condition is not None and condition.status == status

        return so

    async with member(place.harness, ONE, place.namespace, mine):
        for name in names:
            await place.apply(place.node_set(name, replicas=1))
        await place.until(shows("False"), names[1])
        found = await place.settled(names[0])
        assert find_condition(found.status.conditions, slot_owners.SLOTS_OWNED) is None
        assert await place.names(POD) == pods([0], names[0])
        if not alone:
            async with member(place.harness, TWO, place.namespace, other):
                await place.settled(names[1])
                await place.until(shows("True"), names[1])
    if alone:
        # The Lease that members hold together would run out after a while; one who knows that none is left deletes it.
        await place.harness.client.delete(LEASE, "tests", namespace=place.namespace)
        async with member(place.harness, TWO, place.namespace, shares=False):
            await place.until(shows("True"), names[1])
            found = await place.settled(names[0])
            assert find_condition(found.status.conditions, slot_owners.SLOTS_OWNED) is None


@pytest.mark.criterion("SH-29")
async def test_a_member_that_is_killed_in_a_rollout_is_replaced(
    place: Place, forkserver: ForkServer
) -> None:
    """Seconds: two processes start, and a Lease of 15 s runs out."""
    harness = place.harness
    then = owners([ONE], [ONE, TWO])
    name = name_of(then, TWO, place.namespace)

    async def fork(user: str) -> ChildProcess:
        kubeconfig = str(harness.environment.kubeconfig(user))
        command = ["run", "--system", "cosmos", "--shards", "--shard-name", user]
        command += ["--kubeconfig", kubeconfig, "--metrics-bind-address", "0"]
        command += ["--health-probe-bind-address", "0", "--node-sidecar-image", "manager:v1"]
        command += ["--node-poll-seconds", "0.2"]
        command += ["--leader-elect", "--leader-election-namespace", place.namespace]
        return await forkserver.start(command, log=harness.folder / f"{user}.log")

    def holds(user: str) -> bool:
        log = harness.folder / f"{user}.log"
        return log.exists() and "Slots are held" in log.read_text()

    one = await fork(ONE)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(one.stop)
        await eventually(lambda: holds(ONE), bool, timeout=60)
        two = await fork(TWO)
        stack.push_async_callback(two.stop)
        await eventually(lambda: holds(TWO), bool, timeout=60)
        await place.apply(place.node_set(name, replicas=4))
        await place.settled(name)
        before, mark = await place.uids(), harness.mark()
        async with attendance(place, 4) as seen:
            await place.edit(name, chain={"config": {"maxInboundPeers": 7}})
            await eventually(lambda: seen.order, timeout=60)
            two.kill()
            await eventually(
                place.uids,
                lambda uids: len(uids) == 4 and not {*uids.values()} & {*before.values()},
                timeout=120,
            )
        await place.settled(name)
        assert seen.fewest == 3
        assert sorted(seen.order) == pods(range(4), name), "each once"
        assert_in_turn(writers(harness, mark))


@pytest.fixture
async def forkserver() -> AsyncIterator[ForkServer]:
    async with ForkServer.running() as made:
        yield made
