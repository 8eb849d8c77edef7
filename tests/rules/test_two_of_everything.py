"""Rule 2 of the design: two of everything, side by side, under names chosen to collide.

The outcome of each is the same as alone, and what one of them does never touches the other: judged by
the objects that are there, and by the requests that the manager sent.
"""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from tests.rules.harness import Harness
from tests.rules.story import Story, outcome, removed

LONGEST = "n" * 63
PAIRS = {
    "one name in two namespaces": (("team-a", "shop"), ("team-b", "shop")),
    "a dash that moves": (("a-b", "c"), ("a", "b-c")),
    "a dot for a dash": (("a", "b.c"), ("a-b", "c")),
    "63 characters": ((LONGEST, "x"), (LONGEST[:-1] + "m", "x")),
}


async def alone(folder: Path, namespace: str, name: str) -> dict[str, object]:
    """Return the outcome of one story with nothing beside it."""
    async with Harness.start(folder, nodes=True) as harness:
        story = Story(harness, namespace, name)
        await story.begin()
        await story.complete()
        await harness.idle()
        return await outcome(story)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.criterion("H-R2")
async def test_two_side_by_side_come_to_the_same_as_alone(pair: str, tmp_path: Path) -> None:
    folders = [tmp_path / part for part in ("first", "second", "both")]
    for folder in folders:
        folder.mkdir()
    expected = [
        await alone(folder, *names) for folder, names in zip(folders, PAIRS[pair], strict=False)
    ]
    async with Harness.start(folders[2], nodes=True) as harness:
        stories = [Story(harness, *names) for names in PAIRS[pair]]
        await asyncio.gather(*(story.begin() for story in stories))
        await asyncio.gather(*(story.complete() for story in stories))
        await harness.idle()
        for story, wanted in zip(stories, expected, strict=True):
            assert await outcome(story) == wanted
        await _one_goes(harness, *stories)


async def _one_goes(harness: Harness, leaving: Story, staying: Story) -> None:
    """Remove one story; assert that nothing of the other is written."""
    before = await staying.objects()
    mark = harness.environment.proxy.log.mark()
    await removed(leaving)
    await harness.idle(2.0)
    assert await staying.objects() == before
    touched = [
        entry
        for entry in harness.writes(mark)
        if (entry.namespace, entry.name) in {(staying.namespace, k.split("/")[1]) for k in before}
    ]
    assert touched == []


def test_names_collide_when_they_are_joined() -> None:
    """The pairs are worth testing: joined by a dash, or cut at 63 characters, they are the same."""
    for first, second in itertools.islice(PAIRS.values(), 1, 3):
        assert "-".join(first).replace(".", "-") == "-".join(second).replace(".", "-")
