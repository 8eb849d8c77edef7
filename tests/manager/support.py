"""Runnables that note what happens to them, and managers on free ports."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.informer import Informer
from ctrlruntime.client.config import Config
from ctrlruntime.manager import Group, Manager
from tests.support.manager_harness import PATIENT, make_manager
from tests.support.waiting import eventually, let_pass

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")

LONG = 120.0
"""Seconds that nothing takes, not even on a machine that has much else to do."""


def manager(config: Config, **options: object) -> Manager:
    """A manager on loopback with free ports."""
    defaults: dict[str, Any] = {
        "metrics_bind_address": "127.0.0.1:0",
        "health_bind_address": "127.0.0.1:0",
    }
    if options.get("leader_election"):
        defaults |= {
            "leader_election_id": "tests",
            "leader_election_namespace": "default",
            "election": PATIENT,
        }
    return make_manager(config, **{**defaults, **options})


@contextlib.asynccontextmanager
async def starting(subject: Manager) -> AsyncIterator[asyncio.Task[None]]:
    """Start a manager. At the end of the block it runs no more, however the block ended."""
    task = asyncio.create_task(subject.start())
    try:
        yield task
    finally:
        subject.stop()
        await asyncio.gather(task, return_exceptions=True)


async def fails_for_want_of(
    subject: Manager, informer: Informer, start: asyncio.Task[None], limit: float
) -> None:
    """Wait for the end of a start whose kind the server does not serve: `limit` seconds pass once it has answered so."""
    await eventually(lambda: informer.missing_since is not None)
    # Several times: only what has begun to wait notices. Not in its stop, whose grace period would pass as well.
    while subject._error is None and not start.done():
        let_pass(limit)
        await asyncio.sleep(0.01)
    await start


@contextlib.asynccontextmanager
async def running(subject: Manager) -> AsyncIterator[None]:
    """Run a leading manager for the length of the block; check that no task is left."""
    before = asyncio.all_tasks()
    async with subject.running():
        yield
    await asyncio.sleep(0)
    left = {t for t in asyncio.all_tasks() - before if not t.done() and not _serves(t)}
    assert not left


def _serves(task: asyncio.Task[Any]) -> bool:
    """Whether a task is a connection of the API server in this process."""
    return "RequestHandler" in repr(task.get_coro())


class Recorded:
    """A runnable that writes its life into ``log``."""

    def __init__(
        self,
        name: str,
        log: list[str],
        group: Group | None = None,
        *,
        ready: asyncio.Event | None = None,
        slow_end: float = 0.0,
        held: asyncio.Event | None = None,
    ) -> None:
        """`slow_end`, `held`: its end takes so many seconds, or until then."""
        self.name = name
        self.log = log
        self.slow_end = slow_end
        self.held = held
        self.began = asyncio.Event()
        if group is not None:
            self.runnable_group = group
        if ready is not None:
            self.wait_ready = ready.wait

    def __repr__(self) -> str:
        return f"Recorded({self.name!r})"

    async def start(self) -> None:
        self.log.append(f"start {self.name}")
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            if self.slow_end:
                await asyncio.sleep(self.slow_end)
            if self.held is not None:
                await self.held.wait()
            self.log.append(f"stop {self.name}")


class Failing:
    """A runnable that fails when told, in the group given."""

    def __init__(self, error: BaseException, group: Group = Group.OTHERS) -> None:
        self.runnable_group = group
        self.error = error
        self.now = asyncio.Event()

    async def start(self) -> None:
        await self.now.wait()
        raise self.error
