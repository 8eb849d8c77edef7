"""A template's rollout judges what it changed: what else happens to a tenant rolls nothing back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.envtest.proxy import Fail, Match
from ctrlruntime.rollout import Change, ChangeKind
from internal.tenancy.shared.labels import CHANGE
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of
from internal.tenancy.sync.change_progress import Judgement, judge
from internal.tenancy.sync.rollout_changes import format_change
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness
from tests.tenancy.rollout_fleet import NAMES, UIDS, content, put, status, updated
from tests.tenancy.test_rollbacks import address, balanced

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("G-C4")]

AT = datetime(2026, 1, 1, tzinfo=UTC)
SOAK: dict[str, Any] = {"onHalt": "Rollback", "soakSeconds": 7200}


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def labelled(value: str) -> dict[str, Any]:
    """Content that the server refuses for a tenant whose plan is not a label."""
    made = content(value)
    made["configMaps"][0]["labelsTemplate"] = {"plan": "{{ planId }}"}
    return made


async def changed_to_two(harness: TenancyHarness) -> Fleet:
    """A fleet that a rollout has changed, past the deadline of each tenant and within the soak."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry()
    await put(fleet, labelled("one"), **SOAK)
    await fleet.ready(*NAMES)
    await put(fleet, labelled("two"), **SOAK)
    await status(fleet, lambda seen: seen.phase == "Complete")
    await fleet.ready(*NAMES)
    await end_deadlines(fleet)
    return fleet


async def end_deadlines(fleet: Fleet) -> None:
    """Have a second for the deadline of each tenant, once all that changed are ready: a busy machine takes longer."""
    await fleet.patch(TenantTemplate, "app", {"spec": {"rollout": {"progressDeadlineSeconds": 1}}})


async def is_failed(fleet: Fleet, name: str) -> None:
    async def state() -> TenantState:
        found = await fleet.get(Tenant.mapping(), name)
        return state_of(EntryDecoder(Tenant.gvk()).decode_manifest(found))

    await fleet.harness.eventually(state, TenantState.FAILED.__eq__)


async def stays_changed(fleet: Fleet) -> None:
    """Wait for two more plans of the registry: everybody keeps the new content."""
    for _ in range(2):
        await fleet.harness.synced(1, fleet.namespace)
    await status(fleet, lambda seen: seen.failed == 0 and seen.rolled_back == 0)
    assert await updated(fleet, "two") == set(NAMES)


async def test_a_row_that_breaks_its_tenant_returns_no_other(harness: TenancyHarness) -> None:
    """Wait for two more plans, in which all keep the new content, at most 180 s."""
    fleet = await changed_to_two(harness)
    fleet.row("c", plan="not a label")
    await is_failed(fleet, "c-app")
    await stays_changed(fleet)


async def test_a_server_that_does_not_answer_returns_nobody(harness: TenancyHarness) -> None:
    """Wait for two more plans, in which all keep the new content, at most 180 s."""
    fleet = await changed_to_two(harness)
    match = Match(user="manager", verb="write", resource="configmaps", namespace=fleet.namespace)
    proxy = harness.environment.proxy
    rule = proxy.add(Fail(503), match, times=None)
    await fleet.delete(CONFIG_MAP, "c-cm")
    await is_failed(fleet, "c-app")
    await stays_changed(fleet)
    proxy.remove(rule)


async def test_what_tenants_of_the_old_content_lose_as_well_returns_nobody(
    harness: TenancyHarness,
) -> None:
    """A node or a load balancer that is gone: both kinds of tenants lose their health for the same cause."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry()
    canary = {**SOAK, "canary": {"percent": 12}, "pause": False}
    await put(fleet, balanced("one"), **canary)
    for uid in UIDS:
        await address(fleet, uid)
    await fleet.ready(*NAMES)
    await put(fleet, balanced("two"), **canary)
    await status(fleet, lambda seen: seen.updated == 1 and seen.changing == 0)
    (changed,) = await updated(fleet, "two")
    await fleet.ready(changed)
    await end_deadlines(fleet)
    other = next(name for name in NAMES if name != changed)
    for name in (other, changed):
        await address(fleet, name[0], lost=True)
    for name in (other, changed):
        await fleet.until(Tenant, name, "Ready", "False")
    for _ in range(2):
        await harness.synced(1, fleet.namespace)
    await status(fleet, lambda seen: seen.failed == 0 and seen.rolled_back == 0)
    assert await updated(fleet, "two") == {changed}
    # Once the others are well again it is the content.
    await address(fleet, other[0])
    await status(fleet, lambda seen: seen.phase == "RolledBack")
    assert await updated(fleet, "two") == set()


PROGRESS = {"at": "2026-01-01T00:00:00.000000Z", "seenAt": "2026-01-01T01:00:00.000000Z"}
FAILED = [{"type": "Ready", "status": "False", "reason": "ResourcesFailed", "message": "a-app: no"}]
SEEN = AT + timedelta(hours=1)
CAUSES = frozenset({"ResourcesFailed: …: no"})


@pytest.mark.parametrize(
    ("progress", "generation", "expected"),
    [
        ({}, 3, Judgement(held=True, causes=CAUSES)),
        (
            {**PROGRESS, "at": "2025-01-01T00:00:00.000000Z"},
            3,
            Judgement(held=True, causes=CAUSES),
        ),
        (PROGRESS, 3, Judgement(resumed_at=SEEN, causes=CAUSES)),
        (PROGRESS, 4, Judgement(resumed_at=SEEN, causes=CAUSES, held=True)),
        (
            {**PROGRESS, "unavailable": True},
            3,
            Judgement(resumed_at=SEEN, causes=CAUSES, excused=True),
        ),
        (
            {**PROGRESS, "readyGeneration": 3},
            3,
            Judgement(resumed_at=SEEN, causes=CAUSES, was_ready=True),
        ),
        (
            {**PROGRESS, "readyGeneration": 2},
            3,
            Judgement(resumed_at=SEEN, causes=CAUSES, was_ready=True, excused=True),
        ),
        ({"at": 7}, 3, Judgement(held=True, causes=CAUSES)),
    ],
    ids=["unseen", "earlier", "fails", "queued", "unavailable", "lost", "edited", "unreadable"],
)
async def test_what_a_status_says_of_a_change(
    progress: dict[str, Any], generation: int, expected: Judgement
) -> None:
    change = Change(ChangeKind.ROLLOUT, AT, "one")
    manifest = {
        "apiVersion": Tenant.gvk().api_version,
        "kind": "Tenant",
        "metadata": {
            "name": "a-app",
            "namespace": "d",
            "uid": "u",
            "resourceVersion": "1",
            "generation": generation,
            "annotations": {CHANGE: format_change(change)},
        },
        "spec": {"uid": "a"},
        "status": {"observedGeneration": 3, "conditions": FAILED, "rolloutChange": progress},
    }
    entry = EntryDecoder(Tenant.gvk()).decode_manifest(manifest)
    assert judge(entry, change) == expected
