"""A new leader acts on what the server has now, not on what a silent watch has left it with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from ctrlruntime.cache import catch_up
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Fail, Match, SilenceWatch
from ctrlruntime.manager import Group, Manager
from tests.client.support import config_map
from tests.manager.support import CONFIG_MAP, manager

pytestmark = pytest.mark.criterion("SIM-F2")

LISTS = Match(user="standby", verb="list", resource="configmaps")
WATCHES = Match(user="standby", verb="watch", resource="configmaps")
Change = Callable[[Client], Awaitable[None]]
PAGED = CacheOptions(informers=InformerOptions(reflector=ReflectorOptions(streaming=False)))


class Leader:
    """What a manager has of the ConfigMaps at the moment it begins to act."""

    runnable_group = Group.LEADER_ELECTION

    def __init__(self, subject: Manager) -> None:
        self.seen: dict[str, str] = {}
        self._informer = subject.cache.declare(CONFIG_MAP, namespaces=["default"]).informer
        subject.add(self)

    async def start(self) -> None:
        self.seen = {entry.name: str(entry.field("data")["k"]) for entry in self._informer.store}
        await asyncio.Event().wait()


@pytest.fixture
async def environment() -> AsyncIterator[Environment]:
    async with Environment(proxy=True, users=("admin", "leader", "standby")) as environment:
        yield environment


@pytest.fixture(autouse=True)
def _old_lists(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list is no proof any more, without waiting until it is old, or one for ever; a machine that stands still leaves time for another."""
    monkeypatch.setattr(catch_up.CatchUp.run, "__defaults__", (60.0,))
    fresh = 3600.0 if "starts_as_leader" in request.node.name else 0.0
    monkeypatch.setattr(catch_up, "_FRESH", fresh)


async def take_over(
    environment: Environment, change: Change, *, objects: int = 1
) -> dict[str, str]:
    """What a standby has when it begins to act after a change that the leader before made."""
    admin = environment.client("admin")
    for index in range(objects):
        await admin.create(config_map(f"c{index}", {"k": "old"}))
    first = manager(environment.config("leader"), leader_election=True)
    second = manager(environment.config("standby"), leader_election=True, cache=PAGED)
    leader = Leader(second)
    async with first.running(), second.running(leading=False):
        await change(admin)
        first.stop()
        await asyncio.wait_for(second.elected.wait(), 60)
        return leader.seen


async def changes(admin: Client) -> None:
    await admin.patch(CONFIG_MAP, "c0", {"data": {"k": "new"}}, namespace="default")


async def deletes(admin: Client) -> None:
    await admin.delete(CONFIG_MAP, "c0", namespace="default")


async def creates(admin: Client) -> None:
    await admin.create(config_map("c9", {"k": "new"}))


@pytest.mark.parametrize("objects", [1, 3])
@pytest.mark.parametrize(
    ("change", "after"),
    [(changes, {"c0": "new"}), (deletes, {"c0": None}), (creates, {"c9": "new"})],
)
async def test_a_leader_whose_watch_is_silent_lists_before_it_begins(
    environment: Environment,
    monkeypatch: pytest.MonkeyPatch,
    change: Change,
    after: dict[str, str | None],
    objects: int,
) -> None:
    """With more objects than are compared one by one, the version alone shows it."""
    monkeypatch.setattr(catch_up, "_SMALL", 2)
    environment.proxy.add(SilenceWatch(), WATCHES, times=None)
    expected = {f"c{index}": "old" for index in range(objects)} | after
    seen = await take_over(environment, change, objects=objects)
    assert seen == {name: value for name, value in expected.items() if value is not None}


@pytest.mark.parametrize("times", [2, None])
async def test_an_error_of_the_server_does_not_keep_a_leader_from_its_start(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, times: int | None
) -> None:
    if times is None:
        monkeypatch.setattr(catch_up.CatchUp.run, "__defaults__", (1.0,))
    environment.proxy.add(SilenceWatch(), WATCHES, times=None)

    async def change(admin: Client) -> None:
        await changes(admin)
        environment.proxy.add(Fail(code=500), LISTS, times=times)

    seen = await take_over(environment, change)
    assert seen == {"c0": "old" if times is None else "new"}


async def test_a_change_of_leader_costs_one_list_for_each_informer(
    environment: Environment,
) -> None:
    mark = environment.proxy.log.mark()
    await take_over(environment, changes)
    sent = environment.proxy.log.since(mark).select(resource="configmaps")
    assert sent.select(user="leader", verbs=["list"]).total == 0
    assert sent.select(user="standby", verbs=["list"]).total == 2


async def test_a_manager_that_starts_as_leader_proves_nothing(environment: Environment) -> None:
    subject = manager(environment.config("leader"), leader_election=True)
    subject.cache.declare(CONFIG_MAP)
    async with subject.running():
        pass
    sent = environment.proxy.log.counts().select(user="leader", resource="configmaps")
    assert sent.verb("list") == 0
