"""Scripts sent to both servers, and the shortest script that shows a difference."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import orjson

from tests.differential.histogram import Histogram
from tests.differential.masking import View, agree, view, wanders
from tests.differential.requests import MERGE, NAME, Script, Step
from tests.differential.servers import Pair
from tests.differential.subject import Subject

_TRIES: Final = 64
"""How often a server is asked that walks maps in no order, until it took the way that ours takes."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The last step of a script was answered in two ways."""

    script: Script
    real: View
    ours: View

    def __str__(self) -> str:
        lines = [f"{self.script.subject.kind}:"]
        lines += [f"  {step.described()}" for step in self.script.steps]
        lines.append(f"  real: {self.real.code} wrote={self.real.wrote} {self.real.warnings}")
        lines.append(f"  ours: {self.ours.code} wrote={self.ours.wrote} {self.ours.warnings}")
        lines += [f"  {line}" for line in _apart("", self.real.content, self.ours.content)]
        return "\n".join(lines)


def _apart(path: str, real: object, ours: object) -> Iterator[str]:
    """Where two values differ, one line for each place."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted(real.keys() | ours.keys()):
            if real.get(key) != ours.get(key):
                yield from _apart(f"{path}.{key}" if path else key, real.get(key), ours.get(key))
    elif (
        isinstance(real, list | tuple) and isinstance(ours, list | tuple) and len(real) == len(ours)
    ):
        for index, (one, other) in enumerate(zip(real, ours, strict=True)):
            if one != other:
                yield from _apart(f"{path}[{index}]", one, other)
    else:
        yield f"{path}: real {_shown(real)}, ours {_shown(ours)}"


def _shown(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


class Replay:
    """Runs scripts, several at a time, each on an object of its own."""

    def __init__(self, pair: Pair, histogram: Histogram, prefix: str) -> None:
        self._pair = pair
        self._histogram = histogram
        self._names = (f"{prefix}-{number}" for number in itertools.count())

    async def run(
        self, scripts: Iterable[Script], *, requests: int, at_once: int, most: int
    ) -> list[Difference]:
        """The differences, at most about `most`; each ends its script. Stops after the requests."""
        left = iter(scripts)
        found: list[Difference] = []

        async def work() -> None:
            for script in left:
                if len(found) >= most or self._histogram.total >= requests:
                    return
                difference = await self.play(script, count=True)
                if difference is not None:
                    found.append(difference)

        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(work())
        return found

    async def play(self, script: Script, *, count: bool = False) -> Difference | None:
        """One script from its start, on a new object, which is removed in the end."""
        name, subject = next(self._names), script.subject
        try:
            for number, step in enumerate(script.steps):
                real, ours = await self._ask(subject, step, name)
                if not agree(subject, real, ours):
                    shown = replace(script, steps=script.steps[: number + 1])
                    return Difference(shown, real, ours)
                if count:
                    reason = real.content["reason"] if real.code >= 400 else ""
                    self._histogram.note(subject.kind, step, real.code, reason)
            return await self._final(script, name)
        finally:
            await self._remove(script, name)

    async def _final(self, script: Script, name: str) -> Difference | None:
        step = Step("get", "GET", script.subject.collection("differential") + f"/{NAME}")
        real, ours = await self._ask(script.subject, step, name)
        if agree(script.subject, real, ours):
            return None
        return Difference(replace(script, steps=(*script.steps, step)), real, ours)

    async def _ask(self, subject: Subject, step: Step, name: str) -> tuple[View, View]:
        """Return both views. Where the real server has several answers to a request, it is sent again."""
        answers = await self._pair.send(step, name)
        for _ in range(_TRIES):
            real, ours = (view(subject, each) for each in answers)
            if agree(subject, real, ours) or not wanders(answers[0]):
                break
            answers = await self._pair.send(step, name)
        return real, ours

    async def _remove(self, script: Script, name: str) -> None:
        path = script.subject.collection("differential") + f"/{NAME}"
        for step in (
            Step("", "PATCH", path, {"metadata": {"finalizers": None}}, MERGE),
            Step("", "DELETE", path + "?gracePeriodSeconds=0&propagationPolicy=Background"),
        ):
            await self._pair.send(step, name)

    async def shortest(self, difference: Difference) -> Difference:
        """The same kind of difference with as few requests as leave it in place."""
        known = difference
        for index in reversed(range(len(difference.script.steps) - 1)):
            steps: Sequence[Step] = known.script.steps
            if index >= len(steps) - 1:
                continue
            fewer = replace(known.script, steps=(*steps[:index], *steps[index + 1 :]))
            found = await self.play(fewer)
            if found is not None:
                known = found
        return known
