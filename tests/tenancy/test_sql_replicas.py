"""Replicas and notifications of PostgreSQL: sources alone, and registries under a running manager."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from apis.tenancy import TenantRegistry
from internal.tenancy.shared.policies import APPROVE_DELETION
from internal.tenancy.sources import PostgreSQLSource
from internal.tenancy.sources.errors import ReplicaBehind
from internal.tenancy.sources.postgresql.position import Position
from tests.postgres import Postgres
from tests.support.waiting import eventually
from tests.tenancy.databases import PostgreSQLDatabase, read
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map

pytestmark = pytest.mark.xdist_group("databases")
LIMIT = 60.0


@pytest.fixture
def database(postgres: Postgres) -> PostgreSQLDatabase:
    return PostgreSQLDatabase(postgres)


@pytest.fixture(scope="module")
def replica(postgres: Postgres) -> Iterator[Postgres]:
    with Postgres.start(replica_of=postgres) as replica:
        yield replica


async def copied(replica: Postgres, database: PostgreSQLDatabase) -> None:
    """Wait until a replica has a database with its table."""

    def tables() -> list[list[str]]:
        return replica.execute("SELECT count(*) FROM rows_", database=database.database)

    await eventually(tables, despite=RuntimeError)


@contextlib.asynccontextmanager
async def paused(replica: Postgres) -> AsyncIterator[None]:
    """A replica that applies nothing of the log for the time of a with block."""
    await asyncio.to_thread(replica.execute, "SELECT pg_wal_replay_pause()")
    try:
        yield
    finally:
        await asyncio.to_thread(replica.execute, "SELECT pg_wal_replay_resume()")


@contextlib.asynccontextmanager
async def balancer(*servers: Postgres) -> AsyncIterator[tuple[int, list[Postgres]]]:
    """One address for several servers: each connection goes to the first of a list."""
    order = list(servers)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection(order[0].host, order[0].port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], order


# -- sources -----------------------------------------------------------------------------------------


@pytest.mark.criterion("DB-REPLICA")
async def test_a_replica_is_not_read_while_it_lags_behind_the_rows_read_before(
    database: PostgreSQLDatabase, postgres: Postgres, replica: Postgres
) -> None:
    await copied(replica, database)
    async with balancer(postgres, replica) as (port, order):
        source = PostgreSQLSource(replace(database.settings, port=port), catch_up_seconds=0.3)
        async with paused(replica):
            database.insert(("new", "1", None))
            assert await read(source, "id") == [("new",)]
            order.reverse()
            database.kill_connections()
            with pytest.raises(ReplicaBehind, match="bytes of the log behind"):
                await read(source, "id")
        rows = await eventually(lambda: read(source, "id"), despite=ReplicaBehind)
        assert rows == [("new",)]
        await source.close()


@pytest.mark.criterion("DB-REPLICA")
async def test_a_replica_that_catches_up_in_time_is_waited_for(
    database: PostgreSQLDatabase, replica: Postgres
) -> None:
    await copied(replica, database)
    settings = replace(database.settings, port=replica.port)
    source = PostgreSQLSource(settings, catch_up_seconds=LIMIT)
    await read(source, "id")
    async with paused(replica):
        database.insert(("later", "1", None))
        [[log_end]] = database.execute("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")
        assert source.read_up_to is not None
        source.read_up_to = replace(source.read_up_to, octets=int(log_end))
        query = asyncio.create_task(read(source, "id"))
    assert await query == [("later",)]
    await source.close()


@pytest.mark.criterion("DB-REPLICA")
def test_a_restored_or_promoted_server_is_never_behind() -> None:
    before = Position("cluster", timeline=2, octets=100)
    assert replace(before, octets=99).is_behind(before)
    assert replace(before, octets=99, timeline=1).is_behind(before)
    assert not replace(before, octets=99, timeline=3).is_behind(before)
    assert not replace(before, octets=99, system="another").is_behind(before)
    assert not before.is_behind(before)


@pytest.mark.criterion("DB-NOTIFY")
async def test_a_notification_wakes_up_also_after_the_connection_was_lost(
    database: PostgreSQLDatabase,
) -> None:
    woken = asyncio.Event()
    settings = replace(database.settings, notify_channel='Rows "changed"')
    source = PostgreSQLSource(settings, woken.set)
    assert source.listener is not None
    await read(source, "id", "on_")
    async with asyncio.timeout(LIMIT):
        await source.listener.listening.wait()
        database.execute('NOTIFY "Rows ""changed"""')
        await woken.wait()
        woken.clear()
        database.kill_connections()
        await woken.wait()  # it may have missed some meanwhile
        woken.clear()
        await source.listener.listening.wait()
        database.execute('NOTIFY "Rows ""changed"""')
        await woken.wait()
    await source.close()
    await eventually(lambda: database.connections() == [])


@pytest.mark.criterion("DB-NOTIFY")
async def test_rows_of_a_replica_which_cannot_listen_are_read_all_the_same(
    database: PostgreSQLDatabase, replica: Postgres
) -> None:
    await copied(replica, database)
    source = PostgreSQLSource(replace(database.settings, port=replica.port, notify_channel="rows"))
    for _ in range(2):
        assert await read(source, "id") == []
    assert source.listener is not None
    assert not source.listener.listening.is_set()
    await source.close()


# -- under a running manager ---------------------------------------------------------------------------


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


async def serve(
    fleet: Fleet, database: PostgreSQLDatabase, interval: str, **fields: object
) -> None:
    """Create the Secret, a registry of the database's rows, and a template."""
    password = base64.b64encode(database.server.password.encode()).decode()
    labels = {"tenancy.ctrlruntime.dev/database": "true"}
    metadata = {"name": "database", "namespace": fleet.namespace, "labels": labels}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await fleet.harness.client.create({**secret, "data": {"password": password}})
    await registry_of(fleet, database, interval, **fields)
    await fleet.template(configMaps=[config_map("settings", "{{ .uid }}-settings")])


async def registry_of(
    fleet: Fleet, database: PostgreSQLDatabase, interval: str, **fields: object
) -> None:
    reference = {"name": "database", "key": "password"}
    rows = {**database.fields, "passwordRef": reference, **fields}
    await fleet.registry(
        source={"type": "postgresql", "postgresql": rows, "syncInterval": interval},
        valueMappings={"uid": "id", "hostOrUrl": "url", "activate": "on_"},
        extraValueMappings={},
    )


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("DB-NOTIFY")
async def test_a_notification_leads_to_the_tenants_of_new_rows(
    harness: TenancyHarness, database: PostgreSQLDatabase
) -> None:
    fleet = await Fleet.make(harness)
    database.insert(("a", "1", ""))
    await serve(fleet, database, "1h", notifyChannel="tenants_changed")
    await fleet.ready("a-app")
    database.insert(("b", "1", ""))
    database.execute("NOTIFY tenants_changed")
    await fleet.ready("a-app", "b-app")
    assert await fleet.get(CONFIG_MAP, "b-settings")


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("DB-REPLICA")
async def test_a_registry_reports_that_its_replica_lags_and_removes_nothing(
    harness: TenancyHarness, database: PostgreSQLDatabase, postgres: Postgres, replica: Postgres
) -> None:
    fleet = await Fleet.make(harness)
    await copied(replica, database)
    async with balancer(postgres, replica) as (port, order):
        async with paused(replica):
            database.insert(("a", "1", ""))
            await serve(fleet, database, "1s", port=port)
            await fleet.ready("a-app")
            made = await fleet.get(CONFIG_MAP, "a-settings")
            order.reverse()
            await asyncio.to_thread(database.kill_connections)
            await fleet.until(TenantRegistry, "registry", "Ready", "False", "ReplicaBehind")
        await fleet.until(TenantRegistry, "registry", "Ready", "True")
        await fleet.ready("a-app")
        assert await fleet.get(CONFIG_MAP, "a-settings") == made


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.criterion("G-T8")
async def test_g_t8_a_registry_reads_no_replica_that_lags_after_a_restart_nor_if_it_is_made_again(
    harness: TenancyHarness, database: PostgreSQLDatabase, postgres: Postgres, replica: Postgres
) -> None:
    fleet = await Fleet.make(harness)
    await copied(replica, database)
    async with balancer(postgres, replica) as (port, order):
        async with paused(replica):
            database.insert(("a", "1", ""))
            await serve(fleet, database, "1s", port=port)
            await fleet.ready("a-app")
            await harness.idle()
            made = await fleet.get(CONFIG_MAP, "a-settings")
            order.reverse()
            await harness.restart_manager()
            await fleet.until(TenantRegistry, "registry", "Ready", "False", "ReplicaBehind")
            # Its status goes with it; what its tenants record stays.
            release = {"metadata": {"annotations": {APPROVE_DELETION: "release"}}}
            await fleet.patch(TenantRegistry, "registry", release)
            await harness.client.delete(TenantRegistry, "registry", namespace=fleet.namespace)
            await fleet.gone(TenantRegistry, "registry")
            await registry_of(fleet, database, "1s", port=port, pageSize=7)
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenant-registry'"
            await asyncio.to_thread(database.execute, ended)
            await harness.idle()
            await fleet.until(TenantRegistry, "registry", "Ready", "False", "ReplicaBehind")
        await fleet.until(TenantRegistry, "registry", "Ready", "True")
        assert await fleet.get(CONFIG_MAP, "a-settings") == made
