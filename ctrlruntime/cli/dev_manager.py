"""A manager whose controllers are replaced while its caches go on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.errors import CacheError
from ctrlruntime.cache.redeclaration import Redeclaration
from ctrlruntime.cli.dev_passes import Pass, PassRecorder
from ctrlruntime.client.call import Call
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.cluster.provider import ProviderRunnable
from ctrlruntime.controller import Controller, Reconciler
from ctrlruntime.controller.options import Settings
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.health import Check
from ctrlruntime.manager.http_message import HTTPHandler
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.runnables import Group, Runnable, group_of
from ctrlruntime.manager.watchdog import LoopWatchdog
from ctrlruntime.manager.webhooks import Webhooks
from ctrlruntime.queue import Request

UNLIMITED: Final = 86_400.0
"""Seconds, in place of every limit that a breakpoint would exceed."""

Setup = Callable[[Manager], object]


def for_development(options: ManagerOptions) -> ManagerOptions:
    """Return options without what disturbs on a developer's machine: election, ports and time limits."""
    transport = replace(options.client.transport, connect_timeout=UNLIMITED)
    return replace(
        options,
        leader_election=False,
        metrics_bind_address="0",
        health_bind_address="0",
        diagnostics_bind_address="0",
        handle_signals=False,
        client=replace(options.client, timeout=UNLIMITED, transport=transport),
    )


@dataclass(slots=True, eq=False)
class Generation:
    """What one load of the project's code added to the manager."""

    names: set[str] = field(default_factory=set)
    controllers: list[Controller[Any]] = field(default_factory=list)
    runnables: list[Runnable] = field(default_factory=list)
    declared: list[Redeclaration] = field(default_factory=list)
    webhooks: Webhooks | None = None
    tasks: dict[asyncio.Task[None], Runnable] = field(default_factory=dict)

    def start(self, runnable: Runnable, failed: Callable[[Runnable, Exception], None]) -> None:
        """Run one of its controllers or runnables."""

        async def run() -> None:
            try:
                await runnable.start()
            except Exception as error:  # noqa: BLE001 - it ends alone: the next edit mends it
                failed(runnable, error)

        self.tasks[asyncio.create_task(run(), name=repr(runnable))] = runnable

    def running(self, *names: str) -> list[asyncio.Task[None]]:
        """Return the tasks of its controllers of these names that have not ended."""
        return [
            task
            for task, runnable in self.tasks.items()
            if isinstance(runnable, Controller) and runnable.name in names and not task.done()
        ]

    async def cancel(self, *, controllers: bool) -> None:
        """Cancel its runnables, and its controllers too if wanted, and wait until they have ended."""
        chosen = [t for t, r in self.tasks.items() if controllers or not isinstance(r, Controller)]
        for task in chosen:
            task.cancel()
        await asyncio.gather(*chosen, return_exceptions=True)


_staged: ContextVar[Generation | None] = ContextVar("ctrlruntime_dev_staged", default=None)


class DevManager(Manager):
    """Runs what the latest load of a project's code added.

    :meth:`reload` calls the new ``setup``; where that fails, the former code goes on. Otherwise the former
    controllers begin no further reconcile, those in progress end, and the new controllers start on the same
    caches: every object that is stored is reconciled by the new code, and nothing is listed.
    """

    def __init__(
        self,
        config: Config,
        options: ManagerOptions,
        *,
        shown: Callable[[Pass], None],
        note: Callable[[str], None],
        logger: FilteringBoundLogger | None = None,
    ) -> None:
        """`shown` receives each reconcile that has ended, `note` a line for the developer."""
        self._passes = PassRecorder(self._state_of, shown, note)
        self._note = note
        self._current: Generation | None = None
        self._ending: set[asyncio.Task[None]] = set()
        super().__init__(config, for_development(options), logger=logger)

    # -- what setup functions call -----------------------------------------------------------

    def prepare_controller(
        self, name: str, settings: Settings, reconciler: Reconciler[Any]
    ) -> tuple[Settings, Reconciler[Any]]:
        """Record its reconciles, and let them take as long as a breakpoint does."""
        settings = replace(
            settings,
            cache_sync_timeout=UNLIMITED,
            reconciliation_timeout=None,
            recover_panic=True,
            enable_warmup=False,
        )
        return settings, self._passes.wrap(name, reconciler)

    def claim_controller_name(self, name: str) -> None:
        """Raise ValueError for a second controller of a name in one load."""
        staged = self._generation()
        if staged is None:
            super().claim_controller_name(name)
        elif name in staged.names:
            raise ValueError(f"there is a controller {name!r} already: name it with named()")
        else:
            staged.names.add(name)

    def add(self, runnable: Runnable) -> None:
        """Keep what a load adds until it is complete; start what its code adds later."""
        generation = self._generation()
        if isinstance(runnable, LoopWatchdog):
            return
        if generation is None or group_of(runnable) is Group.CACHES:
            super().add(runnable)
        elif isinstance(runnable, ProviderRunnable):
            self._add_provider(runnable)
        else:
            self._add(generation, runnable)

    @property
    def webhooks(self) -> Webhooks:
        """The webhooks of the load, which replace those of the one before."""
        generation = self._generation()
        if generation is None:
            return super().webhooks
        if generation.webhooks is None:
            options = self.options.webhook
            generation.webhooks = Webhooks(options, Metrics(), self.logger, self._connect)
            generation.runnables.append(generation.webhooks)
        return generation.webhooks

    def add_healthz_check(self, name: str, check: Check) -> None:
        """Do nothing: no health is served."""

    def add_readyz_check(self, name: str, check: Check) -> None:
        """Do nothing: no readiness is served."""

    def add_metrics_handler(self, path: str, handler: HTTPHandler) -> None:
        """Do nothing: no metrics are served."""

    # -- loads -------------------------------------------------------------------------------

    async def reload(
        self, load: Callable[[], Awaitable[Setup]], ready: Callable[[], Awaitable[None]]
    ) -> None:
        """Replace what runs by what `load` returns adds. Raises what it raises, and the former code goes on.

        `ready` is awaited once all was added, before anything is replaced.
        """
        staged = Generation()
        with contextlib.ExitStack() as stack:
            for cluster in (self.cluster, *self._clusters):
                staged.declared.append(stack.enter_context(cluster.cache.redeclaring()))
            token = _staged.set(staged)
            try:
                setup = await load()
                added = setup(self)
                if inspect.isawaitable(added):
                    await added
                await ready()
            except BaseException:
                for declared in staged.declared:
                    await declared.undo()
                self._forget_queues(staged)
                self._passes.go_on(replaced=False)
                raise
            finally:
                _staged.reset(token)
        self._passes.go_on(replaced=True)
        await self._replace(staged)

    @property
    def cached_objects(self) -> int:
        """The number of objects in the manager's own cache."""
        return sum(each.objects for each in self.cache.stats())

    @property
    def stale_transforms(self) -> list[str]:
        """Kinds whose stored objects are as a transform of former code made them."""
        return [
            kind
            for each in (self._current.declared if self._current else ())
            for kind in each.stale
        ]

    async def end(self, grace: float) -> None:
        """End everything of the project: reconciles in progress have `grace` seconds."""
        current = self._current
        if current is None:
            return
        for controller in current.controllers:
            controller.shutdown()
        self._passes.go_on(replaced=True)
        if running := current.running(*current.names):
            await asyncio.wait(running, timeout=grace)
        await current.cancel(controllers=True)
        for task in self._ending:
            task.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)

    # -- inside ------------------------------------------------------------------------------

    def _intercepted(self, client: Client) -> Client:
        return super()._intercepted(client).intercepted(self._passes.intercept)

    def _generation(self) -> Generation | None:
        """Return what is being loaded, else what runs; None while the manager itself is made."""
        return _staged.get() or self._current

    def _add(self, generation: Generation, runnable: Runnable) -> None:
        if isinstance(runnable, Controller):
            generation.controllers.append(runnable)
            for cluster in self._clusters:
                runnable.engage(cluster)
        else:
            generation.runnables.append(runnable)
        if generation is self._current:
            self._controllers = list(generation.controllers)
            generation.start(runnable, self._failed)

    def _add_provider(self, runnable: ProviderRunnable) -> None:
        if self._current is None:
            super().add(runnable)
        else:
            self._note(f"{runnable!r} goes on as it is: a change of it needs a restart")

    async def _replace(self, staged: Generation) -> None:
        former, self._current = self._current, staged
        self._controllers = list(staged.controllers)
        if former is not None:
            await self._retire(former, staged)
        for runnable in (*staged.runnables, *staged.controllers):
            staged.start(runnable, self._failed)

    async def _retire(self, former: Generation, staged: Generation) -> None:
        """Begin no further reconcile of the former code. Returns once the new one may start.

        The new controller of the same name waits, object by object, for a former reconcile in progress; one that
        has no successor is waited for here.
        """
        for controller in former.controllers:
            controller.shutdown()
        await former.cancel(controllers=False)
        if gone := former.running(*(former.names - staged.names)):
            self._note(f"waiting for {len(gone)} controllers that are no longer there")
            await asyncio.wait(gone)
        task = asyncio.create_task(self._end_former(former), name="former code")
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end_former(self, former: Generation) -> None:
        """Release what the former code declared once its reconciles in progress have ended."""
        try:
            if former.tasks:
                await asyncio.wait(former.tasks)
        finally:
            await former.cancel(controllers=True)
            self._forget_queues(former)
            for declared in former.declared:
                await declared.release()

    def _forget_queues(self, generation: Generation) -> None:
        for controller in generation.controllers:
            self.metrics.forget_queue(controller.name, controller.queue.core)

    def _failed(self, runnable: Runnable, error: Exception) -> None:
        self.logger.error("Ended by an error; change the code to start it again", error=repr(error))
        self._note(f"{runnable!r} ended: {type(error).__name__}: {error}")

    def _state_of(self, call: Call, current: Pass) -> Manifest | None:
        """Return an object as the cache of the reconcile's cluster has it; None where that is unknown."""
        if call.name is None:
            return None
        request = current.request
        try:
            cluster = self.get_cluster(request.cluster if isinstance(request, Request) else "")
            if cluster.cache.metadata_only(call.mapping):
                return None
            entry = cluster.cache.entry(call.mapping, call.name, namespace=call.namespace)
        except (CacheError, LookupError):
            return None
        return None if entry is None else entry.readable()
