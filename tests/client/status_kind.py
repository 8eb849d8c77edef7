"""A kind whose status several write, and a process that is one of them: `python -m tests.client.status_kind`."""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from pydantic import Field

from ctrlruntime.api import ApiModel, Resource
from ctrlruntime.client import Client, Config, StatusClient


class BoardSpec(ApiModel):
    pass


class BoardStatus(ApiModel):
    counts: dict[str, int] = Field(default_factory=dict)
    note: str = ""
    rounds: int = 0


class Board(
    Resource[BoardSpec, BoardStatus], group="client.example.com", version="v1", plural="boards"
):
    """What writers count on."""


class NarrowStatus(ApiModel):
    counts: dict[str, int] = Field(default_factory=dict)


class NarrowBoard(
    Resource[BoardSpec, NarrowStatus],
    group="client.example.com",
    version="v1",
    kind="Board",
    plural="boards",
):
    """The same, as a program of before sees it."""


def counted(key: str) -> Callable[[BoardStatus], None]:
    """An update that adds one to its own count and to that of all."""

    def update(status: BoardStatus) -> None:
        for each in (key, "all"):
            status.counts[each] = status.counts.get(each, 0) + 1

    return update


async def write(client: Client, key: str, times: int) -> None:
    statuses = StatusClient(client, Board, field_manager=key, attempts=1000)
    for _ in range(times):
        await statuses.sync_update("board", counted(key), namespace="default")


async def main(kubeconfig: str, key: str, times: int) -> None:
    async with Client.connect(await Config.load(Path(kubeconfig))) as client:
        print("ready", flush=True)
        sys.stdin.readline()
        await write(client, key, times)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
