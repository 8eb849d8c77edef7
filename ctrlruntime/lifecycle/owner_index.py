"""Whose an object is, as an index of caches: by owner reference, or on the hub by the recorded key. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from ctrlruntime.resources import OwnerKey

OF_OWNER: Final = "controller"
"""Index: `<kind>/<namespace>/<name>` of an object's controller."""


def owner_index(entry: Entry) -> Sequence[str]:
    """Index function of OF_OWNER: by owner references."""
    return [
        f"{reference.kind}/{entry.namespace}/{reference.name}"
        for reference in entry.owners
        if reference.controller
    ]


def recorded_owner_index(data_plane: str, entry: Entry) -> Sequence[str]:
    """Index function of OF_OWNER on the hub, with the data plane's id: by the recorded key."""
    key = OwnerKey.of(entry)
    if key is None or key.cluster != data_plane or key.namespace != entry.namespace:
        return ()
    return (f"{key.kind.partition('.')[0]}/{key.namespace}/{key.name}",)


def recorded_owner(kind: type[Resource[Any, Any]], entry: Entry) -> Iterable[Request]:
    """Return a request for the object of a kind that an object of the hub records as its owner."""
    key = OwnerKey.of(entry)
    if key is None or key.kind != str(kind.gvk().group_kind):
        return ()
    return (Request(key.name, namespace=key.namespace),)


def uid_index(entry: Entry) -> Sequence[str]:
    """Index function of `uid`."""
    return (entry.uid,)
