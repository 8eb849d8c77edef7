"""G-R1 and G-R2: a set deletes only what is certainly its owner's, and no object gets an owner that the server does not see."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.meta import OwnerNotAllowed
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client import ProtectedNamespaces
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.gate import (
    Budget,
    BudgetRecord,
    Cause,
    Evidence,
    Gate,
    Hold,
    ParentState,
    Permit,
    RecordChanged,
    decide,
)
from ctrlruntime.resources import Control, Desired, Owner, SetPolicy, reconcile_set

pytestmark = pytest.mark.timeout(120)

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
CLUSTER_ROLE = BUILTIN[GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")]
PLACES = ["default", "kube-public"]
SELECTOR = {"app": "gate"}


def manifest(name: str, namespace: str = "default") -> Manifest:
    metadata = {"name": name, "namespace": namespace, "labels": dict(SELECTOR)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "1"}}


def desired(name: str, namespace: str = "default", *, reference: bool = True) -> Desired:
    return Desired(mapping=CONFIG_MAP, manifest=manifest(name, namespace), reference=reference)


@dataclass
class Harness:
    """A control, its cache and an owner."""

    client: Client
    cache: Cache
    control: Control
    owner: Owner

    def current(self) -> list[Entry]:
        return [each for each in self.cache.entries(CONFIG_MAP) if each.name != "owner"]

    async def names(self) -> set[tuple[str, str]]:
        found: list[Manifest] = await self.client.list(CONFIG_MAP, labels=SELECTOR)
        named = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found}
        return named - {("default", "owner")}

    async def copy(self, name: str, copied: str, namespace: str = "default") -> None:
        """Do what `kubectl get -o yaml`, an editor and `kubectl create` do, the owner references taken off."""
        source = await self.client.get(CONFIG_MAP, name, namespace="default")
        kept = {key: source["metadata"][key] for key in ("annotations", "labels")}
        metadata = {**kept, "name": copied, "namespace": namespace}
        await self.client.create(
            {**source, "metadata": metadata}, kind=CONFIG_MAP, field_manager="kubectl-create"
        )
        await eventually_holds(
            lambda: any(
                (each.namespace, each.name) == (namespace, copied) for each in self.current()
            )
        )


@asynccontextmanager
async def started(config: Config) -> AsyncIterator[Harness]:
    async with Client.connect(config) as client:
        cache = Cache(client)
        cache.protected = ProtectedNamespaces(allowed=frozenset(PLACES))
        cache.declare(CONFIG_MAP, namespaces=PLACES, labels=SELECTOR, track_manager="manager")
        cache.declare(CLUSTER_ROLE, labels=SELECTOR, track_manager="manager")
        await cache.start()
        await cache.wait_synced(60.0)
        owner = Owner.of(await client.create(manifest("owner")))
        yield Harness(client, cache, Control(cache, field_manager="manager"), owner)
        await cache.stop()


@pytest.fixture
async def harness(api_config: Config) -> AsyncIterator[Harness]:
    async with started(api_config) as harness:
        yield harness


@pytest.mark.criterion("G-R1")
async def test_g_r1_copies_that_a_person_made_stay(harness: Harness) -> None:
    await reconcile_set(harness.control, harness.current(), [desired("app")], harness.owner)
    await harness.copy("app", "app-backup")
    await harness.copy("app", "app", "kube-public")
    result = await reconcile_set(harness.control, harness.current(), [], harness.owner)
    assert [each.name for each in result.deleted] == ["app"]
    held = {(entry.namespace, entry.name) for entry, _ in result.held}
    assert held == {("default", "app-backup"), ("kube-public", "app")}
    assert await harness.names() == held
    assert "inferred" in result.held[0][1].message
    entry = result.held[0][0]
    assert not await harness.control.remove(CONFIG_MAP, entry, harness.owner, Cause.SPEC_CHANGED)


@pytest.mark.criterion("G-R1")
async def test_g_r1_an_object_without_a_reference_goes_by_its_managed_fields(
    harness: Harness,
) -> None:
    far = desired("app", "kube-public", reference=False)
    await reconcile_set(harness.control, harness.current(), [far], harness.owner)
    result = await reconcile_set(harness.control, harness.current(), [], harness.owner)
    assert [each.name for each in result.deleted] == ["app"]
    assert await harness.names() == set()


@pytest.mark.criterion("G-R1")
async def test_g_r1_evidence_is_a_reference_an_own_field_or_the_callers_record(
    harness: Harness,
) -> None:
    control, owner = harness.control, harness.owner
    await control.ensure(desired("app"), owner)
    await harness.copy("app", "copy")
    await eventually_holds(lambda: len(harness.current()) == 2)
    copy = next(each for each in harness.current() if each.name == "copy")
    assert control.removal(copy, owner, Cause.PRUNE).evidence is Evidence.INFERRED
    recorded = control.removal(copy, owner, Cause.PRUNE, wrote=True)
    assert recorded.evidence is Evidence.CERTAIN
    app = next(each for each in harness.current() if each.name == "app")
    permit = control.permit(app, owner, Cause.PRUNE)
    assert isinstance(permit, Permit)
    assert permit.removal.parent == owner.key
    with pytest.raises(ValueError, match="is not for"):
        await control.delete(CONFIG_MAP, copy, owner, permit)
    stranger = Owner(gvk=owner.gvk, namespace="default", name="stranger", uid="another")
    held = control.permit(app, stranger, Cause.PRUNE)
    assert isinstance(held, Hold)
    assert "belongs to" in held.reason


class Store:
    """A record in memory, which outlives the control."""

    def __init__(self, members: int) -> None:
        self.members, self.data = members, BudgetRecord().to_dict()

    async def load(self) -> tuple[ParentState, str]:
        record = BudgetRecord.of(self.data)
        return ParentState(members=self.members, record=record), str(self.data)

    async def save(self, record: dict[str, dict[str, int]], version: str) -> None:
        if version != str(self.data):
            raise RecordChanged
        self.data = record


@pytest.mark.parametrize("api_server", ["embedded"], indirect=True)
async def test_a_budget_is_one_line_of_the_policy(harness: Harness) -> None:
    gate, store = Gate(budget=Budget()), Store(members=10)
    policy = SetPolicy(decide=partial(decide, gate, store=store, clock=utc_now))
    wanted = [desired(f"app-{number}") for number in range(10)]
    reconcile = partial(reconcile_set, harness.control, owner=harness.owner, policy=policy)
    await reconcile(current=harness.current(), desired=wanted)
    result = await reconcile(current=harness.current(), desired=wanted[:7])
    assert len(result.held) == 3
    assert "3 of 10 members" in result.held[0][1].reason
    assert len((await reconcile(current=harness.current(), desired=wanted[:8])).deleted) == 2
    result = await reconcile(current=harness.current(), desired=wanted[:7])
    assert (len(result.deleted), len(result.held)) == (0, 1)
    assert len(await harness.names()) == 8


def test_a_control_refuses_a_gate_that_needs_a_record() -> None:
    with pytest.raises(TypeError, match="SetPolicy"):
        Control(Cache.__new__(Cache), field_manager="manager", gate=Gate(budget=Budget()))


def role() -> Desired:
    metadata = {"name": "gate-reader", "labels": dict(SELECTOR)}
    manifest = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [],
    }
    return Desired(mapping=CLUSTER_ROLE, manifest=manifest)


@pytest.mark.parametrize("item", [desired("app", "kube-public"), role()], ids=["other", "cluster"])
@pytest.mark.criterion("G-R2")
async def test_g_r2_an_owner_in_another_namespace_is_refused_before_any_write(
    harness: Harness, item: Desired
) -> None:
    with pytest.raises(OwnerNotAllowed, match="reference=False") as refused:
        await harness.control.ensure(item, harness.owner)
    assert str(item.key) in str(refused.value)
    assert harness.owner.key in str(refused.value)
    assert await harness.names() == set()
    roles: list[Manifest] = await harness.client.list(CLUSTER_ROLE, labels=SELECTOR)
    assert roles == []


@pytest.mark.criterion("G-R2")
async def test_g_r2_an_object_that_exists_is_not_written_with_such_an_owner(
    harness: Harness,
) -> None:
    far = desired("app", "kube-public", reference=False)
    await harness.control.ensure(far, harness.owner)
    before = await harness.client.get(CONFIG_MAP, "app", namespace="kube-public")
    with pytest.raises(OwnerNotAllowed):
        await harness.control.ensure(desired("app", "kube-public"), harness.owner)
    after = await harness.client.get(CONFIG_MAP, "app", namespace="kube-public")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.criterion("G-R2")
async def test_g_r2_cluster_scoped_owners_have_objects_in_any_namespace(harness: Harness) -> None:
    namespace = GroupVersionKind("", "v1", "Namespace")
    owner = Owner.of(await harness.client.get(namespace, "kube-public"))
    await harness.control.ensure(desired("app"), owner)
    assert await harness.names() == {("default", "app")}
