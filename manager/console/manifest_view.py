"""An object as YAML, without what may be secret: what the schema leaves open, and values given by name. Pure.

The rule is the schema's: a field that takes anything, or a map of texts, may hold the content of a Secret, a rendered
resource, a row's values or an output. Only the names in it are shown. Labels and selectors are no secrets, since they
select.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import yaml
from markupsafe import escape

from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.json import Json
from manager.kinds import KINDS

HIDDEN: Final = "(not shown)"
LARGEST: Final = 80 * 1024
"""Bytes of the text on a page, escaped."""
_ANYTHING: Final = "x-kubernetes-preserve-unknown-fields"
_PLAIN: Final = frozenset(
    {
        *("labels", "labelsTemplate", "matchLabels", "podLabels", "nodeSelector", "selector"),
        *("claimSelector", "volumeSnapshotSelector"),
    }
)
"""Maps of texts that select, or are selected by."""
_IDENTITY: Final = ("apiVersion", "kind")
_SENSITIVE: Final = re.compile(
    r"pass(word|wd|phrase)|token|secret|credential|private", re.IGNORECASE
)
_REFERENCE: Final = re.compile(r"(Name|Names|Ref|Reference|Key)$|^names?$")
"""Ends of fields that name where a value is, in place of the value."""
_IN_ADDRESS: Final = re.compile(r"(://[^\s/:@]*):[^\s@]*@")
_METADATA: Final = ("name", "namespace", "uid", "generation", "resourceVersion")
_TIMES: Final = ("creationTimestamp", "deletionTimestamp")


def manifest_text(entry: Entry) -> tuple[str, bool]:
    """Return an object of the product as YAML, and whether it was cut. Raises KeyError for another kind.

    Takes some tenths of a second for the first object of a kind: call it in a thread.
    """
    text = yaml.dump(
        shown(entry), Dumper=yaml.CSafeDumper, sort_keys=False, width=100, allow_unicode=True
    )
    if len(escape(text).encode()) <= LARGEST:
        return text, False
    lines: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        size += len(escape(line).encode())
        if size > LARGEST:
            break
        lines.append(line)
    return "".join(lines), True


def shown(entry: Entry) -> dict[str, Any]:
    """Return the object without what may be secret."""
    schema = _schema(entry.kind)
    manifest = entry.decode()
    parts = {
        name: _shown(value, schema.get(name, {_ANYTHING: True}), name)
        for name, value in manifest.items()
        if name not in {*_IDENTITY, "metadata"}
    }
    return {
        **{name: manifest[name] for name in _IDENTITY},
        "metadata": _metadata(manifest["metadata"]),
        **parts,
    }


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: metadata[name] for name in (*_METADATA, *_TIMES) if name in metadata}
    for name in ("labels", "ownerReferences", "finalizers"):
        if name in metadata:
            found[name] = metadata[name]
    if annotations := metadata.get("annotations"):
        found["annotations"] = {name: _annotation(name, annotations[name]) for name in annotations}
    return found


def _annotation(name: str, value: str) -> str:
    """Return what is shown of an annotation: nothing where it holds an object, or its name is that of a secret."""
    holds = "last-applied" in name or value.lstrip()[:1] in {"{", "["} or "\n" in value
    return HIDDEN if holds or _SENSITIVE.search(name) else _text(value)


def _shown(value: Json, schema: Mapping[str, Any], name: str) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return HIDDEN if schema.get(_ANYTHING) else value
    if schema.get(_ANYTHING):
        return _named(value)
    if isinstance(value, Mapping):
        return _mapping(value, schema, name)
    if isinstance(value, list):
        return [_shown(each, schema.get("items") or {_ANYTHING: True}, name) for each in value]
    if _SENSITIVE.search(name) and not _REFERENCE.search(name):
        return HIDDEN
    return _text(str(value))


def _mapping(value: Mapping[str, Any], schema: Mapping[str, Any], name: str) -> Json:
    properties = schema.get("properties") or {}
    of_any = schema.get("additionalProperties")
    if isinstance(of_any, Mapping):
        texts = of_any.get("type") == "string" or of_any.get(_ANYTHING)
        if texts and name not in _PLAIN:
            return dict.fromkeys(value, HIDDEN) if name != "outputs" else HIDDEN
    fallback = of_any if isinstance(of_any, Mapping) else {_ANYTHING: True}
    return {key: _shown(each, properties.get(key, fallback), key) for key, each in value.items()}


def _named(value: Json) -> Json:
    """Return of a value that may be anything which object it is, and no more."""
    if not isinstance(value, Mapping):
        return HIDDEN
    named = {key: str(value[key]) for key in _IDENTITY if isinstance(value.get(key), str)}
    return {**named, "…": HIDDEN} if named else HIDDEN


def _text(text: str) -> str:
    return _IN_ADDRESS.sub(rf"\1:{HIDDEN}@", text)


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    """Return the schema of spec and status of a kind."""
    from ctrlruntime.generate.crd import open_api_schema  # of who reads a manifest alone

    found: Iterable[type[Resource[Any, Any]]] = KINDS
    schema, _ = open_api_schema({each.gvk().kind: each for each in found}[kind])
    properties: Mapping[str, Any] = schema.get("properties") or {}
    return properties
