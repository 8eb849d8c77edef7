"""Queries of a registry's data source: its settings put together, its rows read, timed."""

import asyncio
import math
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from apis.tenancy import SecretKeyRef, TenantRegistry, TenantRegistrySource
from ctrlruntime.api import ApiModel
from ctrlruntime.queue import Request
from internal.tenancy.rows.row import Reading, RowReader, columns
from internal.tenancy.shared.metrics import TenancyMetrics
from internal.tenancy.shared.slices import in_turns
from internal.tenancy.sources import (
    SourceContext,
    SourceError,
    Sources,
    SourceType,
    SourceTypes,
    secret_refs,
)
from internal.tenancy.sources.secrets import SecretUnavailable, WatchedSecrets
from internal.tenancy.sources.source import ListsColumns, Source
from internal.tenancy.sources.state_writer import InvalidWriteBack, StateWriter, WriteTarget

MOST_COLUMNS = 100
"""Columns that are kept of a table."""
LONGEST_COLUMN = 128
"""Characters of a column's name."""
BREATH = 100
"""Rows sorted in before other tasks get a turn: about 5 ms."""
SHORTEST_PERIOD = timedelta(seconds=1)


class CredentialsUnavailable(SourceError):
    """A Secret with credentials is not there."""

    reason = "CredentialsUnavailable"


class InvalidSource(SourceError):
    """Something that rules of the CRD forbid: in an object that was stored before the rule, or by a type of source that is not known here."""

    reason = "InvalidSpec"


@dataclass(slots=True)
class Queries:
    """Reads rows. `sqlite_root`: directory of the SQLite files that are allowed; None allows none."""

    sources: Sources
    secrets: WatchedSecrets
    metrics: TenancyMetrics
    clock: Callable[[], float]
    sqlite_root: Path | None = None
    types: SourceTypes = field(default_factory=SourceTypes)
    """Kinds of data source that registries may name."""
    on_change: Callable[[Request], None] = lambda _request: None
    """Is called in the event loop when the rows of a registry may have changed."""
    recorded: Callable[[TenantRegistry], Iterable[str]] = lambda _registry: ()
    """Returns the positions that are recorded of a registry besides that of its status."""

    async def run(self, request: Request, registry: TenantRegistry) -> Reading:
        """All rows of the registry, sorted in. Raises SourceError."""
        if problem := interval_problem(registry.spec.source):
            raise InvalidSource(f"spec.source.syncInterval: {problem}")
        started, result = self.clock(), "error"
        try:
            source = await self._source(request, registry)
            reader = RowReader(registry.spec)
            async with aclosing(source.pages(columns(registry.spec))) as pages:
                async for page in pages:
                    for place, row in enumerate(page, 1):
                        reader.take(row)
                        if place % BREATH == 0:
                            await asyncio.sleep(0)
            reading = await in_turns(reader.slices())
            result = "success"
            return reading
        finally:
            seconds = self.clock() - started
            self.metrics.queried(request.namespace, request.name, result, seconds)

    def position(self, request: Request) -> str:
        """Return how far the registry's rows were read; empty if that is unknown."""
        return self.sources.position(request)

    async def column_names(self, request: Request, registry: TenantRegistry) -> tuple[str, ...]:
        """Return the columns of the registry's table, in order of names; empty if they are unknown, or too many."""
        try:
            source = await self._source(request, registry)
            found = set(await source.column_names()) if isinstance(source, ListsColumns) else set()
        except SourceError:
            return ()
        fits = len(found) <= MOST_COLUMNS and all(len(each) <= LONGEST_COLUMN for each in found)
        return tuple(sorted(found)) if fits else ()

    async def writer(self, request: Request, registry: TenantRegistry) -> StateWriter:
        """Open what writes states back to the registry's table. Raises SourceError."""
        source = registry.spec.source
        source_type, fields = self._described(source)
        if source.write_back is None or source_type.writer is None:
            raise InvalidWriteBack(
                f"spec.source.writeBack: rows of the type {source.type!r} are only read; remove it"
            )
        target = WriteTarget.of(source.write_back, registry.spec.value_mappings.uid)
        context = SourceContext(lambda ref: self._value(request, ref), self.sqlite_root)
        return await source_type.writer(fields, target, context)

    async def forget(self, request: Request) -> None:
        """Forget a registry that is gone: close its connections, stop watching its Secrets."""
        await self.sources.release(request)
        await self.secrets.keep_only(request, frozenset())

    async def _source(self, request: Request, registry: TenantRegistry) -> Source:
        source = registry.spec.source
        source_type, fields = self._described(source)
        context = SourceContext(lambda ref: self._value(request, ref), self.sqlite_root)
        settings = await source_type.settings(fields, context)
        refs = [*secret_refs(fields), *_of_writer(source)]
        places = frozenset((request.namespace, ref.name) for ref in refs)
        await self.secrets.keep_only(request, places)
        changed = partial(self.on_change, request)

        def positions() -> Iterable[str]:
            return [*sorted(self.recorded(registry)), registry.status.source_position]

        return await self.sources.get(request, settings, changed, positions)

    def _described(self, source: TenantRegistrySource) -> tuple[SourceType[Any], ApiModel]:
        """Return the type of a source, and the fields that describe it. Raises InvalidSource."""
        source_type = self.types.get(source.type)
        if source_type is None:
            raise InvalidSource(
                f"spec.source.type: {source.type!r} is not known; this manager has "
                f"{', '.join(self.types.names)}"
            )
        if part := missing_part(source):
            raise InvalidSource(f"{part} is missing")
        described = source.described
        if isinstance(described, source_type.fields):
            return source_type, described
        try:
            return source_type, source_type.fields.model_validate(described)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InvalidSource(f"spec.source.{source.type}.{place}: {first['msg']}") from None

    async def _value(self, request: Request, reference: SecretKeyRef | None) -> str | None:
        if reference is None:
            return None
        try:
            return await self.secrets.read(
                request, request.namespace, reference.name, reference.key
            )
        except SecretUnavailable as error:
            raise CredentialsUnavailable(str(error)) from None


def _of_writer(source: TenantRegistrySource) -> list[SecretKeyRef]:
    """Return the references to Secrets of a source's write-back."""
    return [] if source.write_back is None else list(secret_refs(source.write_back))


def missing_part(source: TenantRegistrySource) -> str:
    """Return the field that describes the source and is not there; empty if it is."""
    return "" if source.described is not None else f"spec.source.{source.type}"


def interval_problem(source: TenantRegistrySource) -> str:
    """Why rows cannot be read as often as the source configures; empty if they can."""
    try:
        return "" if source.sync_period >= SHORTEST_PERIOD else "must be at least 1s"
    except ValueError as error:
        return str(error)


def seconds_between(source: TenantRegistrySource) -> float:
    """Seconds from one query to the next; without end where the interval makes no sense."""
    return math.inf if interval_problem(source) else source.sync_period.total_seconds()
