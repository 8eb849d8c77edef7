"""Traces by OTLP: a collector that decodes the protobuf, and the manager as a process."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from apis.tenancy import TenantTemplate
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator
from manager.kinds import KINDS
from manager.serving.tracing import SERVICE_NAME, exports_traces
from tests.manager_cli.program import Program
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("DX-9"), pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
TEMPLATES = "tenanttemplates.tenancy.ctrlruntime.dev"


@dataclass
class Collector:
    """An OTLP/HTTP receiver."""

    port: int = 0
    services: set[str] = field(default_factory=set)
    spans: list[Span] = field(default_factory=list)

    async def receive(self, request: web.Request) -> web.Response:
        assert request.headers["Content-Type"] == "application/x-protobuf"
        message = ExportTraceServiceRequest.FromString(await request.read())
        for group in message.resource_spans:
            self.services |= {
                each.value.string_value
                for each in group.resource.attributes
                if each.key == "service.name"
            }
            for scope in group.scope_spans:
                self.spans += scope.spans
        return web.Response(content_type="application/x-protobuf")

    def path_of(self, span: Span) -> list[Span]:
        """The span and its ancestors up to the root."""
        by_id = {each.span_id: each for each in self.spans}
        path = [span]
        while path[-1].parent_span_id in by_id:
            path.append(by_id[path[-1].parent_span_id])
        return path

    def complete(self, name: str, object_name: str) -> list[list[Span]]:
        """Paths of the spans of that name for that object which lead to a root."""
        found = [
            self.path_of(each)
            for each in self.spans
            if each.name == name and attributes(each).get("k8s.object.name") == object_name
        ]
        return [path for path in found if not path[-1].parent_span_id]


def attributes(span: Span) -> Mapping[str, str]:
    return {each.key: each.value.string_value for each in span.attributes}


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    subject = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", subject.receive)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    subject.port = runner.addresses[0][1]
    yield subject
    await runner.cleanup()


class Wire:
    """A relay of TCP connections that keeps what clients send."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.sent = b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, downstream = await asyncio.open_connection(*self._target)

        async def copy(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, keep: bool
        ) -> None:
            with contextlib.suppress(ConnectionError):
                while data := await source.read(65536):
                    if keep:
                        self.sent += data
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(
            copy(reader, downstream, keep=True), copy(upstream, writer, keep=False)
        )

    def parents(self, method: str, path: str) -> set[str]:
        """`traceparent` of the requests: the ids of trace and span."""
        heads = re.findall(
            rf"{method} {path}\S* HTTP/1.1\r\n(.*?)\r\n\r\n", self.sent.decode("latin-1"), re.DOTALL
        )
        found = (
            re.search(
                r"^traceparent: 00-(\w{32}-\w{16})-\w\w\r?$", head, re.MULTILINE | re.IGNORECASE
            )
            for head in heads
        )
        return {match[1] for match in found if match}


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[Environment]:
    users = (administrator("admin"),)
    async with Environment("embedded-process", users=users, folder=tmp_path) as environment:
        await environment.install_crds(*KINDS)
        yield environment


async def make_template(env: Environment, name: str) -> None:
    manifest = {
        "apiVersion": "tenancy.ctrlruntime.dev/v1",
        "kind": "TenantTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"registryId": "missing"},
    }
    async with Client.connect(env.config("admin")) as client:
        await client.create(manifest)


async def reported(env: Environment, name: str) -> None:
    """Wait until the template has a status."""
    async with Client.connect(env.config("admin")) as client:
        await eventually(
            lambda: client.get(TenantTemplate, name, namespace="default"),
            lambda found: found.status.conditions,
        )


async def manager(kubeconfig: Path, **environment: str) -> Program:
    return await Program.start(
        *("run", "--kubeconfig", kubeconfig, "--system", "tenancy"),
        *("--metrics-bind-address", "0", "--health-probe-bind-address", "0"),
        environment=environment,
    )


async def test_one_trace_leads_from_the_watch_event_to_the_write(
    env: Environment, collector: Collector, tmp_path: Path
) -> None:
    text = env.kubeconfig("admin").read_text()
    host, port = re.findall(r"http://([\w.]+):(\d+)", text)[0]
    wire = Wire(host, int(port))
    relay = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    relayed = tmp_path / "relayed"
    relayed.write_text(text.replace(f":{port}", f":{relay.sockets[0].getsockname()[1]}"))
    endpoint = f"http://127.0.0.1:{collector.port}"
    # Spans stay in the batch until the end: what arrives then has been flushed by it.
    program = await manager(
        relayed, OTEL_EXPORTER_OTLP_ENDPOINT=endpoint, OTEL_BSP_SCHEDULE_DELAY="600000"
    )
    async with program:
        for name in ("early", "shop"):  # the second one when the watch has begun
            await make_template(env, name)
            await reported(env, name)
        assert not collector.spans
        program.send(signal.SIGTERM)
        assert await program.wait() == 0, program.output
    relay.close()
    assert collector.services == {SERVICE_NAME}
    (path, *_) = collector.complete(f"patch {TEMPLATES}", "shop")
    assert [each.name for each in path] == [
        f"patch {TEMPLATES}",
        "reconcile tenanttemplate",
        "queue wait",
        "TenantTemplate event",
    ]
    assert attributes(path[-1])["event"] == "TenantTemplate default/shop created"
    assert len({each.trace_id for each in path}) == 1
    write, reconcile, wait, event = path
    assert event.start_time_unix_nano <= wait.start_time_unix_nano <= wait.end_time_unix_nano
    assert wait.end_time_unix_nano <= reconcile.start_time_unix_nano
    sent = wire.parents(
        "PATCH", "/apis/tenancy.ctrlruntime.dev/v1/namespaces/default/tenanttemplates/shop"
    )
    assert f"{write.trace_id.hex()}-{write.span_id.hex()}" in sent


async def test_a_collector_that_does_not_answer_neither_holds_up_nor_ends_the_manager(
    env: Environment,
) -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    silent = await asyncio.start_server(silence, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    for given in (endpoint, "http://127.0.0.1:9"):
        program = await manager(
            env.kubeconfig("admin"),
            OTEL_EXPORTER_OTLP_ENDPOINT=given,
            OTEL_BSP_SCHEDULE_DELAY="100",
            OTEL_BSP_MAX_QUEUE_SIZE="2",
            OTEL_BSP_MAX_EXPORT_BATCH_SIZE="1",
        )
        async with program:
            for number in range(5):
                name = f"t{number}-{given.rpartition(':')[2]}"
                await make_template(env, name)
                await reported(env, name)
            program.send(signal.SIGTERM)
            assert await program.wait() == 0, program.output
        assert "Traceback" not in program.output
    assert program.output.count("Traces are not exported") == 1, program.output
    silent.close()


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SDK_DISABLED": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
    ],
)
def test_the_standard_variables_turn_traces_on(environment: dict[str, str], on: bool) -> None:
    assert exports_traces(environment) is on


@pytest.mark.parametrize(
    ("environment", "fix"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "set it to otlp or none"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "http/protobuf",
        ),
    ],
)
def test_what_is_not_supported_is_refused_with_the_fix(
    environment: dict[str, str], fix: str
) -> None:
    with pytest.raises(click.ClickException, match=fix):
        exports_traces(environment)


OFF = """
import asyncio, contextvars, sys
import manager.cli, manager.commands.run
from manager.options import SYSTEMS
from manager.systems import load_systems
load_systems(SYSTEMS)
from ctrlruntime import Builder, Client, Manager, ManagerOptions
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.envtest import Environment

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
seen = []

async def main():
    async with Environment("embedded") as env:
        options = ManagerOptions(metrics_bind_address="0", health_bind_address="0")
        subject = Manager(env.config(), options)
        done = asyncio.Event()

        async def reconcile(request):
            if request.name == "source":
                seen.append({each.name for each in contextvars.copy_context()})
                found = await subject.live_client.get(CONFIG_MAP, "source", namespace="default")
                done.set()

        Builder(subject).for_(CONFIG_MAP).build(reconcile)
        async with subject.running(), Client.connect(env.config()) as client:
            manifest = {"apiVersion": "v1", "kind": "ConfigMap"}
            await client.create({**manifest, "metadata": {"name": "source", "namespace": "default"}})
            await asyncio.wait_for(done.wait(), 60)

asyncio.run(main())
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
print(sorted(seen[0] - {"decimal_context"}))
"""


def test_without_traces_nothing_of_opentelemetry_is_imported_and_no_context_variable_set() -> None:
    done = subprocess.run([sys.executable, "-c", OFF], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = done.stdout.splitlines()[-1]
    assert names == "['ctrlruntime_run']", names


def test_the_sdk_and_its_exporter_come_with_the_manager_and_not_with_the_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    library = project["project"]
    of_library = [*library["dependencies"], *library["optional-dependencies"]["otel"]]
    assert [each for each in of_library if "opentelemetry" in each] == [
        "opentelemetry-api>=1.30,<2"
    ], "the extra has the interfaces alone"
    of_manager = " ".join(project["dependency-groups"]["manager"])
    for name in ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"):
        assert name in of_manager
