"""Instances that several managers share: each is one's work, no run begins twice, and the limits hold for all of them."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from apis.cloud import FleetRollout, Instance, InstanceTerraform
from ctrlruntime.api import find_condition, format_time
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.crds import CRD
from ctrlruntime.manager import Manager
from ctrlruntime.sharding import slot_owners
from ctrlruntime.sharding.planner import SlotsTaken
from internal.cloud.concurrency import granter
from internal.cloud.leases import with_lease
from internal.cloud.pace import Pace
from internal.operations import freezes
from manager.controllers import change_freezes, cloud_slots
from tests.cloud.instance.harness import NAMESPACE, instance
from tests.cloud.sharded.harness import SharedInstances
from tests.cosmos.sharded.members import (
    USERS,
    assert_in_turn,
    member,
    name_of,
    owners,
    writers,
)
from tests.support.freezes import freeze_until, frozen
from tests.support.waiting import eventually

ONE, TWO, THREE = USERS
PATIENCE = 60.0
JOINED = owners([ONE], [ONE, TWO], [ONE, TWO, THREE])
NAMES = {user: name_of(JOINED, user, NAMESPACE) for user in USERS}
"""An instance of each member, once all three are there."""


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SharedInstances]:
    real = request.param != "embedded"
    server = request.getfixturevalue("real_server") if real else None
    async with SharedInstances.with_members(tmp_path, server) as made:
        yield made
        if real:
            await clear(made)


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[SharedInstances]:
    async with SharedInstances.with_members(tmp_path) as made:
        yield made


async def clear(harness: SharedInstances) -> None:
    """Leave nothing to other tests of this server."""
    async with member(harness, ONE, NAMESPACE, group="cloud"):
        for name in NAMES.values():
            await harness.delete(name)
        for name in NAMES.values():
            await harness.gone("Instance", name, PATIENCE)


def joined(
    harness: SharedInstances, user: str, *slots: frozenset[int]
) -> AbstractAsyncContextManager[Manager]:
    return member(harness, user, NAMESPACE, *slots, group="cloud")


def of_members(found: dict[tuple[str, str, str], list[str]]) -> dict[str, set[str]]:
    """Who wrote each Instance, and each thing that it has, but for the leader, who grants starts: by the Instance's name."""
    return {
        name: {
            " and ".join({*users} - {ONE})
            for (resource, _, of), users in found.items()
            if of == name and "cloud." in resource
        }
        for name in NAMES.values()
    }


@pytest.mark.criterion("SH-36")
async def test_each_instance_is_one_members_and_a_hand_over_or_a_restart_writes_nothing(
    shared: SharedInstances,
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with joined(shared, ONE):
            for name in NAMES.values():
                await shared.apply(instance(name))
            for name in NAMES.values():
                await shared.phase("Ready", name)
            await shared.silent()
        mark = shared.mark()
        for user in USERS:
            await stack.enter_async_context(joined(shared, user))
        await shared.silent()
        assert writers(shared, mark) == {}
        for name in NAMES.values():
            await shared.apply(instance(name, version="5.2.0"))
        for name in NAMES.values():
            await shared.until(
                "Instance",
                lambda found: found.status.version == "5.2.0" and found.status.phase == "Ready",
                name,
                PATIENCE,
            )
        await shared.silent()
        found = writers(shared, mark)
        assert of_members(found) == {
            name: {"" if user == ONE else user} for user, name in NAMES.items()
        }
        assert_in_turn({key: users for key, users in found.items() if "instances." in key[0]})
    assert {*shared.elsewhere.identities().values()} == {1}
    assert shared.elsewhere.most["terraform"] <= 2


@pytest.mark.criterion("SH-36")
async def test_fixed_slots_that_overlap_are_refused(embedded: SharedInstances) -> None:
    async with joined(embedded, ONE, frozenset(range(32))):
        with pytest.raises(SlotsTaken):
            async with joined(embedded, TWO, frozenset(range(31, 64))):
                pass


@pytest.mark.criterion("SH-37")
async def test_a_run_goes_on_at_another_member_and_is_begun_by_none_again(
    embedded: SharedInstances,
) -> None:
    """From one to three members, to two: the first one, who leads, goes."""
    runs = embedded.elsewhere
    runs.held.add("terraform")
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        await first.enter_async_context(joined(embedded, ONE))
        for name in NAMES.values():
            await embedded.apply(instance(name))
        await eventually(lambda: len(runs.live("terraform")) == 2, timeout=PATIENCE)
        for user in (TWO, THREE):
            await stack.enter_async_context(joined(embedded, user))
        await first.aclose()
        await embedded.silent()
        assert len(runs.started) == len(runs.live("terraform")) == 2
        runs.end("terraform")
        for name in NAMES.values():
            await embedded.phase("Ready", name)
    assert {*runs.identities().values()} == {1}
    assert runs.most["terraform"] == 2


@pytest.mark.criterion("SH-38")
async def test_the_limit_of_runs_holds_for_three_members_and_when_the_leader_changes(
    embedded: SharedInstances,
) -> None:
    runs = embedded.elsewhere
    runs.held.add("terraform")
    names = [f"many{number}" for number in range(9)]

    async def end_one() -> None:
        """Let a run end, and wait until as many are under way as may be."""
        runs.end_run(runs.live("terraform")[0])
        ended = sum(
            run_id.startswith("terraform-") and run.state.finished
            for run_id, run in runs.runs.items()
        )
        busy = min(2, len(names) - ended)
        await eventually(lambda: len(runs.live("terraform")) == busy, timeout=PATIENCE)

    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        await first.enter_async_context(joined(embedded, ONE))
        for user in (TWO, THREE):
            await stack.enter_async_context(joined(embedded, user))
        for name in names:
            await embedded.apply(instance(name))
        await eventually(lambda: len(runs.live("terraform")) == 2, timeout=PATIENCE)
        await end_one()
        await end_one()
        await first.aclose()
        for _ in range(4):
            await end_one()
        runs.held.discard("terraform")
        runs.end("terraform")
        for name in names:
            await embedded.phase("Ready", name)
    assert {*runs.identities().values()} == {1}
    assert runs.most["terraform"] == 2


@pytest.mark.criterion("SH-38")
async def test_a_grant_of_a_slot_that_no_manager_works_on_is_taken_back(
    embedded: SharedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_slots, "GRACE", 0.5)
    monkeypatch.setattr(granter, "UNUSED", 3600.0)  # it is not for that that it is taken back
    mine, other = frozenset(range(32)), frozenset(range(32, 64))
    owned = dict.fromkeys(mine, ONE) | dict.fromkeys(other, TWO)
    names = {user: name_of(owned, user, NAMESPACE) for user in (ONE, TWO)}
    runs = embedded.elsewhere
    embedded.options.limits["terraform"] = 1  # type: ignore[index]
    runs.held.add("terraform")
    async with joined(embedded, ONE, mine):
        async with joined(embedded, TWO, other):
            await embedded.apply(instance(names[ONE]))
            await eventually(lambda: runs.live("terraform"), timeout=PATIENCE)
            await embedded.apply(instance(names[TWO]))
            await embedded.until(
                "InstanceTerraform",
                lambda found: found is not None and found.status.waiting is not None,
                names[TWO],
                PATIENCE,
            )
        granted = {"waiting": {"grantedAt": format_time(utc_now())}}
        await embedded.client.patch_status(
            InstanceTerraform, names[TWO], {"status": granted}, namespace=NAMESPACE
        )
        await embedded.until(
            "InstanceTerraform",
            lambda found: found.status.waiting.granted_at is None,
            names[TWO],
            PATIENCE,
        )
        runs.end("terraform")
        await embedded.phase("Ready", names[ONE])
        await embedded.silent()
        assert {each.input.instance for each in runs.started} == {names[ONE]}
        async with joined(embedded, TWO, other):
            await embedded.phase("Ready", names[TWO])


@pytest.mark.criterion("SH-37")
async def test_a_fleet_rollout_keeps_its_budget_while_members_come_and_go(
    embedded: SharedInstances,
) -> None:
    runs, names = embedded.elsewhere, [f"fleet{number}" for number in range(6)]
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(contextlib.AsyncExitStack())
        await first.enter_async_context(joined(embedded, ONE))
        for name in names:
            await embedded.apply(instance(name))
        for name in names:
            await embedded.phase("Ready", name)
        runs.held.add("upgrade")
        head = {"apiVersion": FleetRollout.gvk().api_version, "kind": "FleetRollout"}
        spec = {"targetVersion": "5.2.0", "maxConcurrent": 2}
        metadata = {"name": "release", "namespace": NAMESPACE}
        await embedded.apply({**head, "metadata": metadata, "spec": spec})

        async def changing() -> list[str]:
            return [each.spec.to_version for each in await embedded.upgrades()]

        await eventually(lambda: len(runs.live("upgrade")) == 2, timeout=PATIENCE)
        for user in (TWO, THREE):
            await stack.enter_async_context(joined(embedded, user))
        await embedded.silent()
        assert len(await changing()) == 2
        await first.aclose()
        await embedded.silent()
        assert len(await changing()) == 2
        runs.end("upgrade")
        for name in names:
            await embedded.until(
                "Instance",
                lambda found: found.status.version == "5.2.0" and found.status.phase == "Ready",
                name,
                PATIENCE,
            )
    assert runs.most["upgrade"] <= 2
    assert {*runs.identities().values()} == {1}


@pytest.mark.criterion("SH-36")
async def test_a_freeze_counts_and_ends_for_the_instances_of_all_members(
    embedded: SharedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)
    async with joined(embedded, ONE), joined(embedded, TWO), joined(embedded, THREE):
        for name in NAMES.values():
            await embedded.apply(instance(name))
        for name in NAMES.values():
            await embedded.phase("Ready", name)
        async with frozen(embedded.client, reason="Audit", systems=["Cloud"]) as freeze:
            await freeze_until(embedded.client, freeze, lambda each: each.status.phase == "Active")
            for name in NAMES.values():
                await embedded.apply(instance(name, version="5.2.0"))
            await freeze_until(embedded.client, freeze, lambda each: each.status.held.cloud == 3)
        for name in NAMES.values():
            await embedded.until(
                "Instance",
                lambda found: found.status.version == "5.2.0" and found.status.phase == "Ready",
                name,
                PATIENCE,
            )
    assert {*embedded.elsewhere.identities().values()} == {1}


@pytest.mark.criterion("SH-38")
async def test_nothing_is_granted_to_an_instance_out_of_management(
    embedded: SharedInstances,
) -> None:
    runs = embedded.elsewhere
    embedded.options.limits["terraform"] = 1  # type: ignore[index]
    runs.held.add("terraform")
    async with joined(embedded, ONE):
        await embedded.apply(instance("first"))
        await eventually(lambda: runs.live("terraform"), timeout=PATIENCE)
        await embedded.apply(instance("second"))
        await embedded.until(
            "InstanceTerraform",
            lambda found: found is not None and found.status.waiting is not None,
            "second",
            PATIENCE,
        )
        await embedded.annotate("second", control_plane_mode="false")
        await embedded.silent()
        runs.end("terraform")
        await embedded.phase("Ready", "first")
        await embedded.silent()
        left = await embedded.read("InstanceTerraform", "second")
        assert left.status.waiting.granted_at is None
        await embedded.annotate("second", control_plane_mode=None)
        await embedded.phase("Ready", "second")


@pytest.mark.criterion("SH-38")
async def test_a_higher_limit_grants_what_waits_at_once(
    embedded: SharedInstances, tmp_path: Path
) -> None:
    runs, settings = embedded.elsewhere, tmp_path / "settings.yaml"
    settings.write_text("terraform: {limit: 1}\n")
    pace = Pace(settle=0.0, waiting=300.0)  # nothing is looked at again by itself
    embedded.options = replace(
        embedded.options, limits={}, pace=pace, settings_file=settings, file_period=0.2
    )
    runs.held.add("terraform")
    owned = owners([ONE], [ONE, TWO])
    async with joined(embedded, ONE), joined(embedded, TWO):
        for user in (ONE, TWO):
            await embedded.apply(instance(name_of(owned, user, NAMESPACE)))
            await eventually(lambda: runs.live("terraform"), timeout=PATIENCE)
        await embedded.silent()
        assert len(runs.live("terraform")) == 1
        settings.write_text("terraform: {limit: 2}\n")
        await eventually(lambda: len(runs.live("terraform")) == 2, timeout=PATIENCE)


@pytest.mark.criterion("SH-36")
async def test_a_lease_that_ends_in_a_freeze_counts_whoever_works_on_its_instance(
    embedded: SharedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)
    monkeypatch.setattr(freezes, "FIRST_PASSES", timedelta(0))
    name = name_of(owners([ONE], [ONE, TWO]), TWO, NAMESPACE)
    async with joined(embedded, ONE), joined(embedded, TWO):
        await embedded.apply(instance(name))
        await embedded.phase("Ready", name)
        async with frozen(embedded.client, reason="Audit", systems=["Cloud"]) as freeze:
            await freeze_until(embedded.client, freeze, lambda each: each.status.phase == "Active")
            features = with_lease({}, utc_now() + timedelta(seconds=4))
            await embedded.edit("Instance", {"instanceFeatures": features}, name)
            await freeze_until(embedded.client, freeze, lambda each: each.status.held.cloud == 1)
            assert await embedded.get("Instance", name) is not None
        await embedded.gone("Instance", name, PATIENCE)


@pytest.mark.criterion("SH-40")
async def test_an_instance_that_no_manager_works_on_says_so_until_one_does(
    embedded: SharedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot_owners, "GRACE", 0.5)
    monkeypatch.setattr(slot_owners, "PERIOD", 0.1)
    mine, other = frozenset(range(32)), frozenset(range(32, 64))
    owned = dict.fromkeys(mine, ONE) | dict.fromkeys(other, TWO)
    names = {user: name_of(owned, user, NAMESPACE) for user in (ONE, TWO)}

    def shows(status: str) -> Callable[[Instance], bool]:
        def so(found: Instance) -> bool:
            condition = find_condition(found.status.conditions, slot_owners.SLOTS_OWNED)
            return condition is not None and condition.status == status

        return so

    async with joined(embedded, ONE, mine):
        for name in names.values():
            await embedded.apply(instance(name))
        await embedded.until("Instance", shows("False"), names[TWO], PATIENCE)
        found = await embedded.phase("Ready", names[ONE])
        assert find_condition(found.status.conditions, slot_owners.SLOTS_OWNED) is None
        assert {each.input.instance for each in embedded.elsewhere.started} == {names[ONE]}
        async with joined(embedded, TWO, other):
            await embedded.phase("Ready", names[TWO])
            await embedded.until("Instance", shows("True"), names[TWO], PATIENCE)


@pytest.mark.criterion("SH-40")
async def test_where_the_crd_cannot_hold_a_grant_what_waits_names_it_and_begins_with_the_new_one(
    embedded: SharedInstances, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(granter, "WITHOUT_OWNER", 0.2)
    kind = InstanceTerraform.mapping()
    crd = f"{kind.plural}.{kind.gvk.group}"
    newer = await embedded.client.get(CRD, crd)
    older = copy.deepcopy(newer)
    for version in older["spec"]["versions"]:
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        del status["properties"]["waiting"]["properties"]["grantedAt"]
    await embedded.client.update(older)
    async with joined(embedded, ONE):
        await embedded.apply(instance(NAMES[ONE]))
        await embedded.until(
            "InstanceTerraform",
            lambda found: found is not None and "CRD of InstanceTerraform" in found.status.message,
            NAMES[ONE],
            PATIENCE,
        )
        await embedded.silent()
        assert embedded.elsewhere.started == []
        patch = {"spec": {"versions": newer["spec"]["versions"]}}
        await embedded.client.patch(CRD, crd, patch)
        await embedded.phase("Ready", NAMES[ONE])
