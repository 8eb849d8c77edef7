"""The informers in use: each runs from its first use to its last, and all are waited for together."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.errors import CacheSyncTimeout
from ctrlruntime.cache.informer import Informer, Selection
from ctrlruntime.client.errors import APIError

Declared: TypeAlias = tuple[GroupVersionKind, Selection]


class InformerHandle:
    """One use of an informer. The informer ends with its last use."""

    def __init__(self, informer: Informer, release: Callable[[], None]) -> None:
        self.informer = informer
        self._release: Callable[[], None] | None = release

    async def release(self) -> None:
        """Doing so twice is harmless."""
        release, self._release = self._release, None
        if release is not None:
            release()


@dataclass(slots=True, eq=False)
class Use:
    """The uses of one informer."""

    informer: Informer
    count: int = 0
    task: asyncio.Task[None] | None = None
    ready: bool = False
    optional: bool = True
    """Whether every declaration is optional."""
    sync_timeout: float | None = None
    """The shortest of all declarations."""

    def declare(self, *, optional: bool, sync_timeout: float | None) -> None:
        """Count one declaration more."""
        self.count += 1
        self.optional = self.optional and optional
        if sync_timeout is not None:
            self.sync_timeout = min(sync_timeout, self.sync_timeout or sync_timeout)

    def __str__(self) -> str:
        return f"{self.informer.gvk}: {self.informer.last_error or 'no answer yet'}"


class InformerUses:
    """All uses, by kind and selection. Iterates over the informers."""

    def __init__(self, logger: FilteringBoundLogger) -> None:
        self.started = False
        self._uses: dict[Declared, Use] = {}
        self._unready = 0
        """One counter for all informers, so that readiness never needs a scan."""
        self._all_ready = asyncio.Event()
        self._all_ready.set()
        self._ended = asyncio.Event()
        self._log = logger

    def __iter__(self) -> Iterator[Informer]:
        return (use.informer for use in self._uses.values())

    def declared(self) -> dict[RESTMapping, bool]:
        """Return the kinds, and for each whether every declaration keeps metadata only."""
        kinds: dict[RESTMapping, bool] = {}
        for informer in self:
            mapping = informer.mapping
            kinds[mapping] = kinds.get(mapping, True) and informer.metadata_only
        return kinds

    async def take_slots(self, slots: frozenset[int]) -> None:
        """Add slots to the sharded informers; see `Cache.take_slots`."""
        await asyncio.gather(*(self._take(use, slots) for use in self._of_slots()))

    async def drop_slots(self, slots: frozenset[int]) -> None:
        """Forget the objects of slots; see `Cache.drop_slots`."""
        moves = [use.informer.moves for use in self._of_slots()]
        for each in moves:
            each.let_go(slots)
        await asyncio.gather(*(each.drop(slots) for each in moves))

    async def _take(self, use: Use, slots: frozenset[int]) -> None:
        try:
            await use.informer.moves.take(slots)
        except APIError as error:
            if not use.optional:
                raise
            self._log.error(
                "slots of an optional kind cannot be listed; they are left out",
                kind=str(use.informer.gvk),
                error=str(error),
            )

    def _of_slots(self) -> list[Use]:
        return [use for use in self._uses.values() if use.informer.selection.sharded]

    def find(self, declared: Declared) -> Use | None:
        """Return the uses of an informer, None if there is none."""
        return self._uses.get(declared)

    def add(self, declared: Declared, informer: Informer) -> Use:
        """Add an informer, which runs at once if the others do."""
        use = self._uses[declared] = Use(informer)
        self._unready += 1
        self._all_ready.clear()
        if self.started:
            self._run(use)
        return use

    def restart(self, use: Use) -> None:
        """Run an informer anew, if it runs: it lists again."""
        if use.task is None:
            return
        use.task.cancel()
        self._run(use)

    def release(self, declared: Declared) -> Informer | None:
        """End one use. Returns the informer if that was the last, which has ended."""
        use = self._uses[declared]
        use.count -= 1
        if use.count:
            return None
        del self._uses[declared]
        if use.task is not None:
            use.task.cancel()
        if not use.ready:
            self._now_ready(use)
        return use.informer

    def record_readiness(self, informer: Informer) -> None:
        """Record that an informer has synced, or is of a kind that the server lacks."""
        use = self._uses.get((informer.gvk, informer.selection))
        if use is not None and not use.ready:
            self._now_ready(use)

    def _now_ready(self, use: Use) -> None:
        use.ready = True
        self._unready -= 1
        if not self._unready:
            self._all_ready.set()

    # -- life ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start every informer. Raises RuntimeError the second time."""
        if self.started:
            raise RuntimeError("the cache is already started")
        self.started = True
        for use in self._uses.values():
            self._run(use)

    def _run(self, use: Use) -> None:
        use.task = asyncio.get_running_loop().create_task(
            use.informer.run(), name=f"informer {use.informer.gvk}"
        )

    async def stop(self) -> None:
        """End every watch."""
        self._ended.set()
        tasks = [use.task for use in self._uses.values() if use.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_ended(self) -> None:
        """Wait until `stop` is called."""
        await self._ended.wait()

    @property
    def stopped(self) -> bool:
        return self._ended.is_set()

    # -- readiness -------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether every informer has synced and none starts again after an unexpected error."""
        restarting = any(use.informer.restarting for use in self._uses.values())
        return self.started and self._all_ready.is_set() and not restarting

    async def wait_synced(self, timeout: float | None) -> None:
        """Wait until all informers have synced once. Raises TimeoutError naming the rest."""
        try:
            async with asyncio.timeout(timeout):
                await self._all_ready.wait()
        except TimeoutError as error:
            waiting = "; ".join(map(str, self._waiting()))
            raise TimeoutError(f"not synced within {timeout} s: {waiting}") from error

    async def wait_started(self, timeout: float) -> None:
        """Wait until all have synced, each no longer than its own ``sync_timeout``, or else ``timeout`` seconds.

        Optional ones that have not synced by then are logged. Raises CacheSyncTimeout, which names the others.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self._all_ready.is_set():
            limits = {use: use.sync_timeout or timeout for use in self._waiting()}
            first = min(limits.values())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(began + first):
                    await self._all_ready.wait()
                continue
            late = [use for use in self._waiting() if limits.get(use, first + 1.0) <= first]
            required = [str(use) for use in late if not use.optional]
            if required:
                raise CacheSyncTimeout(
                    f"not synced within {first:g} s: {'; '.join(required)}. Allow this user to list "
                    "and watch them, or set a longer cache_sync_timeout"
                )
            for use in late:
                self._log.error(
                    "an optional kind has not synced; it is not waited for",
                    kind=str(use.informer.gvk),
                    error=str(use.informer.last_error or "no answer yet"),
                )
                self._now_ready(use)

    def _waiting(self) -> list[Use]:
        return [use for use in self._uses.values() if not use.ready]

    def unsynced(self) -> dict[GroupVersionKind, Exception | None]:
        """Return the kinds that keep `synced` False, and the last error of each."""
        return {
            use.informer.gvk: use.informer.last_error
            for use in self._uses.values()
            if not use.ready or use.informer.restarting
        }

    def failed(self) -> dict[GroupVersionKind, Exception | None]:
        """Return kinds whose informer has had ``failure_threshold`` unexpected errors in a row, or has ended, and the last error of each."""
        return {
            use.informer.gvk: use.informer.last_error
            for use in self._uses.values()
            if use.informer.failed
            or (use.task is not None and use.task.done() and not self.stopped)
        }
