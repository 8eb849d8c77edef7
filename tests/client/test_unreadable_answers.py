"""An answer that cannot be read is a typed error: too deep, no JSON, no object; one of a list is named."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from aiohttp import web
from pydantic import ValidationError

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.calling import decode
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import (
    NoKindMatch,
    TransportError,
    WriteOutcomeUnknown,
    error_of_status,
)
from ctrlruntime.client.openapi import OpenAPISchemas
from ctrlruntime.client.writes import _encoded
from ctrlruntime.intake import LimitExceeded
from tests.client.peer import Peer
from tests.client.support import Widget

MAPPING = RESTMapping(GroupVersionKind("example.com", "v1", "Widget"), "widgets", namespaced=True)
SAID = "Widget a/bad is nested more than 200 levels deep: remove levels of mappings and lists"


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def body(levels: int) -> bytes:
    metadata = b'{"name":"bad","namespace":"a","managedFields":[{"fieldsV1":%b}]}' % deep(levels)
    return b'{"metadata":%b,"spec":%b}' % (metadata, deep(levels))


def read(levels: int) -> object:
    return decode(body(levels), MAPPING, MAPPING, metadata_only=False)


def write(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return _encoded({"kind": "Widget", "metadata": {"name": "bad", "namespace": "a"}, "a": value})


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("levels", [1_500, 9_000])
@pytest.mark.parametrize("do", [read, write])
def test_an_object_nested_too_deep_is_a_typed_error_that_names_it(
    do: Callable[[int], object], levels: int
) -> None:
    with pytest.raises(LimitExceeded, match=SAID):
        do(levels)


@pytest.mark.parametrize("do", [read, write])
def test_one_within_the_limit_is_read_and_written(do: Callable[[int], object]) -> None:
    assert do(190)


def test_its_metadata_can_be_read_and_other_errors_stay_what_they_are() -> None:
    found = decode(body(1_500), MAPPING, MAPPING, metadata_only=True)
    assert isinstance(found, dict)
    assert found["metadata"] == {"name": "bad", "namespace": "a"}
    with pytest.raises(orjson.JSONDecodeError):
        decode(b"{", MAPPING, MAPPING, metadata_only=False)
    with pytest.raises(TypeError):
        _encoded({"a": object()})


GARBAGE = {
    "page": b"<html>Sign in</html>",
    "empty": b"",
    "list": b"[1]",
    "cut": b'{"metadata":{"name":"a"',
    "items": b'{"metadata":{},"items":[1]}',
}


@pytest.mark.criterion("R-20")
@pytest.mark.parametrize("answer", GARBAGE.values(), ids=GARBAGE)
@pytest.mark.parametrize("verb", ["get", "list", "scale", "watch", "create", "patch"])
async def test_an_answer_that_is_no_object_is_a_transport_error(verb: str, answer: bytes) -> None:
    """Of a write the outcome is unknown: it may have been carried out."""
    if (answer == GARBAGE["items"] and verb not in ("list", "watch")) or (
        verb == "watch" and not answer
    ):
        return

    async def answers(_: web.Request) -> web.Response:
        return web.Response(body=answer, content_type="text/html")

    async with Peer(answers) as peer, Client.connect(Config(host=peer.url)) as client:
        metadata = {"name": "a", "namespace": "default"}
        calls: dict[str, Callable[[], Any]] = {
            "get": lambda: client.get(MAPPING, "a", namespace="default"),
            "list": lambda: client.list(MAPPING),
            "scale": lambda: client.get_scale(MAPPING, "a", namespace="default"),
            "watch": lambda: anext(client.watch(MAPPING)),
            "create": lambda: client.create(Widget.from_manifest({"metadata": metadata})),
            "patch": lambda: client.patch(MAPPING, "a", {}, namespace="default"),
        }
        kind = WriteOutcomeUnknown if verb in ("create", "patch") else TransportError
        with pytest.raises(kind, match=r"(GET|POST|PATCH) /apis/.*of a Kubernetes API"):
            await calls[verb]()


ODD_DISCOVERIES = [b"<html>Sign in</html>", b"", b"[1]", b'{"groups":', b"{}", b"7"]


@pytest.mark.criterion("R-20")
@pytest.mark.parametrize(
    "answer", [*ODD_DISCOVERIES, b'{"kind":"APIGroupDiscoveryList","items":[1]}']
)
@pytest.mark.parametrize("aggregated", [True, False])
@pytest.mark.parametrize("depth", [3, 4])
async def test_a_discovery_that_is_none_is_a_transport_error(
    answer: bytes, depth: int, *, aggregated: bool
) -> None:
    """`depth` 3: the documents of groups are garbage; 4: those of their versions."""

    async def answers(request: web.Request) -> web.Response:
        if aggregated and "apidiscovery" in request.headers["Accept"]:
            return web.Response(body=answer)
        if request.path.count("/") < depth - 1:
            return web.json_response({"versions": [{"version": "v1"}]})
        return web.Response(body=answer)

    async with Peer(answers) as peer, Client.connect(Config(host=peer.url)) as client:
        with pytest.raises((TransportError, NoKindMatch)) as caught:
            await client.get(MAPPING.gvk, "a", namespace="default")
        if answer not in (b"{}", b'{"kind":"APIGroupDiscoveryList","items":[1]}'):
            assert isinstance(caught.value, TransportError)
            assert "not one of a Kubernetes API" in str(caught.value)


@pytest.mark.criterion("R-20")
@pytest.mark.parametrize("answer", [b"<html>", b"", b'{"paths":7}', b'{"paths":{"apis/a/v1":{}}}'])
async def test_an_openapi_index_that_is_none_is_a_transport_error(answer: bytes) -> None:
    async def answers(_: web.Request) -> web.Response:
        return web.Response(body=answer)

    async with Peer(answers) as peer, Client.connect(Config(host=peer.url)) as client:
        schemas = OpenAPISchemas(client.transport, lambda: 0.0)
        with pytest.raises(TransportError, match="GET /openapi/v3: the answer is not one of"):
            await schemas.of("a", "v1")


@pytest.mark.criterion("R-20")
@pytest.mark.parametrize("wrong", [[], {"a": 1}, "x", 7, None])
def test_a_status_of_odd_types_is_an_error_all_the_same(wrong: object) -> None:
    status = {"code": wrong, "reason": wrong, "message": wrong, "details": wrong}
    for found in (status, {"details": {"retryAfterSeconds": wrong, "causes": [wrong]}}):
        error = error_of_status(found)
        assert str(error)
        assert isinstance(error.causes, tuple)


@pytest.mark.criterion("R-20")
async def test_an_object_of_a_list_that_cannot_be_read_is_named() -> None:
    items = [
        {"metadata": {"name": name, "namespace": "shop"}, "spec": {"size": size}}
        for name, size in (("good", 1), ("bad", "large"))
    ]

    async def answers(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {}, "items": items})

    async with Peer(answers) as peer, Client.connect(Config(host=peer.url)) as client:
        with pytest.raises(ValidationError, match=r"Widget shop/bad\s+spec.size") as caught:
            await client.list(Widget)
        assert caught.value.errors()[0]["type"] == "int_parsing"
        assert len(await client.list(Widget.mapping())) == 2
