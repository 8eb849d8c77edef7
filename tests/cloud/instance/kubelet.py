"""A fake kubelet with the logs of one Pod, and that Pod."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.pki import self_signed
from internal.cloud.pod_logs import POD

NODE = BUILTIN[GroupVersionKind("", "v1", "Node")]


@dataclass
class Kubelet:
    """Plays the node agent that the API server forwards requests for logs to."""

    port: int = 0
    asked: list[dict[str, str]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def listening(self, folder: Path) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await runner.setup()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = self_signed(["127.0.0.1"], datetime.now(UTC), timedelta(days=1))
        file = folder / "kubelet.pem"
        file.write_bytes(pair.key_pem + pair.certificate_pem)
        context.load_cert_chain(file)
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            self.ended.set()
            await runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        self.asked.append({**request.match_info, **request.query})
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b"first\nsecond\n")
        if request.query.get("follow") == "true":
            await self.ended.wait()
            await answer.write(b"last\n")
        return answer


async def make_pod(client: Client, port: int) -> None:
    """Make a node that the kubelet is at, and the Pod of a Job on it."""
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    await client.create(node)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    await client.patch_status(NODE, "n", {"status": status})
    labels = {"job-name": "terraform-1"}
    spec = {"nodeName": "n", "containers": [{"name": "task", "image": "i"}]}
    metadata = {"name": "terraform-1-x", "namespace": "default", "labels": labels}
    await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


async def start_pod(client: Client) -> None:
    """Report its container as running, as a kubelet does."""
    running_now = {"name": "task", "ready": True, "restartCount": 0, "image": "i", "imageID": ""}
    state = {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
    status = {"phase": "Running", "containerStatuses": [running_now | state]}
    await client.patch_status(POD, "terraform-1-x", {"status": status}, namespace="default")
