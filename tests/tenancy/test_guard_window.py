"""The deletion guard's window: rows that go one after another count together."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import GROUP, RemovedRows, Tenant, TenantRegistry
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.envtest.proxy import CutWatch, Fail, Match, SilenceWatch
from internal.removal_holds import has_no_record, lost_record, unknown_removals
from internal.tenancy.rows.row import Reading, read
from internal.tenancy.shared.policies import ALLOW_DELETE
from internal.tenancy.sync.deletion_guard import Guard, GuardReason
from internal.tenancy.sync.plan import plan
from internal.tenancy.sync.plan_inputs import Template
from internal.tenancy.sync.removal_window import (
    MOST_ENTRIES,
    MOST_UIDS,
    RecentRemovals,
    recent,
    record,
    unrecorded,
)
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map
from tests.tenancy.test_plan import fleet as fleet_of
from tests.tenancy.test_plan import reading, row, spec

START = datetime(2026, 1, 2, tzinfo=UTC)
DAY = timedelta(hours=24)
WEB = Template("web", "1")
TENANTS = "tenants.tenancy.ctrlruntime.dev"


async def ten(harness: TenancyHarness) -> Fleet:
    """Ten rows with their tenants, and the guard as it is by default."""
    fleet = await Fleet.make(harness)
    uids = [f"u{number}" for number in range(10)]
    fleet.rows(*uids)
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready(*(f"{uid}-app" for uid in uids))
    return fleet


async def removed_rows(fleet: Fleet) -> list[RemovedRows]:
    found: list[RemovedRows] = (await fleet.read(TenantRegistry, "registry")).status.removed_rows
    return found


@pytest.mark.criterion("H-A4")
async def test_h_a4_one_row_at_a_time_does_not_empty_a_fleet(tmp_path: Path) -> None:
    """The third of ten rows within a day is held, also by the next leader, until it is approved."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await ten(harness)
        fleet.delete_row("u0")
        await fleet.gone(Tenant, "u0-app")
        fleet.row("u1", active=0)
        await fleet.gone(Tenant, "u1-app")
        fleet.delete_row("u2")
        held = await fleet.until(
            TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions"
        )
        assert (
            "1 of 10 rows are gone or inactive and 2 were removed before, 2 may go" in held.message
        )
        assert "Held: u2-app" in held.message
        assert "It is decided again at 20" in held.message
        assert {uid for entry in await removed_rows(fleet) for uid in entry.uids} == {"u0", "u1"}

        # the next leader has it from the status, and writes nothing
        await harness.restart_manager()
        fleet.delete_row("u3")
        await fleet.until(
            TenantRegistry, "registry", "DeletionsHeld", "True", message="2 of 10 rows"
        )
        await harness.idle()
        since = harness.mark()
        await fleet.annotate(TenantRegistry, "registry", reconcile_now="again")

        async def handled() -> bool:
            found = await fleet.read(TenantRegistry, "registry")
            return bool(found.status.last_handled_reconcile == "again")

        await harness.eventually(handled)
        assert fleet.writes(since) == [
            "patch tenantregistries.tenancy.ctrlruntime.dev/status registry"
        ]
        assert len(await fleet.tenants()) == 8

        # an approval lets them go, and leaves the window as it is
        await fleet.approve("Held: u2-app, u3-app")
        await harness.eventually(fleet.tenants, lambda seen: len(seen) == 6)
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False", "NothingHeld")
        assert sum(entry.rows for entry in await removed_rows(fleet)) == 2
        fleet.delete_row("u4")
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions")

        # without a window each sync is judged by itself
        await fleet.patch(TenantRegistry, "registry", {"spec": {"deletionGuard": {"window": "0s"}}})
        await fleet.gone(Tenant, "u4-app")


@pytest.mark.criterion("H-A4")
async def test_h_a4_a_removal_is_counted_before_it_is_made_and_only_once(tmp_path: Path) -> None:
    """What fails at first, or is left over by a leader that ended, is tried again without approval."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await ten(harness)
        refusal = harness.environment.proxy.add(
            Fail(500), Match(user="manager", verb="delete", resource=TENANTS), times=None
        )
        fleet.delete_row("u0")
        fleet.delete_row("u1")

        async def refused() -> bool:
            counted = {uid for entry in await removed_rows(fleet) for uid in entry.uids}
            return refusal.fired > 0 and counted == {"u0", "u1"}

        await harness.eventually(refused)
        assert len(await fleet.tenants()) == 10
        await harness.stop_manager()
        harness.environment.proxy.remove(refusal)
        await harness.start_manager()
        await harness.eventually(fleet.tenants, lambda seen: len(seen) == 8)
        assert sum(entry.rows for entry in await removed_rows(fleet)) == 2
        fleet.delete_row("u2")
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions")


# -- time, as numbers ----------------------------------------------------------------------------------


@pytest.mark.criterion("H-A4")
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30 * 3600)), min_size=1, max_size=120),
    st.integers(1, 60),
    st.sampled_from([0, 5, 20, 50]),
    st.booleans(),
)
def test_h_a4_no_window_loses_more_than_its_share(
    steps: list[tuple[int, int]], size: int, percent: int, come_back: bool
) -> None:
    """Rows go one after another at any times, and some come back; within each 24 hours no more than the share goes."""
    uids = [f"u{number:03}" for number in range(size)]
    existing = fleet_of(uids, WEB)
    entries: list[RemovedRows] = []
    now, alive = START, list(uids)
    history: list[tuple[datetime, set[str], int]] = []
    for number, seconds in steps:
        now += timedelta(seconds=seconds)
        if len(alive) > 1:
            alive.pop(number % len(alive))
        away = sorted(set(uids) - {tenant.uid for tenant in existing})
        if come_back and away and number % 3 == 0:
            alive.append(away[0])
            existing += fleet_of(away[:1], WEB)
        guard = Guard(percent=percent, window=DAY, recent=recent(entries, now, DAY))
        made = plan(reading(*alive), [WEB], existing, guard)
        gone = {item.uid for item in made.deletes}
        if gone:
            entries = record(entries, gone, now, DAY)
            history.append((now, gone, len(existing)))
            existing = [tenant for tenant in existing if tenant.uid not in gone]
    for index, (end, _, _) in enumerate(history):
        within = [item for item in history[: index + 1] if item[0] > end - DAY]
        of = size if come_back else within[0][2]
        assert len(set().union(*(item[1] for item in within))) <= max(1, of * percent // 100)


@pytest.mark.criterion("H-A4")
def test_h_a4_what_is_held_goes_once_the_window_has_passed() -> None:
    existing = fleet_of([f"u{number}" for number in range(10)], WEB)
    entries = record([], {"u8", "u9"}, START, DAY)
    left = [tenant for tenant in existing if tenant.uid not in {"u8", "u9"}]
    rows = reading(*(f"u{number}" for number in range(7)))
    soon = START + DAY - timedelta(seconds=1)
    held = plan(rows, [WEB], left, Guard(window=DAY, recent=recent(entries, soon, DAY))).held
    assert held is not None
    assert held.reason is GuardReason.TOO_MANY_DELETIONS
    assert held.again == START + DAY
    later = plan(rows, [WEB], left, Guard(window=DAY, recent=recent(entries, START + DAY, DAY)))
    assert [item.name for item in later.deletes] == ["u7-web"]


@pytest.mark.criterion("H-A4")
def test_h_a4_a_row_that_comes_back_and_goes_again_counts_once_from_then_on() -> None:
    """Else two more may go as soon as the first removals no longer count: twice the limit within one window."""
    existing = fleet_of([f"u{number}" for number in range(10)], WEB)
    entries = record([], {"u0", "u1"}, START, DAY)
    again = START + timedelta(hours=23)

    def planned(rows: Reading, now: datetime) -> list[str]:
        guard = Guard(window=DAY, recent=recent(entries, now, DAY))
        return [item.name for item in plan(rows, [WEB], existing, guard).deletes]

    assert planned(reading(*(f"u{number}" for number in range(2, 10))), again) == [
        "u0-web",
        "u1-web",
    ]
    assert unrecorded(entries, {"u0", "u1"}, again, DAY) == {"u0", "u1"}
    entries = record(entries, {"u0", "u1"}, again, DAY)
    assert recent(entries, again, DAY).rows == 2
    assert not unrecorded(entries, {"u0", "u1"}, again + timedelta(seconds=1), DAY)
    existing = [item for item in existing if item.uid not in {"u0", "u1"}]
    others = reading(*(f"u{number}" for number in range(4, 10)))
    assert planned(others, START + DAY) == []
    assert planned(others, again + DAY - timedelta(seconds=1)) == []
    existing = existing[:-1]
    assert planned(reading("u2", *(f"u{number}" for number in range(4, 9))), again + DAY) == [
        "u3-web"
    ]


@pytest.mark.criterion("H-A4")
@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 5000), min_size=1, max_size=60), st.integers(0, 7200)),
        max_size=150,
    ),
    st.sampled_from([timedelta(minutes=5), timedelta(hours=1), DAY]),
)
def test_h_a4_the_memory_is_bounded_and_forgets_no_number(
    steps: list[tuple[set[int], int]], window: timedelta
) -> None:
    entries: list[RemovedRows] = []
    now = START
    true: list[tuple[datetime, set[str]]] = []
    for numbers, seconds in steps:
        now += timedelta(seconds=seconds)
        uids = {f"u{number}" for number in numbers}
        new = uids - recent(entries, now, window).uids
        entries = record(entries, uids, now, window)
        true.append((now, new))
        seen = recent(entries, now, window)
        assert seen.rows >= sum(len(each) for at, each in true if at > now - window)
        assert len(entries) <= MOST_ENTRIES
        assert sum(len(entry.uids) for entry in entries) <= MOST_UIDS
    assert recent(entries, now + window * 2, window).rows == 0


@pytest.mark.criterion("H-A4")
def test_h_a4_an_approval_counts_what_is_held_and_is_not_counted_itself() -> None:
    existing = fleet_of([f"u{number}" for number in range(10)], WEB)
    table = [row(f"u{number}", "0" if number < 3 else "1") for number in range(10)]
    found = read(table, spec())
    held = plan(found, [WEB], existing, Guard(window=DAY)).held
    assert held is not None
    approved = plan(found, [WEB], existing, Guard(window=DAY, allow_delete=held.digest))
    assert approved.override_used
    assert [item.uid for item in approved.deletes] == ["", "", ""]
    free = plan(found, [WEB], existing, Guard(window=DAY, percent=100))
    assert [item.uid for item in free.deletes] == ["u0", "u1", "u2"]


async def wipe(fleet: Fleet) -> None:
    status = (await fleet.get(TenantRegistry.mapping(), "registry"))["status"]
    await fleet.harness.client.patch_status(
        TenantRegistry,
        "registry",
        {"status": dict.fromkeys(status)},
        namespace=fleet.namespace,
    )


async def make_again(fleet: Fleet) -> None:
    """Another registry of the name, as a restore makes it, while the manager sees nothing: a new list shows it then.

    Its watch is silent, and what it missed is compacted: no correct server leaves events of a watch out.
    """
    proxy, client = fleet.harness.environment.proxy, fleet.harness.client
    watches = Match(user="manager", verb="watch", resource="tenantregistries.*")
    silent = proxy.add(SilenceWatch(), watches, times=None)
    await client.delete(TenantRegistry, "registry", namespace=fleet.namespace)
    free = {"metadata": {"finalizers": None}}
    await client.patch(TenantRegistry, "registry", free, namespace=fleet.namespace)
    await fleet.registry()
    proxy.remove(silent)
    proxy.add(Fail(410), watches, times=2)
    proxy.add(CutWatch(), watches)
    await fleet.until(TenantRegistry, "registry", "Ready", "True")


@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize(
    "manager",
    ["runs", "runs, then restarts", "is down", "is down, then runs", "runs, and sees no deletion"],
)
async def test_g_t3_a_status_that_is_wiped_opens_no_new_window(
    tmp_path: Path, manager: str
) -> None:
    """As a restore without status does it, or a person: what was removed still counts, also where it is unknown."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await ten(harness)
        for uid in ("u0", "u1"):
            fleet.delete_row(uid)
            await fleet.gone(Tenant, f"{uid}-app")
        await harness.idle()
        was_down = manager.startswith("is down")
        if was_down:
            await harness.stop_manager()
        if manager == "runs, and sees no deletion":
            await make_again(fleet)
        else:
            await wipe(fleet)
        if manager == "runs, then restarts":
            await fleet.until(TenantRegistry, "registry", "Ready", "True")
            await harness.restart_manager()
        if was_down:
            await harness.start_manager()
            await fleet.until(TenantRegistry, "registry", "Ready", "True")
        if manager == "is down":
            await harness.restart_manager()
        if manager == "is down, then runs":
            await wipe(fleet)
        fleet.delete_row("u2")
        held = await fleet.until(
            TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions"
        )
        unknown = "1 of 8 rows are gone or inactive, and what went before 20"
        is_known = manager in {"runs", "runs, then restarts"}
        assert ("2 were removed before, 2 may go" if is_known else unknown) in held.message
        assert "It is decided again at 20" in held.message
        assert "u2-app" in await fleet.tenants()
        if not is_known:
            await fleet.approve("Held: u2-app")
            await fleet.gone(Tenant, "u2-app")


async def status_of(fleet: Fleet) -> dict[str, Any]:
    return dict((await fleet.get(TenantRegistry.mapping(), "registry"))["status"])


@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize("evidence", ["of rows that went", "of an approval"])
async def test_g_t3_an_older_status_that_is_put_back_lets_no_tenant_go(
    tmp_path: Path, evidence: str
) -> None:
    """Of the same registry, while no manager runs: before the rows went, or with names whose deletion was released then."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await ten(harness)
        await harness.idle()
        older = await status_of(fleet)
        if evidence == "of rows that went":
            rows = ["u2"]
            for uid in ("u0", "u1"):
                fleet.delete_row(uid)
                await fleet.gone(Tenant, f"{uid}-app")
        else:
            rows = ["u0", "u1", "u2"]
            fails = Match(user="manager", verb="delete", resource=TENANTS)
            refusal = harness.environment.proxy.add(Fail(500), fails, times=None)
            fleet.sql("DELETE FROM tenants WHERE uid < 'u3'")
            await fleet.approve("Held: u0-app, u1-app, u2-app")
            older = await harness.eventually(
                lambda: status_of(fleet), lambda found: len(found.get("approvedRemovals", ())) == 3
            )
            fleet.rows(*rows)
            await harness.eventually(
                lambda: status_of(fleet), lambda found: not found.get("approvedRemovals")
            )
            harness.environment.proxy.remove(refusal)
        await harness.stop_manager()
        found = await fleet.get(TenantRegistry.mapping(), "registry")
        await harness.client.update({**found, "status": older}, subresource="status")
        for uid in rows:
            fleet.delete_row(uid)
        await harness.start_manager()
        unknown = "rows are gone or inactive, and what went before 20"
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message=unknown)
        assert set(await fleet.tenants()) >= {f"{uid}-app" for uid in rows}
        await fleet.approve(unknown)
        for uid in rows:
            await fleet.gone(Tenant, f"{uid}-app")


@pytest.mark.criterion("G-T3")
def test_g_t3_a_lost_record_counts_as_a_spent_window_and_its_approval_as_used() -> None:
    entry = EntryDecoder(TenantRegistry.gvk()).decode_manifest(
        {
            "metadata": {
                "name": "registry",
                "namespace": "shop",
                "generation": 2,
                "annotations": {ALLOW_DELETE: "0123456789abcdef"},
            },
            "spec": {},
            "status": {"observedGeneration": 3},
        }
    )
    assert has_no_record(entry), "a status of another life of the object"
    assert lost_record(entry.annotations, GROUP, START).used == {
        "0123456789abcdef": int(START.timestamp())
    }
    unknown = RecentRemovals(unknown=unknown_removals(START, START, DAY), since=START)
    assert not unknown_removals(START, START + DAY, DAY)
    existing = fleet_of([f"u{number}" for number in range(10)], WEB)
    rows = reading(*(f"u{number}" for number in range(9)))
    held = plan(rows, [WEB], existing, Guard(window=DAY, recent=unknown)).held
    assert held is not None
    assert held.again == START + DAY
    free = plan(rows, [WEB], existing, Guard(window=DAY, percent=100, recent=unknown))
    assert [item.uid for item in free.deletes] == ["u9"]


@pytest.mark.criterion("G-T3")
def test_g_t3_a_limit_of_all_rows_is_none() -> None:
    """A row may count twice: of a thousand that lost an object and go then, two hundred are remembered by uid."""
    before = RecentRemovals(unnamed=800, unknown="lost")
    assert before.leaves_room(1000, allowed=1000, of_rows=1000)
    assert not before.leaves_room(1, allowed=999, of_rows=1000)
