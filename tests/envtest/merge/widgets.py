"""A custom kind with every sort of list and map, and a model of the server that keeps it."""

from __future__ import annotations

import copy
import random
from typing import Any

from ctrlruntime.envtest.merge.apply import (
    ApplyConflict,
    ApplyRejected,
    apply,
    restore_times,
    track_update,
)
from ctrlruntime.envtest.merge.patches import merge_patch
from ctrlruntime.envtest.schema.registry import SchemaRegistry, TypeSchema
from ctrlruntime.json import Json

GROUP = "merge.example.com"
API_VERSION = f"{GROUP}/v1"

_TEXT = {"type": "string"}
_ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": _TEXT,
        "value": _TEXT,
        "weight": {"type": "integer", "default": 1},
        "inner": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "integer"}, "v": _TEXT},
            },
        },
        "labels": {"type": "object", "additionalProperties": _TEXT},
    },
}
_PORT = {
    "type": "object",
    "required": ["port"],
    "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "title": _TEXT,
    },
}
_FIELDS: dict[str, Any] = {
    "size": {"type": "integer"},
    "ratio": {"type": "number"},
    "on": {"type": "boolean"},
    "note": {"type": "string", "nullable": True},
    "color": {"type": "string", "default": "red"},
    "either": {"x-kubernetes-int-or-string": True},
    "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
    "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
    "plain": {"type": "array", "items": {"type": "integer"}},
    "items": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": _ITEM,
    },
    "ports": {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": _PORT,
    },
    "labels": {"type": "object", "additionalProperties": _TEXT},
    "sealed": {
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {"a": _TEXT, "b": _TEXT},
    },
    "nested": {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 7},
            "b": _TEXT,
            "deep": {"type": "object", "properties": {"c": _TEXT, "d": _TEXT}},
        },
    },
    "table": {
        "type": "object",
        "additionalProperties": {"type": "object", "properties": {"x": _TEXT, "y": _TEXT}},
    },
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "half": {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": {"type": "object", "properties": {"k": _TEXT}}},
    },
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": _FIELDS},
        "status": {
            "type": "object",
            "properties": {
                "phase": _TEXT,
                "conditions": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": _TEXT, "status": _TEXT},
                    },
                },
            },
        },
    },
}


class Model:
    """What a server keeps of one object: the write path of a custom resource without the wire."""

    def __init__(
        self,
        registry: SchemaRegistry,
        schema: dict[str, Any] | None = None,
        version: str = API_VERSION,
    ) -> None:
        self.schema: TypeSchema = registry.for_crd_version(schema or SCHEMA)
        self.version = version
        self.live: dict[str, Any] | None = None
        self.clock = 0

    def apply(
        self, obj: dict[str, Any], manager: str, *, force: bool, subresource: str = ""
    ) -> tuple[int, str]:
        """The status code and message; the object is in ``live``."""
        try:
            new = apply(
                self.live,
                copy.deepcopy(obj),
                manager=manager,
                force=force,
                schema=self.schema,
                api_version=self.version,
                now=self._now(),
                subresource=subresource,
            )
        except ApplyConflict as error:
            return 409, str(error)
        except ApplyRejected as error:
            return error.code, str(error)
        return self._store(new, subresource)

    def merge(self, patch: dict[str, Any], manager: str, subresource: str = "") -> tuple[int, str]:
        assert self.live is not None
        new = copy.deepcopy(merge_patch(self.live, patch))
        self._settle(new, decoded=True)
        new = track_update(
            self.live,
            self._restrict(new, subresource),
            manager=manager,
            schema=self.schema,
            api_version=self.version,
            now=self._now(),
            subresource=subresource,
        )
        return self._store(new, subresource)

    def _now(self) -> str:
        self.clock += 1
        return f"2026-01-01T00:{self.clock // 60:02d}:{self.clock % 60:02d}Z"

    def _settle(self, obj: dict[str, Any], *, decoded: bool = False) -> None:
        # The server decodes metadata into a struct that leaves empty members out.
        for name in ("labels", "annotations", "finalizers"):
            if not obj["metadata"].get(name, True):
                del obj["metadata"][name]
        self.schema.prune(obj)
        if decoded:
            self.schema.drop_nulls(obj)
        self.schema.default(obj)

    def _restrict(self, new: dict[str, Any], subresource: str) -> dict[str, Any]:
        """A write to one resource leaves the fields of the other alone."""
        live = self.live or {}
        if subresource == "status":
            fields = {key: value for key, value in new.items() if key in ("status", "metadata")}
            kept = {key: value for key, value in live.items() if key != "status"}
            managed = new["metadata"].get("managedFields", [])
            kept["metadata"] = {**live["metadata"], "managedFields": managed}
            return kept | ({"status": fields["status"]} if "status" in fields else {})
        out = {key: value for key, value in new.items() if key != "status"}
        return out | ({"status": live["status"]} if "status" in live else {})

    def _store(self, new: dict[str, Any], subresource: str) -> tuple[int, str]:
        new = copy.deepcopy(self._restrict(new, subresource))
        self._settle(new)
        causes = self.schema.validate(new, self.live)
        if causes:
            return 422, "; ".join(map(str, causes))
        # What is read back from storage has gone through decoding.
        self.schema.drop_nulls(new)
        created = self.live is None
        self.live = restore_times(self.live, new)
        return (201 if created else 200), ""


# --- random requests -----------------------------------------------------------------------------


def _maybe(rng: random.Random, chance: float = 0.3) -> bool:
    return rng.random() < chance


def _word(rng: random.Random) -> str:
    return rng.choice(["a", "b", "c"])


def _free(rng: random.Random, depth: int = 0) -> Json:
    kind = rng.randrange(7 if depth < 3 else 4)
    if kind < 2:
        return _word(rng)
    if kind == 2:
        return rng.choice([0, 1, 1.5, True, False])
    if kind == 3:
        return rng.choice([[], [1], ["a", {"b": 1}]])
    return {_word(rng): _free(rng, depth + 1) for _ in range(rng.randrange(3))}


def _texts(rng: random.Random) -> dict[str, str]:
    return {_word(rng): _word(rng) for _ in range(rng.randrange(3))}


def _subset(rng: random.Random, values: list[Any]) -> list[Any]:
    chosen = [value for value in values if _maybe(rng, 0.5)]
    rng.shuffle(chosen)
    return chosen


def _item(rng: random.Random, name: str) -> dict[str, Any]:
    item: dict[str, Any] = {"name": name}
    if _maybe(rng, 0.5):
        item["value"] = _word(rng)
    if _maybe(rng, 0.2):
        item["weight"] = rng.randrange(3)
    if _maybe(rng):
        item["inner"] = [{"id": i, "v": _word(rng)} for i in _subset(rng, [1, 2, 3])]
    if _maybe(rng):
        item["labels"] = _texts(rng)
    return item


def _port(rng: random.Random, port: int) -> dict[str, Any]:
    out: dict[str, Any] = {"port": port}
    if _maybe(rng, 0.4):
        out["protocol"] = rng.choice(["TCP", "UDP"])
    if _maybe(rng, 0.5):
        out["title"] = _word(rng)
    return out


_MAKERS: dict[str, Any] = {
    "size": lambda r: r.randrange(3),
    "ratio": lambda r: r.choice([0.5, 1, 1.0, 2.25]),
    "on": lambda r: r.choice([True, False]),
    "note": lambda r: r.choice(["n", "m", None]),
    "color": lambda r: r.choice(["red", "blue"]),
    "either": lambda r: r.choice([1, 2, "1", "50%"]),
    "tags": lambda r: _subset(r, ["x", "y", "z", "w"]),
    "numbers": lambda r: _subset(r, [1, 2, 3]),
    "plain": lambda r: r.choice([[], [1], [1, 1], [2]]),
    "items": lambda r: [_item(r, name) for name in _subset(r, ["i", "j", "k", "l"])],
    "ports": lambda r: [_port(r, port) for port in _subset(r, [80, 81, 443])],
    "labels": _texts,
    "sealed": lambda r: r.choice([{}, {"a": "1"}, {"a": "1", "b": "2"}, {"b": "1"}]),
    "nested": lambda r: {
        key: value
        for key, value in (
            ("a", r.randrange(2)),
            ("b", _word(r)),
            ("deep", {"c": _word(r)} if r.random() < 0.7 else {}),
        )
        if r.random() < 0.6
    },
    "table": lambda r: {
        _word(r): {k: _word(r) for k in ("x", "y") if r.random() < 0.5}
        for _ in range(r.randrange(3))
    },
    "free": lambda r: {_word(r): _free(r) for _ in range(r.randrange(3))},
    "half": lambda r: {
        **({"known": {"k": _word(r)}} if r.random() < 0.5 else {}),
        **({"other": _free(r)} if r.random() < 0.5 else {}),
    },
    "any": _free,
}


def spec(rng: random.Random, density: float) -> dict[str, Any]:
    return {name: make(rng) for name, make in _MAKERS.items() if rng.random() < density}


def applied(rng: random.Random, name: str) -> dict[str, Any]:
    obj: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "Widget", "metadata": {"name": name}}
    if _maybe(rng):
        obj["metadata"]["labels"] = _texts(rng)
    if _maybe(rng, 0.2):
        obj["metadata"]["annotations"] = _texts(rng)
    if _maybe(rng, 0.1):
        obj["metadata"]["finalizers"] = _subset(rng, ["example.com/f", "example.com/g"])
    if _maybe(rng, 0.9):
        obj["spec"] = spec(rng, rng.choice([0.1, 0.3, 0.5]))
    if _maybe(rng, 0.1):
        obj["status"] = {"phase": _word(rng)}
    return obj


def patched(rng: random.Random) -> dict[str, Any]:
    """A merge patch that sets some fields and removes others."""
    patch: dict[str, Any] = {"spec": spec(rng, 0.15)}
    for name in _MAKERS:
        if rng.random() < 0.1:
            patch["spec"][name] = None
    if _maybe(rng, 0.2):
        patch["metadata"] = {"labels": {_word(rng): rng.choice([None, "x"])}}
    if _maybe(rng, 0.05):
        patch["metadata"] = {"managedFields": rng.choice([[{}], []])}
    return patch
