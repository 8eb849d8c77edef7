"""How the driver comes by a provider of runs, and gives it back on every path."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from internal.cloud.runs import RunOwner, RunProvider

OpenRuns = Callable[[RunOwner], Awaitable[RunProvider]]
"""Opens a provider for the runs of one object. Whoever opens it closes it (`aclose`)."""


class _Lent:
    """Passes everything on, but for the close: it belongs to someone else."""

    def __init__(self, provider: RunProvider) -> None:
        self.start = provider.start
        self.get = provider.get
        self.list = provider.list
        self.cancel = provider.cancel
        self.delete = provider.delete
        self.subscribe = provider.subscribe

    async def aclose(self) -> None:
        return


def shared(provider: RunProvider) -> OpenRuns:
    """One provider for all objects, whose owner closes it when the program ends."""
    lent = _Lent(provider)

    async def open_it(_owner: RunOwner) -> RunProvider:
        return lent

    return open_it


class Opened(Protocol):
    """The provider, opened when it is first needed."""

    async def __call__(self) -> RunProvider: ...


@asynccontextmanager
async def opening(open_runs: OpenRuns, owner: RunOwner) -> AsyncIterator[Opened]:
    """A way to the provider for one pass; closed at its end, however that comes. A pass that needs
    no provider opens none."""
    opened: list[RunProvider] = []

    async def provider() -> RunProvider:
        if not opened:
            opened.append(await open_runs(owner))
        return opened[0]

    try:
        yield provider
    finally:
        for item in opened:
            await item.aclose()
