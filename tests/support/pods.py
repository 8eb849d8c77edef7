"""Pods of an installed workload as processes of this machine: the arguments of their templates, the files of their
Secrets, and the token of their account, which may do what is bound to it and nothing else."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.kubeconfig import kubeconfig
from ctrlruntime.envtest.users import Identity
from ctrlruntime.json import Json
from tests.docs.blocks import ROOT
from tests.manager_cli.program import CHECKOUT, Program

SECRET = BUILTIN[GroupVersionKind("", "v1", "Secret")]
SERVICE_ACCOUNT = BUILTIN[GroupVersionKind("", "v1", "ServiceAccount")]


async def account_kubeconfig(
    environment: Environment, namespace: str, account: str, user: str
) -> str:
    """A kubeconfig with a new token of a service account; its requests are logged as those of `user`."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    client = environment.client("envtest")
    answer = await client.create_subresource(
        SERVICE_ACCOUNT, account, "token", request, namespace=namespace
    )
    token = str(answer["status"]["token"])
    environment.proxy.add_user(token, user)
    return kubeconfig(environment.url, None, user, Identity(token=token))


@dataclass
class LocalPod:
    """One Pod."""

    name: str
    program: Program
    port: int
    """Of its probes."""
    metrics_port: int
    webhook_port: int

    async def is_ready(self) -> bool:
        """Ask for its readiness, as a kubelet does."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{self.port}/readyz") as answer,
            ):
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def metrics(self, token: str = "") -> int:
        """Read its metrics. Return the code of the answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        address = f"https://127.0.0.1:{self.metrics_port}/metrics"
        async with (
            aiohttp.ClientSession() as session,
            session.get(address, headers=headers, ssl=False) as answer,
        ):
            return answer.status

    async def wait_ready(self, seconds: float) -> None:
        """Wait until it is ready. AssertionError with what it printed."""
        end = time.monotonic() + seconds
        while not await self.is_ready():
            if time.monotonic() > end:
                raise AssertionError(f"{self.name} is not ready:\n{self.program.output}")
            await asyncio.sleep(0.1)


@dataclass
class LocalPods:
    """The Pods of one namespace of a server."""

    hub: Environment
    namespace: str
    folder: Path
    user: str
    """As whom their requests are logged."""
    arguments: tuple[str, ...] = ()
    """What a Pod knows by its account's mount in a cluster."""
    command: tuple[str | Path, ...] = CHECKOUT
    """What stands for the image's entry point."""
    running: list[LocalPod] = field(default_factory=list)
    _ended: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @classmethod
    @contextlib.asynccontextmanager
    async def of(
        cls,
        hub: Environment,
        namespace: str,
        folder: Path,
        user: str,
        *arguments: str,
        command: tuple[str | Path, ...] = CHECKOUT,
    ) -> AsyncIterator[LocalPods]:
        """None at first; all are killed at the end."""
        made = cls(hub, namespace, folder, user, arguments, command)
        async with made._ended:
            yield made

    async def stop(self) -> None:
        """Kill all Pods, as a rollout ends those of the former template."""
        self.running.clear()
        await self._ended.aclose()

    async def start(self, mapping: RESTMapping, name: str, number: int = 0) -> LocalPod:
        """Start one Pod of a workload."""
        client = self.hub.client("envtest")
        workload: Any = await client.get(mapping, name, namespace=self.namespace)
        spec = workload["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        place = self.folder / f"{name}-{number}"
        account = await account_kubeconfig(
            self.hub, self.namespace, spec["serviceAccountName"], self.user
        )
        place.mkdir(parents=True, exist_ok=True)
        (place / "account").write_text(account)
        mounts = await self._mount(spec, container, place)
        port, metrics_port, webhook_port = free_port(), free_port(), free_port()
        ports = {":8081": f"127.0.0.1:{port}", ":8443": f"127.0.0.1:{metrics_port}"}
        program = await Program.start(
            *(_relocated(word, mounts, ports) for word in container["args"]),
            *self.arguments,
            f"--webhook-port={webhook_port}",
            environment={"KUBECONFIG": str(place / "account")},
            command=self.command,
            checkout=ROOT if self.command == CHECKOUT else place,
        )
        program = await self._ended.enter_async_context(program)
        pod = LocalPod(f"{name}-{number}", program, port, metrics_port, webhook_port)
        self.running.append(pod)
        return pod

    async def _mount(self, spec: Json, container: Json, place: Path) -> dict[str, str]:
        """Write the files of volumes. Return the path of each mount point."""
        volumes = {each["name"]: each for each in spec.get("volumes", ())}
        mounts: dict[str, str] = {}
        for each in container.get("volumeMounts", ()):
            source = volumes[each["name"]]["secret"]
            found: Any = await self.hub.client("envtest").get(
                SECRET, source["secretName"], namespace=self.namespace
            )
            folder = place / each["name"]
            folder.mkdir(exist_ok=True)
            for item in source["items"]:
                (folder / item["path"]).write_bytes(base64.b64decode(found["data"][item["key"]]))
            mounts[each["mountPath"]] = str(folder)
        return mounts


def _relocated(word: str, mounts: dict[str, str], ports: dict[str, str]) -> str:
    """An argument with the paths and ports of this machine."""
    flag, equals, value = word.partition("=")
    value = ports.get(value, value)
    for path, place in mounts.items():
        if value.startswith(f"{path}/"):
            value = place + value.removeprefix(path)
    return f"{flag}{equals}{value}"
