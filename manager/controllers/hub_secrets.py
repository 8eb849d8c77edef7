"""Where a stack watches Secrets of the hub when it may not watch all: its parallel namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.cache import Event, Informer
from ctrlruntime.client import APIError, Client, Config, TransportError
from ctrlruntime.manager import Manager
from internal.fleet.hub import parallel_label
from internal.fleet.targets import TRUE

NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
CLUSTER: Final = "hub-namespaces"
"""The hub once more: with a cache that does not select objects of the data plane."""
SETTLE: Final = 5.0
"""Seconds in which further namespaces may be labelled before the stack is started again."""
TIMEOUT: Final = 10.0
"""Seconds that the hub has for the list at the start."""


class HubNamespacesChanged(RuntimeError):
    """The stack's parallel namespaces are others than at its start."""


def selector_of(target: str) -> str:
    """Return the label selector of a target namespace's parallel namespaces."""
    return f"{parallel_label(target)}={TRUE}"


def watched_namespaces(target: str, parallel: Iterable[str]) -> frozenset[str]:
    """Return where Secrets are watched; the target namespace is among them, so that there is always one."""
    return frozenset({target, *parallel})


async def secret_namespaces(
    config: Config, target: str, logger: FilteringBoundLogger
) -> frozenset[str]:
    """List where a stack may watch Secrets. Of a hub that does not answer only the target namespace is known."""
    found: list[str] = []
    try:
        async with asyncio.timeout(TIMEOUT), Client.connect(config, logger=logger) as client:
            items = await client.list(NAMESPACE, labels=selector_of(target), metadata_only=True)
            found = [each["metadata"]["name"] for each in items]
    except (APIError, TransportError, TimeoutError) as error:
        logger.warning("Parallel namespaces are not known yet", error=str(error))
    return watched_namespaces(target, found)


@dataclass(slots=True)
class NamespaceGuard:
    """Ends the process when the parallel namespaces change, so that it is started with the right ones."""

    informer: Informer
    target: str
    watched: frozenset[str]
    settle: float = SETTLE
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    needs_leader_election = False

    def __repr__(self) -> str:
        return "NamespaceGuard()"

    def __call__(self, _event: Event) -> None:
        """Take in an event of a namespace."""
        self._changed.set()

    async def start(self) -> None:
        """Raise HubNamespacesChanged once that is so."""
        await self.informer.wait_synced()
        while not self._is_other():
            self._changed.clear()
            await self._changed.wait()
            await asyncio.sleep(self.settle)
        raise HubNamespacesChanged(
            "the parallel namespaces have changed: the stack starts again to watch their Secrets"
        )

    def _is_other(self) -> bool:
        names = (each.name for each in self.informer.store.list())
        return watched_namespaces(self.target, names) != self.watched


async def guard_namespaces(
    manager: Manager, config: Config, target: str, watched: frozenset[str]
) -> None:
    """Watch the parallel namespaces, by a cluster of its own."""
    cluster = manager.new_cluster(CLUSTER, config)
    handle = cluster.cache.declare(NAMESPACE, labels=selector_of(target), metadata_only=True)
    guard = NamespaceGuard(handle.informer, target, watched)
    handle.informer.add_handler(guard)
    manager.add(guard)
    await manager.engage(cluster)
