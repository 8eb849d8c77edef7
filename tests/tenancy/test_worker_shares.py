"""S-F11: the rendering worker's time is shared by namespace. Turns are counted, on a clock of the test."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from internal.tenancy.rendering import Renderer, RenderError
from internal.tenancy.rendering.renderer import MOST_INLINE_STRINGS
from internal.tenancy.rendering.worker import FairTurns, Worker
from internal.tenancy.template.compiled import Blueprints
from tests.tenancy.test_builder import built, config_map
from tests.tenancy.test_examined_templates import manifest, template

pytestmark = pytest.mark.criterion("S-F11")

LOOP = "{% for each in [1] %}{{ uid }}{% endfor %}"
"""Rendered by the worker."""


class Shared:
    """A worker of which a job takes as many seconds as its namespace is given; `turns` are the namespaces served."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
        self.now = 0.0
        self.turns: list[str] = []
        self.renderer = Renderer(clock=lambda: self.now)
        self._seconds = seconds

        async def running(_worker: Worker) -> None: ...

        async def exchange(_worker: Worker, _process: None, job: dict[str, Any]) -> dict[str, Any]:
            namespace = str(job["manifest"]["metadata"]["name"]).split(".")[0]
            self.turns.append(namespace)
            for _ in range(3):  # longer than it takes who sends a job to begin to wait
                await asyncio.sleep(0)
            self.now += self._seconds.get(namespace, 0.002)
            return {"message": "rendered", "path": ""}

        monkeypatch.setattr(Worker, "_running", running)
        monkeypatch.setattr(Worker, "_exchange", exchange)

    async def render(self, namespace: str, number: int = 0) -> None:
        manifest = {"metadata": {"name": f"{namespace}.{number}"}, "spec": LOOP}
        with pytest.raises(RenderError, match="rendered"):
            await self.renderer.for_namespace(namespace).render(manifest, {"uid": "a"})


async def test_hot_templates_wait_for_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty jobs wait; another namespace sends ten, each when the one before it has its answer."""
    shared = Shared(monkeypatch, hot=2.0)
    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(shared.render("hot", number))
        await asyncio.sleep(0)
        for number in range(10):
            await shared.render("cool", number)
        assert shared.turns.count("hot") <= 11
    assert shared.turns.count("hot") == 30


@pytest.mark.parametrize(
    ("hot", "others", "before"), [(1, 1, 1), (3, 1, 3), (2, 5, 2)], ids=lambda value: str(value)
)
async def test_a_job_waits_for_one_of_each_hot_namespace(
    monkeypatch: pytest.MonkeyPatch, hot: int, others: int, before: int
) -> None:
    shared = Shared(monkeypatch, **{f"hot{number}": 2.0 for number in range(hot)})
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            for each in range(hot):
                group.create_task(shared.render(f"hot{each}", number))
        await asyncio.sleep(0)
        for each in range(others):
            group.create_task(shared.render(f"cool{each}"))
    last = max(place for place, turn in enumerate(shared.turns) if turn.startswith("cool"))
    assert sum(turn.startswith("hot") for turn in shared.turns[:last]) <= before


async def test_what_was_not_used_is_not_saved_up() -> None:
    now = 0.0
    turns, served = FairTurns(lambda: now), list[str]()

    async def use(group: str) -> None:
        nonlocal now
        async with turns.turn(group), turns.charged(group):
            served.append(group)
            await asyncio.sleep(0)
            now += 1

    for _ in range(50):
        await use("a")
    await asyncio.gather(*(use(group) for group in "a" * 5 + "b" * 5))
    assert served[50:].count("a") == served[50:].count("b") == 5
    assert served[52:59].count("a") in (3, 4)


async def test_a_turn_that_is_given_up_goes_to_the_next() -> None:
    turns = FairTurns(lambda: 0.0)

    async def use() -> None:
        async with turns.turn("a"):
            await asyncio.sleep(0)

    async with turns.turn("a"):
        waiting = [asyncio.create_task(use()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
    waiting[1].cancel()  # its turn has come in this turn of the loop
    await asyncio.gather(*waiting, return_exceptions=True)
    assert [each.cancelled() for each in waiting] == [True, True, False]


async def test_tenants_and_templates_take_the_share_of_their_namespace(
    monkeypatch: pytest.MonkeyPatch, renderer: Renderer
) -> None:
    namespaces = []

    async def perform(_worker: Worker, _job: object, namespace: str = "") -> dict[str, Any]:
        namespaces.append(namespace)
        return {"message": "rendered", "path": ""}

    monkeypatch.setattr(Worker, "perform", perform)
    await built(renderer, configMaps=[config_map("a", nameTemplate=LOOP)])
    assert set(namespaces) == {"tenants"}
    namespaces.clear()
    large = {"id": "a", "spec": manifest(MOST_INLINE_STRINGS + 1)}
    await Blueprints(renderer).examine(template(large))
    assert set(namespaces) == {"team"}
