"""Manifests out of texts: read, checked, separated."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.intake import IntakeError, Limits, read_yaml_all
from internal.cloud.tasks.task import TaskRejected

LIMITS: Final = Limits(bytes=2**24, items=200_000)
"""Of one file or bundle of manifests; a task reads it in a process of its own."""


@dataclass(frozen=True, slots=True, order=True)
class ObjectRef:
    """An object of the cluster, whatever version of its kind it is written in."""

    group: str
    kind: str
    namespace: str
    """Empty for what belongs to the whole cluster."""
    name: str

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Document:
    """A manifest, and where it stands."""

    manifest: Manifest
    source: str

    @property
    def gvk(self) -> GroupVersionKind:
        """Its kind."""
        return GroupVersionKind.of(self.manifest)


def parse(text: str, source: str) -> list[Document]:
    """Return the manifests of a YAML or JSON text, Lists taken apart. Raises TaskRejected."""
    try:
        loaded = read_yaml_all(text, LIMITS, source, timestamps=False)
    except IntakeError as error:
        raise TaskRejected(str(error)) from error
    return collect(loaded, source)


def collect(items: Iterable[Any], source: str) -> list[Document]:
    """Manifests of data, Lists taken apart; empty documents are left out. Raises TaskRejected."""
    found = list(_flatten(items, source))
    for document in found:
        _check(document)
    return found


def _flatten(items: Iterable[Any], source: str) -> Iterator[Document]:
    for number, item in enumerate(items, start=1):
        where = f"{source}, document {number}"
        if item is None:
            continue
        if not isinstance(item, dict):
            raise TaskRejected(f"{where}: a manifest is a mapping, not a {type(item).__name__}")
        inner = item.get("items")
        if isinstance(inner, list) and str(item.get("kind", "")).endswith("List"):
            yield from _flatten(inner, where)
        else:
            yield Document(item, where)


def _check(document: Document) -> None:
    manifest = document.manifest
    for key in ("apiVersion", "kind"):
        if not isinstance(manifest.get(key), str) or not manifest[key]:
            raise TaskRejected(f"{document.source}: {key} is missing")
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        raise TaskRejected(
            f"{document.source}: {manifest['kind']} has no metadata.name (generateName cannot be"
            " applied twice)"
        )
    odd = next(_odd_keys(manifest), None)
    if odd is not None:
        raise TaskRejected(
            f"{document.source}: the key {odd!r} is no text in YAML: write it in quotes"
        )
    try:
        _ = document.gvk
    except ValueError as error:
        raise TaskRejected(f"{document.source}: {error}") from error


def _odd_keys(value: object) -> Iterator[Any]:
    """Keys that YAML takes for something else than text, such as `on`."""
    if isinstance(value, dict):
        yield from (key for key in value if not isinstance(key, str))
        for each in value.values():
            yield from _odd_keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _odd_keys(each)


def unique(refs: Sequence[tuple[ObjectRef, Document]]) -> None:
    """Raise TaskRejected if two documents are the same object."""
    seen: dict[ObjectRef, str] = {}
    for ref, document in refs:
        if ref in seen:
            raise TaskRejected(f"{ref} is there twice: {seen[ref]} and {document.source}")
        seen[ref] = document.source
