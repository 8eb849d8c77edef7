"""What people do to the Leases of members, and what else befalls a whole group: no slot ever has two owners, and each has one again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import LEASES, Delay, Fail, Match
from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding.leases import ASSIGNED
from ctrlruntime.sharding.options import GROUP_LABEL
from ctrlruntime.sharding.shards import MembershipLost
from ctrlruntime.sharding.slots import format_slots, parse_slots
from tests.sharding.shard_group import NAMESPACE, ShardGroup, shard_group
from tests.support.waiting import eventually

SHORT = ElectionOptions(lease_duration=8.0, renew_deadline=7.0, retry_period=0.3)
"""Leases that a test waits for."""
pytestmark = pytest.mark.criterion("SH-41")


@pytest.fixture
async def client(config: Config) -> AsyncIterator[Client]:
    async with Client.connect(config) as connected:
        yield connected


async def assign(
    group: ShardGroup, client: Client, slot: int, owner: str, *, epochs: int = 1, **record: int
) -> None:
    """Give a slot to another as a person does, who does not write who had it before."""

    async def written() -> dict[str, Any]:
        """The leader writes once more after a hand-over, which would be overwritten."""
        lease = await group.assignment(client)
        return dict(json.loads(lease["metadata"]["annotations"][ASSIGNED]))

    found = await eventually(
        written, lambda seen: not any(each.get("former") for each in seen["owners"])
    )
    for each in found["owners"]:
        each["slots"] = format_slots(parse_slots(each["slots"]) - {slot})
    found["owners"] = [each for each in found["owners"] if each["slots"]]
    found["epoch"] += epochs
    found["owners"].append({"slots": str(slot), "owner": owner, "since": found["epoch"], **record})
    await group.put(client, json.dumps(found))


async def unlabel(client: Client, name: str) -> None:
    """Take the label of the group off a Lease."""
    patch = {"metadata": {"labels": {GROUP_LABEL: None}}}
    await client.patch(LEASE, name, patch, namespace=NAMESPACE)


@pytest.mark.parametrize("epochs", [0, 1], ids=["the same epoch", "another epoch"])
async def test_a_slot_that_a_person_gives_to_another_waits_for_the_passes_of_its_owner(
    config: Config, client: Client, epochs: int
) -> None:
    async with shard_group(config) as group:
        a = group.join("a", leads=True)
        b = group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        slot = min(a.shards.held)
        a.passes.clear()
        await assign(group, client, slot, "b", epochs=epochs)
        await group.until(lambda: slot not in a.shards.held)
        await group.until(lambda: any(slot in slots for _, slots in b.log[2:]))
        assert a.shards.may_write(slot)
        a.passes.set()
        await group.until(lambda: {*group.shares().values()} == {32})
        assert [*a.errors, *b.errors] == []


async def test_a_slot_that_a_person_gives_to_a_member_that_never_was_is_a_members_again(
    config: Config, client: Client
) -> None:
    """The Lease that is not there may have been deleted. Wait for its term, at most 120 s."""
    async with shard_group(config, SHORT) as group:
        a = group.join("a", leads=True)
        b = group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        a.leads = False
        await assign(group, client, min(b.shards.held), "ghost")
        await group.until(lambda: group.shares() == {"a": 32, "b": 31})
        a.leads = True
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})


@pytest.mark.parametrize("which", ["a", "b"], ids=["of the leader", "of a member"])
async def test_a_lease_that_a_person_deletes_is_made_anew_or_ends_its_member(
    config: Config, client: Client, which: str
) -> None:
    """Seconds where it ends: one that is gone may be that of a server that was restored. It is started again."""
    async with shard_group(config, SHORT) as group:
        group.join("a", leads=True)
        group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        name = f"shop-shard-{which}"
        before = await client.get(LEASE, name, namespace=NAMESPACE)
        await client.delete(LEASE, name, namespace=NAMESPACE)
        group.join("c")
        evenly = [21, 21, 22]
        concerned = group.members[which]
        await group.until(lambda: concerned.errors or sorted(group.shares().values()) == evenly)
        if concerned.errors:
            await group.leave(which, release=False)
            group.join(which, leads=concerned.leads)
        await group.until(lambda: sorted(group.shares().values()) == evenly)
        after = await client.get(LEASE, name, namespace=NAMESPACE)
        assert after["metadata"]["uid"] != before["metadata"]["uid"]


@pytest.mark.parametrize("which", ["shop-slots", "shop-shard-b"], ids=["assignment", "member"])
async def test_a_lease_without_the_label_of_its_group_gets_it_again(
    config: Config, client: Client, which: str
) -> None:
    async with shard_group(config) as group:
        group.join("a", leads=True)
        b = group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        await unlabel(client, which)
        group.join("c")
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])
        lease = await client.get(LEASE, which, namespace=NAMESPACE)
        assert lease["metadata"]["labels"][GROUP_LABEL] == "shop"
        assert not b.errors


async def test_all_members_that_are_killed_and_started_again_share_the_slots(
    config: Config,
) -> None:
    """Which each has depends on whose Lease runs out first. Wait for that, at most 120 s."""
    async with shard_group(config, SHORT) as group:
        for name in ("a", "b", "c"):
            group.join(name, leads=name == "a")
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])
        for name in ("a", "b", "c"):
            await group.leave(name, release=False)
        for name in ("c", "b", "a"):
            group.join(name, leads=name == "c")
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])


async def test_from_one_member_to_none_and_to_one_of_another_name(config: Config) -> None:
    """Wait for the new member to have all slots, at most 120 s."""
    async with shard_group(config) as group:
        group.join("a", leads=True)
        await group.until(lambda: group.shares() == {"a": 64})
        await group.leave("a")
        b = group.join("b", leads=True)
        await group.until(lambda: group.shares() == {"b": 64})
        await group.until(lambda: b.shards.owned.is_whole)


async def test_members_of_a_newer_version_are_read_without_what_is_new(
    config: Config, client: Client
) -> None:
    async with shard_group(config) as group:
        a = group.join("a", leads=True)
        b = group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        edited = a.shards.owned.epoch + 1
        await assign(group, client, min(a.shards.held), "b", weight=3)
        await group.until(
            lambda: a.shards.owned.epoch > edited and {*group.shares().values()} == {32}
        )
        assert [*a.errors, *b.errors] == []


async def test_an_assignment_of_a_leader_that_was_held_up_is_not_written_over_a_later_one() -> None:
    around = Environment(proxy=True, users=("admin", "a", "b"))
    async with around as environment, shard_group(environment.config("b")) as group:
        a = group.join("a", leads=True, config=environment.config("a"))
        b = group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        late = Match(user="a", verb="update", resource=LEASES, name="shop-slots")
        environment.proxy.add(Delay(seconds=2.0), late)
        group.join("c")
        await group.until(lambda: environment.proxy.rules.states()[0].matched)
        b.leads = True
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])
        group.join("d")
        await group.until(lambda: {*group.shares().values()} == {16})
        assert [*a.errors, *b.errors] == []


async def test_a_member_that_loses_its_rights_to_leases_writes_nothing_and_another_takes_over() -> (
    None
):
    """Seconds: a term runs out."""
    around = Environment(proxy=True, users=("admin", "a", "b"))
    async with around as environment, shard_group(environment.config("a"), SHORT) as group:
        group.join("a", leads=True)
        b = group.join("b", config=environment.config("b"))
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        environment.proxy.add(Fail(code=403), Match(user="b", resource=LEASES), times=None)
        await group.until(lambda: group.shares() == {"a": 64, "b": 0})
        assert b.writable == frozenset()
        await group.until(lambda: b.errors)
        assert isinstance(b.errors[0], MembershipLost)
