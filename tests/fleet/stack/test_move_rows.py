"""`manager fleet move` of Tenants that registries make: the row changes data planes, the workload stays what it is."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import DATA_PLANE, MOVED_FROM, MOVING_TO, ROW, ROW_GONE, ROW_PRESENT
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.controller.annotations import PAUSED
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.resources import OWNER
from internal.fleet.move import next_step, next_step_back
from internal.fleet.move_state import MoveRefused, MoveState, OtherRegistry, Step
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    SECRET,
    Fleet,
    Server,
    condition,
    config_map,
    deployment,
    entry,
    eventually,
    read,
    ready,
)
from tests.fleet.stack.move_harness import begin, crash_until_done, hub_state, run, two_planes

NAME = "acme-web"
"""Of the Tenant: the row's uid and the template."""
REGISTRY = "shop"


@dataclass(slots=True)
class Rows:
    """A table with a view for each data plane, in an SQLite file that is replaced as a whole."""

    folder: Path

    def run(self, *statements: str) -> None:
        """Run statements on a copy, which then takes the place of the file that is read just now."""
        place, copy = self.folder / "rows.sqlite", self.folder / "rows.new"
        if place.exists():
            shutil.copyfile(place, copy)
        with contextlib.closing(sqlite3.connect(copy)) as database, database:
            for each in statements:
                database.execute(each)
        copy.replace(place)

    def make(self) -> None:
        """Two rows for the first data plane; those of one stay there."""
        views = [
            f"CREATE VIEW of_{number} AS SELECT * FROM rows WHERE plane_{number} = 1"
            for number in (0, 1)
        ]
        self.run(
            "CREATE TABLE rows (uid, active, image, password, plane_0, plane_1)",
            "INSERT INTO rows VALUES ('acme', 1, 'nginx:1', 'secret', 1, 0)",
            "INSERT INTO rows VALUES ('other', 1, 'nginx:1', 'secret', 1, 0)",
            *views,
        )

    def show(self, *planes: int, uid: str = "acme") -> None:
        """Have a row in the views of these data planes."""
        values = ", ".join(f"plane_{each} = {int(each in planes)}" for each in (0, 1))
        self.run(f"UPDATE rows SET {values} WHERE uid = '{uid}'")


@dataclass(slots=True)
class Scene:
    """Two data planes with the same registry and template, and the rows."""

    servers: Fleet
    rows: Rows

    @property
    def planes(self) -> tuple[Server, Server]:
        first, second = self.servers.planes
        return first, second


def registry(number: int, **spec: object) -> dict[str, Any]:
    """The registry of a data plane."""
    source = {
        "type": "sqlite",
        "sqlite": {"path": "rows.sqlite", "table": f"of_{number}"},
        "syncInterval": "1s",
    }
    extra = {"image": "image", "password": {"column": "password", "sensitive": True}}
    return {
        "apiVersion": TenantRegistry.gvk().api_version,
        "kind": "TenantRegistry",
        "metadata": {"name": REGISTRY, "namespace": "default"},
        "spec": {
            "source": source,
            "valueMappings": {"uid": "uid", "activate": "active"},
            "extraValueMappings": extra,
            **spec,
        },
    }


def template(image: str = "{{ .image }}") -> dict[str, Any]:
    """The template of both: a workload, what it reads, and what the data plane alone has."""
    web = deployment("web", config="{{ .uid }}-kept") | {"nameTemplate": "{{ .uid }}-web"}
    web["spec"]["spec"]["template"]["spec"]["containers"][0]["image"] = image
    kept = entry("kept", "ConfigMap", data={"password": "{{ .password }}"})
    kept |= {"nameTemplate": "{{ .uid }}-kept", "deletionPolicy": "Retain"}
    notes = config_map("notes") | {"nameTemplate": "{{ .uid }}-notes"}
    return {
        "apiVersion": TenantTemplate.gvk().api_version,
        "kind": "TenantTemplate",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"registryId": REGISTRY, "deployments": [web], "configMaps": [kept, notes]},
    }


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    """Two data planes, and the Tenants of two rows on the first."""
    rows = Rows(tmp_path)
    rows.make()
    async with two_planes(tmp_path) as servers:
        for number, plane in enumerate(servers.planes):
            await plane.client.create(registry(number))
            await plane.client.create(template())
        for name in (NAME, "other-web"):
            await ready(servers.plane, name)
        yield Scene(servers, rows)


async def held(scene: Scene, row: str = ROW_PRESENT) -> Tenant:
    """Wait until the registry has recorded that it keeps the Tenant."""

    def holds(found: Tenant | None) -> bool:
        return found is not None and (found.metadata.annotations or {}).get(ROW) == row

    found: Tenant = await eventually(partial(read, scene.planes[0], NAME), holds)
    return found


async def moving(scene: Scene, count: int | None, status: str, reason: str) -> str:
    """Wait until the registry that loses the row reports this; return the message."""

    async def look() -> TenantRegistry:
        return await scene.planes[0].client.get(TenantRegistry, REGISTRY, namespace="default")

    def holds(found: TenantRegistry) -> bool:
        seen = find_condition(found.status.conditions, "MovePending")
        if seen is None or (seen.status, seen.reason) != (status, reason):
            return False
        return found.status.moving == count

    found: TenantRegistry = await eventually(look, holds)
    pending = find_condition(found.status.conditions, "MovePending")
    deletions = find_condition(found.status.conditions, "DeletionsHeld")
    assert pending is not None
    assert deletions is not None
    assert deletions.status == "False"  # the guard has no part in it
    assert found.status.removed_rows == []
    return pending.message


async def end(process: ChildProcess) -> tuple[int, str]:
    """Wait for the end of the command."""
    code = await asyncio.wait_for(process.wait(), 120)
    return code, process.log_tail()


async def follow(scene: Scene) -> None:
    """Move the row once its registry keeps the Tenant."""
    await held(scene)
    scene.rows.show(1)


async def check_moved(scene: Scene, before: Mapping[str, Any]) -> None:
    """The end state: the Tenant is on the second data plane alone, its workload is the same, the other one stayed."""
    first, second = scene.planes
    moved = await ready(second, NAME)
    assert await read(first, NAME) is None
    annotations = moved.metadata.annotations or {}
    assert annotations[MOVED_FROM] == first.id
    assert annotations[OWNER].startswith("TenantRegistry.tenancy.ctrlruntime.dev/default/shop")
    assert not {PAUSED, MOVING_TO, ROW} & annotations.keys()
    assert await hub_state(scene.servers) == before
    for kind, name in ((DEPLOYMENT, "acme-web"), (CONFIG_MAP, "acme-kept")):
        found = await scene.servers.hub.get(kind, name)
        assert found is not None
        assert found["metadata"]["labels"][DATA_PLANE] == second.id
        recorded = found["metadata"]["annotations"]
        assert recorded["ctrlruntime.dev/owner-uid"] == moved.metadata.uid
        assert recorded[OWNER].endswith(f"@{second.id}")
    assert await second.names(CONFIG_MAP) == {"acme-notes"}
    assert await first.names(CONFIG_MAP) == {"other-notes"}
    await eventually(lambda: first.get(SECRET, f"{NAME}-values"), lambda found: found is None)
    assert await first.get(SECRET, "other-web-values") is not None


async def test_a_tenant_of_a_registry_moves_with_its_row_and_keeps_its_workload(
    scene: Scene,
) -> None:
    before = await hub_state(scene.servers)
    assert before.keys() >= {"Deployment acme-web", "ConfigMap acme-kept"}
    command = await begin(scene.servers, tenant=NAME)
    left = await held(scene)
    assert PAUSED not in (left.metadata.annotations or {})  # at work until the row has moved
    message = await moving(scene, 1, "True", "RowPresent")
    assert f"'{NAME}', whose row is still here, to data plane {scene.planes[1].id}" in message
    scene.rows.show(1)
    code, text = await end(command)
    assert code == 0, text
    assert text.index("recording on the Tenant") < text.index("pausing the Tenant")
    await check_moved(scene, before)
    await moving(scene, None, "False", "NothingMoves")
    code, text = await run(scene.servers, tenant=NAME)  # once more: nothing is left to do
    assert (code, text.split()[1:]) == (0, ["moved"]), text


@pytest.mark.slow
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_move_with_its_row_that_is_killed_at_every_write_ends_the_same(
    first: str, scene: Scene
) -> None:
    before = await hub_state(scene.servers)
    row = asyncio.create_task(follow(scene))
    try:
        kills = await crash_until_done(scene.servers, first, tenant=NAME)
    finally:
        row.cancel()
    # record, pause, mark, two objects of the hub, delete, release
    assert kills >= 7
    await check_moved(scene, before)


async def test_a_row_that_is_on_both_data_planes_first_is_in_conflict_and_moves_then(
    scene: Scene,
) -> None:
    before = await hub_state(scene.servers)
    scene.rows.show(0, 1)
    reported = await condition(scene.planes[1], "Conflicted", "True", "ResourceConflict", name=NAME)
    assert scene.planes[0].id in reported.message
    command = await begin(scene.servers, tenant=NAME)
    await held(scene)
    scene.rows.show(1)
    code, text = await end(command)
    assert code == 0, text
    await check_moved(scene, before)


async def test_a_row_that_is_on_neither_data_plane_for_a_while_keeps_its_tenant(
    scene: Scene,
) -> None:
    before = await hub_state(scene.servers)
    command = await begin(scene.servers, tenant=NAME)
    await held(scene)
    scene.rows.show()
    message = await moving(scene, 1, "True", "RowGone")
    assert "whose row is gone" in message
    left = await held(scene, ROW_GONE)
    assert left.metadata.deletion_timestamp is None
    assert await hub_state(scene.servers) == before
    assert await read(scene.planes[1], NAME) is None
    scene.rows.show(1)
    code, text = await end(command)
    assert code == 0, text
    await check_moved(scene, before)


async def test_a_row_that_leaves_before_the_move_is_recorded_takes_its_tenant_with_it(
    scene: Scene,
) -> None:
    scene.rows.show()
    await eventually(partial(read, scene.planes[0], NAME), lambda found: found is None)
    assert await scene.servers.hub.get(DEPLOYMENT, "acme-web") is None
    assert await scene.servers.hub.get(DEPLOYMENT, "other-web") is not None
    code, text = await run(scene.servers, tenant=NAME)
    assert code == 1
    assert "neither data plane has such a Tenant" in text


async def test_a_move_with_its_row_is_given_up_before_the_row_has_moved_only(scene: Scene) -> None:
    before = await hub_state(scene.servers)
    command = await begin(scene.servers, tenant=NAME)
    await held(scene)
    scene.rows.show()
    await held(scene, ROW_GONE)
    await command.stop(grace=0)
    code, text = await run(scene.servers, "--abort", tenant=NAME)
    assert code == 1
    assert "put the row back into its view first" in text
    scene.rows.show(0)
    await held(scene)
    code, text = await run(scene.servers, "--abort", tenant=NAME)
    assert (code, "not moved" in text) == (0, True), text
    await moving(scene, None, "False", "NothingMoves")
    left = await ready(scene.planes[0], NAME)
    assert not {PAUSED, MOVING_TO, ROW} & (left.metadata.annotations or {}).keys()
    assert await hub_state(scene.servers) == before
    scene.rows.show()  # today's rules again
    await eventually(partial(read, scene.planes[0], NAME), lambda found: found is None)


async def test_a_row_that_differs_on_the_other_data_plane_is_refused_before_anything_is_handed_over(
    scene: Scene,
) -> None:
    before = await hub_state(scene.servers)
    command = await begin(scene.servers, tenant=NAME)
    await held(scene)
    scene.rows.run("UPDATE rows SET plane_0 = 0 WHERE uid = 'acme'")
    await held(scene, ROW_GONE)
    scene.rows.run("UPDATE rows SET plane_1 = 1, password = 'another' WHERE uid = 'acme'")
    code, text = await end(command)
    assert code == 1
    assert "differs in the sensitive values, so that its Pods would roll" in text
    assert "another" not in text.replace("another data plane", "")
    assert await hub_state(scene.servers) == before
    scene.rows.run("UPDATE rows SET image = 'nginx:2' WHERE uid = 'acme'")

    def changed(found: Tenant | None) -> bool:
        return found is not None and found.spec.variables.get("image") == "nginx:2"

    await eventually(partial(read, scene.planes[1], NAME), changed)
    code, text = await run(scene.servers, tenant=NAME)
    assert code == 1
    assert "differs in variables.image, the sensitive values" in text
    scene.rows.run("UPDATE rows SET image = 'nginx:1', password = 'secret' WHERE uid = 'acme'")
    await eventually(partial(read, scene.planes[1], NAME), lambda found: not changed(found))
    code, text = await run(scene.servers, tenant=NAME)
    assert code == 0, text
    await check_moved(scene, before)


async def test_a_move_that_would_roll_or_finds_no_registry_there_is_refused_with_what_to_do(
    scene: Scene,
) -> None:
    second = scene.planes[1].client
    live = await second.get(TenantTemplate, "web", namespace="default")
    stored = live.to_manifest()
    await second.update({**stored, "spec": template("nginx:9")["spec"]})
    code, text = await run(scene.servers, tenant=NAME)
    assert (code, "differs from what the Tenant was made from" in text) == (1, True), text
    await second.delete(TenantTemplate, "web", namespace="default")
    code, text = await run(scene.servers, tenant=NAME)
    assert (code, "has no TenantTemplate web" in text) == (1, True), text
    left = await read(scene.planes[0], NAME)
    assert left is not None
    assert MOVING_TO not in (left.metadata.annotations or {})


# -- without a server -----------------------------------------------------------------------------

SAME = OtherRegistry(revision="r", registry=REGISTRY, found=True)


def manifest(**annotations: str) -> dict[str, Any]:
    """A Tenant that a registry made, as a server returns it."""
    owner = {OWNER: f"TenantRegistry.tenancy.ctrlruntime.dev/default/{REGISTRY}"}
    metadata = {"name": NAME, "namespace": "default", "uid": "u", "generation": 1}
    spec = {"uid": "acme", "templateRef": "web", "registryId": REGISTRY, "templateRevision": "r"}
    return {"metadata": {**metadata, "annotations": {**owner, **annotations}}, "spec": spec}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (OtherRegistry(), "has no TenantTemplate web"),
        (OtherRegistry(revision="r", registry=REGISTRY), "has no TenantRegistry shop"),
        (OtherRegistry(revision="r", registry="x", found=True), "name the other one shop too"),
        (OtherRegistry(revision="s", registry=REGISTRY, found=True), "Pods would roll"),
        (OtherRegistry(revision="r", registry=REGISTRY, found=True, paused=True), "resume it"),
    ],
)
def test_what_the_other_registry_would_make_otherwise_is_refused(
    other: OtherRegistry, message: str
) -> None:
    with pytest.raises(MoveRefused, match=message):
        next_step(MoveState("a", "b", manifest(), None, other=other))


def test_nothing_is_written_for_a_row_before_its_registry_keeps_the_tenant_and_the_other_one_made_it() -> (
    None
):
    assert next_step(MoveState("a", "b", manifest(), None, other=SAME)) is Step.RECORD
    left, made = manifest(**{MOVING_TO: "b"}), manifest()
    assert next_step(MoveState("a", "b", left, made)) is Step.AWAIT_HOLD
    left = manifest(**{MOVING_TO: "b", ROW: ROW_PRESENT})
    assert next_step(MoveState("a", "b", left, made)) is Step.AWAIT_LEAVING
    left = manifest(**{MOVING_TO: "b", ROW: ROW_GONE})
    assert next_step(MoveState("a", "b", left, None)) is Step.AWAIT_ROW
    assert next_step(MoveState("a", "b", left, made)) is Step.PAUSE
    with pytest.raises(MoveRefused, match="the sensitive values"):
        next_step(MoveState("a", "b", left, made, same_values=False))
    by_hand = manifest() | {"metadata": {"annotations": {}}}
    with pytest.raises(MoveRefused, match="no registry made"):
        next_step(MoveState("a", "b", left, by_hand))
    left = manifest(**{MOVING_TO: "b", ROW: ROW_GONE, PAUSED: "true"})
    assert next_step(MoveState("a", "b", left, made)) is Step.AWAIT_PAUSE
    left["status"] = {"conditions": [{"type": "Paused", "status": "True"}]}
    assert next_step(MoveState("a", "b", left, made, ["u"])) is Step.MARK
    made = manifest(**{MOVED_FROM: "a"})
    assert next_step(MoveState("a", "b", left, made, ["u"])) is Step.HAND_OVER
    left["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"  # by someone else, and too early
    assert next_step(MoveState("a", "b", left, made, ["u"])) is Step.HAND_OVER
    assert next_step(MoveState("a", "b", left, made)) is Step.RELEASE


def test_a_move_of_a_row_is_not_given_up_while_the_registry_would_delete_the_tenant() -> None:
    left = manifest(**{MOVING_TO: "b", ROW: ROW_GONE})
    with pytest.raises(MoveRefused, match="would delete it with its workload"):
        next_step_back(MoveState("a", "b", left, manifest()))
    left = manifest(**{MOVING_TO: "b", ROW: ROW_PRESENT, PAUSED: "true"})
    assert next_step_back(MoveState("a", "b", left, manifest())) is Step.UNRECORD
    assert next_step_back(MoveState("a", "b", left, manifest(**{MOVED_FROM: "a"}))) is Step.UNMARK
