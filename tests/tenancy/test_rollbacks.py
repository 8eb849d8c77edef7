"""A halt that rolls back: which tenants return, to what, what is recorded for it, and what is left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.resources import OWNER, OWNER_UID
from internal.tenancy.shared.labels import RESUMED_AT, TEMPLATE
from internal.tenancy.template.revisions import plan_history
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import SERVICE, TenancyHarness, config_map, mapping
from tests.tenancy.rollout_fleet import (
    NAMES,
    UIDS,
    bad_content,
    content,
    make,
    put,
    status,
    updated,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("RO-4")]

REVISION = mapping("apps/v1", "ControllerRevision")
ROLLBACK: dict[str, Any] = {"maxSkew": 2, "onHalt": "Rollback"}


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def generations(fleet: Fleet) -> dict[str, int]:
    found = await fleet.harness.client.list(Tenant, fleet.namespace)
    return {item.metadata.name or "": item.metadata.generation or 0 for item in found}


async def revisions(fleet: Fleet) -> dict[str, int]:
    """The recorded values, with their numbers."""
    found = await fleet.harness.client.list(REVISION, fleet.namespace)
    return {
        item["data"]["spec"]["configMaps"][0]["spec"]["data"].get("value", "bad"): item["revision"]
        for item in found
    }


async def test_a_bad_change_returns_exactly_the_changed_tenants(harness: TenancyHarness) -> None:
    fleet = await make(harness, **ROLLBACK)
    before = await generations(fleet)
    await put(fleet, bad_content(), **ROLLBACK, haltOnFailures=1)
    done = await status(fleet, lambda seen: seen.phase == "RolledBack" and seen.changing == 0)
    await fleet.ready(*NAMES)
    after = await generations(fleet)
    changed = {name for name in NAMES if after[name] != before[name]}
    assert 1 <= len(changed) <= 2
    assert all(after[name] == before[name] + 2 for name in changed), "there and back, once each"
    assert await updated(fleet, "one") == set(NAMES)
    assert (done.rolled_back, done.updated, done.kept) == (len(changed), 0, 0)
    assert done.waiting == len(UIDS)
    halted = await fleet.until(TenantTemplate, "app", "RolloutHalted", "True", "RolledBack")
    assert "rolled back from this version" in halted.message
    assert (await fleet.event("RolloutRolledBack"))["type"] == "Warning"

    await put(fleet, content("three"), **ROLLBACK)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.rolled_back == 0)
    await fleet.ready(*NAMES)
    assert await updated(fleet, "three") == set(NAMES)


def balanced(value: str) -> dict[str, Any]:
    """Content whose tenants are ready while their Service has an address, which tests set."""
    service = {
        "id": "svc",
        "nameTemplate": "{{ uid }}-svc",
        "spec": {
            "apiVersion": "v1",
            "kind": "Service",
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        },
    }
    return {**content(value), "services": [service]}


async def address(fleet: Fleet, uid: str, *, lost: bool = False) -> None:
    await fleet.there(SERVICE, f"{uid}-svc")
    patch = {"status": {"loadBalancer": {"ingress": [] if lost else [{"ip": "192.0.2.1"}]}}}
    await fleet.harness.client.patch_status(
        SERVICE, f"{uid}-svc", patch, namespace=fleet.namespace, type=PatchType.MERGE
    )


SOAK: dict[str, Any] = {
    "maxSkew": 8,
    "onHalt": "Rollback",
    "soakSeconds": 7200,
    "progressDeadlineSeconds": 600,
}


async def soaking(harness: TenancyHarness, **rollout: object) -> Fleet:
    """A fleet all of whose tenants have the content `two` and are ready, within its soak."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry()
    await put(fleet, balanced("one"), **SOAK)
    for uid in UIDS:
        await address(fleet, uid)
    await fleet.ready(*NAMES)
    await put(fleet, balanced("two"), **SOAK, **rollout)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
    assert await updated(fleet, "two") == set(NAMES)
    return fleet


async def lose(fleet: Fleet, uid: str) -> None:
    """Take the health of a tenant; its deadline is over at once."""
    await address(fleet, uid, lost=True)
    template = await fleet.read(TenantTemplate, "app")
    assert template.spec.rollout is not None
    rollout = {**template.spec.rollout.to_wire(), "progressDeadlineSeconds": 1}
    await fleet.patch(TenantTemplate, "app", {"spec": {"rollout": rollout}})


async def test_health_lost_within_the_soak_returns_the_tenants_of_a_complete_rollout(
    harness: TenancyHarness,
) -> None:
    fleet = await soaking(harness)
    await lose(fleet, "c")
    await status(fleet, lambda seen: seen.phase == "RolledBack")
    assert await updated(fleet, "one") == set(NAMES)
    assert await revisions(fleet) == {"one": 1, "two": 2}

    await address(fleet, "c")
    await fleet.ready(*NAMES)
    now = {RESUMED_AT: datetime.now(UTC).isoformat()}
    patch = {"spec": {"rollout": {"progressDeadlineSeconds": 600}}}
    await fleet.patch(TenantTemplate, "app", {"metadata": {"annotations": now}, **patch})
    await status(fleet, lambda seen: seen.phase == "Complete", of_now=False)
    assert await updated(fleet, "two") == set(NAMES)


async def test_an_irreversible_change_holds_and_the_status_reports_it(
    harness: TenancyHarness,
) -> None:
    fleet = await soaking(harness, irreversible=True)
    before = await generations(fleet)
    await lose(fleet, "c")
    held = await status(fleet, lambda seen: seen.phase == "Halted")
    assert held.kept == len(UIDS)
    assert "the change is irreversible" in held.message
    await fleet.until(TenantTemplate, "app", "RolloutHalted", "True", "RollbackHeld")
    # A later write of the same registry shows that the pass is over.
    fleet.row("a", plan="gold")
    await fleet.harness.eventually(
        lambda: fleet.find(Tenant, "a-app"),
        lambda seen: seen.spec.variables.get("planId") == "gold",
    )
    after = await generations(fleet)
    assert {name for name in NAMES if after[name] != before[name]} == {"a-app"}
    assert await updated(fleet, "two") == set(NAMES)


async def test_a_hold_stops_a_rollback_and_rollback_goes_on(harness: TenancyHarness) -> None:
    fleet = await soaking(harness)
    await put(fleet, balanced("two"), **{**SOAK, "onHalt": "Hold", "haltOnFailures": 1})
    await lose(fleet, "c")
    await status(fleet, lambda seen: seen.phase == "Halted")
    assert await updated(fleet, "two") == set(NAMES)
    await fleet.patch(TenantTemplate, "app", {"spec": {"rollout": {"onHalt": "Rollback"}}})
    await status(fleet, lambda seen: seen.phase == "RolledBack")
    assert await updated(fleet, "one") == set(NAMES)


async def test_nothing_changes_until_the_content_before_is_recorded(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness)
    first = next(iter(await fleet.harness.client.list(REVISION, fleet.namespace)), None)
    assert first is not None
    await put(fleet, content("probe"), **ROLLBACK)
    await status(fleet, lambda seen: seen.phase == "Complete")
    probe = (await fleet.read(Tenant, NAMES[0])).spec.template_revision
    await put(fleet, content("one"), **ROLLBACK)
    await status(fleet, lambda seen: seen.phase == "Complete")
    await fleet.delete(REVISION, f"app-{probe}")
    await fleet.gone(REVISION, f"app-{probe}")
    foreign = {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {"name": f"app-{probe}", "namespace": fleet.namespace},
        "data": {"of": "somebody"},
        "revision": 1,
    }
    await fleet.harness.client.create(foreign)
    before = await generations(fleet)
    await put(fleet, content("probe"), **ROLLBACK)

    async def trouble() -> str:
        registry = await fleet.get(TenantRegistry.mapping(), "registry")
        return str(registry["status"].get("conditions"))

    await fleet.harness.eventually(trouble, lambda text: f"app-{probe}" in text)
    assert await generations(fleet) == before
    await fleet.delete(REVISION, f"app-{probe}")
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "probe") == set(NAMES)


@pytest.mark.criterion("H-R3")
async def test_marks_of_recorded_revisions_come_back(harness: TenancyHarness) -> None:
    fleet = await soaking(harness)

    async def marks() -> dict[str, Any]:
        found = await fleet.harness.client.list(REVISION, fleet.namespace)
        fields = ("uid", "labels", "annotations", "ownerReferences")
        return {
            item["metadata"]["name"]: {name: item["metadata"].get(name) for name in fields}
            for item in found
        }

    before = await marks()
    assert len(before) == 2
    for edit in (
        {"labels": None},
        {"labels": {TEMPLATE: "another"}},
        {"annotations": {OWNER: None, OWNER_UID: "another"}},
        {"ownerReferences": None},
    ):
        for name in before:
            await fleet.harness.client.patch(
                REVISION, name, {"metadata": edit}, namespace=fleet.namespace
            )
        await fleet.harness.eventually(marks, lambda now: now == before)


async def test_the_last_ten_revisions_are_kept_and_go_with_the_template(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a")
    await fleet.registry()
    for number in range(12):
        await put(fleet, content(str(number)), **ROLLBACK)
        await fleet.harness.eventually(partial(updated, fleet, str(number)))
    await fleet.harness.eventually(
        lambda: revisions(fleet), lambda seen: set(seen) == {str(n) for n in range(2, 12)}
    )
    found = await fleet.harness.client.list(REVISION, fleet.namespace)
    assert {item["metadata"]["ownerReferences"][0]["kind"] for item in found} == {"TenantTemplate"}
    # Earlier content becomes the newest again.
    await put(fleet, content("5"), **ROLLBACK)
    await fleet.harness.eventually(lambda: revisions(fleet), lambda seen: seen["5"] == 13)


async def test_content_edited_in_a_recorded_revision_is_not_used(harness: TenancyHarness) -> None:
    fleet = await soaking(harness)
    one = min(
        await fleet.harness.client.list(REVISION, fleet.namespace), key=lambda r: r["revision"]
    )
    name = one["metadata"]["name"]
    # Data of a revision cannot be changed, but another one can take its name.
    await fleet.delete(REVISION, name)
    await fleet.gone(REVISION, name)
    other = {**one, "data": {"spec": {"configMaps": [config_map("cm", "evil")]}}}
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    other["metadata"] = {key: one["metadata"][key] for key in kept if key in one["metadata"]}
    await fleet.harness.client.create(other)
    await lose(fleet, "c")
    held = await status(fleet, lambda seen: seen.phase == "Halted")
    assert held.kept == len(UIDS)
    assert "is not recorded" in held.message
    assert await updated(fleet, "two") == set(NAMES)


@pytest.mark.parametrize(
    ("recorded", "target", "earlier", "writes", "deletes"),
    [
        ({}, "b", {"a"}, [("a", 1), ("b", 2)], []),
        ({"a": 1, "b": 2}, "b", set(), [], []),
        ({"a": 1, "b": 2}, "a", set(), [("a", 3)], []),
        ({str(n): n for n in range(10)}, "x", set(), [("x", 10)], ["0"]),
        ({str(n): n for n in range(10)}, "x", {"0"}, [("x", 10)], []),
    ],
)
async def test_the_history_is_numbered_and_bounded(
    recorded: dict[str, int],
    target: str,
    earlier: set[str],
    writes: list[tuple[str, int]],
    deletes: list[str],
) -> None:
    made, gone = plan_history(recorded, target, earlier, earlier)
    assert [(item.version, item.number) for item in made] == writes
    assert gone == deletes
