"""Rows in doubt: whatever a row says that is not clear, its tenants stay exactly as they are."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import Tenant, TenantRegistry
from internal.tenancy.rows.row import FALSY, TRUTHY, Reading, RowProblem, read
from internal.tenancy.sync.deletion_guard import Guard, GuardReason
from internal.tenancy.sync.plan import plan
from internal.tenancy.sync.plan_inputs import Template
from tests.mariadb import MariaDB
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map
from tests.tenancy.test_plan import fleet as fleet_of
from tests.tenancy.test_plan import row, spec

RELAXED = {"maxDeletePercent": 100}
"""A guard that stops no removal by its numbers: what is kept is kept because it is in doubt."""


@dataclass(slots=True)
class Rows:
    """The table of a fleet, in an SQLite file or a MySQL-compatible database."""

    fleet: Fleet
    database: MariaDB | None = None
    source: dict[str, Any] = field(default_factory=dict)

    @classmethod
    async def make(cls, fleet: Fleet, database: MariaDB | None) -> Rows:
        rows = cls(fleet, database, fleet.source())
        if database is None:
            return rows
        schema = f"held_{fleet.namespace.replace('-', '_')}"
        columns = "uid VARCHAR(80), url TEXT, active VARCHAR(40), plan TEXT"
        await asyncio.to_thread(
            database.execute,
            f"DROP DATABASE IF EXISTS `{schema}`",
            f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            f"CREATE TABLE `{schema}`.tenants ({columns})",
        )
        password = base64.b64encode(database.password.encode()).decode()
        await fleet.harness.client.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "name": "database",
                    "namespace": fleet.namespace,
                    "labels": {"tenancy.ctrlruntime.dev/database": "true"},
                },
                "data": {"password": password},
            }
        )
        mysql = {
            "host": database.host,
            "port": database.port,
            "username": database.user,
            "passwordRef": {"name": "database", "key": "password"},
            "database": schema,
            "table": "tenants",
        }
        rows.source = {"type": "mysql", "mysql": mysql, "syncInterval": "1s"}
        return rows

    async def sql(self, statement: str) -> None:
        if self.database is None:
            self.fleet.sql(statement)
            return
        schema = self.source["mysql"]["database"]
        await asyncio.to_thread(self.database.execute, statement, database=schema)

    async def add(self, uid: str | None, active: str = "1", plan: str = "basic") -> None:
        shown = "NULL" if uid is None else f"'{uid}'"
        columns = "(uid, url, active, plan)"
        await self.sql(f"INSERT INTO tenants {columns} VALUES ({shown}, '', '{active}', '{plan}')")

    async def rename(self, uid: str, new: str) -> None:
        await self.sql(f"UPDATE tenants SET uid = {new} WHERE uid = '{uid}'")


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


@pytest.fixture(params=["sqlite", "mysql"])
def database(request: pytest.FixtureRequest) -> MariaDB | None:
    found: MariaDB | None = request.getfixturevalue("mariadb") if request.param == "mysql" else None
    return found


async def started(
    harness: TenancyHarness, database: MariaDB | None, *uids: str
) -> tuple[Fleet, Rows]:
    """A fleet whose tenants are ready, with a guard that has no limit."""
    fleet = await Fleet.make(harness)
    rows = await Rows.make(fleet, database)
    for uid in uids:
        await rows.add(uid)
    await fleet.registry(
        source=rows.source,
        deletionGuard=RELAXED,
        extraValueMappings={"planId": "plan"},
    )
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"plan": "{{ .planId }}"})])
    await fleet.ready(*(f"{uid}-app" for uid in uids))
    return fleet, rows


async def identities(fleet: Fleet) -> dict[str, tuple[str | None, int | None]]:
    """UID and generation of every tenant: both stay if it is neither removed nor changed."""
    found = await fleet.harness.client.list(Tenant, fleet.namespace)
    return {
        item.metadata.name or "": (item.metadata.uid, item.metadata.generation) for item in found
    }


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("H-A1")
async def test_h_a1_a_duplicate_uid_is_held(
    harness: TenancyHarness, database: MariaDB | None
) -> None:
    """Two rows of one uid, whatever they say and however they sort, change and remove nothing."""
    fleet, rows = await started(harness, database, "t1", "t2", "t3")
    before = await identities(fleet)
    await rows.add("t1", "suspended", "other")
    await rows.add("t2", "0", "other")
    await rows.add("t3", "1", "other")
    found = await fleet.until(
        TenantRegistry, "registry", "RowsValid", "False", "InvalidRows", message="t3"
    )
    assert "6 rows with DuplicateUid" in found.message
    for uid in ("t1", "t2", "t3"):
        assert f"uid '{uid}' in 2 rows" in found.message
    assert "keep one row for each uid" in found.message
    assert await identities(fleet) == before

    # what is clear goes on: one row left, with its own answer
    await rows.sql("DELETE FROM tenants WHERE uid = 't1' AND active = 'suspended'")
    await rows.sql("DELETE FROM tenants WHERE uid = 't2' AND active = '1'")
    await rows.sql("DELETE FROM tenants WHERE uid = 't3' AND plan = 'basic'")
    await fleet.until(TenantRegistry, "registry", "RowsValid", "True", "AllRowsValid")
    await fleet.gone(Tenant, "t2-app")
    after = await identities(fleet)
    assert sorted(after) == ["t1-app", "t3-app"]
    assert after["t1-app"] == before["t1-app"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("H-A1")
async def test_h_a1_an_unknown_activation_value_holds_the_row(
    harness: TenancyHarness, database: MariaDB | None
) -> None:
    fleet, rows = await started(harness, database, "a", "b", "c")
    before = await identities(fleet)
    await rows.sql("UPDATE tenants SET active = 'ture', plan = 'other' WHERE uid = 'a'")
    await rows.sql("UPDATE tenants SET active = ' 1', plan = 'other' WHERE uid = 'b'")
    await rows.add("new", "on")
    found = await fleet.until(
        TenantRegistry, "registry", "RowsValid", "False", "InvalidRows", message="'on'"
    )
    assert "3 rows with UnknownActivation" in found.message
    assert "uid 'a' 'ture'" in found.message
    assert "write 1, true or yes, or else 0, false or no" in found.message
    assert await identities(fleet) == before
    registry = await fleet.read(TenantRegistry, "registry")
    counts = registry.status.rows
    assert (counts.total, counts.active, counts.inactive, counts.invalid) == (4, 1, 0, 3)
    assert registry.status.desired == 3

    await rows.sql("UPDATE tenants SET active = 'no' WHERE uid = 'a'")
    await fleet.gone(Tenant, "a-app")
    assert sorted(await identities(fleet)) == ["b-app", "c-app"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("H-A1")
async def test_h_a1_a_uid_renamed_to_an_illegal_one_removes_nothing(
    harness: TenancyHarness, database: MariaDB | None
) -> None:
    """While rows have no usable uid, tenants whose rows are absent may be theirs."""
    uids = ("t1", "t2", "t3", "t4", "t5", "t6")
    fleet, rows = await started(harness, database, *uids)
    before = await identities(fleet)
    for uid, new in (("t1", "'Z1'"), ("t2", "'É'"), ("t3", "'t3 '"), ("t4", "NULL")):
        await rows.rename(uid, new)
    held = await fleet.until(
        TenantRegistry, "registry", "DeletionsHeld", "True", "UnidentifiedRows", message="4 of 6"
    )
    assert "Held: t1-app, t2-app, t3-app, t4-app" in held.message
    assert "Correct the uids" in held.message
    found = await fleet.until(
        TenantRegistry, "registry", "RowsValid", "False", "InvalidRows", message="MissingUid"
    )
    assert "3 rows with IllegalUid" in found.message
    assert "'Z1'" in found.message
    assert await identities(fleet) == before

    # a row that is clearly inactive is in no doubt
    await rows.sql("UPDATE tenants SET active = '0' WHERE uid = 't5'")
    await fleet.gone(Tenant, "t5-app")
    # neither is an absent one, once no row is left that may be its own
    await rows.sql("UPDATE tenants SET uid = 't1' WHERE uid = 'Z1'")
    await rows.sql("UPDATE tenants SET active = 'no' WHERE uid = 'É' OR uid LIKE 't3%'")
    await rows.sql("DELETE FROM tenants WHERE uid IS NULL")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False", "NothingHeld")
    await harness.eventually(fleet.tenants, lambda seen: seen == ["t1-app", "t6-app"])
    after = await identities(fleet)
    assert after == {name: before[name] for name in after}


# -- the rule ----------------------------------------------------------------------------------------

values = st.sampled_from(["1", "true", "0", "no", "", None, "suspended", "ture", "2", " 1"])
names = st.sampled_from(["a", "b", "c", "A", "Z1", "É", "a ", "", None])
tables = st.lists(st.tuples(names, values), max_size=8)
TEMPLATE = Template("web", "1")


def reading(table: Sequence[tuple[str | None, str | None]]) -> Reading:
    return read([row(uid, on) for uid, on in table], spec())


@pytest.mark.criterion("H-A1")
@given(tables, st.randoms(use_true_random=False))
def test_h_a1_the_order_of_rows_has_no_meaning(table: list[Any], random: Random) -> None:
    other = list(table)
    random.shuffle(other)
    assert reading(other) == reading(table)


@pytest.mark.criterion("H-A1")
@given(tables)
def test_h_a1_a_removal_needs_one_inactive_row_or_a_complete_reading(table: list[Any]) -> None:
    """The rule: a tenant goes if its row is clearly inactive, or absent where every uid is known."""
    existing = fleet_of(["a", "b", "c"], TEMPLATE)
    found = reading(table)
    made = plan(found, [TEMPLATE], existing)
    for delete in made.deletes:
        uid = delete.name.removesuffix("-web")
        own = [on for name, on in table if name == uid]
        strangers = [
            on for name, on in table if name not in ("a", "b", "c") and (on or "") not in FALSY
        ]
        if own:
            assert len(own) == 1
            assert (own[0] or "") in FALSY
        else:
            assert not strangers
    for update in made.updates:
        own = [on for name, on in table if name == update.tenant.row.uid]
        assert len(own) == 1
        assert own[0] in TRUTHY


@pytest.mark.criterion("H-A1")
@given(tables)
def test_h_a1_every_row_is_counted_once(table: list[Any]) -> None:
    found = reading(table)
    assert found.total == len(found.active) + len(found.inactive) + found.invalid_rows
    assert found.held.isdisjoint(found.inactive | {item.uid for item in found.active})


@pytest.mark.criterion("H-A1")
def test_h_a1_an_approval_covers_tenants_in_doubt() -> None:
    existing = fleet_of(["a", "b", "c"], TEMPLATE)
    found = reading([("A", "1"), ("b", "1"), ("c", "1")])
    stopped = plan(found, [TEMPLATE], existing)
    assert stopped.held is not None
    assert stopped.held.reason is GuardReason.UNIDENTIFIED_ROWS
    approved = plan(found, [TEMPLATE], existing, Guard(allow_delete=stopped.held.digest))
    assert [item.name for item in approved.deletes] == ["a-web"]


@pytest.mark.criterion("H-A1")
def test_h_a1_every_problem_names_what_to_do() -> None:
    table = [("a", "1"), ("a", "0"), ("b", "ture"), ("Z1", "1"), (None, "1")]
    found = reading(table)
    shown = found.problems(5)
    assert [item.split(" with ")[1].split(" ")[0].rstrip(":") for item in shown] == sorted(
        [
            RowProblem.DUPLICATE_UID,
            RowProblem.UNKNOWN_ACTIVATION,
            RowProblem.ILLEGAL_UID,
            RowProblem.MISSING_UID,
        ]
    )
    assert all(": " in item for item in shown)
