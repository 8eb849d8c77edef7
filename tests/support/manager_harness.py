"""Managers in the process of a test: made, started, stopped, started again, and waited for until they are idle.

@dataclass(slots=True)
class Shop(ManagerHarness):
    async def add_controllers(self, manager: Manager) -> None:
        add_shop(manager)

shop = Shop(environment, folder)
await shop.start_manager()
await shop.idle()
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Sized
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.idle import WITHIN, idle
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.manager import ElectionOptions, Manager, ManagerOptions
from ctrlruntime.manager.logs import make_logger
from tests.support.memories import kept_of_gone

PATIENT = ElectionOptions(lease_duration=90.0, renew_deadline=80.0, retry_period=0.2)
"""Leases are released, not waited for: a machine that has much else to do must not lose one."""
SILENCE = 0.5
"""Seconds without a request that count as idle for managers in other processes."""
TURNS = 10
"""Turns of the loop in which that time passes, at least."""
LIMIT = 120.0
"""Seconds after which a manager that never is idle is an error."""


def make_manager(
    config: Config,
    *,
    logger: FilteringBoundLogger | None = None,
    cache: CacheOptions | None = None,
    **options: object,
) -> Manager:
    """Return a manager that serves neither metrics nor health unless `options`, those of ManagerOptions, say so.

    `logger`: None for one whose output a test can capture.
    """
    given: dict[str, Any] = {"metrics_bind_address": "0", "health_bind_address": "0", **options}
    return Manager(
        config,
        ManagerOptions(**given),
        logger=logger or structlog.get_logger(),
        cache_options=cache,
    )


@dataclass(slots=True)
class ManagerHarness:
    """A manager on the loop of the test, as the user `manager` of an environment with a proxy.

    Subclasses add its controllers. Its log is `manager.log` in the folder.
    """

    environment: Environment
    folder: Path
    manager: Manager | None = field(default=None, init=False)
    """The manager that runs."""
    _running: contextlib.AsyncExitStack = field(
        default_factory=contextlib.AsyncExitStack, init=False
    )

    async def add_controllers(self, manager: Manager) -> None:
        """Add the controllers that are tested."""
        raise NotImplementedError

    def make_manager(self, config: Config, logger: FilteringBoundLogger) -> Manager:
        """Return a new manager without controllers."""
        return make_manager(config, logger=logger, name="manager")

    async def start_manager(self, add: Callable[[Manager], None] | None = None) -> None:
        """Start a manager, and wait until its controllers run. `add` takes the place of `add_controllers`."""
        stream = self._running.enter_context(self.log.open("a"))
        logger = make_logger(format="console", stream=stream)
        manager = self.make_manager(self.environment.config("manager"), logger)
        if add is None:
            await self.add_controllers(manager)
        else:
            add(manager)
        await self._running.enter_async_context(manager.running())
        self.manager = manager

    async def stop_manager(self) -> None:
        """Stop the manager in an orderly way; harmless when none runs. Fail if it remembers objects that are gone."""
        kept = [] if self.manager is None else kept_of_gone(self.manager)
        await self._running.aclose()
        self.manager = None
        assert not kept, kept

    async def restart_manager(self) -> None:
        """Stop the manager and start another."""
        await self.stop_manager()
        await self.start_manager()

    @property
    def log(self) -> Path:
        """The file with the logs of all managers."""
        return self.folder / "manager.log"

    @property
    def client(self) -> Client:
        """A client past the proxy; it is not counted."""
        return self.environment.client("envtest")

    def mark(self) -> Mark:
        """Return the present place in the log of requests."""
        return self.environment.proxy.log.mark()

    def requests(self, since: Mark | None = None) -> list[LogEntry]:
        """Return what the manager sent since then, watches aside."""
        entries = self.environment.proxy.log.entries(since)
        return [each for each in entries if each.user == "manager" and each.verb != "watch"]

    def writes(self, since: Mark | None = None) -> list[LogEntry]:
        """Return what the manager wrote since then, or tried to."""
        return [each for each in self.requests(since) if each.verb not in ("get", "list")]

    async def idle(self, within: float = WITHIN, lost_after: float = math.inf) -> None:
        """Wait until the manager has nothing left to do, nor within so many seconds; see `ctrlruntime.envtest.idle`.

        Without one in this process: until those of other processes are silent.
        """
        if self.manager is None:
            await self.silent()
            return
        await idle(self.manager, self.client, within=within, lost_after=lost_after, timeout=LIMIT)

    async def silent(self, seconds: float = SILENCE) -> None:
        """Wait until managers of other processes, whose state is not to be seen, send nothing for so long."""
        async with asyncio.timeout(LIMIT):
            while not await is_silent(partial(self.requests, self.mark()), seconds):
                pass


async def is_silent(sent: Callable[[], Sized], seconds: float = SILENCE) -> bool:
    """Return whether nothing is `sent` for so long. Looks in turns: a process that the machine did not run meanwhile was not idle."""
    for _ in range(TURNS):
        await asyncio.sleep(seconds / TURNS)
        if sent():
            return False
    return True
