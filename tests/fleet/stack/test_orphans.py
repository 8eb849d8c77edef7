"""Objects of the hub whose Tenant is gone: reported at once, deleted late, held if they are many."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.fleet.labels import (
    APPROVE_ORPHANS,
    DATA_PLANE,
    DATA_PLANE_ID,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    ORPHAN_RECORD,
)
from apis.tenancy import Tenant
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.gate import Cause, Evidence, Removal, Victim, digest_of
from internal.fleet.orphans import (
    DELAY,
    OrphanSweep,
    Sweep,
    SweepRecord,
    decide_few,
    decide_held,
    hold_of,
    is_held,
    with_holds,
)
from internal.fleet.stack_lease import record_move
from manager.commands.plane_objects import plane_objects
from manager.controllers.hub import StackOptions, add_hub
from manager.controllers.orphan_sweep import OrphanSweeper, add_orphan_sweep
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    Fleet,
    Server,
    builtin,
    config_map,
    deployment,
    entry,
    eventually,
    fleet,
    read,
    ready,
    tenant,
)
from tests.fleet.stack.move_harness import hold_lease, two_planes
from tests.fleet.stack.move_harness import run as move
from tests.support.manager_harness import make_manager

CLAIM: Final = builtin("v1", "PersistentVolumeClaim")
CLAIM_SPEC: Final = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)

NAMES = st.frozensets(st.sampled_from([f"t{number}" for number in range(30)]))


@pytest.mark.parametrize(
    ("orphaned", "owners", "held"),
    [(1, 5, False), (1, 4, True), (10, 50, False), (11, 1000, True), (0, 0, False)],
)
def test_above_ten_owners_or_a_fifth_approval_is_needed(
    orphaned: int, owners: int, held: bool
) -> None:
    assert is_held(orphaned, owners) is held


@given(looks=st.lists(st.tuples(NAMES, NAMES, st.booleans()), min_size=1, max_size=8))
@pytest.mark.criterion("G-F1")
def test_what_is_held_stays_so_until_it_is_back_and_many_never_go_within_a_day(
    looks: list[tuple[frozenset[str], frozenset[str], bool]],
) -> None:
    """Owners, those that are there, and whether the process was started again; what is few goes at once."""
    record, now, gone = SweepRecord(), NOW, set[str]()
    for owners, living, restarted in looks:
        now += timedelta(hours=1)
        orphaned = owners - living
        if restarted:
            record = SweepRecord.of(json.loads(json.dumps(record.to_dict())))
        before = record
        record = with_holds(record, orphaned=orphaned, owners=owners, now=now)
        assert {each for each in before.held if each in orphaned} <= record.held.keys()
        assert not record.held.keys() - orphaned, "what is back is a new case"
        few = orphaned - record.held.keys()
        removals = [removal(each) for each in sorted(few)]
        record, permits = decide_few(record, removals, owners=len(owners), now=now)
        gone |= {each.removal.member for each in permits}
        assert len(gone) <= 10, "the looks are within a day"


@given(orphaned=NAMES)
@pytest.mark.criterion("G-F1")
def test_whatever_is_gone_by_the_time_a_record_was_lost_is_held(orphaned: frozenset[str]) -> None:
    owners = orphaned | {f"more-{number}" for number in range(1000)}
    record = with_holds(None, orphaned=orphaned, owners=owners, now=NOW)
    assert record.held.keys() == orphaned


@pytest.mark.criterion("G-F1")
def test_owners_of_kinds_that_cannot_be_read_stay_held() -> None:
    record = SweepRecord(held={"t0": 1, "t1": 1})
    kept = with_holds(record, orphaned=["t1"], owners=["t0", "t1"], unknown=["t0"], now=NOW)
    assert kept.held == record.held


@given(name=st.sampled_from(["t0", "t1"]), hours=st.integers(0, 100))
@pytest.mark.criterion("G-F1")
def test_an_approval_counts_once_for_its_digest_and_not_for_what_came_back(
    name: str, hours: int
) -> None:
    lost = [removal("t0"), removal("t1")]
    record = SweepRecord(held={"t0": 1, "t1": 1})
    hold = hold_of(record, lost, now=NOW)
    assert hold is not None
    assert hold.names == ("t0", "t1")
    for other in ("2", "", hold.digest[:-1], digest_of(lost[:1])):
        assert decide_held(record, lost, other, now=NOW)[1] == ()
    used, permits = decide_held(record, lost, hold.digest, now=NOW)
    assert len(permits) == 2
    later = NOW + timedelta(hours=hours)
    (again,) = [each for each in lost if each.member == name]
    returned = used.with_approved([])
    assert decide_held(returned, [again], hold.digest, now=later)[1] == ()
    assert decide_held(returned, lost, hold.digest, now=later)[1] == (), "it was used"


def removal(owner: str) -> Removal:
    return Removal(
        victim=Victim(DEPLOYMENT.gvk.group_kind, "default", owner),
        uid=f"uid-{owner}",
        holds_state=False,
        cause=Cause.PARENT_DELETED,
        evidence=Evidence.CERTAIN,
        member=owner,
    )


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path) as made:
        yield made


async def lose(servers: Fleet, *names: str) -> None:
    """Have Tenants vanish without their finalizer, as from a backup that is older than they are."""
    client = servers.plane.client
    for name in names:
        await client.patch(Tenant, name, {"metadata": {"finalizers": None}}, namespace="default")
        await client.delete(Tenant, name, namespace="default")
        await eventually(partial(read, servers.plane, name), lambda found: found is None)


async def on_hub(servers: Fleet) -> int:
    """How many objects the hub has of the data plane, as `manager fleet top` counts them."""
    return len(await plane_objects(servers.hub.client, servers.plane.id))


async def looked(sweeper: OrphanSweeper, gone: int) -> Sweep:
    """Look once the caches have seen that so many Tenants are gone."""
    found: Sweep = await eventually(sweeper.look, lambda seen: len(seen.orphaned) == gone)
    return found


async def approve(servers: Fleet, text: str) -> None:
    patch = {"metadata": {"annotations": {APPROVE_ORPHANS: text}}}
    await servers.hub.client.patch(NAMESPACE, "plane-0", patch)


def restarted(sweeper: OrphanSweeper) -> OrphanSweeper:
    """What a worker that is started again begins with; its delay is over."""
    return replace(sweeper, sweep=OrphanSweep(delay=0.0))


class Clock:
    """Both clocks of a sweep."""

    def __init__(self) -> None:
        self.now = 0.0

    def seconds(self) -> float:
        return self.now

    def utc(self) -> datetime:
        return NOW + timedelta(seconds=self.now)


@contextlib.asynccontextmanager
async def sweeping(servers: Fleet, **options: float) -> AsyncIterator[tuple[OrphanSweeper, Clock]]:
    """A worker of the first data plane that has looked once, when nothing was gone."""
    hub, plane = servers.hub, servers.plane
    with contextlib.suppress(AlreadyExists):
        target = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "plane-0"}}
        await hub.client.create(target)
    manager = make_manager(plane.environment.config("manager"), name="manager")
    stack = StackOptions(data_plane=plane.id, target_namespace="plane-0")
    connected = await add_hub(manager, hub.environment.config("manager"), stack)
    sweeper = add_orphan_sweep(manager, connected, period=1e6, **options)
    clock = Clock()
    sweeper.clock, sweeper.utc = clock.seconds, clock.utc
    async with manager.running():
        await connected.cluster.wait_synced(60.0)
        await manager.cache.wait_synced(60.0)
        assert (await sweeper.look()).orphaned == frozenset()
        yield sweeper, clock


def with_disk(name: str) -> dict[str, Any]:
    """Make a Tenant whose Pods read a ConfigMap and have a disk."""
    web, notes = deployment(name, config=f"{name}-notes"), config_map(f"{name}-notes")
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-disk"}}
    web["spec"]["spec"]["template"]["spec"]["volumes"] = [volume]
    disk = entry(f"{name}-disk", "PersistentVolumeClaim", spec=CLAIM_SPEC)
    return tenant(web, notes, disk, name=name)


async def tenants(servers: Fleet, *names: str) -> None:
    """Have Tenants with a workload and a disk each."""
    async with servers.running():
        for name in names:
            await servers.plane.client.create(with_disk(name))
        for name in names:
            await ready(servers.plane, name)


@pytest.mark.criterion("D5-16")
async def test_orphans_are_deleted_after_the_delay_and_many_only_with_approval(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    names = [f"t{number}" for number in range(6)]
    async with servers.running():
        for name in names:
            made = tenant(deployment(name), config_map(f"{name}-notes"), name=name)
            await plane.client.create(made)
        for name in names:
            await ready(plane, name)
    async with sweeping(servers) as (sweeper, clock):
        await lose(servers, "t0")
        await looked(sweeper, 1)
        clock.now = DELAY - 1
        assert not (await sweeper.look()).scheduled
        assert await hub.names(DEPLOYMENT) == set(names)
        clock.now = DELAY
        await sweeper.look()
        assert await hub.names(DEPLOYMENT) == set(names[1:])

        await lose(servers, "t1", "t2")
        await looked(sweeper, 2)
        clock.now = 3 * DELAY
        held = await sweeper.look()
        assert (held.held, held.scheduled) == (2, frozenset())
        seen = (sweeper.metrics.orphans, sweeper.metrics.held, sweeper.metrics.objects)
        assert [each._value.get() for each in seen] == [2, 2, await on_hub(servers)]
        assert await hub.names(DEPLOYMENT) == set(names[1:])
        assert held.hold is not None
        for text in ("2", "0" * 16, held.hold.digest):
            await approve(servers, text)
            await sweeper.look()
            left = names[3:] if text == held.hold.digest else names[1:]
            assert await hub.names(DEPLOYMENT) == set(left), "exactly that set is approved"
        assert await plane.names(CONFIG_MAP) <= {f"{name}-notes" for name in names}


@pytest.mark.criterion("G-F1")
async def test_what_was_held_stays_although_others_are_back_until_it_is_approved(
    servers: Fleet,
) -> None:
    hub = servers.hub
    names = [f"t{number}" for number in range(6)]
    await tenants(servers, *names)
    async with sweeping(servers) as (sweeper, clock):
        await lose(servers, "t0", "t1")
        both = await looked(sweeper, 2)
        assert both.hold is not None
        await tenants(servers, "t0")
        await looked(sweeper, 1)
        # The decision outlives the process, and a day.
        for _ in range(3):
            clock.now += 30 * 3600
            sweeper = restarted(sweeper)
            left = await looked(sweeper, 1)
            assert left.held == 1
            assert await hub.names(DEPLOYMENT) == set(names)
            assert await hub.names(CLAIM) == {f"{name}-disk" for name in names}
        await approve(servers, both.hold.digest)
        held = await sweeper.look()
        assert await hub.names(DEPLOYMENT) == set(names), "that was another set"
        assert held.hold is not None
        record = await hub.get(CONFIG_MAP, ORPHAN_RECORD, "plane-0")
        assert record is not None
        command = (
            f"kubectl annotate namespace plane-0 --overwrite {APPROVE_ORPHANS}={held.hold.digest}"
        )
        assert command in record["data"]["held"]
        await approve(servers, held.hold.digest)
        await sweeper.look()
        assert await hub.names(DEPLOYMENT) == set(names) - {"t1"}
        # The annotation stays; what is lost later is another set.
        await lose(servers, "t2", "t3")
        await looked(sweeper, 2)
        for worker in (sweeper, restarted(sweeper)):
            clock.now += 30 * 86400
            assert (await worker.look()).held == 2
        assert await hub.names(DEPLOYMENT) == {"t0", "t2", "t3", "t4", "t5"}


@pytest.mark.criterion("G-F1")
async def test_few_after_few_within_a_day_are_held_also_after_a_restart(servers: Fleet) -> None:
    names = [f"t{number}" for number in range(6)]
    await tenants(servers, *names)
    async with sweeping(servers) as (sweeper, clock):
        await lose(servers, "t0")
        await looked(sweeper, 1)
        clock.now += DELAY
        await sweeper.look()
        assert await servers.hub.names(DEPLOYMENT) == set(names[1:])
        await looked(sweeper, 0)
        clock.now += 3600 * 20
        await lose(servers, "t1")
        worker = restarted(sweeper)
        assert (await looked(worker, 1)).held == 1
        assert await servers.hub.names(DEPLOYMENT) == set(names[1:])


@pytest.mark.criterion("G-F1")
async def test_what_is_gone_when_the_record_is_lost_waits(servers: Fleet) -> None:
    names = [f"t{number}" for number in range(6)]
    await tenants(servers, *names)
    async with sweeping(servers, delay=0.0) as (sweeper, _):
        await servers.hub.client.delete(CONFIG_MAP, ORPHAN_RECORD, namespace="plane-0")
        await lose(servers, "t0")
        assert (await looked(restarted(sweeper), 1)).held == 1
        broken = {"binaryData": {"record": "e30="}}
        await servers.hub.client.patch(CONFIG_MAP, ORPHAN_RECORD, broken, namespace="plane-0")
        with pytest.raises(ValueError, match=f"kubectl delete configmap {ORPHAN_RECORD}"):
            await restarted(sweeper).look()
        assert await servers.hub.names(DEPLOYMENT) == set(names)


@pytest.mark.criterion("G-F1")
async def test_an_older_record_that_is_put_back_lets_nothing_go(servers: Fleet) -> None:
    """From before two were held, one of which is back by then."""
    hub, place = servers.hub.client, "plane-0"
    names = [f"t{number}" for number in range(6)]
    await tenants(servers, *names)
    async with sweeping(servers, delay=0.0) as (sweeper, _):
        older = await hub.get(CONFIG_MAP, ORPHAN_RECORD, namespace=place)
        await lose(servers, "t0", "t1")
        assert (await looked(sweeper, 2)).held == 2
        await servers.plane.client.create(with_disk("t1"))
        found = await hub.get(CONFIG_MAP, ORPHAN_RECORD, namespace=place)
        await hub.update({**found, "binaryData": older["binaryData"]})
        held = (await looked(restarted(sweeper), 1)).hold
        assert held is not None
        assert held.count == 1
        await approve(
            servers, held.digest
        )  # it may have been used, as far as an older record shows
        found = await hub.get(CONFIG_MAP, ORPHAN_RECORD, namespace=place)
        await hub.update({**found, "binaryData": older["binaryData"]})
        assert (await looked(restarted(sweeper), 1)).held == 1
        assert await servers.hub.names(DEPLOYMENT) == set(names)


@pytest.mark.criterion("G-F1")
async def test_a_copy_that_a_person_made_stays_when_its_original_is_swept(
    servers: Fleet,
) -> None:
    names = [f"t{number}" for number in range(6)]
    await tenants(servers, *names)
    hub = servers.hub
    found = await hub.client.get(CONFIG_MAP, "t0-notes", namespace="default")
    metadata = {key: found["metadata"][key] for key in ("namespace", "labels", "annotations")}
    await hub.client.create({**found, "metadata": {**metadata, "name": "t0-copy"}})
    async with sweeping(servers, delay=0.0) as (sweeper, _):
        await lose(servers, "t0")
        await looked(sweeper, 1)
        assert await hub.names(DEPLOYMENT) == set(names[1:])
        assert await hub.names(CONFIG_MAP) == {"t0-copy", *(f"{each}-notes" for each in names[1:])}


async def test_a_tenant_that_is_there_after_all_keeps_its_workload(servers: Fleet) -> None:
    """A cache that lacks Tenants deletes nothing: the live read finds them."""
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        await plane.client.create(tenant(deployment()))
        await ready(plane)
    async with sweeping(servers, delay=0.0) as (sweeper, _):
        none = sweeper.manager.cache.declare(Tenant, labels="none=such", metadata_only=True)
        sweeper.owners[str(Tenant.gvk().group_kind)] = Tenant.mapping(), none
        await sweeper.manager.cache.wait_synced(60.0)
        key = f"Tenant.tenancy.ctrlruntime.dev/default/acme@{plane.id}"
        held = await sweeper.look()
        assert held.hold is not None
        await approve(servers, held.hold.digest)
        assert (await sweeper.look()).scheduled == {key}
        assert await hub.names(DEPLOYMENT) == {"web"}
        await lose(servers, "acme")
        await sweeper.look()
        assert await hub.names(DEPLOYMENT) == set()


# -- several data planes ---------------------------------------------------------------------------


def stored(found: dict[str, Any]) -> dict[str, Any]:
    """Return the labels and annotations of an object."""
    return {key: found["metadata"].get(key) for key in ("labels", "annotations")}


@pytest.mark.criterion("G-F2")
async def test_a_hub_restored_from_before_a_move_loses_nothing(tmp_path: Path) -> None:
    async with two_planes(tmp_path) as servers:
        hub = servers.hub
        for number in range(6):
            await servers.plane.client.create(with_disk(f"t{number}"))
        for number in range(6):
            await ready(servers.plane, f"t{number}")
        kinds = {DEPLOYMENT: "t0", CLAIM: "t0-disk"}
        before = {
            kind: await hub.client.get(kind, name, namespace="default")
            for kind, name in kinds.items()
        }
        async with sweeping(servers, delay=0.0) as (sweeper, clock):
            code, text = await move(servers, tenant="t0")
            assert code == 0, text
            for kind, name in kinds.items():  # UIDs are those of the backup
                patch = {"metadata": stored(before[kind])}
                await hub.client.patch(kind, name, patch, namespace="default")
            assert await eventually(partial(on_plane, servers), lambda seen: seen == 17) == 17
            for worker in (sweeper, restarted(sweeper)):
                for _ in range(3):
                    clock.now += 3600.0
                    assert not (await worker.look()).orphaned
            for kind, name in kinds.items():
                kept = await hub.client.get(kind, name, namespace="default")
                assert kept["metadata"]["uid"] == before[kind]["metadata"]["uid"]
                assert "deletionTimestamp" not in kept["metadata"]
            # Restored from before the other data plane was there.
            await hub.client.delete(NAMESPACE, "plane-1")
            assert (await looked(restarted(sweeper), 1)).held == 1
            assert "t0" in await hub.names(DEPLOYMENT)


async def on_plane(servers: Fleet) -> int:
    """How many objects of the hub record the first data plane."""
    return len(await plane_objects(servers.hub.client, servers.plane.id))


@pytest.mark.criterion("G-F2")
@pytest.mark.parametrize("other", ["stopped", "no-secret", "same-name", "swapped", "unknown"])
async def test_what_another_data_plane_may_have_waits_for_an_answer_or_an_approval(
    tmp_path: Path, other: str
) -> None:
    async with fleet(tmp_path, planes=2) as servers:
        hub, (_, second) = servers.hub, servers.planes
        names = [f"t{number}" for number in range(6)]
        await tenants(servers, *names)
        if other == "unknown":
            await hold_lease(servers.plane, "hub/plane-0/a")
            await record_move(servers.plane.client, second.id)
        else:
            plane = servers.plane if other == "swapped" else second
            await target_namespace(servers, None if other == "no-secret" else plane)
        if other == "same-name":
            await second.client.create(tenant(deployment("t0"), name="t0"))
        if other == "stopped":
            await second.stop()
        async with sweeping(servers, delay=0.0) as (sweeper, _):
            await lose(servers, "t0")
            waiting = await looked(sweeper, 1)
            assert (waiting.held, await hub.names(DEPLOYMENT)) == (1, set(names))
            if other == "same-name":
                assert waiting.hold is not None
                await approve(servers, waiting.hold.digest)
            elif other == "stopped":
                await second.restart()
            elif other == "unknown":
                await target_namespace(servers, second)
            else:
                await hub.client.delete(NAMESPACE, "plane-1")
            await sweeper.look()
            assert await hub.names(DEPLOYMENT) == set(names[1:])


async def target_namespace(servers: Fleet, leads_to: Server | None) -> None:
    """Have the second data plane a target namespace, with a kubeconfig of which one, or without."""
    metadata: dict[str, Any] = {
        "name": "plane-1",
        "labels": {DATA_PLANE: "true"},
        "annotations": {DATA_PLANE_ID: servers.planes[1].id},
    }
    await servers.hub.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    if leads_to is not None:
        text = leads_to.environment.kubeconfig("manager").read_bytes()
        data = {KUBECONFIG_KEY: base64.b64encode(text).decode()}
        metadata = {"name": KUBECONFIG_SECRET, "namespace": "plane-1"}
        await servers.hub.client.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        )
