"""The webhook configuration of a data plane, kept by the admission Pods of its stack."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api import BUILTIN, Manifest
from ctrlruntime.client import APIError, Client, NotFound, TransportError
from ctrlruntime.controller import Builder, Result
from ctrlruntime.controller.event_dispatch import EventDispatcher
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.manager import Group, Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import removal_of, remove_object
from ctrlruntime.webhook.injection import VALIDATING
from internal.fleet.admission_url import configuration, is_ours, is_same
from internal.fleet.labels import ACCOUNT, ADMISSION
from internal.fleet.plane_holder import DataPlaneNotUnique, PlaneHolder

if TYPE_CHECKING:
    from ctrlruntime.generate.webhook import Webhook

MAPPING: Final = BUILTIN[VALIDATING]
STOP: Final = 5.0
"""Seconds that the removal may take at a stop."""


def add_plane_webhooks(
    manager: Manager, url: str, webhooks: Sequence[Webhook], holder: PlaneHolder
) -> None:
    """Keep the configuration of `webhooks` on the data plane, or without a `url` remove the one that a stack has made.

    `holder`: while another stack holds the data plane, nothing of it is written.
    """
    wanted = configuration(url, webhooks) if url else None
    reconciler = PlaneWebhooks(manager.live_client, wanted, holder, manager.logger)
    if wanted is None:
        manager.add(_Once(reconciler))
        return
    (
        Builder(manager)
        .named("planewebhooks")
        .for_(MAPPING, fields=f"metadata.name={ADMISSION}")
        .watches_raw(_AtStart("the start"))
        .explicit_permissions()  # config/data-plane
        .build(reconciler)
    )
    manager.add(_Kept(reconciler))


@dataclass(slots=True)
class PlaneWebhooks:
    """Brings the configuration to what is wanted. One that no stack made is never changed."""

    client: Client
    wanted: Manifest | None
    holder: PlaneHolder
    logger: FilteringBoundLogger

    async def reconcile(self, _request: Request) -> Result | None:
        """Make one pass. Raises the client's errors."""
        self.holder.check()
        found = await self._read()
        if found is not None and not is_ours(found):
            self.logger.error(
                "The webhook configuration is not of a stack, and left as it is", name=ADMISSION
            )
        elif self.wanted is None:
            await self._remove(found)
        elif found is None or not is_same(found, self.wanted):
            await self.client.apply(self.wanted, field_manager=ACCOUNT, force=True)
        return None

    async def remove(self) -> None:
        """Remove the configuration, if a stack has made it. Raises the client's errors, and DataPlaneNotUnique."""
        self.holder.check()
        found = await self._read()
        if found is not None and is_ours(found):
            await self._remove(found)

    async def _read(self) -> Manifest | None:
        try:
            return await self.client.get(MAPPING, ADMISSION)
        except NotFound:
            return None

    async def _remove(self, found: Manifest | None) -> None:
        if found is None:
            return
        removal = removal_of(MAPPING, found["metadata"], Cause.SPEC_CHANGED, Evidence.CERTAIN)
        try:
            await remove_object(self.client, MAPPING, removal)
        except NotFound:
            return


@dataclass(slots=True)
class _Once:
    """Removes the configuration of an earlier start."""

    webhooks: PlaneWebhooks
    needs_leader_election = False

    async def start(self) -> None:
        """Try once; without the rights there is nothing that a stack could have made."""
        try:
            await self.webhooks.remove()
        except (APIError, TransportError, DataPlaneNotUnique) as error:
            self.webhooks.logger.warning(
                "Whether there is a webhook configuration is not known", error=str(error)
            )


class _AtStart(RequestSource):
    """Requests the first pass: where there is no configuration, no event does."""

    async def start(self, intake: EventDispatcher) -> None:
        """Add the request."""
        await super().start(intake)
        self.enqueue(Request(ADMISSION), "the start")


@dataclass(slots=True)
class _Kept:
    """Removes the configuration at an orderly stop. Other Pods of the stack make it again at once."""

    webhooks: PlaneWebhooks
    runnable_group = Group.CACHES

    async def start(self) -> None:
        """Run until cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            with contextlib.suppress(APIError, TransportError, TimeoutError, DataPlaneNotUnique):
                async with asyncio.timeout(STOP):
                    await self.webhooks.remove()
