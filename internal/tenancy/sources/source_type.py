"""What registers a kind of data source: its name, the fields of a registry, and how it is opened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pydantic import BaseModel

from apis.tenancy import SecretKeyRef
from ctrlruntime.api import ApiModel
from internal.tenancy.sources.source import Source
from internal.tenancy.sources.state_writer import StateWriter, WriteTarget

FieldsT = TypeVar("FieldsT", bound=ApiModel)


class Settings(Protocol):
    """Everything a source depends on, Secrets included; equal settings keep a source open."""

    def open(self, wake: Callable[[], None]) -> Source:
        """Return the source. It may call `wake` in the event loop when rows may have changed."""


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What settings are made from besides the fields."""

    secret: Callable[[SecretKeyRef | None], Awaitable[str | None]]
    """Returns the value of a Secret's key; None for None. Raises SourceError if it is missing."""
    sqlite_root: Path | None = None
    """Directory of the SQLite files that the manager's option allows."""


@dataclass(frozen=True, slots=True)
class SourceType(Generic[FieldsT]):
    """One kind of data source, `spec.source.type` and the field of the same name.

    A package registers its own as an entry point of the group `ctrlruntime.tenancy.sources`.
    """

    name: str
    fields: type[FieldsT]
    """Schema of `spec.source.<name>`. Secrets are fields of the type SecretKeyRef, at any depth."""
    settings: Callable[[FieldsT, SourceContext], Awaitable[Settings]]
    """Makes settings of fields. Raises SourceError."""
    location: tuple[str, ...] = ()
    """Wire names of the fields that identify the table; empty: all fields."""
    writer: Callable[[FieldsT, WriteTarget, SourceContext], Awaitable[StateWriter]] | None = None
    """Opens what writes states back; None: rows of this type are only read. Raises SourceError."""


def secret_refs(fields: BaseModel) -> Iterator[SecretKeyRef]:
    """Every reference to a Secret in the fields of a source."""
    for _, value in fields:
        yield from _refs_in(value)


def _refs_in(value: object) -> Iterator[SecretKeyRef]:
    if isinstance(value, SecretKeyRef):
        yield value
    elif isinstance(value, BaseModel):
        yield from secret_refs(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _refs_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _refs_in(item)
