"""Tenants of other managers by rows of a table: whole where that matters, and no more of them is read than that takes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from apis.tenancy import Tenant
from ctrlruntime.cache import Cache, Entry
from ctrlruntime.cache.row_watch import RowWatch
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.crds import CRD, install_crds
from ctrlruntime.sharding import slot_of
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of
from internal.tenancy.shared.tenant_rows import TenantColumns
from tests.support.waiting import eventually

NAMESPACE: Final = "default"
OWN, OTHER = "own", "other"
MAPPING: Final = Tenant.mapping()


@dataclass(frozen=True, slots=True)
class Place:
    """A server, a cache that works on the slot of OWN, and a client beside it."""

    cache: Cache
    client: Client
    rows: RowWatch

    def entry(self, name: str) -> Entry | None:
        return self.cache.entry(Tenant, name, namespace=NAMESPACE)

    async def seen(self, name: str, version: str) -> Entry:
        """Wait for a state of a tenant."""

        def current() -> Entry | None:
            entry = self.entry(name)
            return entry if entry is not None and entry.resource_version == version else None

        found = await eventually(current)
        assert found is not None
        return found

    async def patch(self, name: str, patch: dict[str, Any], subresource: str | None = None) -> str:
        """Return the version that another writer made."""
        made = await self.client.patch(
            MAPPING, name, patch, namespace=NAMESPACE, subresource=subresource
        )
        return str(made["metadata"]["resourceVersion"])

    async def report(self, name: str, ready: str, generation: int = 1) -> str:
        """Write a status as another manager does."""
        condition = {
            "type": "Ready",
            "status": ready,
            "reason": "Tried",
            "message": "It was tried.",
        }
        condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        status = {"observedGeneration": generation, "conditions": [condition], "resources": []}
        return await self.patch(name, {"status": status}, "status")

    def is_behind(self, name: str) -> bool:
        return self.rows.is_behind((NAMESPACE, name))


def tenant(name: str) -> dict[str, Any]:
    return {
        "apiVersion": MAPPING.gvk.api_version,
        "kind": MAPPING.gvk.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"uid": name, "templateRef": "template"},
    }


def spec(entry: Entry | None) -> dict[str, Any]:
    assert entry is not None
    return entry.field("spec") or {}


@pytest.fixture
async def place(api_config: Config) -> AsyncIterator[Place]:
    assert slot_of(OWN, namespace=NAMESPACE) != slot_of(OTHER, namespace=NAMESPACE)
    async with Client.connect(api_config) as client:
        await install_crds(client, [Tenant])
        cache = Cache(client)
        informer = cache.declare(Tenant, rows=TenantColumns()).informer
        assert informer.rows is not None
        await cache.start()
        await cache.wait_synced(60.0)
        await informer.rows.take_slots(frozenset({slot_of(OWN, namespace=NAMESPACE)}))
        yield Place(cache, client, informer.rows)
        await cache.stop()
        for name in (OWN, OTHER):  # the server is shared
            with contextlib.suppress(NotFound):
                await client.delete(MAPPING, name, namespace=NAMESPACE)


@pytest.mark.criterion("SH-42")
async def test_own_tenants_are_stored_whole_and_others_by_what_their_rows_show(
    place: Place,
) -> None:
    other, own = [await place.client.create(tenant(name)) for name in (OTHER, OWN)]
    found = await place.seen(OWN, own["metadata"]["resourceVersion"])
    assert spec(found) == tenant(OWN)["spec"]
    assert not place.is_behind(OWN)
    stub = await place.seen(OTHER, other["metadata"]["resourceVersion"])
    assert (stub.uid, spec(stub)) == (other["metadata"]["uid"], {})
    ready = await place.seen(OTHER, await place.report(OTHER, "True"))
    assert state_of(ready) is TenantState.READY
    await place.rows.known()
    assert spec(place.entry(OTHER)) == tenant(OTHER)["spec"]
    assert not place.is_behind(OTHER)

    pending = await place.seen(OTHER, await place.report(OTHER, "False"))
    assert state_of(pending) is TenantState.PENDING
    assert "resources" not in (pending.field("status") or {})
    await place.rows.known()  # that is enough to count
    assert place.is_behind(OTHER)
    await place.rows.needed()  # not for a plan
    assert (place.entry(OTHER) or pending).field("status")["resources"] == []
    await place.seen(OTHER, await place.report(OTHER, "True"))
    await place.rows.needed()
    assert place.is_behind(OTHER)  # a plan needs no more of a tenant that is ready


@pytest.mark.criterion("SH-42")
async def test_what_may_be_more_than_a_status_is_read(place: Place) -> None:
    await place.client.create(tenant(OTHER))
    await eventually(lambda: place.entry(OTHER))
    await place.rows.known()
    version = await place.patch(OTHER, {"metadata": {"annotations": {"a": "b"}}})
    await place.seen(OTHER, version)
    await eventually(lambda: not place.is_behind(OTHER))  # at once, in every process
    noted = place.entry(OTHER)
    assert noted is not None
    assert noted.annotations == {"a": "b"}
    edited = await place.seen(OTHER, await place.patch(OTHER, {"spec": {"templateRef": "new"}}))
    assert (edited.generation, place.is_behind(OTHER)) == (2, True)
    await place.rows.known()
    assert spec(place.entry(OTHER))["templateRef"] == "new"
    await place.report(OTHER, "True", 2)
    await place.patch(OTHER, {"spec": {"templateRef": "newer"}})
    await place.seen(OTHER, await place.report(OTHER, "False", 3))
    await place.rows.known()
    assert spec(place.entry(OTHER))["templateRef"] == "newer"


@pytest.mark.criterion("SH-42")
async def test_own_writes_slots_that_come_and_deletions(place: Place) -> None:
    await place.cache.client().create(tenant(OTHER))
    assert not place.is_behind(OTHER)  # the answer has it whole
    await place.cache.client().patch(
        MAPPING, OTHER, {"metadata": {"labels": {"a": "b"}}}, namespace=NAMESPACE
    )
    assert not place.is_behind(OTHER)
    version = await place.report(OTHER, "True")
    await place.seen(OTHER, version)
    assert place.is_behind(OTHER)
    await place.rows.take_slots(frozenset({slot_of(OTHER, namespace=NAMESPACE)}))
    found = await place.seen(OTHER, version)
    assert (found.field("status") or {})["resources"] == []
    assert not place.is_behind(OTHER)
    await place.report(OTHER, "False")
    await place.client.delete(MAPPING, OTHER, namespace=NAMESPACE)
    await eventually(lambda: place.entry(OTHER) is None and not place.is_behind(OTHER))


@pytest.mark.criterion("SH-42")
async def test_a_kind_whose_definition_is_older_is_watched_whole(config: Config) -> None:
    async with Client.connect(config) as client:
        await install_crds(client, [Tenant])
        path = [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}]
        crd = f"{MAPPING.plural}.{MAPPING.gvk.group}"
        await client.patch(CRD, crd, path, type=PatchType.JSON)
        cache = Cache(client)
        cache.declare(Tenant, rows=TenantColumns())
        await cache.start()
        await cache.wait_synced(60.0)
        await client.create(tenant(OTHER))
        found = await eventually(lambda: cache.entry(Tenant, OTHER, namespace=NAMESPACE))
        assert spec(found) == tenant(OTHER)["spec"]
        await cache.stop()
