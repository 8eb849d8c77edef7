"""A Tenant that moves to another data plane: its registry keeps it, whatever becomes of its row."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from apis.fleet.labels import MOVING_TO, ROW, ROW_GONE, ROW_PRESENT
from apis.tenancy import Tenant, TenantRegistry
from internal.tenancy.rows.row import read
from internal.tenancy.sync.deletion_guard import Guard
from internal.tenancy.sync.departures import Move
from internal.tenancy.sync.plan import plan
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map
from tests.tenancy.test_plan import WEB, reading, row, spec
from tests.tenancy.test_plan import fleet as fleet_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]
MANY = [f"u{number}" for number in range(10)]


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def moving(existing: list[ExistingTenant], *uids: str, recorded: str = "") -> list[ExistingTenant]:
    """The tenants, of which those of these rows move."""
    return [
        replace(each, moving_to="there", row=recorded) if each.uid in uids else each
        for each in existing
    ]


def moves(rows: Mapping[str, str], recorded: str = "", to: str = "there") -> tuple[Move, ...]:
    """What a plan has of the tenants of these rows."""
    return tuple(
        Move(tenant=f"{uid}-web", to=to, row=state, recorded=recorded)
        for uid, state in rows.items()
    )


async def test_tenants_that_move_are_kept_without_their_rows_and_count_for_no_guard() -> None:
    existing = fleet_of(MANY, WEB)
    gone = MANY[:5]
    made = plan(reading(*MANY[5:]), [WEB], moving(existing, *gone), Guard())
    assert (made.deletes, made.held, made.replacements) == ((), None, ())
    assert made.moves == moves(dict.fromkeys(gone, ROW_GONE))
    # The guard's share is of the rows that do not move: 1 of 5 may go, 2 may not.
    one = plan(reading(*MANY[6:]), [WEB], moving(existing, *gone), Guard())
    assert [item.name for item in one.deletes] == ["u5-web"]
    two = plan(reading(*MANY[7:]), [WEB], moving(existing, *gone), Guard())
    assert two.deletes == ()
    assert two.held is not None
    assert (two.held.tenants, two.held.of_rows) == (2, 5)


async def test_a_tenant_that_moves_is_changed_with_its_row_while_that_is_here() -> None:
    existing = moving(fleet_of(["a", "b"], WEB), "a")
    made = plan(reading("a", "b"), [Template("web", "2")], existing, Guard())
    assert [item.tenant.name for item in made.updates] == ["a-web", "b-web"]
    assert made.moves == moves({"a": ROW_PRESENT})


async def test_inactive_rows_and_lost_templates_take_no_tenant_that_moves() -> None:
    existing = moving(fleet_of(["a", "b"], WEB), "a")
    inactive = read([row("a", "0"), row("b")], spec())
    assert plan(inactive, [WEB], existing, Guard()).moves == moves({"a": ROW_GONE})
    assert plan(inactive, [WEB], existing, Guard()).deletes == ()
    held = plan(reading("a", "b"), [], existing, Guard()).held
    assert held is not None
    assert held.names == ("b-web",), "a template that is gone"
    made = plan(reading("a", "b"), [], existing, Guard(allow_delete=held.digest))
    assert [item.name for item in made.deletes] == ["b-web"]
    assert made.moves == moves({"a": ROW_GONE})


async def test_what_is_recorded_of_a_row_in_doubt_stays_and_goes_with_the_move() -> None:
    doubt = read([row("a", "maybe"), row("b")], spec())
    existing = fleet_of(["a", "b"], WEB)
    for recorded in (ROW_GONE, ROW_PRESENT):
        made = plan(doubt, [WEB], moving(existing, "a", recorded=recorded), Guard())
        assert made.moves == moves({"a": recorded}, recorded)
    given_up = [replace(each, moving_to="") for each in moving(existing, "a", recorded=ROW_GONE)]
    marked = [each if each.uid == "a" else replace(each, row="") for each in given_up]
    made = plan(reading("b"), [WEB], marked, Guard())
    assert made.moves == moves({"a": ""}, ROW_GONE, to="")
    assert made.moving == ()
    assert [item.name for item in made.deletes] == ["a-web"]


async def test_a_tenant_that_moves_takes_the_place_of_no_other_one() -> None:
    """Its row went to another data plane: a row of the same host is not its successor, nor the other way round."""
    existing = fleet_of(["a", "b"], WEB)
    rows = read([row("c", url="https://b.example")], spec())
    known = [replace(each, variables={"hostOrUrl": "https://b.example"}) for each in existing]
    made = plan(rows, [WEB], moving(known, "a"), Guard(percent=100))
    assert made.moves == moves({"a": ROW_GONE})
    assert [item.tenant for item in made.replacements] == ["b-web"]
    assert [other.name for other in made.replacements[0].awaited] == ["c-web"]


async def two(harness: TenancyHarness) -> Fleet:
    """Two rows with their tenants."""
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app", "b-app")
    return fleet


async def record(fleet: Fleet, to: str | None) -> None:
    """Record a move of the first tenant, or give it up."""
    await fleet.patch(Tenant, "a-app", {"metadata": {"annotations": {MOVING_TO: to}}})


async def count(fleet: Fleet) -> int | None:
    found: int | None = (await fleet.read(TenantRegistry, "registry")).status.moving
    return found


async def test_a_registry_reports_and_counts_the_tenants_that_move(harness: TenancyHarness) -> None:
    fleet = await two(harness)
    assert await fleet.condition(TenantRegistry, "registry", "MovePending") is None
    await record(fleet, "plane-of-b")
    pending = await fleet.until(TenantRegistry, "registry", "MovePending", "True", "RowPresent")
    assert "'a-app', whose row is still here, to data plane plane-of-b" in pending.message
    assert await count(fleet) == 1
    before = await fleet.get(CONFIG_MAP, "a-cm")
    fleet.delete_row("a")
    pending = await fleet.until(TenantRegistry, "registry", "MovePending", "True", "RowGone")
    assert "1 tenant moves to another data plane" in pending.message
    held = await fleet.condition(TenantRegistry, "registry", "DeletionsHeld")
    assert held is not None
    assert held.status == "False"
    left = await fleet.read(Tenant, "a-app")
    assert left.metadata.deletion_timestamp is None
    assert (left.metadata.annotations or {})[ROW] == ROW_GONE
    assert await fleet.get(CONFIG_MAP, "a-cm") == before

    await record(fleet, None)  # given up while the row is away: the rule of before holds
    await fleet.gone(Tenant, "a-app")
    await fleet.until(TenantRegistry, "registry", "MovePending", "False", "NothingMoves")
    assert await count(fleet) is None
    assert await fleet.tenants() == ["b-app"]


async def test_the_next_manager_keeps_a_tenant_that_moves_without_its_row(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await two(harness)
        await record(fleet, "plane-of-b")
        await fleet.until(TenantRegistry, "registry", "MovePending", "True", "RowPresent")
        await harness.stop_manager()
        fleet.delete_row("a")
        await harness.start_manager()
        await fleet.until(TenantRegistry, "registry", "MovePending", "True", "RowGone")
        left = await fleet.read(Tenant, "a-app")
        assert left.metadata.deletion_timestamp is None
        fleet.row("a")
        await fleet.until(TenantRegistry, "registry", "MovePending", "True", "RowPresent")
        await fleet.ready("a-app")


async def test_a_registry_that_is_deleted_waits_for_tenants_that_move(
    harness: TenancyHarness,
) -> None:
    fleet = await two(harness)
    await record(fleet, "plane-of-b")
    await fleet.until(TenantRegistry, "registry", "MovePending", "True", "RowPresent")
    await fleet.delete(TenantRegistry, "registry")
    await fleet.gone(Tenant, "b-app")
    waits = await fleet.until(
        TenantRegistry,
        "registry",
        "RemovalPending",
        "True",
        "TenantsRemain",
        message="a-app (it moves to another data plane",
    )
    assert "with --abort" in waits.message
    left = await fleet.read(Tenant, "a-app")
    assert left.metadata.deletion_timestamp is None
    await record(fleet, None)
    await asyncio.gather(fleet.gone(Tenant, "a-app"), fleet.gone(TenantRegistry, "registry"))
