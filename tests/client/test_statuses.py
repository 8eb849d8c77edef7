"""Several writers of one status lose nothing of each other's."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.api import ObjectMeta
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client import Client, Conflict, StatusClient
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.keyed_lock import KeyedLock
from ctrlruntime.client.transport import Response
from ctrlruntime.envtest import Environment
from tests.client.status_kind import (
    Board,
    BoardSpec,
    BoardStatus,
    NarrowBoard,
    NarrowStatus,
    counted,
)

WRITERS = ("sets", "snapshots", "healing")


class Watched:
    """Lets calls through, keeps their verbs, and does something before a write, the first times."""

    def __init__(self) -> None:
        self.verbs: list[str] = []
        self.before: list[Any] = []

    async def __call__(self, call: Call, execute: Execute) -> Response:
        self.verbs.append(call.verb)
        if call.is_write and self.before:
            await self.before.pop(0)()
        return await execute(call)


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment() as env:
        await env.install_crds(Board)
        metadata = ObjectMeta(name="board", namespace="default")
        board = Board(metadata=metadata, spec=BoardSpec())
        await env.client("admin").create(board)
        yield env


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def statuses(env: Environment, watched: Watched) -> StatusClient[BoardSpec, BoardStatus]:
    client = env.client("manager").intercepted(watched)
    return StatusClient(client, Board, field_manager="manager", sleep=no_sleep)


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


async def stored(env: Environment) -> BoardStatus:
    return (await env.client("admin").get(Board, "board", namespace="default")).status


@pytest.mark.criterion("COSMOS-A3-1")
@pytest.mark.parametrize("shared", [True, False], ids=["one-client", "a-client-each"])
async def test_three_writers_at_once_lose_nothing(env: Environment, shared: bool) -> None:
    """Of one client the lock keeps writers apart; those with one each meet at the server."""
    conflicts = []
    clients = [
        StatusClient(
            env.client("manager"),
            Board,
            field_manager="manager",
            attempts=1000,
            conflicted=lambda: conflicts.append(1),
        )
        for _ in WRITERS
    ]
    await asyncio.gather(
        *(
            (clients[0] if shared else clients[number]).sync_update(
                "board", counted(key), namespace="default"
            )
            for number, key in enumerate(WRITERS)
            for _ in range(10)
        )
    )
    assert (await stored(env)).counts == dict.fromkeys(WRITERS, 10) | {"all": 30}
    assert not (shared and conflicts)


@pytest.mark.criterion("COSMOS-A3-1")
async def test_two_processes_lose_nothing(env: Environment) -> None:
    """Nothing but the server keeps them apart."""
    program = (sys.executable, "-m", "tests.client.status_kind", str(env.kubeconfig("manager")))
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            *program, key, "20", stdin=pipe, stdout=pipe, cwd=Path(__file__).parents[2]
        )
        for key in ("first", "second")
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    ends = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0, 0], ends
    assert (await stored(env)).counts == {"first": 20, "second": 20, "all": 40}


@pytest.mark.criterion("COSMOS-A3-3")
async def test_nothing_is_written_that_changes_nothing(
    env: Environment, statuses: StatusClient[BoardSpec, BoardStatus], watched: Watched
) -> None:
    def same(status: BoardStatus) -> None:
        status.counts = dict(status.counts)
        status.note = ""

    await statuses.sync_update("board", counted("a"), namespace="default")
    before = await env.client("admin").get(Board, "board", namespace="default")
    watched.verbs.clear()
    found = await statuses.sync_update("board", same, namespace="default")
    assert watched.verbs == ["get"]
    assert found is not None
    assert found.metadata.resource_version == before.metadata.resource_version


@pytest.mark.criterion("COSMOS-A3-2")
async def test_a_conflict_is_tried_again_on_what_is_there_then(
    env: Environment, statuses: StatusClient[BoardSpec, BoardStatus], watched: Watched
) -> None:
    admin = StatusClient(env.client("admin"), Board, field_manager="admin")
    watched.before.append(lambda: admin.sync_update("board", counted("other"), namespace="default"))
    found = await statuses.sync_update("board", counted("mine"), namespace="default")
    assert watched.verbs == ["get", "patch", "get", "patch"]
    assert found is not None
    assert found.status.counts == {"mine": 1, "other": 1, "all": 2}


@pytest.mark.criterion("COSMOS-A3-2")
async def test_attempts_are_bounded_and_conflicts_counted(
    env: Environment, watched: Watched
) -> None:
    conflicts: list[int] = []
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    admin = StatusClient(env.client("admin"), Board, field_manager="admin")
    watched.before += [
        lambda: admin.sync_update("board", counted("other"), namespace="default")
    ] * 9
    statuses = StatusClient(
        env.client("manager").intercepted(watched),
        Board,
        field_manager="manager",
        attempts=3,
        conflicted=lambda: conflicts.append(1),
        sleep=sleep,
    )
    with pytest.raises(Conflict):
        await statuses.sync_update("board", counted("mine"), namespace="default")
    assert len(conflicts) == 3
    assert len(pauses) == 2
    assert watched.verbs.count("patch") == 3
    assert (await stored(env)).counts == {"other": 3, "all": 3}


async def test_there_is_none(
    env: Environment, statuses: StatusClient[BoardSpec, BoardStatus], watched: Watched
) -> None:
    assert await statuses.sync_update("nobody", counted("mine"), namespace="default") is None
    assert (
        await statuses.sync_update("board", counted("mine"), namespace="default", uid="of-another")
        is None
    )
    assert watched.verbs == ["get", "get"]

    async def delete() -> None:
        await env.client("admin").delete(Board, "board", namespace="default")

    watched.before.append(delete)
    assert await statuses.sync_update("board", counted("mine"), namespace="default") is None


async def test_what_the_writer_does_not_know_stays(env: Environment) -> None:
    def told(status: BoardStatus) -> None:
        status.note, status.rounds, status.counts = "kept", 7, {"a": 1, "b": 1}

    def narrow(status: NarrowStatus) -> None:
        del status.counts["a"]

    client = env.client("manager")
    await StatusClient(client, Board, field_manager="new").sync_update(
        "board", told, namespace="default"
    )
    await StatusClient(client, NarrowBoard, field_manager="old").sync_update(
        "board", narrow, namespace="default"
    )
    found = await stored(env)
    assert (found.note, found.rounds, found.counts) == ("kept", 7, {"b": 1})


async def test_an_emptied_text_goes_away(
    env: Environment, statuses: StatusClient[BoardSpec, BoardStatus]
) -> None:
    def told(text: str) -> Callable[[Any], None]:
        return lambda status: setattr(status, "note", text)

    await statuses.sync_update("board", told("busy"), namespace="default")
    await statuses.sync_update("board", told(""), namespace="default")
    kept = await env.client("admin").get(Board.gvk(), "board", namespace="default")
    assert kept["status"] == {}


async def test_the_server_is_read_and_the_answer_is_in_the_cache(env: Environment) -> None:
    """The cache may lag behind another process; what was written here is there at once."""
    async with Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        cache.declare(Board)
        await cache.start()
        await cache.wait_synced(60.0)
        await cache.stop()  # no watch tells it anything
        admin = StatusClient(env.client("admin"), Board, field_manager="admin")
        await admin.sync_update("board", counted("other"), namespace="default")
        statuses = StatusClient(cache.client(), Board, field_manager="manager")
        await statuses.sync_update("board", counted("mine"), namespace="default")
        known = cache.get(Board, "board", namespace="default")
    assert known is not None
    assert known.status.counts == {"other": 1, "mine": 1, "all": 2}


@pytest.mark.criterion("COSMOS-A3-5")
async def test_turns_come_one_after_the_other_and_leave_nothing() -> None:
    turns, inside, most = KeyedLock(), 0, 0

    async def one(key: str) -> None:
        nonlocal inside, most
        async with turns.of(key):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    await asyncio.gather(*(one("a") for _ in range(5)))
    assert most == 1
    await asyncio.gather(one("a"), one("b"))
    assert most == 2
    assert len(turns) == 0
