"""One object's status, finalizers and annotations are written only over what the caller has seen."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from ctrlruntime.api import ObjectMeta
from ctrlruntime.client import Conflict
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.errors import APIError, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.transport import Response
from ctrlruntime.envtest import Environment
from tests.client.status_kind import Board, BoardSpec, BoardStatus

MAPPING = Board.mapping()
FIRST, SECOND = "client.example.com/first", "client.example.com/second"


@dataclass(frozen=True)
class Seen:
    """The board as it was read."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    finalizers: tuple[str, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)


class CallRecorder:
    """Lets calls through, and records the writes and how many of them were under way at once."""

    def __init__(self) -> None:
        self.writes = 0
        self.at_once = 0
        self.most_at_once = 0

    async def __call__(self, call: Call, execute: Execute) -> Response:
        self.writes += call.is_write
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return await execute(call)
        finally:
            self.at_once -= 1


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment() as env:
        await env.install_crds(Board)
        await create(env)
        yield env


@pytest.fixture
def recorder() -> CallRecorder:
    return CallRecorder()


@pytest.fixture
def patcher(env: Environment, recorder: CallRecorder) -> ObjectPatcher:
    return ObjectPatcher(env.client("manager").intercepted(recorder), "manager")


async def create(env: Environment) -> None:
    metadata = ObjectMeta(
        name="board", namespace="default", annotations={"example.com/held": "yes"}
    )
    await env.client("admin").create(Board(metadata=metadata, spec=BoardSpec()))


async def seen(env: Environment) -> Seen:
    found = (await env.client("admin").get(Board, "board", namespace="default")).metadata
    return Seen(
        "board",
        "default",
        found.uid or "",
        found.resource_version or "",
        tuple(found.finalizers or ()),
        dict(found.annotations or {}),
    )


async def recreate(env: Environment) -> None:
    await env.client("admin").delete(Board, "board", namespace="default")
    await create(env)


async def test_a_status_is_written_on_difference_only(
    env: Environment, patcher: ObjectPatcher, recorder: CallRecorder
) -> None:
    board, before, after = await seen(env), BoardStatus(rounds=1), BoardStatus(rounds=2)
    assert await patcher.write_status(MAPPING, board, before, after)
    assert not await patcher.write_status(MAPPING, board, after, BoardStatus(rounds=2))
    assert recorder.writes == 1
    stored = await env.client("admin").get(Board, "board", namespace="default")
    assert stored.status.rounds == 2


async def test_a_successor_of_the_same_name_is_not_written_to(
    env: Environment, patcher: ObjectPatcher
) -> None:
    gone = await seen(env)
    await recreate(env)
    with pytest.raises(APIError):
        await patcher.add_finalizer(MAPPING, gone, FIRST)
    with pytest.raises(APIError):
        await patcher.patch_metadata(MAPPING, gone, {"labels": {"a": "b"}})
    writing = patcher.update_status(
        MAPPING, "board", lambda _live: {"rounds": 1}, namespace="default", uid=gone.uid
    )
    assert await writing is None
    stored = await env.client("admin").get(Board, "board", namespace="default")
    assert (stored.metadata.finalizers or [], stored.status.rounds) == ([], 0)


async def test_a_resource_version_keeps_a_newer_state_from_being_written_over(
    env: Environment, patcher: ObjectPatcher
) -> None:
    board = await seen(env)

    async def write(rounds: int) -> bool:
        return await patcher.patch_status(
            MAPPING,
            "board",
            {"rounds": rounds},
            namespace="default",
            uid=board.uid,
            resource_version=board.resource_version,
        )

    assert await write(1)
    with pytest.raises(Conflict):
        await write(2)


async def test_an_object_that_is_gone_is_reported_and_not_an_error(
    env: Environment, patcher: ObjectPatcher
) -> None:
    board = await seen(env)
    held = Seen("board", "default", board.uid, board.resource_version, (FIRST,))
    await env.client("admin").delete(Board, "board", namespace="default")
    fields: dict[str, Any] = {"rounds": 1}
    assert not await patcher.patch_status(MAPPING, "board", fields, namespace="default")
    assert not await patcher.add_finalizer(MAPPING, board, FIRST)
    assert not await patcher.remove_finalizer(MAPPING, held, FIRST)
    with pytest.raises(NotFound):
        await patcher.patch_metadata(MAPPING, board, {"labels": {"a": "b"}})


async def test_finalizers_are_added_and_removed_without_losing_another(
    env: Environment, patcher: ObjectPatcher, recorder: CallRecorder
) -> None:
    stale = await seen(env)
    assert await patcher.add_finalizer(MAPPING, stale, FIRST)
    first = await seen(env)
    assert await patcher.add_finalizer(MAPPING, first, FIRST)
    assert recorder.writes == 1
    assert await patcher.add_finalizer(MAPPING, first, SECOND)
    with pytest.raises(APIError):
        await patcher.add_finalizer(MAPPING, first, "client.example.com/third")
    both = await seen(env)
    assert both.finalizers == (FIRST, SECOND)
    assert await patcher.remove_finalizer(MAPPING, both, FIRST)
    with pytest.raises(APIError):
        await patcher.remove_finalizer(MAPPING, both, SECOND)
    assert (await seen(env)).finalizers == (SECOND,)
    await patcher.remove_finalizer(MAPPING, await seen(env), SECOND)


async def test_an_annotation_is_removed_while_it_has_the_value_that_was_seen(
    env: Environment, patcher: ObjectPatcher
) -> None:
    before = await seen(env)
    await patcher.patch_metadata(MAPPING, before, {"annotations": {"example.com/held": "no"}})
    with pytest.raises(APIError):
        await patcher.remove_annotation(MAPPING, before, "example.com/held")
    await patcher.remove_annotation(MAPPING, await seen(env), "example.com/held")
    assert (await seen(env)).annotations == {}


async def test_writes_of_one_object_come_one_after_the_other(
    env: Environment, patcher: ObjectPatcher, recorder: CallRecorder
) -> None:
    def change(live: dict[str, Any]) -> dict[str, Any]:
        return {"rounds": live["status"].get("rounds", 0) + 1 if "status" in live else 1}

    board = await seen(env)
    async with asyncio.TaskGroup() as group:
        for number in range(10):
            labels = {"labels": {"number": str(number)}}
            group.create_task(patcher.patch_metadata(MAPPING, board, labels))
            group.create_task(
                patcher.update_status(MAPPING, "board", change, namespace="default", reread=1)
            )
    assert recorder.most_at_once == 1
    stored = await env.client("admin").get(Board, "board", namespace="default")
    assert stored.status.rounds == 10
