"""LV-4: what a deletecollection deleted is confirmed by the watch, not by a read of each object."""

import asyncio
from collections.abc import Callable

import pytest

from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.write_overlay import WriteOverlay
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import WriteOutcomeUnknown
from ctrlruntime.client.transport import Response
from ctrlruntime.envtest import Environment
from tests.cache.lagging_watch import LaggingWatch
from tests.client.support import CONFIG_MAP, config_map
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("LV-4"), pytest.mark.criterion("LV-8")]

EntryOf = Callable[..., Entry]
OBJECTS = 50


@pytest.mark.parametrize("answer_first", [True, False])
async def test_the_watch_confirms_a_deletecollection(
    api_config: Config, answer_first: bool
) -> None:
    watched = asyncio.Event()

    async def late(call: Call, execute: Execute) -> Response:
        response = await execute(call)
        if call.verb == "deletecollection" and not answer_first:
            await watched.wait()
        return response

    async with Client.connect(api_config) as live:
        cache = Cache(live.intercepted(late))
        informer = cache.declare(CONFIG_MAP, namespaces=["default"], labels="lot").informer
        await cache.start()
        try:
            await cache.wait_synced(60.0)
            client = cache.client()
            for number in range(OBJECTS):
                body = config_map(f"m{number}")
                body["metadata"] |= {"labels": {"lot": "a"}}
                if number == 0:
                    body["metadata"]["finalizers"] = ["example.com/held"]
                await client.create(body)
            deleting = asyncio.create_task(
                client.delete_collection(CONFIG_MAP, "default", labels="lot")
            )
            if answer_first:
                await deleting
            await eventually(
                lambda: [e.deletion_timestamp is None for e in informer.store] == [False]
            )
            if answer_first:
                await eventually(lambda: not cache.unconfirmed_keys())
            watched.set()
            await deleting
            assert cache.unconfirmed_keys() == []
            await live.patch(
                CONFIG_MAP, "m0", {"metadata": {"finalizers": None}}, namespace="default"
            )
        finally:
            await cache.stop()


async def test_the_list_after_a_deletecollection_of_300_makes_no_request() -> None:
    async with Environment(proxy=True) as environment:
        cache = Cache(environment.client("admin"))
        cache.declare(CONFIG_MAP, namespaces=["default"], labels="lot")
        await cache.start()
        try:
            await cache.wait_synced(60.0)
            client = cache.client()
            bodies = [config_map(f"m{number}") for number in range(300)]
            for body in bodies:
                body["metadata"] |= {"labels": {"lot": "a"}}
            await asyncio.gather(*map(client.create, bodies))
            await client.delete_collection(CONFIG_MAP, "default", labels="lot")
            await eventually(lambda: not cache.unconfirmed_keys())
            mark = environment.proxy.log.mark()
            assert await client.list(CONFIG_MAP, "default") == []
            assert [e for e in environment.proxy.log.entries(mark) if e.verb != "watch"] == []
        finally:
            await cache.stop()


async def test_while_the_watch_lags_what_a_deletecollection_listed_is_read_live(
    api_config: Config,
) -> None:
    async with Client.connect(api_config) as live:
        cache = Cache(live)
        informer = cache.declare(CONFIG_MAP, namespaces=["default"], labels="lot").informer
        await cache.start()
        try:
            await cache.wait_synced(60.0)
            client = cache.client()
            LaggingWatch(informer)
            for name, lot in (("a1", "a"), ("a2", "a"), ("b1", "b")):
                body = config_map(name)
                body["metadata"] |= {"labels": {"lot": lot}}
                await client.create(body)
            await client.delete_collection(CONFIG_MAP, "default", labels="lot=a")
            assert {name for _, (_, name) in cache.unconfirmed_keys()} == {"a1", "a2"}
            left = await client.list(CONFIG_MAP, "default")
            assert [each["metadata"]["name"] for each in left] == ["b1"]
            assert cache.unconfirmed_keys() == []
        finally:
            await cache.stop()


@pytest.mark.parametrize("carried_out", [False, True])
async def test_a_deletecollection_without_an_answer_makes_what_it_selects_uncertain(
    api_config: Config, carried_out: bool
) -> None:
    async def lose(call: Call, execute: Execute) -> Response:
        if call.verb == "deletecollection":
            if carried_out:
                await execute(call)
            raise WriteOutcomeUnknown("the answer is lost")
        return await execute(call)

    async with Client.connect(api_config) as live:
        cache = Cache(live.intercepted(lose))
        informer = cache.declare(CONFIG_MAP, namespaces=["default"], labels="lot").informer
        await cache.start()
        try:
            await cache.wait_synced(60.0)
            client = cache.client()
            for name, lot in (("a1", "a"), ("a2", "a"), ("b1", "b")):
                body = config_map(name)
                body["metadata"] |= {"labels": {"lot": lot}}
                await client.create(body)
            lists = informer.stats().lists
            with pytest.raises(WriteOutcomeUnknown):
                await client.delete_collection(CONFIG_MAP, "default", labels="lot=a")
            if not carried_out:  # else the watch may have removed them already
                assert {name for _, (_, name) in cache.unconfirmed_keys()} == {"a1", "a2"}
            await eventually(lambda: informer.stats().lists > lists)
            assert cache.unconfirmed_keys() == []
            left = ["b1"] if carried_out else ["a1", "a2", "b1"]
            assert sorted(entry.name for entry in informer.store) == left
        finally:
            await cache.stop()


@pytest.fixture
def ledger() -> WriteOverlay:
    return WriteOverlay(Store(), clock=lambda: 0.0)


def test_until_it_is_confirmed_the_key_is_uncertain(
    ledger: WriteOverlay, entry_of: EntryOf
) -> None:
    listed = entry_of("a", uid="u1", resourceVersion="5")
    ledger.observe("", listed)
    ledger.deleting(listed)
    assert ledger.unconfirmed(listed.key)
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="6"))  # news, but no deletion
    assert ledger.unconfirmed(listed.key)
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="7"), deleted=True)
    assert not ledger.unconfirmed(listed.key)


def test_an_object_that_the_watch_has_not_reached_is_uncertain(
    ledger: WriteOverlay, entry_of: EntryOf
) -> None:
    listed = entry_of("a", uid="u1", resourceVersion="5")
    ledger.deleting(listed)
    assert ledger.unconfirmed(listed.key)
    ledger.observe("", listed)
    assert ledger.unconfirmed(listed.key)
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="6"), deleted=True)
    assert not ledger.unconfirmed(listed.key)


def test_a_confirmation_that_came_before_the_answer_counts(
    ledger: WriteOverlay, entry_of: EntryOf
) -> None:
    listed = entry_of("a", uid="u1", resourceVersion="5")
    ledger.observe("", listed)
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="6"), deleted=True)
    ledger.deleting(listed)
    assert not ledger.unconfirmed(listed.key)
    ledger.observe("", entry_of("a", uid="u2", resourceVersion="7"))
    ledger.deleting(listed)
    assert not ledger.unconfirmed(listed.key)


def test_a_later_doubt_is_not_cleared_by_it(ledger: WriteOverlay, entry_of: EntryOf) -> None:
    listed = entry_of("a", uid="u1", resourceVersion="5")
    ledger.observe("", listed)
    ledger.deleting(listed)
    ledger.doubt(listed.key)  # a create of that name had no answer
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="6"), deleted=True)
    assert ledger.unconfirmed(listed.key)


def test_the_deletion_of_another_object_of_that_name_confirms_nothing(
    ledger: WriteOverlay, entry_of: EntryOf
) -> None:
    ledger.deleting(entry_of("a", uid="u2", resourceVersion="5"))
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="4"), deleted=True)
    assert ledger.unconfirmed(("ns", "a"))


def test_an_earlier_doubt_is_not_cleared_by_it_either(
    ledger: WriteOverlay, entry_of: EntryOf
) -> None:
    listed = entry_of("a", uid="u1", resourceVersion="5")
    ledger.observe("", listed)
    ledger.doubt(listed.key)  # an update of it had no answer
    ledger.deleting(listed)
    ledger.deleting(listed)
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="6"), deleted=True)
    assert ledger.unconfirmed(listed.key)


def test_a_repeated_deletecollection_is_confirmed_once(
    ledger: WriteOverlay, entry_of: EntryOf
) -> None:
    listed = entry_of("a", uid="u1", resourceVersion="5")
    ledger.observe("", listed)
    ledger.deleting(listed)
    ledger.deleting(listed)
    ledger.observe("", entry_of("a", uid="u1", resourceVersion="6"), deleted=True)
    assert not ledger.unconfirmed(listed.key)
