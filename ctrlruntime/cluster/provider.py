"""Providers: they engage and disengage clusters while a manager runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.config import Config, ConfigError
from ctrlruntime.cluster.cluster import Cluster, ClusterOptions
from ctrlruntime.side_by_side import as_failure

RETRY: Final = 10.0
"""Seconds until an engagement is tried again that failed for a reason other than its kubeconfig."""


class Engager(Protocol):
    """Takes clusters in; a Manager is one."""

    @property
    def logger(self) -> FilteringBoundLogger: ...

    def new_cluster(
        self, name: str, config: Config, options: ClusterOptions | None = None
    ) -> Cluster:
        """Make a cluster with the metrics, the logger and the fence of this manager."""
        ...

    async def engage(self, cluster: Cluster) -> None:
        """Start a cluster and all controllers that select it. Raises ValueError for a name in use."""
        ...

    async def disengage(self, name: str) -> None:
        """Stop a cluster. Returns when nothing of it runs any more."""
        ...


class Provider(Protocol):
    """Finds out which clusters there are."""

    async def run(self, engager: Engager) -> None:
        """Engage and disengage clusters until cancelled."""
        ...


class ProviderRunnable:
    """A provider as a runnable of a manager; it runs on standbys too, so that their caches are filled."""

    needs_leader_election = False

    def __init__(self, provider: Provider, engager: Engager) -> None:
        self._provider = provider
        self._engager = engager

    def __repr__(self) -> str:
        return f"ProviderRunnable({type(self._provider).__name__})"

    async def start(self) -> None:
        await self._provider.run(self._engager)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A cluster that should be engaged: ``load`` makes its Config, ``digest`` changes with it."""

    digest: str
    load: Callable[[], Config]
    """Runs in a thread. Raises ConfigError."""


OnFailure = Callable[[str, str], None]
"""Receives the name of a cluster and why it is not engaged, or not as its kubeconfig has it now."""


@dataclass(slots=True)
class _Target:
    wanted: Wanted | None = None
    engaged: str = ""
    """The digest that is engaged; empty if none is."""
    refused: str = ""
    """The digest of a kubeconfig that was refused; the cluster engaged before it stays."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class ClusterSync:
    """Engages the clusters that are wanted, one task for each name: none waits for another.

    A new digest disengages the cluster and engages it again. A kubeconfig that cannot be used is
    reported once, and the cluster engaged before it stays.
    """

    def __init__(
        self,
        engager: Engager,
        options: ClusterOptions | None,
        on_failure: OnFailure,
        on_insecure: OnFailure = lambda _name, _why: None,
    ) -> None:
        """`on_insecure` receives why others may read or change what goes to a cluster that is engaged."""
        self._engager = engager
        self._options = options
        self._on_failure = on_failure
        self._on_insecure = on_insecure
        self._targets: dict[str, _Target] = {}

    @property
    def names(self) -> set[str]:
        """The clusters wanted."""
        return {name for name, target in self._targets.items() if target.wanted is not None}

    def want(self, name: str, wanted: Wanted) -> None:
        """Have a cluster engaged."""
        self._set(name, wanted)

    def drop(self, name: str) -> None:
        """Have a cluster disengaged."""
        if name in self._targets:
            self._set(name, None)

    async def close(self) -> None:
        """Change nothing more; engaged clusters stay, and end with their manager."""
        tasks = [target.task for target in self._targets.values() if target.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _set(self, name: str, wanted: Wanted | None) -> None:
        target = self._targets.setdefault(name, _Target())
        target.wanted = wanted
        target.changed.set()
        if target.task is None:
            target.task = asyncio.create_task(self._follow(name, target), name=f"cluster {name}")

    async def _follow(self, name: str, target: _Target) -> None:
        while True:
            target.changed.clear()
            try:
                await self._step(name, target)
            except BaseException as raised:  # noqa: BLE001 - one cluster's failure must not end the others
                error = as_failure(raised)
                self._on_failure(name, f"{type(error).__name__}: {error}")
                await self._wait(target, RETRY)
                continue
            if target.wanted is None and not target.engaged and not target.changed.is_set():
                del self._targets[name]
                return
            await self._wait(target, None)

    async def _wait(self, target: _Target, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await target.changed.wait()
        except TimeoutError:
            return

    async def _step(self, name: str, target: _Target) -> None:
        """Do what is wanted now; it may have changed by the time this returns."""
        wanted = target.wanted
        if wanted is None:
            if target.engaged:
                await self._engager.disengage(name)
                target.engaged = ""
            target.refused = ""
            return
        if wanted.digest == target.engaged:
            target.refused = ""
            return
        if wanted.digest == target.refused:
            return
        try:
            config = await asyncio.to_thread(_usable, wanted)
        except ConfigError as error:
            target.refused = wanted.digest
            self._on_failure(name, str(error))
            return
        target.refused = ""
        if target.engaged:
            await self._engager.disengage(name)
            target.engaged = ""
        cluster = self._engager.new_cluster(name, config, self._options)
        try:
            await self._engager.engage(cluster)
        except BaseException:
            await cluster.close()
            raise
        target.engaged = wanted.digest
        if config.insecurity:
            self._engager.logger.warning(
                "Cluster reached insecurely", cluster=name, reason=config.insecurity
            )
            self._on_insecure(name, config.insecurity)


def _usable(wanted: Wanted) -> Config:
    """Load a configuration, its certificates included. Raises ConfigError."""
    try:
        config = wanted.load()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError("it is no kubeconfig: its fields have other types") from error
    try:
        config.ssl_context()
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"its certificates cannot be used: {type(error).__name__}") from error
    return config
