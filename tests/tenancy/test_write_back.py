"""`writeBack`: the state of each row's tenants in a column of its table."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator, Mapping

import pytest

from apis.tenancy import SecretKeyRef, TenantRegistry
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.queue import Request
from internal.tenancy.rows.row import ActiveRow, Reading
from internal.tenancy.sources import SourceContext, SourceTypes
from internal.tenancy.sources.errors import AccessDenied, Unreachable
from internal.tenancy.sources.state_writer import InvalidWriteBack, StateWriter, WriteTarget
from internal.tenancy.sources.write_back import BATCH, WriteBacks
from tests.tenancy.databases import (
    ALL,
    SERVERS,
    Database,
    ServerDatabase,
    SQLiteDatabase,
    make,
    make_on_server,
)
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map

UIDS = ("a", "A", "it's; DROP TABLE rows_ --", 'say "%s"', "untouched")
COLUMN = 'st%a"te`'


@pytest.fixture(params=ALL)
def database(request: pytest.FixtureRequest) -> Database:
    return make(request.param, request)


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> ServerDatabase:
    return make_on_server(request.param, request)


async def writer_of(database: Database, username: str | None) -> StateWriter:
    async def secret(_: SecretKeyRef | None) -> str | None:
        return "writer-of-tests"

    kind = SourceTypes().get(database.name)
    assert kind is not None
    assert kind.writer is not None
    root = database.file.parent if isinstance(database, SQLiteDatabase) else None
    target = WriteTarget(column=COLUMN, key="id", username=username)
    return await kind.writer(kind.fields(**database.fields), target, SourceContext(secret, root))


def add_states(database: Database, *rights: str) -> str:
    """Add the column and rows. Return a user that has some rights."""
    database.execute(f"ALTER TABLE rows_ ADD COLUMN {database.quote(COLUMN)} VARCHAR(20)")
    database.insert(*((uid, None, "o") for uid in UIDS))
    if not isinstance(database, ServerDatabase):
        return "nobody"
    user = database.add_user("writer-of-tests")
    database.execute(*(f"GRANT {right} ON rows_ TO {user}" for right in rights))
    return user


def states(database: Database) -> dict[str, str | None]:
    found = database.execute(
        f"SELECT id, {database.quote(COLUMN)} FROM rows_ WHERE on_ IS NULL AND url = 'o'"
    )
    return {uid: state or None for uid, state in found}


@pytest.mark.xdist_group("databases")
async def test_1_states_are_written_by_bound_uids_to_the_quoted_column_and_to_no_other_row(
    database: Database,
) -> None:
    column = database.quote(COLUMN)
    user = add_states(database, f"SELECT (id, {column})", f"UPDATE ({column})")
    wanted = dict(zip(UIDS[:4], ("Ready", "Failed", "Pending", "Removed"), strict=True))
    for written in (wanted, {**wanted, "a": "Failed"}, {"a": "it's %s"}):
        writer = await writer_of(database, user)
        await writer.write({**written, "absent": "Ready"})
        await writer.close()
        wanted = {**wanted, **written}
        assert states(database) == {**wanted, "untouched": None}


@pytest.mark.xdist_group("databases")
async def test_1_a_user_that_may_only_read_writes_nothing_and_is_named(
    server: ServerDatabase,
) -> None:
    user = add_states(server, "SELECT")
    writer = await writer_of(server, user)
    with pytest.raises(AccessDenied, match=user):
        await writer.write({"a": "Ready"})
    await writer.close()
    assert states(server)["a"] is None
    with pytest.raises(InvalidWriteBack, match=r"writeBack.username is missing"):
        await writer_of(server, None)


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
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def column_of(fleet: Fleet) -> dict[str, str]:
    place = fleet.harness.folder / fleet.file
    with contextlib.closing(sqlite3.connect(place)) as database:
        return dict(database.execute("SELECT uid, state FROM tenants"))


@pytest.mark.asyncio(loop_scope="module")
async def test_1_a_registry_writes_states_back_and_without_it_never_writes(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    fleet.sql("ALTER TABLE tenants ADD COLUMN state TEXT")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app", "b-app")
    await harness.idle()
    assert column_of(fleet) == {"a": None, "b": None}
    write_back = {"column": "state", "intervalSeconds": 1}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"source": {"writeBack": write_back}}})
    await harness.eventually(lambda: settled(fleet, {"a": "Ready", "b": "Ready"}))
    await fleet.until(TenantRegistry, "registry", "StatesWritten", "True", "Written")
    await harness.idle()
    before = await fleet.get(TenantRegistry.mapping(), "registry")
    await harness.idle(within=1.5)
    after = await fleet.get(TenantRegistry.mapping(), "registry")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def settled(fleet: Fleet, states: Mapping[str, str]) -> bool:
    return column_of(fleet) == states


@pytest.mark.asyncio(loop_scope="module")
async def test_1_a_column_that_is_not_there_is_a_condition_and_an_event_and_tenants_go_on(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
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
