"""A registry whose rows are in PostgreSQL, under a running manager."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from apis.tenancy import TenantRegistry
from tests.postgres import Postgres
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, World, config_map
from tests.tenancy.test_postgresql_source import balancer

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANNEL = "tenants_changed"


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world


async def prepare(server: Postgres, fleet: Fleet) -> str:
    """Make the table in a database of its own, and the Secret. Return the database's name."""
    name = f"registry_{fleet.namespace.replace('-', '_')}"
    server.execute(f"CREATE DATABASE {name}")
    server.execute("CREATE TABLE tenants (uid text, url text, active bool)", database=name)
    password = base64.b64encode(server.password.encode()).decode()
    labels = {"tenancy.ctrlruntime.dev/database": "true"}
    metadata = {"name": "database", "namespace": fleet.namespace, "labels": labels}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await fleet.world.client.create({**secret, "data": {"password": password}})
    return name


def insert(server: Postgres, database: str, uid: str) -> None:
    server.execute(f"INSERT INTO tenants VALUES ('{uid}', '', true)", database=database)


def source(server: Postgres, database: str, interval: str, **fields: object) -> dict[str, Any]:
    connection = {
        "host": server.host,
        "port": server.port,
        "username": server.user,
        "passwordRef": {"name": "database", "key": "password"},
        "database": database,
        "table": "tenants",
        **fields,
    }
    return {"type": "postgresql", "postgresql": connection, "syncInterval": interval}


async def serve(fleet: Fleet, rows: dict[str, Any]) -> None:
    await fleet.registry(source=rows, extraValueMappings={})
    await fleet.template(configMaps=[config_map("settings", "{{ .uid }}-settings")])


@pytest.mark.criterion("DB-NOTIFY")
async def test_a_notification_leads_to_the_tenants_of_new_rows(
    world: World, postgres: Postgres
) -> None:
    fleet = await Fleet.make(world)
    database = await prepare(postgres, fleet)
    insert(postgres, database, "a")
    await serve(fleet, source(postgres, database, "1h", notifyChannel=CHANNEL))
    await fleet.ready("a-app")
    insert(postgres, database, "b")
    postgres.execute(f"NOTIFY {CHANNEL}", database=database)
    await fleet.ready("a-app", "b-app")
    assert await fleet.get(CONFIG_MAP, "b-settings")


@pytest.mark.criterion("DB-REPLICA")
async def test_a_registry_says_that_its_replica_lags_and_removes_nothing(world: World) -> None:
    with Postgres.start("wal_level=replica") as primary:
        fleet = await Fleet.make(world)
        database = await prepare(primary, fleet)
        with Postgres.start("max_standby_streaming_delay=0", replica_of=primary) as replica:
            replica.execute("SELECT pg_wal_replay_pause()")
            insert(primary, database, "a")
            async with balancer(primary, replica) as (port, order):
                await serve(fleet, source(primary, database, "1s", port=port))
                await fleet.ready("a-app")
                made = await fleet.get(CONFIG_MAP, "a-settings")
                order.reverse()
                await asyncio.to_thread(
                    primary.execute,
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'tenant-registry'",
                )
                await fleet.until(TenantRegistry, "registry", "Ready", "False", "ReplicaBehind")
                await asyncio.to_thread(replica.execute, "SELECT pg_wal_replay_resume()")
                await fleet.until(TenantRegistry, "registry", "Ready", "True")
                await fleet.ready("a-app")
                assert await fleet.get(CONFIG_MAP, "a-settings") == made
