"""A data plane has one stack, whose every role works alone there; a stack is named by the id of its hub."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import ADMISSION_SECRET, PLANE_NAMESPACE
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.users import User, administrator
from internal.fleet.labels import ADMISSION
from tests.fleet.stack.harness import SECRET, Server, eventually, server
from tests.fleet.stack.lease import hold
from tests.fleet.stack.test_admission_url import CONFIGURATION
from tests.fleet.stack.test_processes import QUIET, stack
from tests.fleet.stack.test_rights import install_data_plane
from tests.manager.test_manager import get
from tests.manager_cli.program import Program


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def servers(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Server, Server, Server]]:
    """Two hubs, and a data plane with exactly the rights that are shipped."""
    users = (administrator("admin"), User(name="manager"))
    async with contextlib.AsyncExitStack() as opened:
        hubs = []
        for folder in (tmp_path / "one", tmp_path / "two"):
            folder.mkdir()
            hubs.append(await opened.enter_async_context(server(folder, plane=False)))
        env = Environment(
            request.param,
            proxy=True,
            folder=tmp_path / "plane",
            authorization="RBAC",
            users=users,
        )
        plane = Server(await opened.enter_async_context(env))
        await plane.environment.install_crds(Tenant, TenantTemplate, TenantRegistry)
        await install_data_plane(plane.client)
        yield hubs[0], hubs[1], plane


async def admission(hub: Server, plane: Server) -> tuple[Program, str]:
    """Run the admission Pod of a hub's stack; return it and its webhooks' address."""
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    arguments = ["--role=admission", f"--admission-url={url}", f"--webhook-port={port}"]
    return await stack(hub, plane, "manager", *arguments), url


async def address(plane: Server) -> str:
    """Return where the configuration of the data plane leads to."""
    found = await plane.get(CONFIGURATION, ADMISSION)
    hooks = (found or {}).get("webhooks") or [{"clientConfig": {"url": ""}}]
    return str(hooks[0]["clientConfig"]["url"]).rpartition("/")[0]


async def certificates(plane: Server) -> dict[str, Any] | None:
    """Return the Secret of certificates as it is on the data plane."""
    return await plane.get(SECRET, ADMISSION_SECRET, PLANE_NAMESPACE)


@pytest.mark.criterion("R-F9")
async def test_of_two_hubs_the_one_whose_controllers_hold_the_lease_has_the_webhooks(
    servers: tuple[Server, Server, Server],
) -> None:
    one, two, plane = servers
    await hold(plane.client, one.id)
    first, url = await admission(one, plane)
    second, other = await admission(two, plane)
    async with first, second:
        await eventually(lambda: address(plane), lambda found: found == url)
        await first.prints("CA bundle injected")
        await second.prints("DataPlaneNotUnique")
        since, before = plane.mark(), await certificates(plane)
        # What is deleted is made again by the stack that has the data plane, and by no other.
        await plane.client.delete(CONFIGURATION, ADMISSION)
        await eventually(lambda: address(plane), lambda found: found == url)
        assert await certificates(plane) == before
        # The Lease goes over: the former stack ends, and what the other one has made by then stays.
        await hold(plane.client, two.id)
        await eventually(lambda: address(plane), lambda found: found == other)
        assert await first.wait() == 1
        assert "DataPlaneNotUnique" in first.output
        assert await address(plane) == other
        log = plane.counts(since)
        assert log.writes <= 10, log
        assert [row for row in log if row.code == 403] == []


async def is_ready(port: int) -> bool:
    """Whether a process counts as ready."""
    try:
        return (await get(port, "/readyz"))[0] == 200
    except OSError:
        return False


@pytest.mark.criterion("R-F10")
@pytest.mark.parametrize("role", ["controllers", "workers", "admission"])
async def test_a_stack_is_the_same_over_another_address_and_authority_of_its_hub(
    tmp_path: Path, role: str
) -> None:
    async with contextlib.AsyncExitStack() as opened:
        made = []
        for name in ("hub", "plane"):
            (tmp_path / name).mkdir()
            folder = tmp_path / name
            made.append(await opened.enter_async_context(server(folder, plane=name == "plane")))
        hub, plane = made
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLANE_NAMESPACE}}
        await plane.client.create(namespace)
        before = await stack(hub, plane, "manager", "--role=controllers")
        await opened.enter_async_context(before)
        await before.prints("Starting workers")
        text = hub.environment.kubeconfig("manager").read_text()
        assert "127.0.0.1" in text
        (tmp_path / "rotated").write_text(text.replace("127.0.0.1", "localhost"))
        health = free_port()
        after = await Program.start(
            "run",
            *("--kubeconfig", tmp_path / "rotated"),
            *("--data-plane-kubeconfig", plane.environment.kubeconfig("manager")),
            *("--target-namespace=planes", f"--role={role}", "--webhook-port=0"),
            *(*QUIET, f"--health-probe-bind-address=127.0.0.1:{health}"),
        )
        await opened.enter_async_context(after)
        await eventually(lambda: is_ready(health))
        assert "DataPlaneNotUnique" not in after.output
