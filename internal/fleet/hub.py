"""The hub as the stack of a data plane sees it: what its errors mean, and whether it answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.cache.errors import OutsideCache
from ctrlruntime.client.errors import (
    APIError,
    Forbidden,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TransportError,
)
from ctrlruntime.clock import monotonic
from internal.fleet.labels import ACCOUNT
from internal.fleet.stack_bindings import WRITER

GRACE: Final = 10.0
"""Seconds without an answer after which the hub counts as unreachable."""
PROBE_PERIOD: Final = 2.0
"""Seconds between two probes, which are sent only while requests have failed."""

_NOT_GRANTED: Final = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<plural>[^"]+)"(?: in API group "(?P<group>[^"]*)")?.* in the namespace "'
)


class HubReason(StrEnum):
    """Why the hub has not got an object: a reason of the condition HubReady."""

    UNREACHABLE = "HubUnreachable"
    NAMESPACE_MISSING = "NamespaceMissing"
    NAMESPACE_NOT_GRANTED = "NamespaceNotGranted"


@dataclass(frozen=True, slots=True)
class HubTrouble:
    """A reason, and what to do about it."""

    reason: HubReason
    message: str


def parallel_label(target_namespace: str) -> str:
    """Return the label of the hub namespaces in which the stack of a target namespace may write."""
    return f"{PARALLEL_PREFIX}{target_namespace}"


def instead_of_foreign(target_namespace: str) -> str:
    """Return what to do instead of having a template use another namespace than its Tenant's, with `{name}`."""
    return (
        "a stack of scale mode has no option for that, as the hub lets none of them make Namespaces. Have the Tenant in that "
        "namespace, which is made on both sides; on the data plane: kubectl create namespace {name}; on the hub: kubectl create "
        f"namespace {{name}} && kubectl label namespace {{name}} {parallel_label(target_namespace)}=true"
    )


def explain(error: Exception, namespace: str, target_namespace: str) -> HubTrouble | None:
    """Return what is wrong with the hub, from an error of a write in a namespace; None: the object is."""
    if isinstance(error, TransportError | ServiceUnavailable | ServerTimeout):
        return unreachable(str(error))
    grant = f"kubectl label namespace {namespace} {parallel_label(target_namespace)}=true"
    if _is_missing_namespace(error, namespace):
        return HubTrouble(
            HubReason.NAMESPACE_MISSING,
            f"The hub has no namespace {namespace!r} for the workloads of this one; its owner creates it: "
            f"kubectl create namespace {namespace} && {grant}",
        )
    refused = _NOT_GRANTED.search(error.message) if isinstance(error, Forbidden) else None
    # Out of the cache are Secrets of namespaces without the label, where their reading is restricted.
    if namespace and (refused or isinstance(error, OutsideCache)):
        return HubTrouble(
            HubReason.NAMESPACE_NOT_GRANTED,
            f"The stack of {target_namespace} may not {_right(refused)} in the namespace {namespace!r} of the hub, or it does "
            f"not exist. To create it: kubectl create namespace {namespace}. To allow it: {grant}. If it has that label, "
            f"the ClusterRole {WRITER} lacks the right: bind a Role with it to the ServiceAccount {ACCOUNT} of {target_namespace}",
        )
    return None


def unreachable(error: str) -> HubTrouble:
    """Return that the hub gave no usable answer."""
    return HubTrouble(
        HubReason.UNREACHABLE,
        f"The hub does not answer ({error}): workloads run on as they are, and are looked at again once it "
        "does. Objects that are only on the data plane are reconciled",
    )


def _right(refused: re.Match[str] | None) -> str:
    """Return the verb and the resource that were refused; of Secrets that are not read there is no answer."""
    if refused is None:
        return "read Secrets"
    group = refused["group"] or ""
    return f"{refused['verb']} {refused['plural']}{group and f'.{group}'}"


def _is_missing_namespace(error: Exception, namespace: str) -> bool:
    if not isinstance(error, NotFound) or not namespace:
        return False
    named = (error.details.get("kind"), error.details.get("name"))
    return named == ("namespaces", namespace)


class HubMonitor:
    """Finds out whether the hub answers, without a request while it does.

    Failed watches and writes are reported to it; it then probes until the hub answers again.
    """

    needs_leader_election = False

    def __init__(
        self,
        *,
        grace: float = GRACE,
        period: float = PROBE_PERIOD,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`grace`: seconds without an answer after which the hub is unreachable; `period`: between probes."""
        self._grace = grace
        self._period = period
        self._clock = clock
        self._suspect = asyncio.Event()
        self._since: float | None = None
        self._trouble: HubTrouble | None = None
        self.probe: Callable[[], Awaitable[object]] | None = None
        """Sends one request. Raises TransportError for none or no answer."""
        self.catch_up: Callable[[], Awaitable[object]] | None = None
        """Has the caches hold what the hub has now. It may have been restored from a backup."""
        self._on_change: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return "HubMonitor()"

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the hub has become unreachable, and when it answers again."""
        self._on_change.append(on_change)

    def failed(self, error: Exception) -> None:
        """Take in the error of a request or watch."""
        if isinstance(error, TransportError | TimeoutError):
            self._suspect.set()

    def unreachable(self) -> HubTrouble | None:
        """Return that the hub has not answered for a while; None: it answers."""
        return self._trouble

    async def start(self) -> None:
        """Probe while something has failed, until cancelled."""
        while True:
            await self._suspect.wait()
            await self._until_answered()

    async def _until_answered(self) -> None:
        self._since = self._clock()
        while (error := await self._probe()) is not None:
            if self._trouble is None and self._clock() - self._since >= self._grace:
                self._trouble = unreachable(error)
                self._notify()
            await asyncio.sleep(self._period)
        self._suspect.clear()  # what fails from now on counts again
        self._since = None
        if self._trouble is not None:
            if self.catch_up is not None:
                await self.catch_up()
            self._trouble = None
            self._notify()

    def _notify(self) -> None:
        for each in self._on_change:
            each()

    async def _probe(self) -> str | None:
        """Return why there was no answer, or None; a refusal is an answer."""
        if self.probe is None:
            return None
        try:
            await self.probe()
        except (TransportError, TimeoutError, ServiceUnavailable, ServerTimeout) as error:
            return str(error) or type(error).__name__
        except APIError:
            return None
        return None
