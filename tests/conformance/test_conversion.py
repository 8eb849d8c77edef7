"""Conversion webhooks of custom kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from .conftest import define
from .hooks import serve
from .test_admission import MUTATING, Hook, patch
from .wire import Api

pytestmark = pytest.mark.custom


class Converter:
    """v1 keeps `spec.size`, v2 the same as text in `spec.length`."""

    def __init__(self) -> None:
        self.broken = ""
        self.client: dict[str, str] = {}

    async def answer(self, _: str, asked: dict[str, Any]) -> dict[str, Any]:
        wanted = asked["desiredAPIVersion"]
        if self.broken:
            return {"result": {"status": "Failed", "message": self.broken}}
        converted = [self.convert(obj, wanted) for obj in asked["objects"]]
        return {"result": {"status": "Success"}, "convertedObjects": converted}

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
    async with serve(converter.answer) as hooks:
        converter.client = hooks.client_config()
        yield converter


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
    webhook = {"clientConfig": converter.client, "conversionReviewVersions": ["v1"]}
    spec = {
        "group": api.group,
        "scope": "Namespaced",
        "names": {"plural": "ropes", "kind": "Rope"},
        "conversion": {"strategy": "Webhook", "webhook": webhook},
        "versions": [
            version("v1", "size", "integer", storage=True),
            version("v2", "length", "string", storage=False),
        ],
    }
    return await define(api, {"metadata": {"name": f"ropes.{api.group}"}, "spec": spec})


def rope(api: Api, name: str, **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": f"{api.group}/v2",
        "kind": "Rope",
        "metadata": {"name": name, **metadata},
        "spec": {"length": "7"},
    }


async def test_every_version_shows_its_own_form(api: Api, ropes: str) -> None:
    v2 = ropes.replace("/v1/", "/v2/")
    made = await api.create(v2, rope(api, "r"))
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
        await api.create(
            ropes, {**rope(api, "r"), "apiVersion": f"{api.group}/v1", "spec": {"size": 3}}
        )
        assert (await stream.next())["object"]["spec"] == {"length": "3"}


async def test_a_deletion_mark_keeps_the_forms(api: Api, ropes: str) -> None:
    v2 = ropes.replace("/v1/", "/v2/")
    await api.create(v2, rope(api, "r", finalizers=["example.com/hold"]))
    held = await api.call("DELETE", f"{v2}/r")
    assert (held["spec"], "deletionTimestamp" in held["metadata"]) == ({"length": "7"}, True)
    await api.merge(f"{v2}/r", {"metadata": {"finalizers": None}})
    await api.gone(f"{ropes}/r")


async def test_a_failing_webhook_refuses_the_write(
    api: Api, ropes: str, converter: Converter
) -> None:
    converter.broken = "no idea"
    code, reason, message = await api.fails("POST", ropes.replace("/v1/", "/v2/"), rope(api, "r"))
    assert (code, reason) == (500, "")
    assert message == f"conversion webhook for {api.group}/v2, Kind=Rope failed: no idea"


@pytest.fixture
async def admission() -> AsyncIterator[Hook]:
    made = Hook()
    async with serve(made.answer) as hooks:
        made.url, made.client = hooks.url, hooks.client_config()
        yield made


@pytest.mark.kube_apiserver("webhooks are a built-in kind")
async def test_hooks_of_another_version_are_shown_that_version(
    api: Api, ropes: str, admission: Hook
) -> None:
    """matchPolicy Equivalent: what a hook changes in its version is in the version that was sent."""
    rules = [
        {
            "apiGroups": [api.group],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["ropes"],
        }
    ]
    changed = patch({"op": "replace", "path": "/spec/size", "value": 9})
    admission.respond = lambda _: changed
    await admission.install(api, MUTATING, admission.config(api, rules=rules))
    v2 = ropes.replace("/v1/", "/v2/")
    made = await api.create(v2, rope(api, "r"))
    (asked,) = admission.asked
    assert asked["object"]["apiVersion"] == f"{api.group}/v1"
    assert asked["object"]["spec"] == {"size": 7}
    assert asked["requestKind"]["version"] == "v2"
    assert made["spec"] == {"length": "9"}
    assert (await api.get(f"{ropes}/r"))["spec"] == {"size": 9}
