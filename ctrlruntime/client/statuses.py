"""One status written by several: each changes its own fields of what the server has, and loses nothing of others'."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.model import ApiModel
from ctrlruntime.api.resource import Resource
from ctrlruntime.api.sparing import without_empty_texts
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.patches import difference
from ctrlruntime.client.reads import Reader
from ctrlruntime.client.turns import Turns

SpecT = TypeVar("SpecT", bound=ApiModel)
StatusT = TypeVar("StatusT", bound=ApiModel)

FIRST_PAUSE: Final = 0.02
"""Seconds; the longest pause before the second attempt is twice as long, and it doubles with each."""


class StatusClient(Generic[SpecT, StatusT]):
    """Writes the status of one kind by reading, changing and patching, one writer of an object after the other.

    Between processes the resourceVersion keeps writers apart, not the lock: a write over a newer state is
    refused, and tried again on what is there by then.
    """

    def __init__(
        self,
        client: Client,
        kind: type[Resource[SpecT, StatusT]],
        *,
        field_manager: str,
        attempts: int = 5,
        conflicted: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`attempts`: how often a write is tried when others are faster. `conflicted` is called for each
        time that one was. Given the cache's client, the answer is in the cache when the call returns."""
        self._client = client
        self._kind = kind
        self._field_manager = field_manager
        self._attempts = attempts
        self._conflicted = conflicted
        self._sleep = sleep
        self._turns = Turns()

    async def sync_update(
        self,
        namespace: str,
        name: str,
        update: Callable[[StatusT], None],
        *,
        uid: str | None = None,
    ) -> Resource[SpecT, StatusT] | None:
        """Let `update` change the status as it is now, and write what that changed.

        `update` gets a copy of its own, is called again after a conflict, and must touch only what is its
        caller's: never put a whole status of earlier in its place. Nothing is written if it changes nothing.
        Returns the object as it then is; None if there is none, or none with that `uid`. Raises Conflict
        when others were faster each time, and the client's other errors.
        """
        async with self._turns.of((namespace, name)):
            for attempt in range(self._attempts):
                if attempt:
                    await self._sleep(random.uniform(0.0, FIRST_PAUSE * 2**attempt))  # noqa: S311
                try:
                    return await self._attempt(namespace, name, update, uid)
                except NotFound:
                    return None
                except Conflict:
                    self._conflicted()
                    if attempt == self._attempts - 1:
                        raise
        raise ValueError("attempts has to be at least 1")

    async def _attempt(
        self, namespace: str, name: str, update: Callable[[StatusT], None], uid: str | None
    ) -> Resource[SpecT, StatusT] | None:
        # Not the cache's get: what another process wrote may not have come by the watch yet.
        live = await Reader.get(self._client, self._kind, name, namespace or None)
        if uid is not None and live.metadata.uid != uid:
            return None
        status = live.status.model_copy(deep=True)
        update(status)
        changed = difference(_wire(live.status), _wire(status))
        if not changed:
            return live
        metadata = {"uid": live.metadata.uid, "resourceVersion": live.metadata.resource_version}
        return await self._client.patch(
            self._kind,
            name,
            namespace or None,
            {"metadata": metadata, "status": changed},
            subresource="status",
            field_manager=self._field_manager,
        )


def _wire(status: ApiModel) -> Manifest:
    return without_empty_texts(status, status.to_wire())
