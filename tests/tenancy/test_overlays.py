"""The manager as a process, with the arguments and the rights of an overlay of fewer rights (H-D4)."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Collection, Iterator
from functools import partial
from pathlib import Path

import pytest

from apis.cosmos import CosmosFullNode
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.resource import KindRef
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest.proxy import LogEntry
from tests.audit.request_recorder import FORBIDDEN
from tests.manager_cli.program import Program
from tests.manifests.installation import (
    NAMESPACE,
    Manifest,
    add,
    install,
    kustomized,
    namespaced,
    remove,
    without_webhooks,
)
from tests.tenancy.harness import REGISTRY, SECRET, TenancyHarness

pytestmark = [pytest.mark.criterion("H-D4")]

USER = "manager"
LEFT_OUT = ("CustomResourceDefinition", "Deployment", "Namespace")
CLUSTER_WIDE = {
    "changefreezes.operations.ctrlruntime.dev",
    "customresourcedefinitions.apiextensions.k8s.io",
    "storageclasses.storage.k8s.io",
    "tokenreviews.authentication.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
}
"""Resources that a manager of some namespaces may request outside of them."""


def key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def rights(objects: Collection[Manifest]) -> list[Manifest]:
    """Without the CRDs, which other systems' tests need, and what runs the manager."""
    return [each for each in objects if each["kind"] not in LEFT_OUT]


@contextlib.asynccontextmanager
async def overlaid(harness: TenancyHarness, overlay: Collection[Manifest]) -> AsyncIterator[None]:
    """The installation has the rights of an overlay, and its own again afterwards."""
    users = () if harness.is_real else (USER,)
    kept = {key(each) for each in overlay}
    installed = {key(each) for each in without_webhooks()}
    added = [each for each in overlay if key(each) not in installed]
    try:
        await remove(harness.client, rights([e for e in without_webhooks() if key(e) not in kept]))
        await add(harness.client, rights(overlay), users=users)
        yield
    finally:
        await remove(harness.client, added)
        await install(harness.client, users=users)


@contextlib.asynccontextmanager
async def running(harness: TenancyHarness, overlay: Collection[Manifest]) -> AsyncIterator[Program]:
    """The manager with the arguments of the overlay's Deployment, except for ports and the table."""
    (deployment,) = (each for each in overlay if each["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = [
        *container["args"],
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=0",
        f"--leader-election-namespace={NAMESPACE}",
        f"--kubeconfig={harness.environment.kubeconfig(USER)}",
        f"--allow-sqlite={harness.folder}",
        "--status-period=0.1",
    ]
    async with await Program.start(*arguments) as program:
        try:
            yield program
        except BaseException:
            (harness.folder / "manager.log").write_text(program.output)
            raise
        program.send(signal.SIGTERM)
        assert await program.wait() == 0, program.output


async def may_list(harness: TenancyHarness, kind: KindRef, namespace: str | None) -> bool:
    """Whether the manager's user may list a kind in a namespace, or in all, past the proxy."""
    async with Client.connect(harness.environment.config(USER, direct=True)) as client:
        try:
            await client.list(kind, namespace, limit=1)
        except Forbidden:
            return False
        return True


async def until_ready(harness: TenancyHarness) -> None:
    """The main path: rows become tenants, and those become ready."""
    harness.rows("a", "b")
    await harness.registry()
    await harness.template()
    await harness.ready("a-web-app", "b-web-app")


def requests(harness: TenancyHarness) -> list[LogEntry]:
    """What the manager requested, without discovery and other paths that are no resources."""
    entries = harness.environment.proxy.log.entries()
    return [e for e in entries if e.user == USER and not e.resource.startswith("/")]


@contextlib.contextmanager
def within(harness: TenancyHarness, namespace: str) -> Iterator[None]:
    """The helpers of the harness work in another namespace meanwhile."""
    before, harness.namespace = harness.namespace, namespace
    try:
        yield
    finally:
        harness.namespace = before


async def test_h_d4_a_manager_of_two_namespaces_works_there_and_touches_no_other(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path, manager=False, nodes=True, pods=True) as harness:
        watched = [harness.namespace, f"{harness.namespace}-second"]
        elsewhere = f"{harness.namespace}-elsewhere"
        for name in (watched[1], elsewhere):
            await harness.make_namespace(name)
        with within(harness, elsewhere):
            await harness.registry()
            await harness.template()
        foreign = await harness.client.get(TenantRegistry, REGISTRY, namespace=elsewhere)
        overlay = await asyncio.to_thread(namespaced, tmp_path / "overlay", watched)
        async with overlaid(harness, overlay):
            for name in watched:
                await harness.eventually(partial(is_limited, harness, name))
            async with running(harness, overlay):
                for name in watched:
                    with within(harness, name):
                        await until_ready(harness)
                await namespaces_are_refused(harness)
            assert await harness.client.list(Tenant, elsewhere) == []
            seen = await harness.client.get(TenantRegistry, REGISTRY, namespace=elsewhere)
            assert seen.metadata.resource_version == foreign.metadata.resource_version
            found = requests(harness)
            assert {e.namespace for e in found} == {"", NAMESPACE, *watched}
            assert {e.resource for e in found if not e.namespace} <= CLUSTER_WIDE
            assert [e for e in found if e.code == FORBIDDEN] == []


async def namespaces_are_refused(harness: TenancyHarness) -> None:
    """A template that makes Namespaces is invalid, and nothing is requested for it."""
    spec = {"apiVersion": "v1", "kind": "Namespace"}
    entry = {"id": "space", "nameTemplate": "{{ .uid }}-space", "spec": spec}
    await harness.template("wide", namespaces=[entry])

    async def reason() -> str:
        template = await harness.client.get(TenantTemplate, "wide", namespace=harness.namespace)
        found = find_condition(template.status.conditions, "Valid")
        return "" if found is None else found.reason

    await harness.eventually(reason, lambda seen: seen == "PrivilegeRefused")


async def is_limited(harness: TenancyHarness, namespace: str) -> bool:
    """Whether the server uses the rights of the overlay already."""
    inside = await may_list(harness, SECRET, namespace)
    return inside and not await may_list(harness, SECRET, None)


async def test_h_d4_a_manager_of_one_system_works_with_the_role_of_its_overlay(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path, manager=False, nodes=True, pods=True) as harness:
        overlay = kustomized("only-tenancy")
        async with overlaid(harness, overlay):
            await harness.eventually(
                lambda: may_list(harness, CosmosFullNode, harness.namespace), lambda may: not may
            )
            async with running(harness, overlay):
                await until_ready(harness)
            assert [e for e in requests(harness) if e.code == FORBIDDEN] == []
