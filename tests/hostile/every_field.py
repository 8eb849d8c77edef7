"""Doors whose documents have the hostile value at each field in turn: reviews, conversions, nodes, kubeconfigs, states."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from ctrlruntime.client.kubeconfig import ConfigError, Kubeconfig
from ctrlruntime.webhook import Application, Conversion
from ctrlruntime.webhook.application import CONVERT
from internal.cloud.tasks.task import TaskError
from internal.cloud.tasks.terraform.prior_state import state_facts
from internal.cosmos.comet.failures import NodeError
from internal.cosmos.comet.status import GREATEST, parse_status
from internal.cosmos.comet.usage import parse_usage
from tests.hostile.documents import SITES, answered
from tests.hostile.measure import Attack, Door
from tests.hostile.shapes import nested
from tests.webhook.posting import conversion_review, posting, review

VALUES: Final[Mapping[str, bytes]] = {
    "NaN": b"NaN",
    "a number of 5,000 digits": b"9" * 5_000,
    "an overflow": b"1e400",
    "less than nothing": b"-1",
    "a fraction": b"0.5",
    "null": b"null",
    "true": b"true",
    "a list": b"[[]]",
    "an object": b'{"a":{}}',
    "a number as text": b'"99999999999999999999999"',
    "control characters": b'"\\u001b]0;x\\u0007\\u0000\\u202e"',
    "a lone surrogate": b'"\\ud800"',
    "no UTF-8": b'"\xff\xfe"',
    "100 KB of text": b'"' + b"u" * 100_000 + b'"',
    "depth 300": nested(300),
    "depth 5,000": nested(5_000),
}
"""What stands where something else is expected, as JSON, or as what claims to be JSON."""
_MARK: Final = "\ue000"
LONGEST_ERROR: Final = 2_000
"""Characters of what is reported of a document, beside what repeats its uid."""


def everywhere(document: Any, value: bytes) -> Iterator[bytes]:  # noqa: ANN401
    """Yield the document once for each place of it, with the value in that place; the last is the value alone."""
    whole = json.dumps(_MARK).encode()
    for changed in _changed(document):
        yield json.dumps(changed).encode().replace(whole, value, 1)


def _changed(part: Any) -> Iterator[Any]:  # noqa: ANN401
    items = (
        part.items()
        if isinstance(part, dict)
        else enumerate(part if isinstance(part, list) else ())
    )
    for key, inner in items:
        for each in _changed(inner):
            copy = part.copy()
            copy[key] = each
            yield copy
    yield _MARK


def at_each(send: Callable[[bytes], Attack], document: dict[str, Any]) -> dict[str, Attack]:
    """Return an attack for each value, which sends it in each place of a document, one after the other."""

    async def attack(value: bytes) -> None:
        for body in everywhere(document, value):
            await send(body)()
            await asyncio.sleep(0)

    return {f"{name} at every field": partial(attack, value) for name, value in VALUES.items()}


STATUS: Final = {
    "jsonrpc": "2.0",
    "id": -1,
    "error": None,
    "result": {
        "node_info": {"network": "hub-1", "id": "ab", "version": "1"},
        "sync_info": {
            "latest_block_height": "12",
            "latest_block_time": "2026-01-01T00:00:00Z",
            "catching_up": False,
        },
    },
}
USAGE: Final = {"dir": "/home", "all_bytes": 100, "free_bytes": 50, "error": ""}


async def node_answer(body: bytes, *, usage: bool = False) -> None:
    """Read an answer of a node: it is one within the limits, or a NodeError."""
    fault = ""
    try:
        if usage:
            parse_usage(body)
        else:
            found = parse_status(body)
            assert type(found.height) is int
            assert 0 <= found.height <= GREATEST
            assert type(found.catching_up) is bool
    except NodeError as error:
        fault = str(error)
    assert len(fault) < LONGEST_ERROR
    assert fault.isprintable()


async def healthy_answer() -> None:
    """Read the answer of a healthy node."""
    assert parse_status(json.dumps(STATUS).encode()).height == 12


NODE_FIELDS = Door(
    "fields of answers of nodes",
    at_each(lambda body: partial(node_answer, body), STATUS)
    | {
        f"{name} (disk)": attack
        for name, attack in at_each(
            lambda body: partial(node_answer, body, usage=True), USAGE
        ).items()
    },
    healthy_answer,
    limits="heights below 2^63; a typed error of 2,000 characters",
)


Bodies = Callable[[], Iterable[bytes]]


async def posted(bodies: Bodies, place: int) -> None:
    """Send bodies to one path of an application, each beside a healthy review: it is answered, by little more than was sent."""
    paths: tuple[str, ...] = ()

    def fill(application: Application) -> None:
        nonlocal paths
        application.convert(Conversion(SITES.current, SITES.old))
        paths = (*application.register(SITES.current), CONVERT)

    async with posting(fill) as client:
        for body in bodies():
            answer, _ = await asyncio.gather(
                client.post(paths[place], body), answered(client, paths[0])
            )
            assert answer.code < 500, answer.body
            assert len(json.dumps(_without_echo(answer.body))) < 2 * len(body) + LONGEST_ERROR


def _without_echo(body: dict[str, Any]) -> dict[str, Any]:
    """Return the answer without what it has to repeat: the uid, and the objects."""
    found = body.get("response") or {}
    repeated = ("uid", "convertedObjects", "patch")
    return {**body, "response": {key: found[key] for key in found if key not in repeated}}


def to_reviews(document: dict[str, Any], place: int) -> dict[str, Attack]:
    """Return the attacks on one path."""
    return {
        f"{name} at every field": partial(posted, partial(everywhere, document, value), place)
        for name, value in VALUES.items()
    }


SMALL = SITES.manifest(title="small")
UPDATE = review(SMALL, SMALL, operation="UPDATE")
OLD = SITES.manifest(version="v1alpha1", headline="small")
TO_CONVERT = conversion_review([OLD, OLD], SMALL["apiVersion"])
LONG = "u" * 3_000_000
TWICE = json.dumps(UPDATE).replace('"uid":', '"uid": "first", "uid":').encode()


def objects(number: int, each: Any) -> Bodies:  # noqa: ANN401
    """Return a conversion of so many objects."""
    return lambda: [json.dumps(conversion_review([each] * number, SMALL["apiVersion"])).encode()]


def changed(document: dict[str, Any], **request: object) -> Bodies:
    """Return a review with other fields of its request."""
    return lambda: [json.dumps({**document, "request": document["request"] | request}).encode()]


LEAST = {"apiVersion": OLD["apiVersion"], "kind": "Website"}
REVIEW_FIELDS = Door(
    "fields of admission reviews",
    {f"{name} (defaults)": attack for name, attack in to_reviews(UPDATE, 0).items()}
    | to_reviews(UPDATE, 1)
    | {
        "a uid of 3 MB": partial(posted, changed(UPDATE, uid=LONG), 1),
        "an operation of 3 MB": partial(posted, changed(UPDATE, operation=LONG), 1),
        "a title of 3 MB": partial(posted, changed(UPDATE, object=SITES.manifest(title=LONG)), 1),
        "a kind of 3 MB": partial(
            posted, lambda: [json.dumps({**UPDATE, "kind": LONG}).encode()], 1
        ),
        "a key twice": partial(posted, lambda: [TWICE], 1),
    },
    partial(posted, lambda: [json.dumps(UPDATE).encode()], 1),
    limits="7 MiB, 64 MiB of all, 50,000 values; an answer of twice the size",
)
CONVERSIONS = Door(
    "reviews of conversions",
    to_reviews(TO_CONVERT, 2)
    | {
        "10,000 objects": partial(posted, objects(10_000, OLD), 2),
        "as many objects as fit": partial(posted, objects(90_000, LEAST), 2),
        "objects that are numbers": partial(posted, objects(100_000, 1), 2),
        "a version of 3 MB": partial(posted, changed(TO_CONVERT, desiredAPIVersion=LONG), 2),
        "a kind of 3 MB": partial(posted, objects(1, {**OLD, "kind": LONG}), 2),
        "a name of 3 MB": partial(posted, objects(1, {**OLD, "metadata": {"name": LONG}}), 2),
    },
    partial(posted, objects(1, OLD), 2),
    limits="7 MiB, 64 MiB of all; a turn of the loop for each object",
)

PLANE = {
    "current-context": "a",
    "clusters": [{"name": "a", "cluster": {"server": "https://a", "proxy-url": "http://b:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "u", "namespace": "n"}}],
}


async def plane(content: bytes) -> None:
    """Read a kubeconfig of a plane, and what it connects by: it is one, or a ConfigError that shows none of it."""
    fault = ""
    try:
        Kubeconfig.parse(content, "Secret x").context()
    except ConfigError as error:
        fault = str(error)
    assert len(fault) < LONGEST_ERROR
    assert fault.isprintable()


PLANE_FIELDS = Door(
    "fields of kubeconfigs of planes",
    at_each(lambda body: partial(plane, body), PLANE),
    partial(plane, json.dumps(PLANE).encode()),
    limits="1 MiB, depth 32, 10,000 values, no merge keys",
)

STATE = {
    "version": 4,
    "serial": 3,
    "lineage": "l",
    "outputs": {"a": {"value": "b"}},
    "resources": [{"mode": "managed", "type": "t", "instances": [{"attributes": {"id": "i"}}]}],
}


async def state(content: bytes) -> None:
    """Read a state of Terraform: it is one, or a TaskError."""
    fault = ""
    try:
        state_facts(content)
    except TaskError as error:
        fault = str(error)
    assert len(fault) < LONGEST_ERROR


STATE_FIELDS = Door(
    "fields of states of Terraform",
    at_each(lambda body: partial(state, body), STATE),
    partial(state, json.dumps(STATE).encode()),
    limits="in the process of the run alone",
    managed=False,
)
FIELDS: Final = (NODE_FIELDS, REVIEW_FIELDS, CONVERSIONS, PLANE_FIELDS, STATE_FIELDS)
