"""What was proved of a data plane is what its stack uses: the kubeconfig by the operator's rules, and the same data plane."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import PLANE_NAMESPACE, WORKERS_LEASE
from ctrlruntime.client.kubeconfig import ConfigError
from internal.fleet.plane_access import LARGEST
from manager.controllers.plane_guard import read_access
from tests.fleet.operator.harness import DataPlane, kubeconfig, planes
from tests.fleet.stack.harness import Server, eventually, server
from tests.fleet.stack.lease import hold
from tests.fleet.stack.test_processes import LEASES, QUIET
from tests.manager_cli.program import Program

ROLES = ("controllers", "admission", "workers")
SERVER = "http://127.0.0.1:1"
COMMAND = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh"}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Server]:
    """A hub."""
    (tmp_path / "hub").mkdir()
    async with server(tmp_path / "hub", plane=False) as made:
        yield made


@contextlib.asynccontextmanager
async def two() -> AsyncIterator[tuple[DataPlane, DataPlane]]:
    """Two data planes, and their ids are others."""
    async with planes(2) as (east, west):
        assert await east.identity() != await west.identity()
        yield east, west


async def stack(hub: Server, file: Path, role: str, identity: str) -> Program:
    """Start one process of a stack, with the kubeconfig that is mounted there."""
    return await Program.start(
        "run",
        *("--kubeconfig", hub.environment.kubeconfig("manager")),
        *("--data-plane-kubeconfig", file),
        f"--data-plane-id={identity}",
        "--target-namespace=east",
        f"--role={role}",
        "--webhook-port=0",
        *QUIET,
    )


def executing(proof: Path, server: str = SERVER) -> str:
    """A kubeconfig that writes a file when it is used."""
    command = {**COMMAND, "args": ["-c", f"id > {proof}"], "interactiveMode": "Never"}
    return kubeconfig(server, token=None, exec=command)


def refused(folder: Path) -> dict[str, str | bytes]:
    """Kubeconfigs that the operator refuses, each with what it names."""
    file: Any = str(folder / "file")
    return {
        "exec": executing(folder / "proof"),
        "tokenFile": kubeconfig(SERVER, tokenFile=file),
        "client-certificate": kubeconfig(SERVER, **{"client-certificate": file}),
        "client-key": kubeconfig(SERVER, **{"client-key": file}),
        "auth-provider": kubeconfig(SERVER, **{"auth-provider": {"name": "oidc"}}),
        "certificate-authority": kubeconfig(SERVER, cluster={"certificate-authority": file}),
        "no URL": kubeconfig("somewhere"),
        "at most": kubeconfig(SERVER).encode() + b"#" * LARGEST,
        "not a mapping": "",
        "not YAML": "a: [",
    }


@pytest.mark.criterion("G-F4")
@pytest.mark.parametrize("named", refused(Path()))
def test_a_kubeconfig_that_the_operator_refuses_is_refused_by_the_stack(
    named: str, tmp_path: Path
) -> None:
    content = refused(tmp_path)[named]
    (tmp_path / "file").write_text("secret")
    path = tmp_path / "kubeconfig"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match=named) as error:
        read_access(path)
    assert "plane-token" not in str(error.value)


@pytest.mark.criterion("G-F4")
@pytest.mark.parametrize("role", ROLES)
async def test_a_stack_ends_at_the_start_if_a_program_is_to_be_run_or_the_data_plane_is_another_one(
    role: str, hub: Server, tmp_path: Path
) -> None:
    file, proof = tmp_path / "kubeconfig", tmp_path / "proof"
    async with two() as (east, west):
        file.write_text(executing(proof, f"http://127.0.0.1:{east.port}"))
        async with await stack(hub, file, role, await east.identity()) as pod:
            assert await pod.wait() == 1
            assert "uses exec, which is refused" in pod.output
        assert not proof.exists()
        file.write_text(west.kubeconfig())
        async with await stack(hub, file, role, await east.identity()) as pod:
            assert await pod.wait() == 1
            assert "DataPlaneChanged" in pod.output
            assert await west.identity() in pod.output
            assert "Traceback" not in pod.output
        assert not west.proxy.log.counts().writes
        assert not hub.environment.proxy.log.counts().select(user="manager").total


async def elected(plane: DataPlane, hub: Server) -> None:
    """Let controllers hold the data plane, and wait until a worker of the stack is elected."""
    await hold(plane.client, hub.id, "east")

    async def look() -> bool:
        found = await plane.client.list(LEASES, PLANE_NAMESPACE)
        return WORKERS_LEASE in {each["metadata"]["name"] for each in found}

    await eventually(look)


@pytest.mark.criterion("G-F4")
async def test_a_stack_that_runs_ends_when_its_file_leads_elsewhere_and_ignores_what_is_refused(
    hub: Server, tmp_path: Path
) -> None:
    file, proof = tmp_path / "kubeconfig", tmp_path / "proof"
    async with two() as (east, west):
        file.write_text(east.kubeconfig())
        async with await stack(hub, file, "workers", await east.identity()) as pod:
            await elected(east, hub)
            file.write_text(executing(proof))
            await pod.prints("Changed kubeconfig refused")
            file.write_text(f"# rotated\n{east.kubeconfig()}")
            await pod.prints("Changed kubeconfig of the same data plane")
            file.write_text(west.kubeconfig())
            assert await pod.wait() == 1
            assert "DataPlaneChanged" in pod.output
        assert not proof.exists()
        assert not west.proxy.log.counts().writes


@pytest.mark.criterion("G-F4")
async def test_a_stack_that_runs_ends_when_another_server_answers_at_the_same_address(
    hub: Server, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    async with two() as (east, west):
        file.write_text(east.kubeconfig())
        async with await stack(hub, file, "workers", await east.identity()) as pod:
            await elected(east, hub)
            await east.stop()
            await east.restart(upstream=west.server.url)
            assert await pod.wait() == 1
            assert "DataPlaneChanged" in pod.output


async def test_the_id_of_a_data_plane_needs_its_kubeconfig() -> None:
    async with await Program.start("run", "--data-plane-id=a", *QUIET) as program:
        assert await program.wait() == 2
        assert "--data-plane-id needs --data-plane-kubeconfig" in program.output
