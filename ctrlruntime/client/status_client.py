"""One status written by several: each changes its own fields of what the server has, and loses nothing of others'."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.model import ApiModel
from ctrlruntime.api.omit_empty import omit_empty
from ctrlruntime.api.printable import printable_status
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.patches import difference

SpecT = TypeVar("SpecT", bound=ApiModel)
StatusT = TypeVar("StatusT", bound=ApiModel)


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
        """Use the client.

        `attempts`: how often a write is tried when others are faster. `conflicted` is called for each time
        that one was. Given the cache's client, the answer is in the cache when the call returns.
        """
        self.patcher = ObjectPatcher(client, field_manager, on_conflict=conflicted, sleep=sleep)
        self._kind = kind
        self._attempts = attempts

    async def sync_update(
        self,
        name: str,
        update: Callable[[StatusT], None],
        *,
        namespace: str,
        uid: str | None = None,
    ) -> Resource[SpecT, StatusT] | None:
        """Let `update` change the status as it is now, and write what that changed.

        `update` gets a copy of its own, is called again after a conflict, and must touch only what is its
        caller's: never put a whole status of earlier in its place. Nothing is written if it changes nothing.
        Returns the object as it then is; None if there is none, or none with that `uid`. Raises Conflict
        when others were faster each time, pydantic.ValidationError for an object that does not fit its type
        (see `sync_status`), and the client's other errors.
        """
        found = await self._synced(name, update, namespace=namespace, uid=uid)
        return None if found is None else self._kind.from_manifest(found)

    async def sync_status(
        self,
        name: str,
        update: Callable[[StatusT], None],
        *,
        namespace: str,
        uid: str | None = None,
    ) -> StatusT | None:
        """Do as `sync_update` does, whatever the spec holds. Returns the status alone."""
        found = await self._synced(name, update, namespace=namespace, uid=uid)
        return None if found is None else self._status_of(found)

    async def _synced(
        self, name: str, update: Callable[[StatusT], None], *, namespace: str, uid: str | None
    ) -> Manifest | None:
        def change(live: Manifest) -> Manifest:
            before = self._status_of(live)
            status = before.model_copy(deep=True)
            update(status)
            return difference(_wire(before), _wire(status))

        return await self.patcher.update_status(
            self._kind.mapping(),
            name,
            change,
            namespace=namespace,
            uid=uid,
            reread=self._attempts,
        )

    def _status_of(self, manifest: Manifest) -> StatusT:
        model: type[StatusT] = self._kind.model_fields["status"].annotation  # type: ignore[assignment]
        return model.model_validate(manifest.get("status") or {})


def _wire(status: ApiModel) -> Manifest:
    found: Manifest = printable_status(omit_empty(status, status.to_wire()))
    return found
