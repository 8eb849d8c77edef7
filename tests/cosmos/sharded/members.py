"""Managers that share sets of nodes on the loop of a test, each a user of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection, Mapping

from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.manager import Manager
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.sharding import ALL_SLOTS, ShardingOptions, slot_of
from ctrlruntime.sharding.assignment import distribute
from tests.support.manager_harness import PATIENT, ManagerHarness, make_manager
from tests.support.waiting import eventually

USERS = ("one", "two", "three")


@contextlib.asynccontextmanager
async def member(
    harness: ManagerHarness,
    user: str,
    namespace: str,
    slots: frozenset[int] | None = None,
    *,
    shares: bool = True,
    group: str = "cosmos",
) -> AsyncIterator[Manager]:
    """Run a manager that shares with others, until the block is left; it has its slots when that begins. `namespace`: of the Leases and of what it looks at.

    One that does not share leads by then.
    """
    with (harness.folder / f"{user}.log").open("a") as stream:
        manager = make_manager(
            harness.environment.config(user),
            logger=make_logger(format="console", stream=stream),
            name="manager",
            namespaces=(namespace,),
            leader_election=True,
            leader_election_namespace=namespace,
            leader_election_id="tests",
            election=PATIENT,
            sharding=ShardingOptions(group=group, member=user, slots=slots, settle=0.0)
            if shares
            else None,
        )
        await harness.add_controllers(manager)
        shards = manager.shards
        async with manager.running(leading=shards is None):
            if shards is not None:
                await eventually(lambda: shards.held, timeout=60)
                # Its Lease has to show them as well: until then others find its own slots without an owner.
                await eventually(
                    lambda: not any(each.slots & shards.held for each in shards.owned.unowned),
                    timeout=60,
                )
            yield manager


def owners(*joined: Collection[str]) -> Mapping[int, str]:
    """Return who owns each slot, after these members are there one group after the other."""
    found: Mapping[int, str] = {}
    for members in joined:
        found = distribute(found, members, ALL_SLOTS)
    return found


def name_of(owned: Mapping[int, str], user: str, namespace: str) -> str:
    """Return the name of an object of a member's slots."""
    names = (f"hub{number}" for number in range(1000))
    return next(each for each in names if owned[slot_of(each, namespace=namespace)] == user)


def writers(harness: ManagerHarness, since: Mark) -> dict[tuple[str, str, str], list[str]]:
    """Return who wrote each object, in order, each run of writes once; Leases and events aside."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for each in harness.environment.proxy.log.entries(since):
        if each.user in USERS and is_write(each):
            users = found.setdefault((each.resource, each.namespace, each.name), [])
            if users[-1:] != [each.user]:
                users.append(each.user)
    return found


def is_write(entry: LogEntry) -> bool:
    resource = entry.resource.partition(".")[0]
    return entry.verb not in ("get", "list", "watch") and resource not in ("leases", "events")


def assert_in_turn(found: Mapping[tuple[str, str, str], list[str]]) -> None:
    """No object was written by a member again that another one had written since."""
    twice = {key: users for key, users in found.items() if len(users) != len({*users})}
    assert not twice, twice
