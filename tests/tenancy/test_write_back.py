"""`writeBack`: the state of each row's tenants in a column of its table."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sqlite3
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from apis.tenancy import MySQLSource, PostgreSQLSource, SecretKeyRef, SQLiteSource, TenantRegistry
from ctrlruntime.api import ApiModel
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.queue import Request
from internal.tenancy.rows import ActiveRow, Reading
from internal.tenancy.sources import SourceContext, SourceTypes
from internal.tenancy.sources.errors import AccessDenied, Unreachable
from internal.tenancy.sources.state_writer import InvalidWriteBack, StateWriter, WriteTarget
from internal.tenancy.write_back import BATCH, WriteBacks
from tests.mariadb import MariaDB
from tests.postgres import Postgres
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import World, config_map

_numbers = itertools.count()
UIDS = ("a", "A", "it's; DROP TABLE rows_ --", 'say "%s"', "untouched")
PASSWORD = "writer-of-tests"


class Table(Protocol):
    """A table `rows_` with the columns id, st%ate and other, and a user that may write one of them."""

    def open(self, username: str | None = "writer") -> Awaitable[StateWriter]: ...

    def states(self) -> dict[str, str | None]: ...


async def no_secret(_: SecretKeyRef | None) -> str | None:
    return PASSWORD


def target(username: str | None) -> WriteTarget:
    return WriteTarget(column='st%a"te`', key="id", username=username)


async def writer_of(
    name: str, fields: ApiModel, username: str | None, root: Path | None = None
) -> StateWriter:
    found = SourceTypes().get(name)
    assert found is not None
    assert found.writer is not None
    return await found.writer(fields, target(username), SourceContext(no_secret, root))


def as_reader(server: MariaDB | Postgres, database: str) -> dict[str, Any]:
    """Return the fields of a source of the rows of a database, read by a user who may not write."""
    return {
        "host": server.host,
        "port": server.port,
        "username": "reader",
        "database": database,
        "table": "rows_",
    }


class OnSQLite:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with contextlib.closing(sqlite3.connect(folder / "rows.db")) as connection, connection:
            connection.execute('CREATE TABLE rows_ (id TEXT, "st%a""te`" TEXT, other TEXT)')
            for uid in UIDS:
                connection.execute("INSERT INTO rows_ VALUES (?, NULL, 'o')", (uid,))

    def open(self, username: str | None = "writer") -> Awaitable[StateWriter]:
        fields = SQLiteSource(path="rows.db", table="rows_")
        return writer_of("sqlite", fields, username, self._folder)

    def states(self) -> dict[str, str | None]:
        with contextlib.closing(sqlite3.connect(self._folder / "rows.db")) as connection:
            found = connection.execute("SELECT * FROM rows_ WHERE other = 'o'")
            return {uid: state for uid, state, _ in found}


class OnMariaDB:
    def __init__(self, server: MariaDB) -> None:
        self._server, self._database = server, f"back{next(_numbers)}"
        column = '`st%a"te```'
        server.execute(f"CREATE DATABASE {self._database} CHARACTER SET utf8mb4")
        server.execute(
            f"CREATE TABLE rows_ (id VARCHAR(60), {column} VARCHAR(20), other TEXT)",
            f"CREATE OR REPLACE USER writer@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT SELECT (id, {column}), UPDATE ({column}) ON rows_ TO writer@'%'",
            f"CREATE OR REPLACE USER reader@'%' IDENTIFIED BY '{PASSWORD}'",
            "GRANT SELECT ON rows_ TO reader@'%'",
            database=self._database,
        )
        server.insert(
            self._database, "INSERT INTO rows_ VALUES (%s, NULL, 'o')", [[uid] for uid in UIDS]
        )

    def open(self, username: str | None = "writer") -> Awaitable[StateWriter]:
        fields = MySQLSource(**as_reader(self._server, self._database))
        return writer_of("mysql", fields, username)

    def states(self) -> dict[str, str | None]:
        found = self._server.execute(
            "SELECT * FROM rows_ WHERE other = 'o'", database=self._database
        )
        return {uid: state for uid, state, _ in found}


class OnPostgres:
    def __init__(self, server: Postgres) -> None:
        self._server, self._database = server, f"back{next(_numbers)}"
        column = '"st%a""te`"'
        server.execute(f"CREATE DATABASE {self._database}")
        users = (
            f"DO $$BEGIN CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END$$"
            for name in ("writer", "reader")
        )
        server.execute(
            f"CREATE TABLE rows_ (id text, {column} varchar(20), other text)",
            *users,
            f"GRANT SELECT (id, {column}), UPDATE ({column}) ON rows_ TO writer",
            "GRANT SELECT ON rows_ TO reader",
            *(
                "INSERT INTO rows_ VALUES ('{}', NULL, 'o')".format(uid.replace("'", "''"))
                for uid in UIDS
            ),
            database=self._database,
        )

    def open(self, username: str | None = "writer") -> Awaitable[StateWriter]:
        fields = PostgreSQLSource(**as_reader(self._server, self._database))
        return writer_of("postgresql", fields, username)

    def states(self) -> dict[str, str | None]:
        found = self._server.execute(
            "SELECT * FROM rows_ WHERE other = 'o'", database=self._database
        )
        return {uid: state or None for uid, state, _ in found}


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    if request.param == "sqlite":
        return OnSQLite(tmp_path)
    if request.param == "mysql":
        return OnMariaDB(request.getfixturevalue("mariadb"))
    return OnPostgres(request.getfixturevalue("postgres"))


async def test_1_states_are_written_by_bound_uids_to_the_quoted_column_and_to_no_other_row(
    table: Table,
) -> None:
    states = dict(zip(UIDS[:4], ("Ready", "Failed", "Pending", "Removed"), strict=True))
    for wanted in (states, {**states, "a": "Failed"}, {"a": "it's %s"}):
        writer = await table.open()
        await writer.write({**wanted, "absent": "Ready"})
        await writer.close()
        expected = {**states, **wanted, "untouched": None}
        assert table.states() == expected
        states = {**states, **wanted}


@pytest.mark.parametrize("table", ["mysql", "postgresql"], indirect=True)
async def test_1_a_user_that_may_only_read_writes_nothing_and_is_named(table: Table) -> None:
    writer = await table.open("reader")
    with pytest.raises(AccessDenied, match="reader"):
        await writer.write({"a": "Ready"})
    await writer.close()
    assert table.states()["a"] is None
    with pytest.raises(InvalidWriteBack, match=r"writeBack.username is missing"):
        await table.open(None)


# -- when it is written -----------------------------------------------------------------------------


class Recorder:
    """A writer of a registered source: it takes every batch, and fails while `failure` is set."""

    def __init__(self) -> None:
        self.batches: list[dict[str, str]] = []
        self.failure: Exception | None = None
        self.attempts = 0

    async def write(self, states: Mapping[str, str]) -> None:
        self.attempts += 1
        if self.failure is not None:
            raise self.failure
        self.batches.append(dict(states))

    async def close(self) -> None:
        """Nothing is open."""


REQUEST = Request("registry", namespace="d")


def registry_of(**write_back: object) -> TenantRegistry:
    fields = {"column": "state", "intervalSeconds": 1, **write_back}
    return TenantRegistry.model_validate(
        {
            "apiVersion": "tenancy.ctrlruntime.dev/v1",
            "kind": "TenantRegistry",
            "metadata": {"name": "registry", "namespace": "d", "uid": "u"},
            "spec": {
                "source": {
                    "type": "sqlite",
                    "sqlite": {"path": "p", "table": "t"},
                    "writeBack": fields,
                },
                "valueMappings": {"uid": "id", "activate": "active"},
            },
        }
    )


def tenant(uid: str, template: str, state: str, **metadata: object) -> Entry:
    conditions = {
        "ready": [{"type": "Ready", "status": "True"}],
        "failed": [{"type": "Degraded", "status": "True", "reason": "ResourcesFailed"}],
        "pending": [],
    }[state]
    manifest = {
        "apiVersion": "tenancy.ctrlruntime.dev/v1",
        "kind": "Tenant",
        "metadata": {
            "name": f"{uid}-{template}",
            "namespace": "d",
            "uid": f"{uid}-{template}",
            "generation": 1,
            "resourceVersion": "1",
            **metadata,
        },
        "spec": {"uid": uid, "templateRef": template},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }
    return EntryDecoder(GroupVersionKind.of(manifest)).decode_manifest(manifest)


class Bench:
    """Write-back with tenants and a clock of the test's own."""

    def __init__(self) -> None:
        self.tenants: list[Entry] = []
        self.recorder = Recorder()
        self.outcomes = 0
        self.backs = WriteBacks(
            tenants=lambda _: self.tenants,
            open=self._open,
            on_outcome=lambda _: self._count(),
            monotonic=lambda: asyncio.get_running_loop().time(),
        )

    async def _open(self, _request: Request, _registry: TenantRegistry) -> StateWriter:
        return self.recorder

    def _count(self) -> None:
        self.outcomes += 1

    def offer(self, reading: Reading, **write_back: object) -> None:
        self.backs.offer(REQUEST, registry_of(**write_back), reading)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.backs.forget(REQUEST)


def active(*uids: str, inactive: str = "") -> Reading:
    return Reading(tuple(ActiveRow(uid, {}) for uid in uids), inactive=frozenset(inactive.split()))


@pytest.mark.looptime
async def test_1_the_worst_tenant_of_a_row_is_its_state_and_a_state_is_written_once(
    bench: Bench,
) -> None:
    bench.tenants = [
        tenant("a", "x", "ready"),
        tenant("a", "y", "failed"),
        tenant("b", "x", "ready"),
        tenant("c", "x", "pending"),
        tenant("d", "x", "ready", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f"]),
    ]
    rows = active("a", "b", "c", "new", inactive="d never")
    bench.offer(rows)
    await asyncio.sleep(0.1)
    first = {"a": "Failed", "b": "Ready", "c": "Pending", "d": "Removing", "new": "Pending"}
    assert bench.recorder.batches == [first]
    for _ in range(3):
        bench.offer(rows)
        await asyncio.sleep(2)
    assert bench.recorder.batches == [first]
    bench.tenants = [
        tenant("a", "x", "ready"),
        tenant("b", "x", "ready"),
        tenant("c", "x", "ready"),
    ]
    bench.offer(rows)
    await asyncio.sleep(2)
    assert bench.recorder.batches[1:] == [{"a": "Ready", "c": "Ready", "d": "Removed"}]


@pytest.mark.looptime
async def test_1_many_changes_are_batches_of_one_update_each_with_the_interval_between(
    bench: Bench,
) -> None:
    bench.tenants = [tenant(f"u{number}", "x", "ready") for number in range(2 * BATCH + 1)]
    bench.offer(active(), intervalSeconds=60)
    await asyncio.sleep(59)
    assert [len(batch) for batch in bench.recorder.batches] == [BATCH]
    await asyncio.sleep(120)
    assert [len(batch) for batch in bench.recorder.batches] == [BATCH, BATCH, 1]
    assert len({uid for batch in bench.recorder.batches for uid in batch}) == 2 * BATCH + 1


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("failure", "reason"),
    [(Unreachable("no database"), "DatabaseUnreachable"), (KeyError("x"), "WriteBackFailed")],
)
async def test_1_a_failure_is_an_outcome_holds_nothing_up_and_is_retried_with_growing_delays(
    bench: Bench, failure: Exception, reason: str
) -> None:
    bench.tenants = [tenant("a", "x", "ready")]
    bench.recorder.failure = failure
    bench.offer(active("a"))
    assert bench.backs.outcome(REQUEST) is None
    await asyncio.sleep(600)
    outcome = bench.backs.outcome(REQUEST)
    assert outcome is not None
    assert (outcome.succeeded, outcome.reason) == (False, reason)
    assert 5 <= bench.recorder.attempts <= 15
    assert bench.outcomes == 1
    bench.recorder.failure = None
    await asyncio.sleep(400)
    outcome = bench.backs.outcome(REQUEST)
    assert outcome is not None
    assert outcome.succeeded
    assert bench.recorder.batches == [{"a": "Ready"}]


@pytest.mark.looptime
@pytest.mark.parametrize("column", ["id", "ACTIVE"])
async def test_1_a_column_that_a_mapping_reads_is_refused_since_it_would_loop(
    bench: Bench, column: str
) -> None:
    bench.tenants = [tenant("a", "x", "ready")]
    bench.offer(active("a"), column=column)
    await asyncio.sleep(10)
    outcome = bench.backs.outcome(REQUEST)
    assert outcome is not None
    assert outcome.reason == "InvalidWriteBack"
    assert f"{column!r} is read by a mapping" in outcome.message
    assert bench.recorder.attempts == 0


# -- under a running manager ------------------------------------------------------------------------


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world


def column_of(fleet: Fleet) -> dict[str, str]:
    place = fleet.world.folder / fleet.file
    with contextlib.closing(sqlite3.connect(place)) as database:
        return dict(database.execute("SELECT uid, state FROM tenants"))


@pytest.mark.asyncio(loop_scope="module")
async def test_1_a_registry_writes_states_back_and_without_it_never_writes(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.rows("a", "b")
    fleet.sql("ALTER TABLE tenants ADD COLUMN state TEXT")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app", "b-app")
    await world.idle()
    assert column_of(fleet) == {"a": None, "b": None}
    write_back = {"column": "state", "intervalSeconds": 1}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"source": {"writeBack": write_back}}})
    await world.eventually(lambda: settled(fleet, {"a": "Ready", "b": "Ready"}))
    await fleet.until(TenantRegistry, "registry", "StatesWritten", "True", "Written")
    await world.idle()
    before = await fleet.get(TenantRegistry.mapping(), "registry")
    await world.idle(within=1.5)
    after = await fleet.get(TenantRegistry.mapping(), "registry")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def settled(fleet: Fleet, states: Mapping[str, str]) -> bool:
    return column_of(fleet) == states


@pytest.mark.asyncio(loop_scope="module")
async def test_1_a_column_that_is_not_there_is_a_condition_and_an_event_and_tenants_go_on(
    world: World,
) -> None:
    fleet = await Fleet.make(world)
    fleet.rows("a")
    write_back = {"column": "nowhere", "intervalSeconds": 1}
    await fleet.registry(source={**fleet.source(), "writeBack": write_back})
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app")
    await fleet.until(
        TenantRegistry, "registry", "StatesWritten", "False", "UnknownColumn", message="nowhere"
    )
    await fleet.until(TenantRegistry, "registry", "Ready", "True")
    event = await fleet.event("WriteBackFailed")
    assert "nowhere" in event["note"]
    fleet.row("b")
    await fleet.ready("b-app")
