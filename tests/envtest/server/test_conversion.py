"""Conversion webhooks of custom kinds."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp import web

from ctrlruntime.envtest.server.certificates import Authority

from .conftest import DEFINITIONS, Api, served

pytestmark = pytest.mark.custom


class Converter:
    """v1 keeps `spec.size`, v2 the same as text in `spec.length`."""

    def __init__(self) -> None:
        self.authority = Authority("converter")
        self.port = 0
        self.broken = ""

    async def handle(self, request: web.BaseRequest) -> web.Response:
        asked = orjson.loads(await request.read())["request"]
        wanted = asked["desiredAPIVersion"]
        response: dict[str, Any] = {"uid": asked["uid"]}
        if self.broken:
            response["result"] = {"status": "Failed", "message": self.broken}
        else:
            response["result"] = {"status": "Success"}
            response["convertedObjects"] = [self.convert(obj, wanted) for obj in asked["objects"]]
        body = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1"}
        return web.json_response({**body, "response": response})

    @staticmethod
    def convert(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
        if wanted.endswith("/v2"):
            spec = {"length": str(obj["spec"]["size"])}
        else:
            spec = {"size": int(obj["spec"]["length"])}  # type: ignore[dict-item]
        return {**obj, "apiVersion": wanted, "spec": spec}


@pytest.fixture
async def converter() -> AsyncIterator[Converter]:
    converter = Converter()
    runner = web.ServerRunner(web.Server(converter.handle))
    await runner.setup()
    context = converter.authority.server_context(["127.0.0.1"])
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    converter.port = runner.addresses[0][1]
    yield converter
    await runner.cleanup()


def version(name: str, field: str, kind: str, *, storage: bool) -> dict[str, Any]:
    spec = {"type": "object", "properties": {field: {"type": kind}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
    }


@pytest.fixture
async def ropes(api: Api, converter: Converter) -> str:
    client = {
        "url": f"https://127.0.0.1:{converter.port}/",
        "caBundle": base64.b64encode(converter.authority.ca_data).decode(),
    }
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "ropes", "kind": "Rope"},
        "conversion": {"strategy": "Webhook", "webhook": webhook},
        "versions": [
            version("v1", "size", "integer", storage=True),
            version("v2", "length", "string", storage=False),
        ],
    }
    await api.create(DEFINITIONS, {"metadata": {"name": "ropes.example.com"}, "spec": spec})
    path = f"/apis/example.com/v1/namespaces/{api.namespace}/ropes"
    await served(api, path)
    return path


def rope(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v2",
        "kind": "Rope",
        "metadata": {"name": name, **metadata},
        "spec": {"length": "7"},
    }


async def test_every_version_shows_its_own_form(api: Api, ropes: str) -> None:
    v2 = ropes.replace("/v1/", "/v2/")
    made = await api.create(v2, rope("r"))
    assert made["spec"] == {"length": "7"}
    assert (await api.get(f"{ropes}/r"))["spec"] == {"size": 7}
    await api.merge(f"{ropes}/r", {"spec": {"size": 8}})
    after = await api.get(f"{v2}/r")
    assert after["spec"] == {"length": "8"}
    assert after["metadata"]["generation"] == 2
    one = await api.get(f"{ropes}/r")
    assert one["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    assert (await api.get(v2))["items"][0] == after


async def test_watches_see_converted_objects(api: Api, ropes: str) -> None:
    v2 = ropes.replace("/v1/", "/v2/")
    async with api.watch(f"{v2}?watch=1") as stream:
        await api.create(ropes, {**rope("r"), "apiVersion": "example.com/v1", "spec": {"size": 3}})
        assert (await stream.next())["object"]["spec"] == {"length": "3"}


async def test_a_deletion_mark_keeps_the_forms(api: Api, ropes: str) -> None:
    v2 = ropes.replace("/v1/", "/v2/")
    await api.create(v2, rope("r", finalizers=["example.com/hold"]))
    held = await api.call("DELETE", f"{v2}/r")
    assert (held["spec"], "deletionTimestamp" in held["metadata"]) == ({"length": "7"}, True)
    await api.merge(f"{v2}/r", {"metadata": {"finalizers": None}})
    await api.gone(f"{ropes}/r")


async def test_a_failing_webhook_refuses_the_write(
    api: Api, ropes: str, converter: Converter
) -> None:
    converter.broken = "no idea"
    code, reason, message = await api.fails("POST", ropes.replace("/v1/", "/v2/"), rope("r"))
    assert (code, reason) == (500, "")
    assert message == "conversion webhook for example.com/v2, Kind=Rope failed: no idea"
