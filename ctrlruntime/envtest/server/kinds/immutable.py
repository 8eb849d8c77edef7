"""What updates of built-in kinds may not change: the parts that several share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from ctrlruntime.envtest.server.errors import FieldError, bad_value
from ctrlruntime.json import Json

_Object = dict[str, Any]
_IMMUTABLE: Final = "field is immutable"


def get_path(obj: _Object, path: str) -> Json:
    node: Any = obj
    for part in path.split("."):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def fixed(*paths: str) -> Callable[[_Object, _Object], Iterable[FieldError]]:
    """Fields that keep the value they were created with."""

    def check(new: _Object, old: _Object) -> Iterator[FieldError]:
        for path in paths:
            if get_path(new, path) != get_path(old, path):
                yield bad_value(path, get_path(new, path), _IMMUTABLE)

    return check


def without(spec: _Object, names: Iterable[str]) -> _Object:
    dropped = set(names)
    return {key: value for key, value in spec.items() if key not in dropped}
