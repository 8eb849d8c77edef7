"""Where a namespace says how its data plane reaches the hub, the data plane asks the stack's webhooks."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.users import User, administrator
from ctrlruntime.webhook.injection import VALIDATING
from internal.fleet.admission_url import BadAdmissionURL, check_admission_url
from internal.fleet.labels import ADMISSION
from internal.fleet.stack_builder import Proof, StackOptions, build_stack
from tests.fleet.stack.harness import NAMESPACE, Server, eventually
from tests.fleet.stack.lease import hold
from tests.fleet.stack.test_processes import stack
from tests.fleet.stack.test_rights import grant, install_data_plane, shipped
from tests.manager_cli.program import Program

CONFIGURATION = BUILTIN[VALIDATING]
SAME_IDS = {
    "apiVersion": TenantTemplate.gvk().api_version,
    "kind": "TenantTemplate",
    "metadata": {"name": "bad", "namespace": "default"},
    "spec": {
        "registryId": "rows",
        "configMaps": [
            {
                "id": "same",
                "nameTemplate": "{{ .uid",
                "spec": {"apiVersion": "v1", "kind": "ConfigMap"},
            }
        ],
    },
}
"""A template that does not parse, which the schema lets through."""


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def servers(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[Server, Server]]:
    """A hub, and a data plane with exactly the rights that are shipped."""
    users = (administrator("admin"), User(name="manager"))
    async with contextlib.AsyncExitStack() as opened:
        made = []
        for name, backend in (("hub", "embedded"), ("plane", request.param)):
            env = Environment(
                backend, proxy=True, folder=tmp_path / name, authorization="RBAC", users=users
            )
            made.append(Server(await opened.enter_async_context(env)))
        hub, plane = made
        await plane.environment.install_crds(Tenant, TenantTemplate, TenantRegistry)
        await install_data_plane(plane.client)
        await grant(hub.client, "ClusterRole", "reads", shipped("reader"))
        await hold(
            plane.client, (await hub.client.get(NAMESPACE, "kube-system"))["metadata"]["uid"]
        )
        yield hub, plane


async def admission(hub: Server, plane: Server, port: int, *more: str) -> Program:
    """Run the admission Pod as a process whose webhooks listen on a port."""
    return await stack(hub, plane, "manager", "--role=admission", f"--webhook-port={port}", *more)


async def found(plane: Server) -> dict[str, Any] | None:
    return await plane.get(CONFIGURATION, ADMISSION)


async def is_asked(plane: Server) -> bool:
    """Whether the data plane refuses what only the webhooks refuse."""
    try:
        await plane.client.create(SAME_IDS, dry_run=True)
    except Invalid as error:
        return "{{ is not closed" in str(error)
    return False


async def test_a_data_plane_calls_the_webhooks_at_the_url_and_is_left_alone_without_it(
    servers: tuple[Server, Server],
) -> None:
    hub, plane = servers
    port = free_port()
    url = f"--admission-url=https://127.0.0.1:{port}"
    since = plane.mark()
    async with await admission(hub, plane, port, url) as program:
        await eventually(lambda: is_asked(plane))
        made = await found(plane)
        assert made is not None
        for hook in made["webhooks"]:
            assert hook["clientConfig"]["url"].startswith(f"https://127.0.0.1:{port}/validate-")
            assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 3)
        assert {rule["resources"][0] for hook in made["webhooks"] for rule in hook["rules"]} == {
            "tenantregistries",
            "tenanttemplates",
            "tenants",
        }
        # What is changed by hand is reverted, and what is deleted is made again.
        made["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/other"
        await plane.client.update(made)
        await eventually(lambda: is_asked(plane))
        await plane.client.delete(CONFIGURATION, ADMISSION)
        # The API server may call a deleted configuration for a moment: the object itself is awaited.
        await eventually(lambda: found(plane))
        await eventually(lambda: is_asked(plane))
        refused = [row for row in plane.counts(since) if row.code == 403]
        assert refused == [], program.output
    # Killed: while the hub does not answer, everything is let in.
    await plane.client.create(SAME_IDS, dry_run=True)
    assert await found(plane) is not None
    # A Pod without the annotation's URL removes what an earlier one has made.
    async with await admission(hub, plane, port) as program:
        await eventually(lambda: found(plane), lambda now: now is None)
        assert [row for row in plane.counts(since) if row.code == 403] == [], program.output


async def test_an_orderly_end_removes_the_configuration(servers: tuple[Server, Server]) -> None:
    hub, plane = servers
    port = free_port()
    url = f"--admission-url=https://127.0.0.1:{port}/plane"
    async with await admission(hub, plane, port, url) as program:
        made = await eventually(lambda: found(plane))
        paths = {
            hook["clientConfig"]["url"].removeprefix(f"https://127.0.0.1:{port}")
            for hook in made["webhooks"]
        }
        assert all(path.startswith("/plane/validate-") for path in paths)
        program.send(signal.SIGTERM)
        assert await program.wait() == 0
    assert await found(plane) is None


async def test_a_configuration_of_that_name_that_is_not_ours_is_left(
    servers: tuple[Server, Server],
) -> None:
    hub, plane = servers
    foreign = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": ADMISSION},
        "webhooks": [],
    }
    await plane.client.create(foreign)
    port = free_port()
    async with await admission(
        hub, plane, port, f"--admission-url=https://127.0.0.1:{port}"
    ) as program:
        await program.prints("is not of a stack, and left as it is")
    live = await found(plane)
    assert live is not None
    assert not live.get("webhooks")


@pytest.mark.parametrize(
    "text",
    [
        "http://h",
        "https://",
        "h:443",
        "https://u@h",
        "https://h?a",
        "https://h:x",
        "https://h#f",
        " ",
    ],
)
def test_an_address_that_cannot_be_used_names_the_annotation(text: str) -> None:
    with pytest.raises(BadAdmissionURL, match="admission-url: write https"):
        check_admission_url(text)


def test_the_address_is_an_argument_of_the_admission_pods_alone() -> None:
    made = build_stack("east", StackOptions(image="i"), Proof("digest", "plane"), "https://h")
    with_url = {item.name for item in made if "--admission-url=https://h" in str(item.manifest)}
    assert with_url == {ADMISSION}
    before = build_stack("east", StackOptions(image="i"), Proof("digest", "plane"))
    assert [item.revision for item in before if item.name != ADMISSION] == [
        item.revision for item in made if item.name != ADMISSION
    ]
