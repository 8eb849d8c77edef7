"""Queries of a registry's data source: its settings put together, its rows read, timed."""

import asyncio
import math
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from apis.tenancy import SecretKeyRef, TenantRegistry, TenantRegistrySource
from ctrlruntime.queue import Request
from internal.tenancy.metrics import TenancyMetrics
from internal.tenancy.rows import Reading, RowReader, columns
from internal.tenancy.secrets import SecretUnavailable, WatchedSecrets
from internal.tenancy.sources import (
    MySQLSettings,
    Settings,
    SourceError,
    Sources,
    SQLiteSettings,
    TLSSettings,
)

BREATH = 100
"""Rows sorted in before other tasks get a turn: about 5 ms."""
SHORTEST_PERIOD = timedelta(seconds=1)


class CredentialsUnavailable(SourceError):
    """A Secret with credentials is not there."""

    reason = "CredentialsUnavailable"


class InvalidSource(SourceError):
    """Something that rules of the definition forbid; servers before 1.25 do not know them."""

    reason = "InvalidSpec"


@dataclass(slots=True)
class Queries:
    """Reads rows. `sqlite_root`: directory of the SQLite files that are allowed; None allows none."""

    sources: Sources
    secrets: WatchedSecrets
    metrics: TenancyMetrics
    clock: Callable[[], float]
    sqlite_root: Path | None = None

    async def run(self, request: Request, registry: TenantRegistry) -> Reading:
        """All rows of the registry, sorted in. Raises SourceError."""
        if problem := interval_problem(registry.spec.source):
            raise InvalidSource(f"spec.source.syncInterval: {problem}")
        started, result = self.clock(), "error"
        try:
            settings = await self._settings(request, registry)
            source = await self.sources.get(request, settings)
            reader = RowReader(registry.spec)
            async with aclosing(source.pages(columns(registry.spec))) as pages:
                async for page in pages:
                    for place, row in enumerate(page, 1):
                        reader.take(row)
                        if place % BREATH == 0:
                            await asyncio.sleep(0)
            result = "success"
            return reader.reading()
        finally:
            seconds = self.clock() - started
            self.metrics.queried(request.namespace, request.name, result, seconds)

    async def forget(self, request: Request) -> None:
        """The registry is gone: close its connections, stop watching its Secrets."""
        await self.sources.release(request)
        await self.secrets.keep_only(request, frozenset())

    async def _settings(self, request: Request, registry: TenantRegistry) -> Settings:
        source = registry.spec.source
        if source.sqlite is not None and source.type == "sqlite":
            return SQLiteSettings(
                path=source.sqlite.path,
                table=source.sqlite.table,
                root=self.sqlite_root,
                page_size=source.sqlite.page_size,
            )
        mysql = source.mysql
        if mysql is None:
            raise InvalidSource(f"{missing_part(source) or 'spec.source'} is missing")
        tls = None
        password = await self._value(request, mysql.password_ref) or ""
        if mysql.tls is not None:
            tls = TLSSettings(
                mode=mysql.tls.mode,
                ca=await self._value(request, mysql.tls.ca_ref),
                certificate=await self._value(request, mysql.tls.cert_ref),
                key=await self._value(request, mysql.tls.key_ref),
            )
        await self.secrets.keep_only(request, _places(request, registry))
        return MySQLSettings(
            host=mysql.host,
            port=mysql.port,
            username=mysql.username,
            password=password,
            database=mysql.database,
            table=mysql.table,
            tls=tls,
            connect_timeout=mysql.connect_timeout_seconds,
            read_timeout=mysql.read_timeout_seconds,
            pool_size=mysql.pool_size,
            page_size=mysql.page_size,
        )

    async def _value(self, request: Request, reference: SecretKeyRef | None) -> str | None:
        if reference is None:
            return None
        try:
            return await self.secrets.read(
                request, request.namespace, reference.name, reference.key
            )
        except SecretUnavailable as error:
            raise CredentialsUnavailable(str(error)) from None


def missing_part(source: TenantRegistrySource) -> str:
    """The field that describes the source and is not there; empty if it is."""
    described = source.sqlite if source.type == "sqlite" else source.mysql
    return "" if described is not None else f"spec.source.{source.type}"


def interval_problem(source: TenantRegistrySource) -> str:
    """Why rows cannot be read as often as the source says; empty if they can."""
    try:
        return "" if source.sync_period >= SHORTEST_PERIOD else "must be at least 1s"
    except ValueError as error:
        return str(error)


def seconds_between(source: TenantRegistrySource) -> float:
    """Seconds from one query to the next; without end where the interval makes no sense."""
    return math.inf if interval_problem(source) else source.sync_period.total_seconds()


def _places(request: Request, registry: TenantRegistry) -> frozenset[tuple[str, str]]:
    mysql = registry.spec.source.mysql
    if mysql is None:
        return frozenset()
    tls = mysql.tls
    references = [mysql.password_ref]
    if tls is not None:
        references += [tls.ca_ref, tls.cert_ref, tls.key_ref]
    return frozenset((request.namespace, ref.name) for ref in references if ref is not None)
