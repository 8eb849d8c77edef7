"""Every way out: how each system reads from a server that a user's object names. Each returns its texts."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from apis.cloud import HTTPRequest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.outbound_http import outbound_session
from ctrlruntime.queue import Request
from ctrlruntime.rollout.health import CheckedTarget
from ctrlruntime.rollout.health_checker import HealthChecker
from ctrlruntime.rollout.health_checks import HealthCheck
from internal.cloud.tasks.http import RetryPolicy
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.requests import Requests
from internal.cloud.tasks.task import TaskError
from internal.cloud.tasks.terraform.hcp.api import HCP
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.failures import NodeError
from internal.cosmos.comet.status import require_network
from internal.cosmos.sidecar.download import FetchError, Source
from internal.cosmos.sidecar.fetch import fetch_genesis, fetch_snapshot
from internal.tenancy.sources.errors import SourceError
from internal.tenancy.sources.mysql import MySQLSettings
from internal.tenancy.sources.postgresql.source import PostgreSQLSettings
from internal.tenancy.sources.tls import TLSSettings

ONCE = RetryPolicy(attempts=1)
EXPECTED = [{"path": "$.a", "equals": "x"}, {"path": "$.b[*]", "equals": True}, {"path": "$..c"}]
SECONDS = 60
"""Of a request, and of a health check: no limit that a busy machine meets."""
CONNECT_TIMEOUT = 2.0
"""Seconds that a database has to answer; MySQL's greeting twice that."""
Door = Callable[[str], Awaitable[str]]
"""Reads from an address once; returns what it reports."""


class Report:
    """What a door reports."""

    text = ""


@contextmanager
def reported(*errors: type[Exception]) -> Iterator[Report]:
    """Keep an error with all its causes, as a log has it."""
    report = Report()
    try:
        yield report
    except errors as error:
        report.text += "".join(traceback.format_exception(error))


async def invariant(url: str) -> str:
    """Send the check of an invariant."""
    with reported(TaskError) as report:
        async with Requests(Places(values={}), lambda _ref: "secret", retries=ONCE) as requests:
            wanted = HTTPRequest.model_validate(
                {"url": url, "expect": EXPECTED, "timeoutSeconds": SECONDS}
            )
            report.text = (await requests.send(wanted)).text
    return report.text


async def hcp(url: str) -> str:
    """Read from HCP Terraform at an address of one's own."""
    with reported(TaskError) as report:
        async with outbound_session() as http:
            await HCP(http, url, "token", retries=ONCE).get("/ping")
    return report.text


def health_check(kind: str, seconds: int = 0) -> Door:
    """Return the door of one kind of health check, which has so many seconds; 0: SECONDS."""

    async def door(url: str) -> str:
        done = asyncio.Event()
        checker = HealthChecker([url], lambda _request: done.set(), lambda: datetime.now(UTC))
        more = {"query": "up"} if kind == "prometheus" else {}
        check = HealthCheck.model_validate(
            {"name": "errors", "timeoutSeconds": seconds or SECONDS, kind: {"url": url, **more}}
        )
        given = (Request("r"), [check], CheckedTarget("v2"), datetime.now(UTC))
        checker.results(*given)
        await done.wait()
        [result] = checker.results(*given).values()
        await checker.aclose()
        return result.message

    return door


async def node(url: str, *, usage: bool = False) -> str:
    """Read the status, or the disk, of a node."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    nodes = NodeClient(deadline=10.0)
    with reported(NodeError) as report:
        try:
            address = Address(host, int(port), int(port))
            if usage:
                await nodes.usage(address, "/home")
            else:
                require_network(await nodes.status(address), "hub-1")
        finally:
            await nodes.close()
    return report.text


def download(fetch: Callable[[Source, Path], object]) -> Door:
    """Return the door of one download of a node."""

    async def door(url: str) -> str:
        with TemporaryDirectory() as folder, reported(FetchError) as report:
            await asyncio.to_thread(fetch, Source(f"{url}/file", 1 << 20), Path(folder))
        return report.text

    return door


async def cluster(url: str, *, proxy: str | None = None) -> str:
    """List from the cluster of a kubeconfig in a Secret."""
    with reported(APIError, TransportError) as report:
        async with Client.connect(Config(host=url, proxy_url=proxy, foreign=True)) as client:
            await client.transport.request("GET", "/api")
    return report.text


def database(kind: type[MySQLSettings] | type[PostgreSQLSettings], *, tls: bool = False) -> Door:
    """Return the door of one kind of source."""

    async def door(url: str) -> str:
        host, _, port = url.removeprefix("http://").rpartition(":")
        settings = kind(
            host=host,
            port=int(port),
            username="u",
            password="p",
            database="d",
            table="t",
            tls=TLSSettings() if tls else None,
            connect_timeout=CONNECT_TIMEOUT,
        )
        source = settings.open(lambda: None)
        with reported(SourceError) as report:
            try:
                async for _ in source.pages(["a"]):
                    pass
            finally:
                await source.close()
        return report.text

    return door


DOORS: dict[str, Door] = {
    "an invariant": invariant,
    "HCP Terraform": hcp,
    "a query of Prometheus": health_check("prometheus"),
    "a hook": health_check("hook"),
    "the status of a node": node,
    "the disk of a node": lambda url: node(url, usage=True),
    "a genesis file": download(lambda source, home: fetch_genesis(source, home / "g.json", home)),
    "an archive": download(lambda source, home: fetch_snapshot(source, home, home / "data")),
    "a cluster": cluster,
    "a cluster by a proxy": lambda url: cluster("https://192.0.2.1", proxy=url),
    "MySQL": database(MySQLSettings),
    "PostgreSQL": database(PostgreSQLSettings),
    "PostgreSQL by TLS": database(PostgreSQLSettings, tls=True),
}
