"""One registry's corner of a shared harness: a namespace, a database file and the words tests use.

Tests of one module share an API server and a manager; each has a namespace of its own:

    async def test_something(harness: TenancyHarness) -> None:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b")
        await fleet.registry()
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await fleet.ready("a-app", "b-app")
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import Resource
from ctrlruntime.api.conditions import Condition
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.json import Json
from tests.tenancy.harness import (
    NAMESPACE_KIND,
    PATIENCE,
    TenancyHarness,
    approval_in,
    is_ready,
    mapping,
)

R = TypeVar("R", bound=Resource[Any, Any])

COLUMNS = ("uid", "url", "active", "plan", "image", "replicas", "secret")
EVENT = mapping("events.k8s.io/v1", "Event")
Kind = type[Tenant] | type[TenantRegistry] | type[TenantTemplate]

_numbers = itertools.count(1)


@dataclass(slots=True)
class Fleet:
    """A namespace with a table; `registry` and `template` make what turns its rows into tenants."""

    harness: TenancyHarness
    namespace: str

    @classmethod
    async def make(cls, harness: TenancyHarness, *, columns: Sequence[str] = COLUMNS) -> Fleet:
        """A new namespace and an empty table."""
        fleet = cls(harness, f"fleet-{next(_numbers)}")
        harness.made(fleet.namespace)
        await harness.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fleet.namespace}}
        )
        fleet.make_table(columns)
        return fleet

    # -- rows ----------------------------------------------------------------------------------

    @property
    def file(self) -> str:
        """Name of the database file."""
        return f"{self.namespace}.sqlite"

    def sql(self, statement: str, *values: object) -> None:
        """Run one statement on the table's database."""
        self._run((statement, values))

    def _run(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        """Run statements on a copy of the database, which then takes its place.

        Whoever reads just now, on this very loop, holds a lock on the database itself.
        """
        place = self.harness.folder / self.file
        copy = place.with_suffix(".new")
        if place.exists():
            shutil.copyfile(place, copy)
        with contextlib.closing(sqlite3.connect(copy)) as database, database:
            for statement, values in statements:
                database.execute(statement, values)
        copy.replace(place)

    def make_table(self, columns: Sequence[str] = COLUMNS) -> None:
        """The empty table."""
        self.sql(f"CREATE TABLE tenants ({', '.join(columns)})")

    def row(self, uid: str | None, **values: object) -> None:
        """Insert or replace a row; an active one unless `active` is given.

        At once: a query in between must not find the row gone.
        """
        self._run(("DELETE FROM tenants WHERE uid = ?", (uid,)), self._insertion(uid, values))

    def add_row(self, uid: object, **values: object) -> None:
        """Insert a row, whatever there is."""
        self._run(self._insertion(uid, values))

    def _insertion(self, uid: object, values: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
        row = {
            "uid": uid,
            "url": f"https://{uid}.example.com/start",
            "active": 1,
            "plan": "basic",
            "image": "nginx:1",
            "replicas": 1,
            "secret": f"secret-of-{uid}",
            **values,
        }
        marks = ", ".join("?" * len(COLUMNS))
        return f"INSERT INTO tenants VALUES ({marks})", tuple(row[name] for name in COLUMNS)

    def rows(self, *uids: str) -> None:
        """Insert several."""
        for uid in uids:
            self.row(uid)

    def delete_row(self, uid: str) -> None:
        """Remove a row."""
        self.sql("DELETE FROM tenants WHERE uid = ?", uid)

    # -- our kinds -----------------------------------------------------------------------------

    async def registry(self, name: str = "registry", **spec: object) -> None:
        """Create a registry that reads the table every second; `spec` replaces fields."""
        await self.create(
            TenantRegistry,
            name,
            {
                "source": self.source(),
                "valueMappings": {"uid": "uid", "hostOrUrl": "url", "activate": "active"},
                "extraValueMappings": {"planId": "plan", "image": "image", "replicas": "replicas"},
                **spec,
            },
        )

    def source(self, **fields: object) -> dict[str, Any]:
        """`spec.source` of a registry that reads the table."""
        sqlite: dict[str, Any] = {"path": self.file, "table": "tenants", **fields}
        return {"type": "sqlite", "sqlite": sqlite, "syncInterval": "1s"}

    async def template(
        self, name: str = "app", *, registry: str = "registry", **content: Json
    ) -> None:
        """Create a template, or replace its content."""
        spec = {"registryId": registry, **content}
        kind = TenantTemplate.mapping()
        head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
        metadata = {"name": name, "namespace": self.namespace}
        await self.harness.put(kind, {**head, "metadata": metadata, "spec": spec})

    async def create(
        self, kind: type[Resource[Any, Any]], name: str, spec: Mapping[str, Any]
    ) -> None:
        """Create an object of ours."""
        metadata = {"name": name, "namespace": self.namespace}
        head = {"apiVersion": kind.gvk().api_version, "kind": kind.gvk().kind}
        await self.harness.client.create({**head, "metadata": metadata, "spec": dict(spec)})

    async def patch(self, kind: Kind, name: str, patch: Mapping[str, Any]) -> None:
        """Merge a patch into an object of ours."""
        await self.harness.client.patch(
            kind.mapping(), name, dict(patch), namespace=self.namespace, type=PatchType.MERGE
        )

    async def annotate(self, kind: Kind, name: str, **annotations: str | None) -> None:
        """Set annotations, named without their prefix `ctrlruntime.dev/`; None removes."""
        named = {f"ctrlruntime.dev/{key.replace('_', '-')}": v for key, v in annotations.items()}
        await self.patch(kind, name, {"metadata": {"annotations": named}})

    async def allow_delete(self, text: str) -> None:
        """Set the annotation that approves deletions."""
        annotation = {"tenancy.ctrlruntime.dev/allow-delete": text}
        await self.patch(TenantRegistry, "registry", {"metadata": {"annotations": annotation}})

    async def approve(self, message: str = "") -> None:
        """Approve the deletions that are held, by the digest in the condition once it has the message."""
        held = await self.until(
            TenantRegistry, "registry", "DeletionsHeld", "True", message=message
        )
        await self.allow_delete(approval_in(held.message)[1])

    async def delete(self, kind: Kind | RESTMapping, name: str) -> None:
        """Delete an object; for a registry, approve first that its tenants go with it."""
        if kind is TenantRegistry:
            approval = {"tenancy.ctrlruntime.dev/approve-deletion": "true"}
            await self.patch(kind, name, {"metadata": {"annotations": approval}})
        await self.harness.client.delete(kind, name, namespace=self.namespace)

    async def read(self, kind: type[R], name: str) -> R:
        """An object of ours. Raises NotFound."""
        return await self.harness.client.get(kind, name, namespace=self.namespace)

    async def find(self, kind: type[R], name: str) -> R | None:
        """An object of ours, None if there is none."""
        try:
            return await self.read(kind, name)
        except NotFound:
            return None

    def writes(self, since: Mark) -> list[str]:
        """What the manager wrote in this namespace since then: `patch tenants.group/status name`."""
        return [
            f"{entry.verb} {entry.resource} {entry.name}"
            for entry in self.harness.environment.proxy.log.entries(since)
            if entry.user == "manager"
            and entry.namespace == self.namespace
            and entry.verb in WRITES
        ]

    async def tenants(self) -> list[str]:
        """Names of all tenants."""
        found = await self.harness.client.list(Tenant, self.namespace)
        return sorted(item.metadata.name or "" for item in found)

    # -- any kind ------------------------------------------------------------------------------

    async def get(self, kind: RESTMapping, name: str) -> Json:
        """An object of any kind, None if there is none."""
        return await self.harness.get(
            kind, name, namespace=name if kind is NAMESPACE_KIND else self.namespace
        )

    async def there(
        self, kind: RESTMapping, name: str, holds: Callable[[Any], bool] = bool
    ) -> Json:
        """Wait until an object is there and `holds`."""
        return await self.harness.eventually(
            lambda: self.get(kind, name), lambda seen: bool(seen and holds(seen))
        )

    async def gone(self, kind: Kind | RESTMapping, name: str) -> None:
        """Wait until an object is gone."""
        found = kind if isinstance(kind, RESTMapping) else kind.mapping()
        await self.harness.eventually(lambda: self.get(found, name), lambda seen: seen is None)

    async def events(self, reason: str) -> list[dict[str, Any]]:
        """The events of a reason."""
        found: list[dict[str, Any]] = await self.harness.client.list(EVENT, self.namespace)
        return [event for event in found if event.get("reason") == reason]

    async def event(self, reason: str) -> dict[str, Any]:
        """Wait for an event of a reason."""
        found: list[dict[str, Any]] = await self.harness.eventually(lambda: self.events(reason))
        return found[0]

    # -- conditions ----------------------------------------------------------------------------

    async def ready(self, *names: str, timeout: float = PATIENCE) -> None:
        """Wait until these tenants are ready for their current generation."""
        for name in names:
            await self.harness.eventually(
                functools.partial(self.find, Tenant, name), is_ready, timeout=timeout
            )

    async def condition(self, kind: Kind, name: str, type_: str) -> Condition | None:
        """A condition as it stands, also of an object that cannot be read as its kind."""
        found = await self.get(kind.mapping(), name) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return next((Condition.model_validate(c) for c in conditions if c["type"] == type_), None)

    async def until(
        self,
        kind: Kind,
        name: str,
        type_: str,
        status: str,
        reason: str | None = None,
        *,
        message: str = "",
        timeout: float = PATIENCE,
    ) -> Condition:
        """Wait until a condition says this; the condition. `message` must be part of its message."""
        found: Condition = await self.harness.eventually(
            lambda: self.condition(kind, name, type_),
            lambda c: (
                c is not None
                and c.status == status
                and reason in (None, c.reason)
                and message in c.message
            ),
            timeout=timeout,
        )
        return found
