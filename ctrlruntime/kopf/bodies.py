"""What handlers are given of an object, and what they change of it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from ctrlruntime.json import Json

__all__ = [
    "Annotations",
    "Body",
    "Diff",
    "DiffItem",
    "DiffOperation",
    "Labels",
    "Logger",
    "Memo",
    "Meta",
    "Patch",
    "RawEvent",
    "Spec",
    "Status",
]

Spec: TypeAlias = Mapping[str, Any]
"""The spec of an object, as a handler is given it."""
Status: TypeAlias = Mapping[str, Any]
"""The status of an object, as a handler is given it."""
Labels: TypeAlias = Mapping[str, str]
"""The labels of an object."""
Annotations: TypeAlias = Mapping[str, str]
"""The annotations of an object."""
RawEvent: TypeAlias = Mapping[str, Any]
"""``type`` and ``object`` of a change, as handlers of events are given it."""
Logger: TypeAlias = logging.Logger | logging.LoggerAdapter[Any]
"""What a handler writes its log lines to: they name the object."""
DiffOperation: TypeAlias = Literal["add", "change", "remove"]
"""What a line of a diff does."""
FieldPath: TypeAlias = tuple[str, ...]

ABSENT_VALUE: Final = object()
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
KOPF_ANNOTATIONS: Final = "kopf.zalando.org/"


class Meta(dict[str, Any]):
    """The metadata; what is missing is None."""

    @property
    def name(self) -> str | None:
        return self.get("name")

    @property
    def namespace(self) -> str | None:
        return self.get("namespace")

    @property
    def uid(self) -> str | None:
        return self.get("uid")

    @property
    def labels(self) -> Labels:
        return self.get("labels") or {}

    @property
    def annotations(self) -> Annotations:
        return self.get("annotations") or {}


class Body(dict[str, Any]):
    """An object as a dict, with its parts as attributes. It is the handler's own copy."""

    @property
    def meta(self) -> Meta:
        return Meta(self.get("metadata") or {})

    metadata = meta

    @property
    def spec(self) -> Spec:
        return cast("Spec", self.get("spec") or {})

    @property
    def status(self) -> Status:
        return cast("Status", self.get("status") or {})


class Patch(dict[str, Any]):
    """A JSON merge patch that is written when the handler ends, whether it succeeded or not."""

    def _part(self, name: str) -> MutableMapping[str, Any]:
        return cast("MutableMapping[str, Any]", self.setdefault(name, {}))

    @property
    def spec(self) -> MutableMapping[str, Any]:
        return self._part("spec")

    @property
    def status(self) -> MutableMapping[str, Any]:
        return self._part("status")

    @property
    def meta(self) -> MutableMapping[str, Any]:
        return self._part("metadata")

    metadata = meta


class Memo(dict[str, Any]):
    """What handlers of one object leave each other in memory, as keys or attributes."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of the user's own
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None


class DiffItem(NamedTuple):
    """A field that differs. None stands for one that is absent."""

    operation: DiffOperation
    field: FieldPath
    old: Any
    new: Any


Diff: TypeAlias = Sequence[DiffItem]
"""What changed since the handlers of an object last succeeded."""


def field_path(field: str | Sequence[str] | None) -> FieldPath:
    """Return a field such as ``spec.size`` as its steps; empty for the whole object."""
    if field is None:
        return ()
    return tuple(field.split(".")) if isinstance(field, str) else tuple(field)


def resolve(obj: object, path: FieldPath, default: object = None) -> Any:  # noqa: ANN401 - JSON
    """Return the value of a field; `default` where it, or what it is in, is absent."""
    for step in path:
        if not isinstance(obj, Mapping) or step not in obj:
            return default
        obj = obj[step]
    return default if obj is None else obj


def diff_of(old: object, new: object, path: FieldPath = ()) -> list[DiffItem]:
    """Return what differs, by field; lists are compared as a whole."""
    if old == new:
        return []
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        names = [*old, *(name for name in new if name not in old)]
        parts = (diff_of(old.get(name), new.get(name), (*path, name)) for name in names)
        return [item for part in parts for item in part]
    operation: DiffOperation = "add" if old is None else "remove" if new is None else "change"
    return [DiffItem(operation, path, old, new)]


def essence_of(body: Mapping[str, Any], extra: Sequence[FieldPath] = ()) -> dict[str, Any]:
    """Return what a change of counts as an update: all but the status and what the server or tools keep.

    `extra` are fields of the status that handlers are for.
    """
    essence = {
        name: value for name, value in body.items() if name not in ("status", "apiVersion", "kind")
    }
    metadata = body.get("metadata") or {}
    kept = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    if annotations := kept.get("annotations"):
        kept["annotations"] = {
            name: value
            for name, value in annotations.items()
            if name != _LAST_APPLIED and not name.startswith(KOPF_ANNOTATIONS)
        }
    essence["metadata"] = {name: value for name, value in kept.items() if value}
    for path in extra:
        if path[0] == "status" and (value := resolve(body, path)) is not None:
            _put(essence, path, value)
    return {name: value for name, value in essence.items() if value not in ({}, None)}


def _put(into: dict[str, Any], path: FieldPath, value: Json) -> None:
    for step in path[:-1]:
        into = into.setdefault(step, {})
    into[path[-1]] = copy.deepcopy(value)


def put_result(patch: Patch, handler_id: str, result: object) -> None:
    """Store what a handler returned in the status under its ID, as kopf does; None is nothing."""
    if result is None:
        return
    if isinstance(result, Mapping):
        patch.status.setdefault(handler_id, {}).update(result)
    else:
        patch.status[handler_id] = copy.deepcopy(result)


class ObjectLogger(logging.LoggerAdapter[logging.Logger]):
    """Begins each line with the object's name."""

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Return the line with its beginning."""
        return f"[{(self.extra or {}).get('object')}] {msg}", kwargs


_LOGGER: Final = logging.getLogger("kopf.objects")


def logger_of(name: str, *, namespace: str | None) -> ObjectLogger:
    """Return the logger of an object: ``kopf.objects`` with its name."""
    return ObjectLogger(_LOGGER, {"object": f"{namespace}/{name}" if namespace else name})
