"""`manager fleet move`: a Tenant goes to another data plane; what it has on the hub stays what it is."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from apis.fleet.labels import (
    DATA_PLANE,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    MOVED_FROM,
    MOVING_TO,
    PARALLEL_PREFIX,
)
from ctrlruntime.controller.annotations import PAUSED
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Kill, Match
from ctrlruntime.resources import OWNER
from internal.fleet.move import MoveRefused, MoveState, Step, copied, next_step
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    Fleet,
    Server,
    config_map,
    deployment,
    entry,
    fleet,
    read,
    ready,
    tenant,
)

MOVER = "mover"
"""User of the command, on every server."""
LONG = 120.0


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    """Two data planes, both stacks running, and a Tenant with a workload on the first."""
    users = ("admin", "manager", MOVER)
    async with fleet(tmp_path, planes=2, users=users, plane_users=users) as made:
        for number, plane in enumerate(made.planes):
            await _target(made.hub, f"plane-{number}", plane)
        grants = {f"{PARALLEL_PREFIX}plane-{number}": "true" for number in (0, 1)}
        await made.hub.client.patch(NAMESPACE, "default", {"metadata": {"labels": grants}})
        async with contextlib.AsyncExitStack() as stacks:
            for plane in made.planes:
                await stacks.enter_async_context(made.running(plane))
            retained = entry("kept", "ConfigMap", data={"k": "v"}) | {"deletionPolicy": "Retain"}
            resources = (deployment(config="kept"), retained, config_map("notes"))
            await made.plane.client.create(tenant(*resources))
            await ready(made.plane)
            yield made


async def _target(hub: Server, name: str, plane: Server) -> None:
    metadata = {"name": name, "labels": {DATA_PLANE: "true"}}
    await hub.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    text = plane.environment.kubeconfig(MOVER).read_bytes()
    secret = {"apiVersion": "v1", "kind": "Secret"}
    metadata = {"name": KUBECONFIG_SECRET, "namespace": name}
    data = {KUBECONFIG_KEY: base64.b64encode(text).decode()}
    await hub.client.create({**secret, "metadata": metadata, "data": data})


async def begin(servers: Fleet, source: str = "plane-0", target: str = "plane-1") -> ChildProcess:
    """Start the command."""
    command = [sys.executable, "-m", "manager", "fleet", "move", "acme", "--timeout=100"]
    command += ["--from", source, "--to", target]
    command += ["--kubeconfig", str(servers.hub.environment.kubeconfig(MOVER))]
    log = servers.folder / "move.log"
    log.write_text("")
    return await ChildProcess.start(command, log=log, ready=False)


async def run(servers: Fleet, **planes: str) -> tuple[int, str]:
    """Run the command to its end."""
    process = await begin(servers, **planes)
    code = await asyncio.wait_for(process.wait(), LONG)
    return code, process.log_tail()


async def hub_state(servers: Fleet) -> dict[str, tuple[str, Any]]:
    """UID and spec of what the Tenant has on the hub: where neither changes, nothing rolls."""
    found = {}
    for kind in (DEPLOYMENT, CONFIG_MAP):
        for each in await servers.hub.client.list(kind, "default"):
            metadata = each["metadata"]
            if DATA_PLANE in (metadata.get("labels") or {}):
                found[f"{kind.gvk.kind} {metadata['name']}"] = (metadata["uid"], each.get("spec"))
    return found


async def check_moved(servers: Fleet, before: dict[str, tuple[str, Any]]) -> None:
    """The end state: the Tenant is on the second data plane alone, and its workload is the same object."""
    first, second = servers.planes
    moved = await ready(second)
    assert await read(first) is None
    assert moved.metadata.annotations is not None
    assert moved.metadata.annotations[MOVED_FROM] == first.id
    assert not {PAUSED, MOVING_TO} & moved.metadata.annotations.keys()
    assert await hub_state(servers) == before
    for kind in (DEPLOYMENT, CONFIG_MAP):
        for each in await servers.hub.client.list(kind, "default", labels=DATA_PLANE):
            metadata = each["metadata"]
            assert metadata["labels"][DATA_PLANE] == second.id
            assert metadata["annotations"]["ctrlruntime.dev/owner-uid"] == moved.metadata.uid
            assert metadata["annotations"]["ctrlruntime.dev/owner"].endswith(f"@{second.id}")
    assert await first.names(CONFIG_MAP) == set()
    assert await second.names(CONFIG_MAP) == {"notes"}


async def test_a_tenant_moves_and_its_workload_keeps_uid_and_spec(servers: Fleet) -> None:
    before = await hub_state(servers)
    assert before.keys() == {"Deployment web", "ConfigMap kept"}
    code, text = await run(servers)
    assert code == 0, text
    await check_moved(servers, before)
    code, text = await run(servers)  # once more: nothing is left to do
    assert (code, text.split()[1:]) == (0, ["moved"]), text
    code, text = await run(servers, source="plane-1", target="plane-0")
    assert code == 0, text
    assert await hub_state(servers) == before


@pytest.mark.slow
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_move_that_is_killed_at_every_write_ends_the_same(
    first: str, servers: Fleet
) -> None:
    before = await hub_state(servers)
    kills = 0
    order: tuple[Literal["before", "after"], ...] = (
        ("before", "after") if first == "before" else ("after", "before")
    )
    for life in range(60):
        if not await killed_at_a_write(servers, order[life % 2]):
            break
        kills += 1
    # pause, copy, two objects of the hub, resume, delete, release
    assert kills >= 7
    await check_moved(servers, before)


async def killed_at_a_write(servers: Fleet, when: Literal["before", "after"]) -> bool:
    """Kill the command at its first write, on whatever server. Return False if it had nothing to write."""
    process = await begin(servers)
    rules = [
        (proxy, proxy.add(Kill(pid=process.pid, when=when), Match(user=MOVER, verb="write")))
        for proxy in (each.environment.proxy for each in (servers.hub, *servers.planes))
    ]
    try:
        code = await asyncio.wait_for(process.wait(), LONG)
    finally:
        for proxy, rule in rules:
            proxy.remove(rule)
        await process.stop(grace=0)
    assert code in {0, -9}, process.log_tail()
    return code == -9


async def test_a_move_to_where_the_other_stack_may_not_write_is_refused_with_the_command(
    servers: Fleet,
) -> None:
    patch = {"metadata": {"labels": {f"{PARALLEL_PREFIX}plane-1": None}}}
    await servers.hub.client.patch(NAMESPACE, "default", patch)
    code, text = await run(servers)
    assert code == 1
    label = f"{PARALLEL_PREFIX}plane-1=true"
    assert f"kubectl label namespace default {label}" in text
    assert MOVING_TO not in str(await read(servers.plane))


async def test_a_tenant_of_that_name_on_the_other_data_plane_is_left_and_the_move_refused(
    servers: Fleet,
) -> None:
    await servers.planes[1].client.create(tenant(config_map("other")))
    await ready(servers.planes[1])
    code, text = await run(servers)
    assert code == 1
    assert "a Tenant of this name that was not moved from here" in text
    assert MOVING_TO not in str(await read(servers.plane))


def manifest(**metadata: object) -> dict[str, Any]:
    """A Tenant as a server returns it."""
    made = tenant(config_map("notes"))
    return {**made, "metadata": {**made["metadata"], "uid": "u", "generation": 1, **metadata}}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"annotations": {PAUSED: "true"}}, "is paused"),
        ({"annotations": {MOVING_TO: "elsewhere"}}, "being moved to data plane elsewhere"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "is being deleted"),
        ({"ownerReferences": [{"kind": "TenantRegistry"}]}, "made by a registry"),
        (
            {"annotations": {OWNER: "TenantRegistry.tenancy.ctrlruntime.dev/shop/orders"}},
            "made by the registry shop/orders, .* Change the row",
        ),
    ],
)
def test_what_cannot_be_moved_is_refused_with_the_reason(
    metadata: dict[str, Any], message: str
) -> None:
    with pytest.raises(MoveRefused, match=message):
        next_step(MoveState("a", "b", manifest(**metadata), None))


def test_nothing_is_handed_over_before_the_former_stack_has_stopped() -> None:
    left = manifest(annotations={MOVING_TO: "b", PAUSED: "true"})
    assert next_step(MoveState("a", "b", left, None, ["u"])) is Step.AWAIT_PAUSE
    left["status"] = {"conditions": [{"type": "Paused", "status": "True"}]}
    assert next_step(MoveState("a", "b", left, None, ["u"])) is Step.COPY
    made = copied(left, "a")
    assert next_step(MoveState("a", "b", left, made, ["u"])) is Step.HAND_OVER
    assert next_step(MoveState("a", "b", None, made)) is Step.RESUME
    made["metadata"]["annotations"].pop(MOVING_TO)
    assert next_step(MoveState("a", "b", None, made)) is Step.DONE  # paused by its owner
