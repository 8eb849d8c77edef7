"""The real kube-apiserver as a backend: start, stop, ports, crashes, users, restarts."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.auth import StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Forbidden, NotFound, Unauthorized
from ctrlruntime.envtest.assets import CONTROL_PLANE, OLDEST_SUPPORTED, Assets
from ctrlruntime.envtest.backends import KubeApiserverBackend
from ctrlruntime.envtest.backends.etcd import Etcd
from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.process import ProcessFailed
from ctrlruntime.envtest.users import User, administrator
from tests.backends import SharedServer
from tests.envtest.kubectl.binaries import provisioned
from tests.support.waiting import eventually, eventually_raises, eventually_succeeds

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SERVICE_ACCOUNT = GroupVersionKind("", "v1", "ServiceAccount")
BINDING = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding")


def config_map(name: str, namespace: str = "default", **metadata: object) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
    }


def backend_of(environment: Environment) -> KubeApiserverBackend:
    backend = environment.backend
    assert isinstance(backend, KubeApiserverBackend)
    return backend


def alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("etcd-*"))


@pytest.mark.criterion("EN-01")
async def test_it_starts_beside_taken_ports_and_stops_without_leftovers(tmp_path: Path) -> None:
    """One start for what is slow: both first ports are really taken by somebody else."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("", 0)) as two:
        taken = {"port": one.getsockname()[1], "etcd_port": two.getsockname()[1]}
        async with Environment("kube-apiserver", folder=tmp_path, server=taken) as env:
            backend = backend_of(env)
            assert str(taken["port"]) not in env.url
            assert str(taken["etcd_port"]) not in backend.etcd.url
            assert backend.version >= OLDEST_SUPPORTED
            pids = [process.pid for process in backend.processes.values()]
            assert sorted(backend.processes) == ["etcd", "kube-apiserver"]
            # What it costs, not how long a busy machine takes for it.
            assert sum(map(cpu_seconds, pids)) < 30
            await env.client().create(config_map("kept"))

            await backend.kill()
            await backend.restart()
            assert await env.client().get(CONFIG_MAP, "kept", namespace="default")
            pids += [process.pid for process in backend.processes.values()]
    assert not any(map(alive, pids))
    assert leftovers(tmp_path) == [], "data go with the server"
    assert "Version: v1." in (tmp_path / "kube-apiserver.log").read_text()


CRASHING = """
import asyncio, sys, threading
from pathlib import Path
from ctrlruntime.envtest.environment import Environment

async def main():
    env = Environment("kube-apiserver", server={"controller_manager": True})
    await env.start()
    pids = " ".join(str(process.pid) for process in env.backend.processes.values())
    Path(sys.argv[1]).write_text(pids + " ready")

# The thread, its loop and all end; the servers belong to the process.
thread = threading.Thread(target=asyncio.run, args=(main(),))
thread.start()
thread.join()
Path(sys.argv[1]).with_suffix(".over").touch()
threading.Event().wait()
"""


@pytest.mark.criterion("EN-01")
async def test_no_process_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    Assets().find(CONTROL_PLANE)  # without a server the test is skipped, not the parent ended
    said = tmp_path / "said"
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CRASHING, str(said), env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    try:
        await eventually(lambda: said.with_suffix(".over").exists(), timeout=120)
        *pids, ready = said.read_text().split()
        assert ready == "ready"
        assert len(pids) == 3
        await asyncio.sleep(0.3)
        assert all(alive(int(pid)) for pid in pids), "they died with the thread that started them"
    finally:
        parent.kill()
        await parent.wait()
    await eventually(lambda: not any(alive(int(pid)) for pid in pids), timeout=60)


async def test_a_failed_start_shows_the_end_of_the_log(tmp_path: Path) -> None:
    flags = {"apiserver_flags": {"no-such-flag": "1"}}
    with pytest.raises(ProcessFailed, match=r"kube-apiserver\.log ends:[^~]*no-such-flag"):
        async with Environment("kube-apiserver", folder=tmp_path, server=flags):
            pass
    assert leftovers(tmp_path) == []


@pytest.mark.criterion("EN-01")
async def test_another_etcd_on_the_port_is_not_taken_for_ours(
    real_server: SharedServer, tmp_path: Path
) -> None:
    backend = real_server.backend
    assert isinstance(backend, KubeApiserverBackend)
    theirs = int(backend.etcd.url.rpartition(":")[2])
    ours = Etcd(Path(backend.etcd.process.command[0]), tmp_path, first_port=theirs)
    try:
        await ours.start()
        assert ours.url != backend.etcd.url
    finally:
        await ours.stop()


async def kubectl(kubeconfig: Path, *args: str) -> str:
    """What it prints, errors included."""
    process = await asyncio.create_subprocess_exec(
        provisioned(),
        "--kubeconfig",
        kubeconfig,
        *args,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return output.decode()


async def test_kubectl_is_each_user_by_token_and_by_certificate(real_server: SharedServer) -> None:
    alice = User(name="alice", groups=("team",))
    async with real_server.environment(users=["boss", alice]) as env:
        for name, may in (("boss", "yes"), ("alice", "no")):
            for certificate in (False, True):
                kubeconfig = env.kubeconfig(name, certificate=certificate)
                assert kubeconfig.stat().st_mode & 0o777 == 0o600
                assert await kubectl(kubeconfig, "auth", "can-i", "get", "pods") == f"{may}\n"
        async with Client.connect(
            await Config.load(env.kubeconfig("alice", certificate=True))
        ) as a:
            with pytest.raises(Forbidden, match='User "alice"'):
                await a.list(CONFIG_MAP)


async def test_kubectl_reaches_it_through_the_proxy(real_server: SharedServer) -> None:
    async with real_server.environment(users=["boss"], proxy=True, tls=True) as env:
        assert "kube-system" in await kubectl(env.kubeconfig("boss"), "get", "namespaces")
        assert env.proxy.log.counts().select(user="boss", verbs=("list",)).total == 1


async def test_service_accounts_get_tokens_and_a_root_certificate(
    real_server: SharedServer,
) -> None:
    async with real_server.environment() as env:
        admin = env.client()
        name = "envtest-accounts"
        await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            await eventually_succeeds(
                lambda: admin.get(SERVICE_ACCOUNT, "default", namespace=name), despite=NotFound
            )
            root = await eventually_succeeds(
                lambda: admin.get(CONFIG_MAP, "kube-root-ca.crt", namespace=name),
                despite=NotFound,
            )
            request = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": [], "expirationSeconds": 600},
            }
            path = f"/api/v1/namespaces/{name}/serviceaccounts/default/token"
            answer = await admin.transport.request("POST", path, body=orjson.dumps(request))
            token = orjson.loads(answer.body)["status"]["token"]
            ca_data = root["data"]["ca.crt"].encode()
            as_account = Config(host=env.backend.url, ca_data=ca_data, auth=static(token))
            with pytest.raises(Forbidden, match=f"system:serviceaccount:{name}:default"):
                await listed(as_account)
        finally:
            await admin.delete(NAMESPACE, name)
        await eventually_raises(NotFound, lambda: admin.get(NAMESPACE, name))


async def listed(config: Config) -> None:
    async with Client.connect(config) as client:
        await client.list(CONFIG_MAP, "default")


async def test_the_controller_manager_collects_what_lost_its_owner(
    real_server: SharedServer,
) -> None:
    async with real_server.environment() as env:
        admin = env.client()
        owner = await admin.create(config_map("gc-owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gc-owner"}
        reference["uid"] = owner["metadata"]["uid"]
        await admin.create(config_map("gc-child", ownerReferences=[reference]))
        await admin.delete(CONFIG_MAP, "gc-owner", namespace="default")
        await eventually_raises(
            NotFound, lambda: admin.get(CONFIG_MAP, "gc-child", namespace="default")
        )


async def test_users_come_and_go_while_the_server_runs(real_server: SharedServer) -> None:
    backend = real_server.backend
    passing = administrator("passing")
    config = Config(host=backend.url, ca_data=backend.ca_data, auth=static(passing.token))
    async with Client.connect(config) as client:
        with pytest.raises(Unauthorized):
            await client.list(CONFIG_MAP, "default")
        backend.add_users([passing])
        await eventually_succeeds(lambda: client.list(CONFIG_MAP, "default"), despite=Unauthorized)


def static(token: str) -> StaticAuth:
    return StaticAuth(token=token)
