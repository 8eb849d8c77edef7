"""Controllers in several clusters: each with a queue and workers of its own, from engagement to disengagement."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import IndexConflict
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound, TransportError
from ctrlruntime.cluster import Cluster, ClusterNotFound, ClusterSet
from ctrlruntime.cluster.selection import ClusterRef
from ctrlruntime.controller import (
    Builder,
    BuilderError,
    ControllerOptions,
    ErrorStatus,
    Request,
    as_reconciler,
    enqueue_map_func,
    reconcile_context,
)
from ctrlruntime.controller.cluster_controllers import DropGoneCluster
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.reconcile import ReconcileFunc
from ctrlruntime.envtest.proxy import LoseReply, Match, Proxy, ProxyOptions, SilenceWatch
from ctrlruntime.manager import LeaderElectionLost, Manager, StoppingError
from ctrlruntime.resources import Action, Control, Desired, Owner
from tests.manager.support import CONFIG_MAP, EVENT, LONG, manager, running
from tests.support.waiting import eventually

from .support import Reconciled, config_map, create, read, servers

pytestmark = pytest.mark.criterion("MG-20")

MAPPING = BUILTIN[CONFIG_MAP]
SECRET = GroupVersionKind("", "v1", "Secret")
SELECTOR = "test=clusters"


def watching(
    subject: Manager, reconcile: ReconcileFunc[Request], cluster: ClusterRef = ClusterSet.ENGAGED
) -> Controller[Request]:
    """A controller with one worker for each cluster."""
    options = ControllerOptions(max_concurrent_reconciles=1)
    builder = Builder(subject).for_(CONFIG_MAP, labels=SELECTOR, cluster=cluster)
    return builder.options(options).named("clusters").build(reconcile)


async def test_clusters_engaged_before_and_after_the_start_are_reconciled_under_their_names(
    config: Config,
) -> None:
    async with servers(2) as (east, west):
        for each in (config, east, west):
            await create(each, config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        watching(subject, reconciled)
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            await reconciled.until("east:a")
            await subject.engage(subject.new_cluster("west", west))
            await reconciled.until("west:a")
            await create(east, config_map("b"))
            await reconciled.until("east:b")
        assert ":a" not in reconciled.seen


async def test_a_controller_built_later_is_in_the_clusters_engaged_before(config: Config) -> None:
    async with servers(1) as (east,):
        await create(east, config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            watching(subject, reconciled)
            await reconciled.until("east:a")
        assert set(reconciled.seen) == {"east:a"}


@pytest.mark.parametrize("ref", ["east", ClusterSet.ALL, ClusterSet.LOCAL, ""])
async def test_a_watch_is_for_the_clusters_that_it_names(config: Config, ref: ClusterRef) -> None:
    expected = {"east": {"east:a"}, ClusterSet.ALL: {":a", "east:a", "west:a"}}.get(ref, {":a"})
    async with servers(2) as (east, west):
        subject, reconciled = manager(config), Reconciled()
        controller = watching(subject, reconciled, ref)
        await subject.engage(subject.new_cluster("east", east))
        await subject.engage(subject.new_cluster("west", west))
        for each in (config, east, west):
            await create(each, config_map("a"))
        async with running(subject):
            await reconciled.until(*expected)
            for name in ("", "east", "west"):
                await subject.get_cluster(name).wait_synced(LONG)
            await eventually(lambda: len(controller.queue) == 0)
        assert set(reconciled.seen) == expected


async def test_a_cluster_object_stands_for_its_name(config: Config) -> None:
    async with servers(1) as (hub,):
        await create(hub, config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        cluster = subject.new_cluster("hub", hub)
        watching(subject, reconciled, cluster)
        await subject.engage(cluster)
        async with running(subject):
            await reconciled.until("hub:a")
            assert subject.get_cluster("hub") is cluster
            assert subject.get_cluster("") is subject.cluster


async def test_objects_of_equal_names_never_mix(config: Config) -> None:
    """Each reconcile reads and writes its own cluster's object: by client, Control and recorder."""
    async with servers(2) as (east, west):
        names = {"": config, "east": east, "west": west}
        for name, each in names.items():
            await create(each, config_map("a", home=name))
        subject = manager(config)
        done: dict[str, Action] = {}
        controls: dict[str, Control] = {}

        async def reconcile(found: dict[str, Any]) -> None:
            cluster = subject.get_cluster(reconcile_context().request.cluster)
            home = found["data"]["home"]
            control = controls.setdefault(cluster.name, Control(cluster, field_manager="tests"))
            metadata = {"name": "copy", "namespace": "default"}
            copy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            desired = Desired(mapping=MAPPING, manifest={**copy, "data": {"home": home}})
            outcome = await control.ensure(desired, Owner.of(found))
            if cluster.name not in done:
                cluster.recorder.event(found, "Normal", "Seen", "See", home)
            done[cluster.name] = outcome.action

        reconciler = as_reconciler(subject.client_of, CONFIG_MAP, reconcile)
        builder = Builder(subject).for_(CONFIG_MAP, labels=SELECTOR, cluster=ClusterSet.ALL)
        builder.owns(CONFIG_MAP, track_manager="tests").named("equal").build(reconciler)
        for name in ("east", "west"):
            await subject.engage(subject.new_cluster(name, names[name]))
        async with running(subject):
            await eventually(lambda: set(done) == set(names))
            await eventually(lambda: set(done.values()) == {Action.UNCHANGED})
        for name, each in names.items():
            assert (await read(each, "copy"))["data"] == {"home": name}
            async with Client.connect(each) as client:
                events = await client.list(EVENT, namespace="default")
            assert [event["note"] for event in events if event["reason"] == "Seen"] == [name]


async def test_an_event_of_an_owned_object_leads_to_the_owner_in_the_same_cluster(
    config: Config,
) -> None:
    async with servers(1) as (east,):
        await create(config, config_map("a"))
        await create(east, config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        builder = Builder(subject).for_(CONFIG_MAP, labels=SELECTOR, cluster=ClusterSet.ENGAGED)
        builder.owns(SECRET, metadata_only=True).named("owners").build(reconciled)
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            await reconciled.until("east:a")
            reconciled.seen.clear()
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "controller": True}
            uid = (await read(east, "a"))["metadata"]["uid"]
            metadata = {"namespace": "default", "ownerReferences": [{**owner, "uid": uid}]}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", **metadata}}
            await create(east, secret)
            await reconciled.until("east:a")
        assert set(reconciled.seen) == {"east:a"}


def test_owned_objects_are_in_the_cluster_of_their_owner() -> None:
    subject = manager(Config(host="http://127.0.0.1:1"))
    builder = Builder(subject).for_(CONFIG_MAP).owns(SECRET, cluster="east")
    with pytest.raises(
        BuilderError, match=r"owns\(v1, Kind=Secret\) names another cluster.*enqueue_map_func"
    ):
        builder.build(Reconciled())
    subject.close()


async def test_an_event_in_one_cluster_leads_to_an_object_of_another(config: Config) -> None:
    """Workloads of a hub, reported to their owners in the manager's own cluster, and the way back."""
    async with servers(1) as (hub,):
        await create(config, config_map("owner"))
        subject, reconciled = manager(config), Reconciled()

        def owner(entry: Entry) -> list[Request]:
            return [Request("owner", namespace=entry.namespace)]

        def twin(entry: Entry) -> list[Request]:
            return [Request("twin", namespace=entry.namespace)]

        builder = Builder(subject).watches(
            CONFIG_MAP, enqueue_map_func(owner, cluster=""), labels=SELECTOR, cluster="hub"
        )
        builder.watches(CONFIG_MAP, enqueue_map_func(twin, cluster="hub"), labels=SELECTOR)
        builder.named("routes").build(reconciled)
        await subject.engage(subject.new_cluster("hub", hub))
        async with running(subject):
            await reconciled.until("hub:twin")
            await create(hub, config_map("workload"))
            await reconciled.until(":owner")
        assert set(reconciled.seen) == {":owner", "hub:twin"}


async def test_reconciles_of_one_cluster_do_not_wait_for_those_of_another(config: Config) -> None:
    """Each cluster has a queue and a worker of its own; one whose reconciles do not end stops itself alone."""
    async with servers(2) as (east, west):
        for each in (config, east, west):
            await create(each, *(config_map(name) for name in "abc"))
        subject, reconciled = manager(config), Reconciled()
        reconciled.blocked = {"east"}
        watching(subject, reconciled, ClusterSet.ALL)
        for name, each in (("east", east), ("west", west)):
            await subject.engage(subject.new_cluster(name, each))
        async with running(subject):
            await reconciled.until(*(f"{name}:{each}" for name in ("", "west") for each in "abc"))
            await eventually(lambda: any(each.startswith("east:") for each in reconciled.seen))
            assert len([each for each in reconciled.seen if each.startswith("east:")]) == 1
            reconciled.released.set()
            await reconciled.until("east:a", "east:b", "east:c")


async def test_a_cluster_that_is_disengaged_ends_and_its_requests_are_dropped(
    config: Config,
) -> None:
    async with servers(2) as (east, west):
        await create(east, *(config_map(name) for name in "abc"))
        subject, reconciled = manager(config, graceful_shutdown_timeout=0.05), Reconciled()
        reconciled.blocked = {"east"}
        controller = watching(subject, reconciled)
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            await eventually(lambda: bool(reconciled.seen))
            cluster = subject.get_cluster("east")
            await subject.disengage("east")
            await subject.disengage("east")
            assert len(reconciled.seen) == 1
            with pytest.raises(ClusterNotFound, match="no cluster 'east' is engaged"):
                subject.get_cluster("east")
            with pytest.raises((TransportError, RuntimeError)):
                await cluster.live_client.list(CONFIG_MAP, namespace="default")
            controller.queue.add(Request("late", namespace="default", cluster="east"))
            await create(west, config_map("z"))
            await subject.engage(subject.new_cluster("west", west))
            await reconciled.until("west:z")
            assert len(reconciled.seen) == 2
            reconciled.blocked.clear()
            await subject.engage(subject.new_cluster("east", east))
            await reconciled.until("east:a", "east:b", "east:c")


async def test_a_reconcile_in_progress_may_end_before_its_cluster_is_closed(config: Config) -> None:
    async with servers(1) as (east,):
        await create(east, config_map("a"))
        subject = manager(config, graceful_shutdown_timeout=LONG)
        began, may_end = asyncio.Event(), asyncio.Event()
        ended: list[str] = []

        async def reconcile(request: Request) -> None:
            client = subject.client_of(request.cluster)
            began.set()
            await may_end.wait()
            await client.patch(CONFIG_MAP, "a", {"data": {"last": "write"}}, namespace="default")
            ended.append(request.name)

        watching(subject, reconcile)
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            await asyncio.wait_for(began.wait(), LONG)
            leaving = asyncio.create_task(subject.disengage("east"))
            await eventually(lambda: not list(subject._clusters))
            with pytest.raises(ValueError, match="is being disengaged"):
                await subject.engage(subject.new_cluster("east", east))
            may_end.set()
            await asyncio.wait_for(leaving, LONG)
            assert ended == ["a"]
            assert (await read(east, "a"))["data"] == {"last": "write"}


async def test_a_reconcile_that_finds_its_cluster_gone_is_not_retried() -> None:
    async def reconcile(request: Request) -> None:
        raise ClusterNotFound(request.name)

    class Failing:
        async def reconcile(self, request: Request) -> None:
            await reconcile(request)

    subject = DropGoneCluster(Failing())
    assert await subject.reconcile(Request("east", cluster="east")) is None
    with pytest.raises(ClusterNotFound):
        await subject.reconcile(Request("hub", cluster="east"))


async def test_counters_of_a_disengaged_cluster_do_not_fall(config: Config) -> None:
    async with servers(1) as (east,):
        await create(east, config_map("a"), config_map("b"))
        subject, reconciled = manager(config), Reconciled()
        watching(subject, reconciled)
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            await reconciled.until("east:a", "east:b")
            before = await adds(subject)
            assert 'cluster="east"' in (await subject.metrics.scrape())[0].decode()
            await subject.disengage("east")
            assert before >= 2.0
            assert await adds(subject) == before
            await subject.engage(subject.new_cluster("east", east))
            await subject.disengage("east")
            assert await adds(subject) >= before


async def adds(subject: Manager) -> float:
    """How many items became ready in all clusters, by the metrics."""
    text = (await subject.metrics.scrape())[0].decode()
    lines = [each for each in text.splitlines() if each.startswith("workqueue_adds_total{")]
    return sum(float(line.split()[-1]) for line in lines)


async def test_a_cluster_whose_kinds_cannot_be_declared_is_not_engaged(config: Config) -> None:
    async with servers(1) as (east,):
        subject, reconciled = manager(config), Reconciled()
        for number in (1, 2):
            builder = Builder(subject).for_(
                CONFIG_MAP,
                cluster=ClusterSet.ENGAGED,
                indexes={"number": lambda _entry, number=number: [str(number)]},  # type: ignore[misc]
            )
            builder.named(f"number-{number}").build(reconciled)
        async with running(subject):
            with pytest.raises(IndexConflict):
                await subject.engage(subject.new_cluster("east", east))
            assert list(subject._clusters) == []
            with pytest.raises(ClusterNotFound):
                subject.get_cluster("east")


async def test_a_manager_that_stops_engages_no_more_clusters(config: Config) -> None:
    async with servers(1) as (east,):
        subject = manager(config)
        async with running(subject):
            await subject.engage(subject.new_cluster("east", east))
        late = subject.new_cluster("west", east)
        with pytest.raises(StoppingError, match="the manager is stopping"):
            await subject.engage(late)
        await late.close()


async def test_rights_in_other_clusters_are_no_part_of_the_managers_role(config: Config) -> None:
    def groups(cluster: ClusterRef) -> set[str]:
        subject = manager(config)
        watching(subject, Reconciled(), cluster)
        found = {plural for _group, plural, _verbs in subject.permissions()}
        subject.close()
        return found

    assert "configmaps" not in groups(ClusterSet.ENGAGED)
    assert "configmaps" in groups(ClusterSet.ALL)


async def test_the_fence_of_the_election_holds_for_writes_to_further_clusters(
    config: Config,
) -> None:
    async with servers(1) as (east,):
        subject = manager(config, leader_election=True)
        cluster = subject.new_cluster("east", east)
        await cluster.live_client.create(config_map("before"))
        assert subject._leadership is not None
        subject._leadership.started_leading()  # and is not sure of its lease any more
        with pytest.raises(LeaderElectionLost):
            await cluster.live_client.create(config_map("after"))
        await cluster.close()
        await subject.cluster.close()
        subject.close()
        with pytest.raises(NotFound):
            await read(east, "after")


async def test_an_unconfirmed_write_is_read_back_from_its_own_cluster(config: Config) -> None:
    async with (
        servers(1) as (east,),
        Proxy(east.host, ProxyOptions()) as proxy,
    ):
        await create(config, config_map("a"))
        await create(east, config_map("a"))
        subject = manager(config)
        seen: list[Any] = []
        again = asyncio.Event()

        async def reconcile(request: Request) -> None:
            cluster = subject.get_cluster(request.cluster)
            unconfirmed = cluster.cache.unconfirmed(CONFIG_MAP, "a", namespace="default")
            found = cluster.cache.get(CONFIG_MAP, "a", namespace="default")
            assert found is not None
            seen.append((found["data"], unconfirmed))
            if len(seen) > 1:
                again.set()
                return
            proxy.add(SilenceWatch())
            proxy.add(LoseReply(), Match(verb="patch"), times=1)
            patch = {"data": {"written": "yes"}}
            await cluster.client.patch(CONFIG_MAP, "a", patch, namespace="default")

        watching(subject, reconcile)
        await subject.engage(subject.new_cluster("east", Config(host=proxy.url)))
        async with running(subject):
            await asyncio.wait_for(again.wait(), LONG)
        assert seen[:2] == [({}, False), ({"written": "yes"}, False)]


async def test_a_status_for_a_failure_is_written_in_the_cluster_of_the_request_alone(
    config: Config,
) -> None:
    """An ErrorStatus of one cluster leaves objects of that name alone when another one's request fails."""
    written: list[str] = []

    class Entries:
        def get(self, name: str, *, namespace: str) -> Entry | None:
            written.append(name)
            return None

    class Failing:
        async def reconcile(self, request: Request) -> None:
            raise RuntimeError("a defect")

    async with Client.connect(config) as client:
        status = ErrorStatus(
            Failing(), Entries(), client, MAPPING, "tests", lambda: datetime.now(UTC)
        )
        for request in (Request("far", cluster="east"), Request("near")):
            with pytest.raises(RuntimeError, match="a defect"):
                await status.reconcile(request)
    assert written == ["near"]


async def test_a_cluster_is_of_use_without_a_manager(config: Config) -> None:
    cluster = Cluster("east", config, fence=None)
    cluster.cache.declare(CONFIG_MAP, labels=SELECTOR)
    await cluster.start()
    await cluster.wait_synced(LONG)
    await cluster.client.create(config_map("a"))
    assert cluster.cache.get(CONFIG_MAP, "a", namespace="default") is not None
    with pytest.raises(NotFound):
        await cluster.client.get(CONFIG_MAP, "b", namespace="default")
    assert (await cluster.mapper.resolve(CONFIG_MAP)).plural == "configmaps"
    await cluster.close()
