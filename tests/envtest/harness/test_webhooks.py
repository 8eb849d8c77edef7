"""Hooks of a server under test reach this process: admission, and conversion between versions."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError
from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.envtest.webhooks import point_at
from ctrlruntime.graceful_server import hanging_up
from ctrlruntime.json import Json

GROUP = "hooks.envtest.example.com"
V1 = GroupVersionKind(GROUP, "v1", "Hooked")
V2 = GroupVersionKind(GROUP, "v2", "Hooked")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")


class Hooks:
    """A webhook server with three paths; it notes what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def mutate(self, request: web.Request) -> web.Response:
        review = await self._review(request)
        metadata = review["object"]["metadata"]
        labels = {**metadata.get("labels", {}), "mutated": "yes"}
        patch = orjson.dumps([{"op": "add", "path": "/metadata/labels", "value": labels}])
        return self._answer(
            review, patchType="JSONPatch", patch=base64.b64encode(patch).decode(), allowed=True
        )

    async def validate(self, request: web.Request) -> web.Response:
        review = await self._review(request)
        allowed = review["object"]["metadata"]["name"] != "bad"
        status = {} if allowed else {"status": {"message": "no bad names", "code": 422}}
        return self._answer(review, allowed=allowed, **status)

    async def convert(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        asked = (await request.json())["request"]
        objects = [converted(each, asked["desiredAPIVersion"]) for each in asked["objects"]]
        answer = {"uid": asked["uid"], "result": {"status": "Success"}}
        answer["convertedObjects"] = objects
        body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
        return web.json_response({**body, "response": answer})

    async def _review(self, request: web.Request) -> Json:
        self.asked.append(request.path)
        return (await request.json())["request"]

    def _answer(self, review: Json, **fields: object) -> web.Response:
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return web.json_response({**body, "response": {"uid": review["uid"], **fields}})

    @asynccontextmanager
    async def serving(self, context: ssl.SSLContext) -> AsyncIterator[str]:
        app = web.Application()
        for path, handler in (
            ("/mutate", self.mutate),
            ("/validate", self.validate),
            ("/convert", self.convert),
        ):
            app.router.add_post(path, handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        try:
            yield f"https://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            assert runner.server is not None
            async with hanging_up(runner.server):
                await runner.cleanup()


def converted(manifest: dict[str, Any], api_version: str) -> dict[str, Any]:
    """v1 says `size`, v2 says `length`."""
    spec = manifest["spec"]
    length = spec.get("length", spec.get("size"))
    name = "length" if api_version.endswith("v2") else "size"
    return {**manifest, "apiVersion": api_version, "spec": {name: length}}


def definition() -> dict[str, Any]:
    def version(name: str, field: str, storage: bool) -> dict[str, Any]:
        spec = {"type": "object", "properties": {field: {"type": "integer"}}}
        schema = {"type": "object", "properties": {"spec": spec}}
        return {
            "name": name,
            "served": True,
            "storage": storage,
            "schema": {"openAPIV3Schema": schema},
        }

    service = {"namespace": "system", "name": "webhook", "path": "/convert"}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"hookeds.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "hookeds", "kind": "Hooked"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [version("v1", "size", True), version("v2", "length", False)],
        },
    }


def configuration(kind: str, path: str) -> dict[str, Any]:
    hook = {
        "name": f"hook.{GROUP}",
        "clientConfig": {"service": {"namespace": "system", "name": "webhook", "path": path}},
        "rules": [
            {
                "apiGroups": [GROUP],
                "apiVersions": ["v1"],
                "resources": ["hookeds"],
                "operations": ["CREATE"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": f"{path[1:]}.{GROUP}"},
        "webhooks": [hook],
    }


def hooked(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": V1.api_version,
        "kind": "Hooked",
        "metadata": metadata,
        "spec": {"size": 3},
    }


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def environment(request: pytest.FixtureRequest) -> AsyncIterator[Environment]:
    if request.param == "embedded":
        made = Environment()
    else:
        made = request.getfixturevalue("real_server").environment()
    async with made as env:
        yield env


@pytest.mark.criterion("EN-02")
async def test_hooks_reach_this_process(environment: Environment, tmp_path: Path) -> None:
    hooks, authority = Hooks(), Authority("hooks")
    admin = environment.client()
    configurations = [
        configuration("MutatingWebhookConfiguration", "/mutate"),
        configuration("ValidatingWebhookConfiguration", "/validate"),
    ]
    file = tmp_path / "webhooks.yaml"
    file.write_text("\n---\n".join(orjson.dumps(each).decode() for each in configurations))
    async with hooks.serving(authority.server_context(["127.0.0.1"])) as url:
        crd = point_at(definition(), url, authority.ca_data)
        await environment.install_crds(crd)
        try:
            for _ in range(2):  # what is there is replaced
                await environment.install_webhooks(file, url=url, ca_data=authority.ca_data)
            made = await created_when_hooks_are_known(admin, "default")
            assert made["metadata"]["labels"] == {"mutated": "yes"}
            with pytest.raises(APIError, match="no bad names"):
                await admin.create(hooked("bad", "default"))
            other = await admin.get(V2, made["metadata"]["name"], namespace="default")
            assert other["spec"] == {"length": 3}
            assert {"/mutate", "/validate", "/convert"} <= set(hooks.asked)
        finally:
            await environment.uninstall_webhooks(file)
            await environment.uninstall_crds(crd)
    assert "url" not in orjson.dumps(configurations).decode(), "what was given is left alone"


async def created_when_hooks_are_known(client: Client, namespace: str) -> dict[str, Any]:
    """A real server learns of new configurations with a delay."""
    async with asyncio.timeout(60):
        for number in range(10_000):
            made: dict[str, Any] = await client.create(hooked(f"h-{number}", namespace))
            if made["metadata"].get("labels"):
                return made
            await asyncio.sleep(0.1)
    raise AssertionError("unreachable")
