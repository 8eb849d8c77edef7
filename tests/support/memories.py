"""What a manager remembers of objects that are gone: nothing, once it is idle."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from typing import Any

from ctrlruntime.lifecycle import PerObject, PerUID
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request


def kept_of_gone(manager: Manager) -> list[Any]:
    """Return the keys that a PerObject or PerUID of the manager has of objects that are not in the cache."""
    found: list[Any] = []
    for informer in manager.cache.informers():
        for registration in informer._handlers._registrations:
            memory: Any = getattr(registration._handler, "__self__", None)
            if isinstance(memory, PerObject | PerUID):
                found += filter(memory.is_gone, memory)
    return found


PRODUCT = ("ctrlruntime.", "internal.", "manager.")
SERVER = "ctrlruntime.envtest."
ALLOWED = {
    "ctrlruntime.events.correlator._Recent": "events of an object that is gone are counted together for a while",
    "ctrlruntime.cache.write_overlay.WriteOverlay": "a deletion that the watch has not confirmed yet",
    "ctrlruntime.cache.store._OwnerIndex": "what an object leaves behind is found by its owner",
}
"""Holders of objects that are gone, and why they may have them; the first drops what was used least recently."""


def mentions(uid: str, name: str, *, besides: Iterable[object] = ()) -> set[str]:
    """Return the classes of the product that have an object as a key of a dictionary or set.

    A key is the UID, a request of that name, or a tuple with one of them. `besides` are holders that do not
    count: of managers that other tests keep in this process, whose objects may have the same name.
    """
    others = {id(each) for each in besides}
    return {_title(each) for each in holders(uid, name) if id(each) not in others} - ALLOWED.keys()


def holders(uid: str, name: str) -> list[object]:
    """Return the objects of the product's classes that have an object as a key."""
    gc.collect()
    return [
        each
        for each in gc.get_objects()
        if _is_product(type(each)) and any(_has(held, uid, name) for held in _attributes(each))
    ]


def _is_product(kind: type) -> bool:
    module = getattr(kind, "__module__", None)
    return isinstance(module, str) and module.startswith(PRODUCT) and not module.startswith(SERVER)


def _title(holder: object) -> str:
    return f"{type(holder).__module__}.{type(holder).__qualname__}"


def _attributes(holder: object) -> Iterator[object]:
    """Return the attributes of an object, whether in a dictionary or in slots."""
    yield from list(getattr(holder, "__dict__", {}).values())
    for base in type(holder).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else list(slots):
            if name not in ("__dict__", "__weakref__"):
                yield getattr(holder, name, None)


def _has(held: object, uid: str, name: str, depth: int = 3) -> bool:
    if isinstance(held, dict):
        keys, inner = list(held), list(held.values())
    elif isinstance(held, set):
        keys, inner = list(held), []
    else:
        return False
    if any(_names(key, uid, name) for key in keys):
        return True
    return depth > 0 and any(_has(each, uid, name, depth - 1) for each in inner)


def _names(key: object, uid: str, name: str) -> bool:
    if isinstance(key, Request):
        return key.name == name
    if isinstance(key, tuple):
        return any(_names(item, uid, name) or item == name for item in key)
    return type(key) is str and key == uid
