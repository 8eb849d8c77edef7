"""A project in a cluster, as far as one without a kubelet is: `make deploy`, and the process of its Pod.

The process has the mount of the account, its rights, and the arguments and variables of the Deployment. The API server
reaches its webhooks by their Service.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.eventually import eventually, eventually_gone
from ctrlruntime.envtest.process import ChildProcess
from tests.cli.projects import made
from tests.docs.blocks import ROOT
from tests.envtest.kubectl.binaries import provisioned
from tests.manifests.read_only_root import refusal
from tests.support import waiting

DEPLOYMENT = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
ACCOUNT = BUILTIN[GroupVersionKind("", "v1", "ServiceAccount")]
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
SLICE = GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice")
NAMESPACE = "shop-system"
MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
FLAGS = {"enable-aggregator-routing": "true", "enable-priority-and-fairness": "false"}
"""A Service's endpoints are called, as there is no kube-proxy for its address."""
COMMANDS = (
    "init shop",
    "create api example.com/v1 Website --finalizer",
    "create webhook example.com/v1 Website",
    "add conversion example.com/v2 Website",
)


@pytest.fixture(params=["kube-apiserver"])
async def environment(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    """A server of its own, as no other test's calls webhooks that way."""
    server = {"apiserver_flags": FLAGS}
    async with Environment(request.param, server=server, folder=tmp_path) as running:
        yield running


def project(folder: Path) -> Path:
    """Return a project whose ports are free on this machine."""
    path = made(folder, *COMMANDS)
    app = path / "shop" / "app.py"
    options = f'metrics_bind_address=":{free_port()}", health_bind_address=":{free_port()}"'
    webhooks = f"webhook=WebhookOptions(\n        port={free_port()},"
    text = app.read_text().replace("webhook=WebhookOptions(", f"{options},\n    {webhooks}", 1)
    app.write_text(text)
    return path


async def deploy(environment: Environment, folder: Path) -> None:
    """Run `make deploy`."""
    process = await asyncio.create_subprocess_exec(
        "make", "deploy", f"PYTHON={sys.executable}",
        cwd=folder, env=variables(KUBECONFIG=str(environment.kubeconfig("admin"))),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()


def variables(**more: str) -> dict[str, str]:
    path = f"{provisioned().parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT), **more}


@asynccontextmanager
async def pod(environment: Environment, folder: Path) -> AsyncIterator[ChildProcess]:
    """Run the container of the Deployment until it is ready; its Service leads to it."""
    client: Client = environment.client("admin")
    live: Any = await client.get(DEPLOYMENT, "shop", namespace=NAMESPACE)
    spec = live["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    mount = await account(environment, spec["serviceAccountName"], folder / "mount")
    await lead(client, "shop-webhook", ports["webhooks"])
    script = f'mount -t tmpfs tmpfs /var/run; mkdir -p {MOUNT}; cp "$0"/* {MOUNT}; exec "$@"'
    entry = [sys.executable, "-m", "shop", *container.get("args", ())]
    server = urlsplit(environment.config("admin").host)
    env = {each["name"]: each["value"] for each in container.get("env", ())}
    env |= {"KUBERNETES_SERVICE_HOST": str(server.hostname)}
    env |= {"KUBERNETES_SERVICE_PORT": str(server.port), "PYTHONPATH": f"{ROOT}:{folder}"}
    process = ChildProcess.spawn(
        ["unshare", "--mount", "sh", "-euc", script, str(mount), *entry],
        log=folder / "log",
        env=variables(**env),
    )
    probe = container["readinessProbe"]["httpGet"]
    url = f"http://127.0.0.1:{ports[probe['port']]}{probe['path']}"

    async def is_ready() -> bool:
        assert process.returncode is None, process.log_tail()
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return answer.status == 200

    try:
        await waiting.eventually(is_ready, despite=(aiohttp.ClientError,), timeout=60)
        yield process
    finally:
        await process.stop()


async def account(environment: Environment, name: str, folder: Path) -> Path:
    """Return a folder with what a kubelet mounts of an account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer: Any = await environment.client("admin").create_subresource(
        ACCOUNT, name, "token", request, namespace=NAMESPACE
    )
    authority = (environment.config("admin").ca_data or b"").decode()
    files = {"token": answer["status"]["token"], "ca.crt": authority, "namespace": NAMESPACE}
    await asyncio.to_thread(write, folder, files)
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)


async def lead(client: Client, name: str, target: int) -> None:
    """Make this machine the endpoint of a Service, as its controller makes a Pod that runs."""
    service: Any = await client.get(SERVICE, name, namespace=NAMESPACE)
    (port,) = service["spec"]["ports"]
    labels = {"kubernetes.io/service-name": name}
    await client.create(
        {
            "apiVersion": SLICE.api_version,
            "kind": SLICE.kind,
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
            "ports": [{"name": port["name"], "port": target}],
        }
    )


def own_address() -> str:
    """Return an address of this machine; that of loopback is none of an endpoint."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return str(probe.getsockname()[0])


@pytest.mark.skipif(bool(refusal()), reason=refusal())
@pytest.mark.criterion("D-21")
async def test_a_project_works_in_a_cluster_as_it_was_generated(
    environment: Environment, tmp_path: Path
) -> None:
    folder = await asyncio.to_thread(project, tmp_path / "shop")
    await deploy(environment, folder)
    async with pod(environment, folder) as process:
        client = environment.client("admin")
        old, new = "example.com/v1/Website", "example.com/v2/Website"
        head = {"apiVersion": "example.com/v1", "kind": "Website"}
        metadata = {"name": "a", "namespace": "default"}
        wrong = {**head, "metadata": metadata, "spec": {"image": ":"}}
        with pytest.raises(Invalid, match=r"spec\.image"):
            await client.create(wrong)
        await client.create({**head, "metadata": metadata, "spec": {"image": "nginx"}})
        for version in (old, new):
            spec = {"spec": {"image": "nginx:latest"}}
            await eventually(client, version, "a", spec, namespace="default")
        await eventually(client, DEPLOYMENT, "website-a", namespace="default")
        status = {"status": {"replicas": 1, "readyReplicas": 1}}
        await client.patch_status(DEPLOYMENT, "website-a", status, namespace="default")
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await eventually(client, new, "a", ready, namespace="default")
        await client.delete(
            GroupVersionKind("example.com", "v1", "Website"), "a", namespace="default"
        )
        await eventually_gone(client, old, "a", namespace="default")
        assert "orbidden" not in process.log_tail(1000)
