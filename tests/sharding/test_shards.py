"""Members in one process, on the embedded server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.clock import boottime
from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding.assignment import decode, encode
from ctrlruntime.sharding.handover import EpochWentBack
from ctrlruntime.sharding.leases import ASSIGNED
from ctrlruntime.sharding.planner import SlotsTaken
from ctrlruntime.sharding.shards import MembershipLost
from ctrlruntime.sharding.slots import ALL_SLOTS
from tests.sharding.shard_group import NAMESPACE, ShardGroup, shard_group

LOW, MIDDLE, HIGH = (frozenset(range(first, first + 32)) for first in (0, 16, 32))


def whole(group: ShardGroup) -> Callable[[], bool]:
    """Whether each slot is held."""
    return lambda: sum(group.shares().values()) == len(ALL_SLOTS)


@pytest.mark.criterion("SH-1", "SH-3")
async def test_slots_are_divided_as_members_come_and_go(config: Config) -> None:
    async with shard_group(config) as group:
        a = group.join("a", leads=True)
        await group.until(lambda: group.shares() == {"a": 64})
        group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        group.join("c")
        group.join("d")
        await group.until(lambda: {*group.shares().values()} == {16})
        await group.leave("c")
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])
        await group.until(lambda: a.shards.owned.is_whole)
        assert a.shards.owned.held.keys() == {"a", "b", "d"}
        assert [step for step, _ in group.members["b"].log[:2]] == ["take", "begin"]
        assert not any(each.errors for each in group.members.values())


@pytest.mark.criterion("SH-30")
async def test_a_member_is_ready_once_it_has_read_the_leases_of_its_group(config: Config) -> None:
    async with shard_group(config) as group:
        shards = group.join("a", leads=True).shards
        with pytest.raises(RuntimeError, match="without the right to list them"):
            shards.check_listed()
        await group.until(whole(group))
        shards.check_listed()


@pytest.mark.criterion("SH-3")
async def test_a_slot_is_not_begun_before_the_passes_of_its_former_owner_have_ended(
    config: Config,
) -> None:
    async with shard_group(config) as group:
        a = group.join("a", leads=True)
        await group.until(whole(group))
        a.passes.clear()
        b = group.join("b")
        await group.until(lambda: b.log)
        await group.until(lambda: group.shares() == {"a": 32, "b": 0})
        assert a.writable == ALL_SLOTS
        a.passes.set()
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})


@pytest.mark.criterion("SH-35")
async def test_a_slot_is_not_begun_before_the_caches_have_what_was_written_before_its_release(
    config: Config,
) -> None:
    current = asyncio.Event()
    async with shard_group(config) as group:
        group.join("a", leads=True)
        await group.until(whole(group))
        b = group.join("b", current=current)
        await group.until(lambda: len(b.writable) == 32)
        assert (group.shares(), [step for step, _ in b.log]) == ({"a": 32, "b": 0}, ["take"])
        await group.leave("a")
        b.leads = True
        await group.until(lambda: len(b.writable) == 64)
        assert not b.shards.held
        current.set()
        await group.until(lambda: group.shares() == {"b": 64} and b.shards.owned.is_whole)


@pytest.mark.criterion("SH-3")
async def test_two_that_hold_themselves_for_leaders_make_no_two_owners(config: Config) -> None:
    async with shard_group(config) as group:
        group.join("a", leads=True)
        group.join("b", leads=True, settle=0.0)
        group.join("c", leads=True, settle=1.0)
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])
        group.join("d", leads=True)
        await group.until(lambda: {*group.shares().values()} == {16})
        assert not any(each.errors for each in group.members.values())


@pytest.mark.criterion("SH-6")
async def test_a_member_whose_term_passed_writes_no_more_and_ends(config: Config) -> None:
    """Its clock leaps by more than a term, as after SIGSTOP and SIGCONT, and the server would let it renew.

    Takes 5 s: for so long an election tries a last time.
    """
    late, election = [0.0], ElectionOptions(lease_duration=15.0, renew_deadline=10.0)
    async with shard_group(config, election) as group:
        group.join("a", leads=True)
        b = group.join("b", clock=lambda: boottime() + late[0])
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        late[0] = election.renew_deadline + election.retry_period
        assert (b.writable, b.shards.held) == (frozenset(), frozenset())
        await group.until(lambda: b.errors)
        assert isinstance(b.errors[0], MembershipLost)
        assert b.writable == frozenset()


@pytest.mark.criterion("SH-4")
async def test_clocks_that_differ_do_not_matter(config: Config) -> None:
    async with shard_group(config) as group:
        group.join("a", leads=True, clock=lambda: boottime() + 30)
        group.join("b", clock=lambda: boottime() - 30)
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        await group.leave("a")
        group.members["b"].leads = True
        await group.until(lambda: group.shares() == {"b": 64})
        assert not group.members["b"].errors


@pytest.mark.criterion("SH-7")
@pytest.mark.parametrize("how", ["deleted", "broken"])
async def test_an_assignment_that_a_person_spoilt_is_made_anew(how: str, config: Config) -> None:
    async with shard_group(config) as group, Client.connect(config) as client:
        group.join("a", leads=True)
        b = group.join("b")
        await group.until(whole(group))
        before = dict(group.shares())
        epoch = b.shards.owned.epoch
        if how == "deleted":
            await client.delete(LEASE, "shop-slots", namespace=NAMESPACE)
        else:
            await group.put(client, "{}")
        await group.until(lambda: b.shards.owned.epoch > epoch)
        assert group.shares() == before, "nothing moves"
        group.join("c")
        await group.until(lambda: sorted(group.shares().values()) == [21, 21, 22])


@pytest.mark.criterion("SH-7")
async def test_a_member_that_sees_an_older_assignment_than_before_ends(config: Config) -> None:
    async with shard_group(config) as group, Client.connect(config) as client:
        group.join("a", leads=True)
        b = group.join("b")
        await group.until(whole(group))
        text = (await group.assignment(client))["metadata"]["annotations"][ASSIGNED]
        older = encode(type(decode(text))(1, decode(text).slots))
        await group.put(client, older)
        await group.until(lambda: b.errors)
        assert isinstance(b.errors[0], EpochWentBack)


@pytest.mark.criterion("SH-2")
async def test_fixed_slots_are_claimed_and_an_overlap_is_refused(config: Config) -> None:
    async with shard_group(config) as group:
        low = group.join(slots=LOW)
        high = group.join(slots=HIGH)
        await group.until(whole(group))
        assert (low.shards.held, high.shards.held) == (LOW, HIGH)
        middle = group.join(slots=MIDDLE)
        await group.until(lambda: middle.errors)
        assert isinstance(middle.errors[0], SlotsTaken)
        assert "slots 16-47 overlap with those of a member at work: 16-31 by slots-0-31" in str(
            middle.errors[0]
        )
        assert whole(group)()


@pytest.mark.criterion("SH-2")
async def test_of_fixed_members_that_start_at_once_one_has_each_slot(config: Config) -> None:
    async with shard_group(config) as group:
        both = [group.join(slots=slots) for slots in (LOW, MIDDLE)]
        await group.until(lambda: any(each.errors for each in both))
        refused = both[0] if both[0].errors else both[1]
        works = both[1] if refused is both[0] else both[0]
        await refused.shards.end(release=True)  # as its manager does
        await group.until(lambda: len(works.shards.held) == 32)
        assert isinstance(refused.errors[0], SlotsTaken)
        assert (refused.log, works.errors) == ([], [])


@pytest.mark.criterion("SH-2")
async def test_one_with_the_same_slots_stands_by(config: Config) -> None:
    async with shard_group(config) as group:
        first = group.join(slots=LOW)
        await group.until(lambda: first.shards.held == LOW)
        second = group.join("slots-0-31", slots=LOW)
        assert second.shards.held == frozenset()
        await first.shards.end(release=True)
        await group.until(lambda: second.shards.held == LOW)
        assert not second.errors


@pytest.mark.criterion("SH-2")
async def test_fixed_slots_of_a_member_that_has_ended_are_anothers_at_once(config: Config) -> None:
    async with shard_group(config) as group:
        group.join(slots=LOW)
        await group.until(lambda: group.shares() == {"slots-0-31": 32})
        await group.leave("slots-0-31")
        middle = group.join(slots=MIDDLE)
        await group.until(lambda: middle.shards.held == MIDDLE)
        assert not middle.errors


@pytest.mark.criterion("SH-3", "SH-4")
async def test_slots_of_a_member_that_was_killed_are_taken_once_its_lease_is_over(
    config: Config,
) -> None:
    """The dead one's Lease ends after a second, so that a slow machine does not lose the other's."""
    async with shard_group(config) as group, Client.connect(config) as client:
        a = group.join("a", leads=True)
        b = group.join("b")
        await group.until(lambda: group.shares() == {"a": 32, "b": 32})
        await b.shards.end(release=False)
        ended = group.members.pop("b").shards.may_write(min(ALL_SLOTS - a.shards.held))
        assert not ended
        await client.patch(
            LEASE, "shop-shard-b", {"spec": {"leaseDurationSeconds": 1}}, namespace=NAMESPACE
        )
        await group.until(lambda: a.shards.owned.unowned or len(a.shards.held) == 64)
        await group.until(lambda: len(a.shards.held) == 64)
        assert not a.errors
