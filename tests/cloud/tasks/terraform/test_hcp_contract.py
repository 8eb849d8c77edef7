"""The contract server rejects what HCP Terraform rejects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from ctrlruntime.json import Json
from tests.cloud.servers.hcp import HCPServer
from tests.cloud.servers.hcp.server import JSON_API, TOKEN


class Caller:
    """Says exactly what it is told."""

    def __init__(self, server: HCPServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http

    async def call(
        self,
        method: str,
        path: str,
        data: object = None,
        *,
        token: str = TOKEN,
        kind: str = JSON_API,
    ) -> tuple[int, Any]:
        body = None if data is None else orjson.dumps({"data": data})
        headers = {"Authorization": f"Bearer {token}", "Content-Type": kind}
        url = f"{self.server.url}/api/v2{path}"
        async with self.http.request(method, url, data=body, headers=headers) as response:
            text = await response.read()
            return response.status, orjson.loads(text) if text else None

    async def make(self, path: str, kind: str, **more: object) -> Json:
        status, document = await self.call("POST", path, {"type": kind, **more})
        assert status == 201, document
        return document["data"]


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    async with HCPServer() as server, aiohttp.ClientSession() as http:
        yield Caller(server, http)


WORKSPACES = "/organizations/acme/workspaces"


async def test_tokens_types_and_names(caller: Caller) -> None:
    named = {"type": "workspaces", "attributes": {"name": "a"}}
    assert (await caller.call("GET", f"{WORKSPACES}/a", token="x"))[0] == 401
    assert (await caller.call("POST", WORKSPACES, named, kind="application/json"))[0] == 415
    assert (await caller.call("POST", WORKSPACES, {"attributes": {"name": "a"}}))[0] == 422
    assert (await caller.call("POST", WORKSPACES, {**named, "type": "runs"}))[0] == 422
    bad = {"type": "workspaces", "attributes": {"name": "a b"}}
    assert (await caller.call("POST", WORKSPACES, bad))[0] == 422
    assert (await caller.call("POST", WORKSPACES, named))[0] == 201
    status, document = await caller.call("POST", WORKSPACES, named)
    assert (status, document["errors"][0]["detail"]) == (422, "Name has already been taken")
    assert (await caller.call("POST", "/organizations/b/workspaces", named))[0] == 404


async def test_unknown_ids(caller: Caller) -> None:
    for path in ("workspaces/ws-1/runs", "runs/run-1", "configuration-versions/cv-1"):
        assert (await caller.call("GET", f"/{path}"))[0] == 404
    assert (await caller.call("GET", f"{WORKSPACES}/a"))[0] == 404
    assert (await caller.call("POST", "/workspaces/ws-1/actions/safe-delete"))[0] == 404
    assert (await caller.call("POST", "/runs/run-1/actions/apply"))[0] == 404


async def test_versions_and_runs(caller: Caller) -> None:
    workspace = await caller.make(WORKSPACES, "workspaces", attributes={"name": "a"})
    path = f"/workspaces/{workspace['id']}/configuration-versions"
    version = await caller.make(
        path, "configuration-versions", attributes={"auto-queue-runs": False}
    )
    pointers = {
        "workspace": {"data": {"type": "workspaces", "id": workspace["id"]}},
        "configuration-version": {"data": {"type": "configuration-versions", "id": version["id"]}},
    }
    status, _ = await caller.call("POST", "/runs", {"type": "runs", "relationships": pointers})
    assert status == 422  # nothing is uploaded yet
    status, shown = await caller.call("GET", f"/configuration-versions/{version['id']}")
    assert "upload-url" not in shown["data"]["attributes"]

    fake_state = caller.server.fake_state
    run = fake_state.add_run(
        fake_state.workspaces[workspace["id"]], fake_state.versions[version["id"]], "", destroy=True
    )
    path = f"/runs/{run.identity}/actions"
    assert (await caller.call("POST", f"{path}/apply"))[0] == 409
    assert (await caller.call("POST", f"{path}/cancel"))[0] == 409
    assert (await caller.call("POST", f"{path}/discard"))[0] == 202
    assert (await caller.call("POST", f"{path}/discard"))[0] == 409


async def test_deletes_and_limits(caller: Caller) -> None:
    workspace = await caller.make(WORKSPACES, "workspaces", attributes={"name": "a"})
    path = f"/workspaces/{workspace['id']}"
    caller.server.fake_state.workspaces[workspace["id"]].resources = 1
    assert (await caller.call("POST", f"{path}/actions/safe-delete"))[0] == 409
    caller.server.fake_state.workspaces[workspace["id"]].resources = 0
    assert (await caller.call("GET", f"{path}/current-state-version-outputs"))[0] == 404
    while (await caller.call("GET", f"{WORKSPACES}/a"))[0] == 200:
        pass
    assert len(caller.server.requests) == 31
    caller.server.clock.passed += 1
    assert (await caller.call("POST", f"{path}/actions/safe-delete"))[0] == 204
    assert (await caller.call("DELETE", path))[0] == 404
