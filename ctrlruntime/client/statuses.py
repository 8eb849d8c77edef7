"""One status written by several: each changes its own fields of what the server has, and loses nothing of others'."""

from collections.abc import Callable
from typing import Generic, TypeVar

from ctrlruntime.api.model import ApiModel
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.client import Client

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
    ) -> None:
        """`attempts`: how often a write is tried when others are faster. `conflicted` is called for each
        time that one was. Given the cache's client, the answer is in the cache when the call returns."""
        raise NotImplementedError

    async def sync_update(
        self, namespace: str, name: str, update: Callable[[StatusT], None]
    ) -> Resource[SpecT, StatusT] | None:
        """Let `update` change the status as it is now, and write what that changed.

        `update` gets a copy of its own, is called again after a conflict, and must touch only what is its
        caller's: never put a whole status of earlier in its place. It makes no request if nothing changed.
        Returns the object as it then is; None if there is none. Raises Conflict when others were faster
        each time, and the client's other errors.
        """
        raise NotImplementedError
