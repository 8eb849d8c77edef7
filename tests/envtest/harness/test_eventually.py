"""KO-01: assertions wait for a state, and say what was missing when time is over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import (
    consistently,
    differences,
    eventually,
    eventually_gone,
    eventually_holds,
)
from ctrlruntime.envtest.proxy import CutWatch

pytestmark = pytest.mark.criterion("KO-01")

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(proxy=True) as environment:
        yield environment


@pytest.fixture
def client(env: Environment) -> Client:
    return env.client()


def config_map(**data: str) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def test_it_waits_for_the_object_and_then_for_its_state(client: Client) -> None:
    waiting = asyncio.create_task(
        eventually(client, CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    )
    await client.create(config_map(k="1"))
    assert not waiting.done()
    await client.patch(CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    assert (await waiting)["data"] == {"k": "2"}


async def test_it_requests_nothing_while_nothing_changes(env: Environment, client: Client) -> None:
    with pytest.raises(AssertionError):
        await eventually(client, CONFIG_MAP, "a", namespace="default", timeout=0.3)
    counts = env.proxy.log.counts()
    of_events = counts.select(resource="events").reads  # once, for the report
    assert (counts.reads - of_events, counts.watches, of_events) == (1, 1, 1)


async def test_the_last_difference_is_shown(client: Client) -> None:
    await client.create(config_map(k="1"))
    with pytest.raises(AssertionError) as caught:
        await eventually(
            client,
            CONFIG_MAP,
            "a",
            {"data": {"k": "2", "l": ...}},
            namespace="default",
            timeout=0.2,
        )
    assert str(caught.value).splitlines() == [
        "ConfigMap default/a after 0.2 s:",
        '  data.k: expected "2", there is "1"',
        "  data.l: is missing",
    ]


async def test_a_missing_object_is_named(client: Client) -> None:
    with pytest.raises(AssertionError, match="there is no such object"):
        await eventually(client, CONFIG_MAP, "a", namespace="default", timeout=0.1)


async def test_a_broken_watch_is_taken_up_again(env: Environment, client: Client) -> None:
    await client.create(config_map(k="1"))
    waiting = asyncio.create_task(
        eventually(client, CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    )
    await eventually_holds(lambda: env.proxy.streams)
    env.proxy.add(CutWatch(), times=None)
    await client.patch(CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    await waiting


async def test_gone_reports_what_holds_an_object(env: Environment, client: Client) -> None:
    held = config_map()
    held["metadata"]["finalizers"] = ["test.dev/hold"]
    await client.create(held)
    await client.delete(CONFIG_MAP, "a", namespace="default")
    with pytest.raises(AssertionError, match=r"finalizers \['test.dev/hold'\]"):
        await eventually_gone(client, CONFIG_MAP, "a", namespace="default", timeout=0.2)
    await eventually_holds(lambda: not env.proxy.streams)
    waiting = asyncio.create_task(eventually_gone(client, CONFIG_MAP, "a", namespace="default"))
    await eventually_holds(lambda: env.proxy.streams)
    await client.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, namespace="default")
    await waiting


async def test_consistently_fails_at_the_first_deviation(client: Client) -> None:
    await client.create(config_map(k="1"))
    await consistently(
        client, CONFIG_MAP, "a", {"data": {"k": "1"}}, namespace="default", seconds=0.1
    )
    watching = asyncio.create_task(
        consistently(client, CONFIG_MAP, "a", {"data": {"k": "1"}}, namespace="default", seconds=20)
    )
    await client.patch(CONFIG_MAP, "a", {"data": {"k": "2"}}, namespace="default")
    with pytest.raises(AssertionError, match='expected "1", there is "2"'):
        await watching


async def test_what_no_watch_reports_is_asked_for_again() -> None:
    answers = iter([False, 0, "yes"])
    assert await eventually_holds(lambda: next(answers)) == "yes"

    def no() -> None:
        raise AssertionError("not so")

    with pytest.raises(AssertionError, match=r"no after 0.1 s: not so"):
        await eventually_holds(no, timeout=0.1)


@pytest.mark.parametrize(
    ("expected", "actual", "lines"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": None}, {}, []),
        ({"a": None}, {"a": 1}, ["a: expected null, there is 1"]),
        ({"a": {"b": 1}}, {"a": 3}, ["a: expected an object, there is 3"]),
        ({"c": [{"type": "Ready", "status": "True"}]},
         {"c": [{"type": "Other"}, {"type": "Ready", "status": "False"}]},
         ['c[type=Ready].status: expected "True", there is "False"']),
        ({"c": [{"type": "Ready"}]}, {"c": [{"type": "Other"}]},
         ['c[type=Ready]: is missing; there are ["Other"]']),
        ({"l": [1, 2]}, {"l": [1, 3]}, ["l[1]: expected 2, there is 3"]),
        ({"l": [1]}, {"l": [1, 2]}, ["l: expected 1 items, there are [1,2]"]),
        ({"l": [1]}, {}, ["l: expected a list, there is null"]),
        (lambda o: o["x"] == 1, {}, ["the object: KeyError: 'x'"]),
        ({"a": lambda v: v > 1}, {"a": 1}, ["a: <lambda> does not hold for 1"]),
        ({"a": lambda v: v > 1}, {"a": 2}, []),
    ],
)  # fmt: skip
def test_differences_are_named_by_path(expected: object, actual: object, lines: list[str]) -> None:
    assert differences(expected, actual) == lines
