"""The whole tenancy system for tests: API server, simulated nodes, a table, the manager.

    async with TenancyHarness.start(tmp_path) as harness:
        await harness.registry({"a": ..., "b": ...})
        await harness.template(...)
        await harness.ready("a-web-app")

Everything talks HTTP to an embedded server; the table is an SQLite file unless a test brings a
database of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import sqlite3
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import yaml
from structlog.typing import FilteringBoundLogger

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.conditions import Condition, find_condition
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Conflict, Forbidden, NotFound
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends import EmbeddedBackend
from ctrlruntime.envtest.proxy import Counts, Mark
from ctrlruntime.envtest.server import APIServer
from ctrlruntime.envtest.server.snapshot import Snapshot
from ctrlruntime.envtest.users import User
from ctrlruntime.manager import Manager
from internal.tenancy.shared.privileges import parse_kind
from manager.controllers.tenancy import add_tenancy
from manager.controllers.tenancy_options import TenancyOptions
from tests.audit.request_recorder import Audited, RequestRecorder
from tests.manifests.installation import install
from tests.support.manager_harness import ManagerHarness, make_manager
from tests.support.ports import held
from tests.tenancy.servers import EMBEDDED, REAL
from tests.tenancy.shared_server import ADMIN, InstalledServer, add_grants, embedded_users, names_of

NAMESPACE = "default"
"""Where a harness is unless it shares its server with others."""
SUITE = "tenancy"
"""Whose rights managers use here, see tests.audit."""
REGISTRY = "registry"
TABLE = "tenants"
STATUS_PERIOD = 0.1
"""Counts in statuses follow soon, so that tests need not wait for them."""
PATIENCE = 90.0
"""Seconds that nothing takes, not even on a machine that has much else to do."""
ALLOWED_KINDS = (
    "ClusterRole.rbac.authorization.k8s.io",
    "Doohickey.example.com",
    "Endpoints",
    "Gadget.example.com",
    "Gizmo.example.com",
    "Sprocket.example.com",
    "Widget.example.com",
    "Widget.x.io",
)
"""Kinds of tests' templates that the ClusterRole `edit` does not grant."""
COLUMNS = ("uid", "url", "active", "plan", "image", "replicas")
SAMPLES = Path(__file__).parent.parent.parent / "config" / "samples"

T = TypeVar("T")


def approval_in(message: str) -> tuple[str, str]:
    """The annotation and the digest of the command that a message of the guard shows."""
    command = message.partition("run `")[2].partition("`")[0]
    name, _, digest = command.split()[-1].partition("=")
    return name, digest


def mapping(api_version: str, kind: str) -> RESTMapping:
    """How a built-in kind is served."""
    return BUILTIN[GroupVersionKind.parse(api_version, kind)]


CONFIG_MAP = mapping("v1", "ConfigMap")
SECRET = mapping("v1", "Secret")
DEPLOYMENT = mapping("apps/v1", "Deployment")
SERVICE = mapping("v1", "Service")
NAMESPACE_KIND = mapping("v1", "Namespace")


class Clock:
    """The time in UTC, as far ahead of the machine's as a test has moved it."""

    def __init__(self) -> None:
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return utc_now() + self._ahead

    def advance(self, seconds: float) -> None:
        """Let time pass for who reads this clock. Timers that run are not woken."""
        self._ahead += timedelta(seconds=seconds)


@dataclass(slots=True)
class TenancyHarness(ManagerHarness):
    """Everything running, and the words tests use."""

    options: TenancyOptions = field(default_factory=TenancyOptions)
    cache: CacheOptions | None = None
    namespace: str = NAMESPACE
    audited: Audited | None = None

    shared_server: ClassVar[InstalledServer | None] = None
    """A real server that all harnesses of a worker share; without, each has an embedded one."""
    ledger: ClassVar[RequestRecorder | None] = None
    """Where what managers ask is taken down, if anywhere."""
    _number: int = field(default_factory=itertools.count().__next__)
    _makers: ClassVar[dict[str, int]] = {}
    """Which harness made a namespace of the shared server."""

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls,
        folder: Path,
        *,
        nodes: bool = False,
        pods: bool = False,
        manager: bool = True,
        namespace: str | None = None,
        denied: Collection[str] = (),
        users: Collection[str | User] = ("admin", "manager"),
        options: TenancyOptions | None = None,
        cache: CacheOptions | None = None,
        **embedded: object,
    ) -> AsyncIterator[Self]:
        """A cluster with the installation and nothing else, an empty table, and the manager unless told
        otherwise. All `users` but the administrator have exactly the roles of the manager's account.

        `namespace`: where the harness is, if its name matters. `denied`: resources that the manager
        may be refused, as that is what is tested. `embedded`: options of an embedded server; a real
        one is as it is.
        """
        async with contextlib.AsyncExitStack() as stack:
            around: dict[str, Any] = {"proxy": True, "nodes": nodes, "pods": pods, "folder": folder}
            managers = [name for name in names_of(users) if name != ADMIN]
            in_process = cls.shared_server is not None or "backend" not in embedded
            if cls.shared_server is None:
                settings: dict[str, Any] = {"authorization": "RBAC", **around, **embedded}
                if in_process:
                    snapshot = await _installation(tuple(managers))
                    settings["server"] = {"snapshot": snapshot, **settings.get("server", {})}
                env = Environment(users=embedded_users(users), **settings)
            else:
                known = await cls.shared_server.users(names_of(users))
                stack.push_async_callback(cls.shared_server.sweep)
                env = cls.shared_server.server.environment(users=known, **around)
                namespace = namespace or cls.shared_server.namespace()
            await stack.enter_async_context(env)
            if not in_process:
                await install(env.client(ADMIN), users=managers)
                await add_grants(env.client(ADMIN))
            harness = cls(env, folder, options=options or permissive(folder), cache=cache)
            audited = stack.enter_context(harness._audited(managers, denied))
            harness.audited = audited
            harness.namespace = namespace or NAMESPACE
            if harness.namespace != NAMESPACE:
                await harness.make_namespace(harness.namespace)
            harness.make_table()
            stack.push_async_callback(harness.stop_manager)
            if manager:
                await harness.start_manager()
            yield harness

    @contextlib.contextmanager
    def _audited(self, users: list[str], denied: Collection[str]) -> Iterator[Audited | None]:
        """What managers ask is taken down; nothing is refused to them but what may be."""
        if self.ledger is None:
            yield None
            return
        with self.ledger.watch(
            self.environment.proxy.log,
            suite=SUITE,
            server=EMBEDDED if self.shared_server is None else REAL,
            users=users,
            expected=denied,
            elsewhere=self._is_of_another,
        ) as audited:
            yield audited
        assert audited.refused == [], f"forbidden to the manager: {audited.refused}"

    def made(self, namespace: str) -> None:
        """A namespace is this harness's. On a real server another one's manager sees it as well."""
        if self.is_real:
            self._makers[namespace] = self._number

    def _is_of_another(self, namespace: str) -> bool:
        """Its end deletes what is in it, while this harness's manager may stand still with its loop."""
        return self._makers.get(namespace, self._number) != self._number

    @property
    def is_real(self) -> bool:
        """Whether the server is a real one."""
        return self.shared_server is not None

    def place(self, name: str) -> str:
        """The name of another namespace of this harness."""
        return f"{self.namespace}-{name}" if self.is_real else name

    async def make_namespace(self, name: str) -> None:
        """Create a namespace; one of its name that is going is waited for."""
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        live = await self.get(NAMESPACE_KIND, name)
        if live is not None and "deletionTimestamp" in live["metadata"]:
            await self.eventually(
                lambda: self.get(NAMESPACE_KIND, name), lambda n: n is None, timeout=90
            )
        self.made(name)
        await self.client.create(manifest)

    # -- the manager ---------------------------------------------------------------------------

    def make_manager(self, config: Config, logger: FilteringBoundLogger) -> Manager:
        return make_manager(config, logger=logger, cache=self.cache, name="manager")

    async def add_controllers(self, manager: Manager) -> None:
        add_tenancy(manager, self.options)

    def advance(self, seconds: float) -> None:
        """Move the clock of managers ahead."""
        assert isinstance(self.options.clock, Clock)
        self.options.clock.advance(seconds)

    async def outage(self, seconds: float) -> None:
        """The API server is gone for a while, killed if it is a process, and keeps what it had."""
        if self.shared_server is not None:
            with self.audited.excusing() if self.audited else contextlib.nullcontext():
                await self.shared_server.server.backend.kill()
                await asyncio.sleep(seconds)
                await self.shared_server.server.backend.restart()
                await self.eventually(self._is_admitted)
            return
        assert isinstance(self.environment.backend, EmbeddedBackend)
        server = self.environment.backend.server
        server.options = replace(server.options, port=server.port)
        await server.stop()
        with held(server.port):
            await asyncio.sleep(seconds)
            await server.start()

    async def _is_admitted(self) -> bool:
        """Whether the server knows the manager's rights (again)."""
        try:
            await self.environment.client("manager").list(Tenant, self.namespace, limit=1)
        except Forbidden:
            return False
        return True

    # -- the table -----------------------------------------------------------------------------

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run one statement on the table's database."""
        with contextlib.closing(sqlite3.connect(self.folder / "rows.sqlite")) as database, database:
            return list(database.execute(statement, values))

    def make_table(self) -> None:
        """The empty table. With a write-ahead log: a query under way must not lock the test out."""
        self.sql("PRAGMA journal_mode = WAL")
        self.sql(f"CREATE TABLE IF NOT EXISTS {TABLE} ({', '.join(COLUMNS)})")

    def row(self, uid: str, **values: object) -> None:
        """Insert or replace one row; an active one unless told otherwise."""
        row = {
            "uid": uid,
            "url": f"https://{uid}.example.com",
            "active": 1,
            "plan": "basic",
            "image": "nginx:1",
            "replicas": 1,
            **values,
        }
        marks = ", ".join("?" * len(COLUMNS))
        place = self.folder / "rows.sqlite"
        with contextlib.closing(sqlite3.connect(place)) as database, database:
            # In one transaction: a query in between must not find the row gone.
            database.execute(f"DELETE FROM {TABLE} WHERE uid = ?", (uid,))
            values_in_order = [row[name] for name in COLUMNS]
            database.execute(f"INSERT INTO {TABLE} VALUES ({marks})", values_in_order)

    def rows(self, *uids: str) -> None:
        """Insert several."""
        for uid in uids:
            self.row(uid)

    # -- the API -------------------------------------------------------------------------------

    async def registry(self, name: str = REGISTRY, **spec: object) -> None:
        """Create a registry that reads the table every second; `spec` replaces fields."""
        manifest = {
            "apiVersion": TenantRegistry.gvk().api_version,
            "kind": "TenantRegistry",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "source": {
                    "type": "sqlite",
                    "sqlite": {"path": "rows.sqlite", "table": TABLE},
                    "syncInterval": "1s",
                },
                "valueMappings": {"uid": "uid", "hostOrUrl": "url", "activate": "active"},
                "extraValueMappings": {
                    "planId": "plan",
                    "image": "image",
                    "deployImage": "image",
                    "replicas": "replicas",
                },
                **spec,
            },
        }
        await self.client.create(manifest)

    async def template(
        self,
        name: str = "web-app",
        *,
        registry: str = REGISTRY,
        **lists: Iterable[Mapping[str, Any]],
    ) -> None:
        """Create or replace a template; without lists, the five-resource sample."""
        if lists:
            spec: dict[str, Any] = {key: list(items) for key, items in lists.items()}
        else:
            spec = yaml.safe_load((SAMPLES / "tenanttemplate.yaml").read_text())["spec"]
        spec["registryId"] = registry
        manifest = {
            "apiVersion": TenantTemplate.gvk().api_version,
            "kind": "TenantTemplate",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": spec,
        }
        await self.put(TenantTemplate.mapping(), manifest)

    async def put(self, kind: RESTMapping, manifest: dict[str, Any]) -> None:
        """Create an object, or replace all of it but its metadata, whoever writes besides."""
        metadata = manifest["metadata"]
        while True:
            try:
                live = await self.client.get(
                    kind, metadata["name"], namespace=metadata["namespace"]
                )
            except NotFound:
                await self.client.create(manifest)
                return
            try:
                await self.client.update({**manifest, "metadata": live["metadata"]})
            except Conflict:
                continue
            return

    async def tenant(self, name: str) -> Tenant | None:
        """One tenant, None if there is none."""
        try:
            return await self.client.get(Tenant, name, namespace=self.namespace)
        except NotFound:
            return None

    async def get(
        self, kind: RESTMapping, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """One object, None if there is none."""
        where = (namespace or self.namespace) if kind.namespaced else None
        try:
            return await self.client.get(kind, name, namespace=where)
        except NotFound:
            return None

    async def eventually(
        self,
        look: Callable[[], Awaitable[T | None]],
        holds: Callable[[Any], bool] = bool,
        *,
        timeout: float = PATIENCE,
    ) -> T:
        """Look again until `holds`; what was seen then. AssertionError with what was seen last.

        What takes long to look at is looked at seldom: the server is there for the manager.
        """
        seen: Any = None
        try:
            async with asyncio.timeout(timeout):
                while True:
                    began = time.perf_counter()
                    seen = await look()
                    if holds(seen):
                        found: T = seen
                        return found
                    took = time.perf_counter() - began
                    await asyncio.sleep(min(max(0.03, 3 * took), 0.5))
        except TimeoutError:
            raise AssertionError(f"not within {timeout:g} s; last seen: {seen!r}") from None

    async def ready(self, *names: str, timeout: float = PATIENCE) -> None:
        """Wait until these tenants are ready for their current generation."""
        for name in names:
            await self.eventually(partial(self.tenant, name), is_ready, timeout=timeout)

    async def condition(
        self,
        name: str,
        kind: str,
        status: str,
        reason: str | None = None,
        *,
        timeout: float = PATIENCE,
    ) -> Condition:
        """Wait until a tenant's condition says this; the condition."""

        async def look() -> Condition | None:
            tenant = await self.tenant(name)
            return None if tenant is None else find_condition(tenant.status.conditions, kind)

        found: Condition = await self.eventually(
            look,
            lambda c: c is not None and c.status == status and reason in (None, c.reason),
            timeout=timeout,
        )
        return found

    async def approve(self, reason: str | None = None, *, message: str = "") -> None:
        """Approve the deletions that a registry holds, by the digest in its condition."""
        held = await self.registry_condition("DeletionsHeld", "True", reason, message=message)
        await self.client.patch(
            TenantRegistry.mapping(),
            REGISTRY,
            {"metadata": {"annotations": dict((approval_in(held.message),))}},
            namespace=self.namespace,
            type=PatchType.MERGE,
        )

    async def registry_condition(
        self,
        kind: str,
        status: str,
        reason: str | None = None,
        *,
        name: str = REGISTRY,
        message: str = "",
    ) -> Condition:
        """Wait until a registry's condition says this; the condition. `message` must be part of its message."""

        async def look() -> Condition | None:
            registry = await self.client.get(TenantRegistry, name, namespace=self.namespace)
            return find_condition(registry.status.conditions, kind)

        found: Condition = await self.eventually(
            look,
            lambda c: (
                c is not None
                and c.status == status
                and reason in (None, c.reason)
                and message in c.message
            ),
        )
        return found

    async def gone(
        self,
        kind: RESTMapping,
        name: str,
        namespace: str | None = None,
        *,
        timeout: float = PATIENCE,
    ) -> None:
        """Wait until an object is gone."""
        await self.eventually(
            lambda: self.get(kind, name, namespace=namespace),
            lambda seen: seen is None,
            timeout=timeout,
        )

    async def synced(self, times: int = 1, namespace: str | None = None) -> None:
        """Wait until registries have read their rows so many times more, and the manager is idle again."""
        before = self._queries(namespace)

        async def read() -> float:
            return self._queries(namespace) - before

        await self.eventually(read, lambda seen: seen >= times)
        await self.idle()

    def _queries(self, namespace: str | None) -> float:
        assert self.manager is not None
        return sum(
            sample.value
            for family in self.manager.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "registry_query_duration_seconds_count"
            and sample.labels["namespace"] == (namespace or self.namespace)
        )

    # -- what it cost ----------------------------------------------------------------------------

    def mark(self) -> Mark:
        """Now, in the request log."""
        return self.environment.proxy.log.mark()

    def counts(self, since: Mark) -> Counts:
        """What the manager asked since then, without leases."""
        return self.environment.proxy.log.since(since).select(user="manager").without_leases()


_SNAPSHOTS: dict[tuple[str, ...], Snapshot] = {}


async def _installation(managers: tuple[str, ...]) -> Snapshot:
    """Return what an embedded server holds that has the installation, made once for the managers' names."""
    found = _SNAPSHOTS.get(managers)
    if found is None:
        async with APIServer() as server, Client.connect(Config(host=server.url)) as client:
            await install(client, users=managers)
            await add_grants(client)
            found = _SNAPSHOTS[managers] = server.snapshot()
    return found


@functools.cache
def definitions() -> tuple[dict[str, Any], ...]:
    """The definitions of our kinds, made once."""
    return tuple(kind.crd() for kind in (TenantRegistry, TenantTemplate, Tenant))


def permissive(folder: Path, **options: object) -> TenancyOptions:
    """Options that let templates do what the tests of this system do with them."""
    given: dict[str, Any] = {"status_period": STATUS_PERIOD, "clock": Clock(), **options}
    kinds = frozenset(map(parse_kind, ALLOWED_KINDS))
    return TenancyOptions(
        sqlite_root=folder, allow_foreign_namespaces=frozenset({"*"}), allow_kinds=kinds, **given
    )


def is_ready(tenant: Tenant | None) -> bool:
    """Whether a tenant is ready for what its spec says now."""
    if tenant is None:
        return False
    ready = find_condition(tenant.status.conditions, "Ready")
    return (
        ready is not None
        and ready.status == "True"
        and tenant.status.observed_generation == tenant.metadata.generation
    )


def config_map(
    resource: str, name: str, data: Mapping[str, str] | None = None, **fields: object
) -> dict[str, Any]:
    """A template entry: the simplest resource there is."""
    return {
        "id": resource,
        "nameTemplate": name,
        "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": dict(data or {"k": "v"})},
        **fields,
    }
