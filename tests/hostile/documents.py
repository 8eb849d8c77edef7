"""Doors of documents: kubeconfigs, manifests of the command line, objects of informers, reviews, templates."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import click
import orjson
import structlog
from pydantic import ValidationError

from apis.tenancy import TenantTemplate
from ctrlruntime.cache.listwatch import WatchRequest
from ctrlruntime.client.kubeconfig import ConfigError, Kubeconfig
from ctrlruntime.client.reads import list_items
from ctrlruntime.resources import revision
from ctrlruntime.sharding.assignment import Assignment, BadAssignment, decode
from ctrlruntime.sharding.members import read_announcement
from ctrlruntime.webhook import Application
from internal.cloud.release_assignment import parse_assignment
from internal.tenancy.rendering import Renderer
from internal.tenancy.sync.plan_inputs import RecordedRow
from internal.tenancy.sync.rollout_changes import parse_change
from internal.tenancy.sync.row_rollouts import format_row, parse_row
from internal.tenancy.template.compiled import Blueprints
from manager.commands.manifest_files import manifests
from tests.cache.test_unreadable import HOSTILE, READABLE, Source, decoded
from tests.hostile.measure import Attack, Door
from tests.hostile.shapes import JSON, YAML, nested
from tests.webhook.posting import Posting, posting, review
from tests.webhook.webhook_kinds import websites

HEALTHY = b"""{current-context: a, clusters: [{name: a, cluster: {server: "https://a"}}],
    contexts: [{name: a, context: {cluster: a}}]}"""


def each(send: Callable[[bytes], Attack], shapes: Mapping[str, bytes]) -> dict[str, Attack]:
    """Return an attack for each document."""
    return {shape: send(content) for shape, content in shapes.items()}


async def kubeconfig(content: bytes) -> None:
    """Read a kubeconfig from a Secret: it is one, or a ConfigError."""
    fault = ""
    try:
        Kubeconfig.parse(content, "Secret x")
    except ConfigError as error:
        fault = str(error)
    assert len(fault) < 1_000


KUBECONFIG = Door(
    "kubeconfigs of Secrets",
    each(lambda content: partial(kubeconfig, content), YAML),
    partial(kubeconfig, HEALTHY),
    limits="1 MiB, depth 32, 10,000 values, no merge keys",
)


def read_manifests(content: bytes) -> list[dict[str, Any]]:
    """Read a file as a command does."""
    file = io.BytesIO(content)
    file.name = "x.yaml"
    return list(manifests(io.TextIOWrapper(file, "utf-8")))


async def manifest_file(content: bytes) -> None:
    """Read a file of the command line: it has objects, or is an error for its user."""
    fault = ""
    try:
        await asyncio.to_thread(read_manifests, content)
    except click.ClickException as error:
        fault = error.message
    assert len(fault) < 1_000


async def healthy_file() -> None:
    """Read a file of two objects."""
    found = await asyncio.to_thread(
        read_manifests, b"kind: A\n---\nkind: List\nitems: [{kind: B}]\n"
    )
    assert [each["kind"] for each in found] == ["A", "B"]


MANIFESTS = Door(
    "manifests of the command line",
    each(lambda content: partial(manifest_file, content), YAML),
    healthy_file,
    limits="64 MiB, depth 200, 2,000,000 values, no merge keys",
    managed=False,
)


async def listed(spec: bytes) -> None:
    """List an object between two others: both others are read, and it is or is invalid by itself."""
    async for page in Source(spec).pages(limit=0):
        names = []
        for body in list_items(page):
            item = decoded(bytes(memoryview(body)))
            names.append(item.name)
            await asyncio.sleep(0)  # who reads its fields does so in a turn of their own
            try:
                item.field("spec")
            except ValidationError:
                names[-1] += " is invalid"
            await asyncio.sleep(0)
        assert [name.removesuffix(" is invalid") for name in names] == ["one", "bad", "two"]
        assert not {"one is invalid", "two is invalid"} & {*names}


async def watched(spec: bytes) -> None:
    """Watch it: every line is an event of its object."""
    request = WatchRequest(resource_version="5", timeout=1, inactivity=1)
    names = []
    async for line in Source(spec).watch(request):
        names.append(decoded(line[line.index(b'"object":') + 9 : -1]).name)
        await asyncio.sleep(0)
    assert names == ["bad", "one", "bad", "bad"]


def _slots(text: str) -> Assignment | None:
    with suppress(BadAssignment):
        return decode(text)
    return None


RECORDS: dict[str, Callable[[str], object]] = {
    "a row": parse_row,
    "a change": parse_change,
    "an assignment": parse_assignment,
    "slots of a member": lambda text: read_announcement(text)[0].epoch or None,
    "slots of all members": _slots,
}
"""What the manager reads of its own annotations, which people may write too."""


async def annotated(content: bytes) -> None:
    """Read a record: there is none that can be read."""
    text = content.decode(errors="surrogateescape")
    for name, parse in RECORDS.items():
        assert parse(text) is None, name


async def healthy_record() -> None:
    """Read a row as it was recorded."""
    row = RecordedRow(revision({"a": "b"}), {"a": "b"})
    assert parse_row(format_row(row)) == row


ANNOTATIONS = Door(
    "records in annotations",
    each(lambda content: partial(annotated, content), JSON),
    healthy_record,
    limits="1 MiB, depth 64, 10,000 values",
)

OBJECTS = {**HOSTILE, **READABLE}
LISTS = Door(
    "lists of informers",
    each(lambda content: partial(listed, content), OBJECTS),
    partial(listed, b"{}"),
    limits="depth 200 a field; what is deeper keeps its metadata",
)
WATCHES = Door(
    "watch lines of informers",
    each(lambda content: partial(watched, content), OBJECTS),
    partial(watched, b"{}"),
    limits="depth 200 a field; what is deeper keeps its metadata",
)

SITES = websites()
REVIEWS = {
    **JSON,
    **{
        f"an object of {name}": b'{"request":{"uid":"u","object":' + content + b"}}"
        for name, content in JSON.items()
    },
    "7 MiB and more": b" " * (7 * 2**20 + 1),
}


async def answered(client: Posting, path: str) -> None:
    """Send a review of a healthy object: it is answered."""
    answer = await client.post(path, review(SITES.manifest(title="small")))
    assert answer.code == 200


async def reviewed(body: bytes) -> None:
    """Send a body beside a healthy review to the same application: it is refused, the other answered."""
    paths: tuple[str, ...] = ()

    def fill(application: Application) -> None:
        nonlocal paths
        paths = application.register(SITES.current)

    async with posting(fill) as client:
        for path in paths:
            answer, _ = await asyncio.gather(client.post(path, body), answered(client, path))
            assert answer.code < 500
            await answered(client, path)


async def healthy_review() -> None:
    """Send a healthy review alone."""
    application = Application(structlog.get_logger())
    path, _ = application.register(SITES.current)
    async with posting(lambda served: served.register(SITES.current)) as client:
        await answered(client, path)


WEBHOOKS = Door(
    "bodies of webhooks",
    each(lambda content: partial(reviewed, content), REVIEWS),
    healthy_review,
    limits="7 MiB, 64 MiB of all, 50,000 values, 10 s",
)


def template(**spec: object) -> TenantTemplate:
    """Return a template of the namespace `team`."""
    found = {"metadata": {"name": "web", "namespace": "team"}, "spec": {"registryId": "p", **spec}}
    return TenantTemplate.model_validate(found)


def one(text: str, number: int = 1) -> dict[str, object]:
    """Return the lists of a template with one ConfigMap of so many texts."""
    data = {f"k{key}": text for key in range(number)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data}
    return {"configMaps": [{"id": "a", "spec": body}]}


TEMPLATES: dict[str, Callable[[], dict[str, object]]] = {
    "38,000 templates": lambda: one("{{ uid }}", 38_000),
    "brackets": lambda: one("{{ " + "(" * 10_000 + "1" + ")" * 10_000 + " }}"),
    "lists in lists": lambda: one("{{ " + "[" * 3_000 + "]" * 3_000 + " }}"),
    "operators": lambda: one("{{ 1" + " + 1" * 20_000 + " }}"),
    "filters": lambda: one("{{ uid" + " | upper" * 10_000 + " }}"),
    "loops in loops": lambda: one("{% for a in range(99) %}" * 200 + "x" + "{% endfor %}" * 200),
    "blocks without an end": lambda: one("{% if uid %}" * 5_000),
    "1 MB of text": lambda: one("x" * 1_000_000 + "{{ uid }}"),
    "a power": lambda: one("{{ 9**9**9**9 }}"),
    "control characters": lambda: one("{{ '\x1b]0;x\x07\x00' }}"),
    "depth 150": lambda: {"manifests": [{"id": "a", "spec": orjson.loads(nested(150))}]},
    "500 resources": lambda: {"manifests": [{"id": f"a{n}", "spec": {}} for n in range(500)]},
    "a circle": lambda: {
        "manifests": [
            {"id": f"a{n}", "dependIds": [f"a{(n + 1) % 500}"], "spec": {}} for n in range(500)
        ]
    },
}


async def examined(make: Callable[[], dict[str, object]]) -> None:
    """Examine a template beside a healthy one, by one renderer: each has a verdict of its own."""
    renderer = Renderer()
    try:
        blueprints = Blueprints(renderer)
        hostile, small = template(**make()), template(**one("{{ uid }}"))
        _, found = await asyncio.gather(blueprints.examine(hostile), blueprints.examine(small))
        assert not found.too_large
        assert len(found.problems) == len((await blueprints.examine(small)).problems)
    finally:
        await renderer.close()


TEMPLATE = Door(
    "templates that are checked",
    {shape: partial(examined, make) for shape, make in TEMPLATES.items()},
    partial(examined, lambda: one("{{ uid }}")),
    limits="500 resources, 1,000 templates each and 5,000 in all, 50,000 values, steps and 0.5 s",
)
