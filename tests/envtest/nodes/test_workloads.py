"""Workloads progress on simulated nodes as they do on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ctrlruntime.api.resource import UntypedKindRef
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import (
    consistently,
    eventually,
    eventually_gone,
    eventually_holds,
)
from ctrlruntime.envtest.nodes.kinds import (
    AUTOSCALER,
    BUDGET,
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    INGRESS,
    JOB,
    MOST_PODS,
    NODE,
    NODE_NAME,
    POD,
    REPLICA_SET,
    REVISION,
    SERVICE,
    STATEFUL_SET,
)

from .manifests import deployment, job, obj, pod, stateful_set, template

AVAILABLE = {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"}
COMPLETE = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}


async def names(client: Client, kind: UntypedKindRef) -> list[str]:
    return sorted(o["metadata"]["name"] for o in await client.list(kind, "default"))


@pytest.mark.usefixtures("nodes")
async def test_a_pod_without_its_claim_stays_pending(client: Client) -> None:
    manifest = pod("p")
    claim = {"persistentVolumeClaim": {"claimName": "data"}}
    manifest["spec"]["volumes"] = [{"name": "data", **claim}]
    await client.create(manifest)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = 'persistentvolumeclaim "data" not found'
    await eventually(client, POD, "p", {"status": {"conditions": [condition]}}, namespace="default")
    live = await client.get(POD, "p", namespace="default")
    assert live["status"]["phase"] == "Pending"
    assert "nodeName" not in live["spec"]
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await client.create(obj("v1", "PersistentVolumeClaim", "data", spec))
    await eventually(client, POD, "p", {"status": {"phase": "Running"}}, namespace="default")


async def test_pods_are_bounded_whatever_a_workload_wants(
    client: Client, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_PODS == 500  # as the documents say
    for module in ("replicasets", "statefulsets"):
        monkeypatch.setattr(f"ctrlruntime.envtest.nodes.{module}.MOST_PODS", 2)
    await start()
    most = 2**31 - 1
    many, sets = deployment("many"), stateful_set("sets")
    for manifest in (many, sets):
        manifest["spec"]["replicas"] = most
        await client.create(manifest)
    await eventually(
        client, DEPLOYMENT, "many", {"status": {"readyReplicas": 2}}, namespace="default"
    )
    await eventually(
        client, STATEFUL_SET, "sets", {"status": {"readyReplicas": 2}}, namespace="default"
    )
    assert len(await names(client, POD)) == 4


async def test_jobs_make_a_bounded_number_of_pods_those_that_have_ended_included(
    client: Client, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctrlruntime.envtest.nodes.jobs.MOST_PODS", 3)
    await start()
    most = 2**31 - 1
    await client.create(job("endless", completions=most, parallelism=2))
    await client.create(job("wide", completions=most, parallelism=most))
    for name in ("endless", "wide"):
        await eventually(client, JOB, name, {"status": {"succeeded": 3}}, namespace="default")
    await client.create(job("later"))
    await eventually(client, JOB, "later", {"status": {"succeeded": 1}}, namespace="default")
    assert len(await names(client, POD)) == 3 + 3 + 1


@pytest.mark.usefixtures("nodes")
class TestDeployment:
    async def test_it_becomes_available_through_a_replica_set_and_pods(
        self, client: Client
    ) -> None:
        await client.create(deployment())
        status = {
            "observedGeneration": 1,
            "replicas": 3,
            "updatedReplicas": 3,
            "readyReplicas": 3,
            "availableReplicas": 3,
            "unavailableReplicas": None,
            "conditions": [AVAILABLE, COMPLETE],
        }
        live = await eventually(client, DEPLOYMENT, "web", {"status": status}, namespace="default")
        assert live["metadata"]["annotations"][REVISION] == "1"
        (replica_set,) = await client.list(REPLICA_SET, "default")
        assert replica_set["metadata"]["name"].startswith("web-")
        assert replica_set["metadata"]["ownerReferences"][0]["name"] == "web"
        pods = await client.list(POD, "default")
        assert len(pods) == 3
        for made in pods:
            assert made["metadata"]["name"].startswith(replica_set["metadata"]["name"])
            assert made["metadata"]["ownerReferences"][0]["controller"]
            assert made["spec"]["nodeName"] == NODE_NAME
            assert made["status"]["podIP"]

    async def test_a_new_template_rolls_over_and_counts_a_revision(self, client: Client) -> None:
        await client.create(deployment())
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 3}}, namespace="default"
        )
        change = {"spec": {"template": template("web:2")}}
        await client.patch(DEPLOYMENT, "web", change, namespace="default")
        expected = {
            "metadata": {"annotations": {REVISION: "2"}},
            "status": {"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3,
                       "conditions": [COMPLETE]},
        }  # fmt: skip
        await eventually(client, DEPLOYMENT, "web", expected, namespace="default")
        sizes = sorted(o["spec"]["replicas"] for o in await client.list(REPLICA_SET, "default"))
        assert sizes == [0, 3]
        await eventually_holds(lambda: _images(client, {"web:2"}, 3))

        await client.patch(
            DEPLOYMENT, "web", {"spec": {"template": template("web:1")}}, namespace="default"
        )
        expected["metadata"] = {"annotations": {REVISION: "3"}}
        expected["status"] = {"observedGeneration": 3, "updatedReplicas": 3, "replicas": 3}
        await eventually(client, DEPLOYMENT, "web", expected, namespace="default")
        assert len(await client.list(REPLICA_SET, "default")) == 2, "the old one is used again"

    async def test_a_bad_image_leaves_enough_old_pods(self, client: Client) -> None:
        await client.create(deployment(replicas=4))
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 4}}, namespace="default"
        )
        change = {"spec": {"template": template("web:does-not-exist")}}
        await client.patch(DEPLOYMENT, "web", change, namespace="default")
        expected = {
            "status": {
                "observedGeneration": 2,
                "updatedReplicas": 2,
                "availableReplicas": 3,
                "unavailableReplicas": 1,
                "conditions": [AVAILABLE, {"type": "Progressing", "reason": "ReplicaSetUpdated"}],
            }
        }
        await eventually(client, DEPLOYMENT, "web", expected, namespace="default")

    async def test_it_is_not_complete_while_new_pods_are_missing(self, client: Client) -> None:
        careful = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await client.create(deployment(strategy=careful))
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 3}}, namespace="default"
        )
        change = {"spec": {"template": template("web:does-not-exist")}}
        await client.patch(DEPLOYMENT, "web", change, namespace="default")
        conditions = [AVAILABLE, {"type": "Progressing", "reason": "ReplicaSetUpdated"}]
        counts = {"replicas": 4, "updatedReplicas": 1, "availableReplicas": 3}
        expected = {"status": counts | {"conditions": conditions}}
        await eventually(client, DEPLOYMENT, "web", expected, namespace="default")

    async def test_no_progress_within_the_deadline_is_said(self, client: Client) -> None:
        await client.create(deployment(image="web:does-not-exist", progressDeadlineSeconds=1))
        conditions = [
            {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"},
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"},
        ]
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"conditions": conditions}}, namespace="default"
        )

    @pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
    async def test_it_scales_to_nothing_and_back(self, strategy: str, client: Client) -> None:
        await client.create(deployment(strategy={"type": strategy}))
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 3}}, namespace="default"
        )
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 0}}, namespace="default")
        gone = {"status": {"observedGeneration": 2, "replicas": None, "conditions": [COMPLETE]}}
        await eventually(client, DEPLOYMENT, "web", gone, namespace="default")
        await eventually_holds(lambda: _images(client, set(), 0))
        await client.patch(DEPLOYMENT, "web", {"spec": {"replicas": 1}}, namespace="default")
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 1}}, namespace="default"
        )

    async def test_a_deleted_pod_is_replaced(self, client: Client) -> None:
        await client.create(deployment(replicas=1))
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 1}}, namespace="default"
        )
        (old,) = await names(client, POD)
        await client.delete(POD, old, namespace="default")
        await eventually_gone(client, POD, old, namespace="default")
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 1}}, namespace="default"
        )
        assert await names(client, POD) != [old]

    async def test_everything_goes_with_it(self, client: Client) -> None:
        await client.create(deployment())
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 3}}, namespace="default"
        )
        await client.delete(DEPLOYMENT, "web", namespace="default")
        await eventually_holds(lambda: _images(client, set(), 0))


async def _images(client: Client, images: set[str], count: int) -> bool:
    pods = await client.list(POD, "default")
    return len(pods) == count and {p["spec"]["containers"][0]["image"] for p in pods} == images


@pytest.mark.usefixtures("nodes")
class TestStatefulSet:
    async def test_pods_come_in_order_with_their_claims(self, client: Client) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await client.create(stateful_set(volumeClaimTemplates=[claim]))
        status = {"replicas": 2, "readyReplicas": 2, "currentReplicas": 2, "observedGeneration": 1}
        await eventually(client, STATEFUL_SET, "db", {"status": status}, namespace="default")
        assert await names(client, POD) == ["db-0", "db-1"]
        first = await client.get(POD, "db-0", namespace="default")
        assert first["spec"]["hostname"] == "db-0"
        assert first["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-0"
        bound = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
        await eventually(client, CLAIM, "data-db-1", bound, namespace="default")
        grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
        await client.patch(CLAIM, "data-db-1", grown, namespace="default")
        bound["status"]["capacity"] = {"storage": "2Gi"}
        await eventually(client, CLAIM, "data-db-1", bound, namespace="default")

    async def test_a_pod_that_is_not_ready_holds_up_the_next(self, client: Client) -> None:
        broken = template("db:does-not-exist")
        await client.create(stateful_set(template=broken))
        await eventually(
            client, STATEFUL_SET, "db", {"status": {"replicas": 1}}, namespace="default"
        )
        expected = {"status": {"replicas": 1, "readyReplicas": None}}
        await consistently(client, STATEFUL_SET, "db", expected, namespace="default", seconds=0.3)

    async def test_an_update_replaces_pods_and_then_the_revision(self, client: Client) -> None:
        await client.create(stateful_set())
        first = await eventually(
            client, STATEFUL_SET, "db", {"status": {"readyReplicas": 2}}, namespace="default"
        )
        await client.patch(
            STATEFUL_SET, "db", {"spec": {"template": template("db:2")}}, namespace="default"
        )
        live = await eventually(
            client,
            STATEFUL_SET,
            "db",
            {"status": {"observedGeneration": 2, "updatedReplicas": 2, "readyReplicas": 2}},
            namespace="default",
        )
        assert live["status"]["currentRevision"] == live["status"]["updateRevision"]
        assert live["status"]["updateRevision"] != first["status"]["updateRevision"]

    async def test_scaling_down_takes_the_highest_first_and_keeps_claims(
        self, client: Client
    ) -> None:
        await client.create(stateful_set(replicas=3))
        await eventually(
            client, STATEFUL_SET, "db", {"status": {"readyReplicas": 3}}, namespace="default"
        )
        await client.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}}, namespace="default")
        await eventually(
            client, STATEFUL_SET, "db", {"status": {"replicas": 1}}, namespace="default"
        )
        await eventually_gone(client, POD, "db-1", namespace="default")
        assert await names(client, POD) == ["db-0"]


@pytest.mark.usefixtures("nodes")
class TestJob:
    async def test_it_completes(self, client: Client) -> None:
        await client.create(job(completions=3, parallelism=2))
        conditions = [
            {"type": "SuccessCriteriaMet", "status": "True"},
            {"type": "Complete", "status": "True"},
        ]
        status = {"succeeded": 3, "active": None, "completionTime": ..., "conditions": conditions}
        await eventually(client, JOB, "task", {"status": status}, namespace="default")
        assert len(await client.list(POD, "default")) == 3

    async def test_it_fails_after_its_retries(self, client: Client) -> None:
        failing = template(
            restartPolicy="Never", annotations={"ctrlruntime.dev/simulate": "Failed"}
        )
        await client.create(job(pod=failing, backoffLimit=2))
        failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
        status = {"failed": 3, "succeeded": None, "conditions": [failed]}
        await eventually(client, JOB, "task", {"status": status}, namespace="default")

    async def test_it_is_stopped_at_its_deadline(self, client: Client) -> None:
        hanging = template(restartPolicy="Never", annotations={"ctrlruntime.dev/simulate": "Hang"})
        await client.create(job(pod=hanging))
        await eventually(
            client, JOB, "task", {"status": {"active": 1, "ready": 1}}, namespace="default"
        )
        deadline = {"spec": {"activeDeadlineSeconds": 1}}
        await client.patch(JOB, "task", deadline, namespace="default")
        failed = {"type": "Failed", "reason": "DeadlineExceeded"}
        await eventually(
            client, JOB, "task", {"status": {"conditions": [failed]}}, namespace="default"
        )
        await eventually_holds(lambda: _images(client, set(), 0))

    async def test_it_waits_while_suspended(self, client: Client) -> None:
        await client.create(job(suspend=True))
        suspended = {"type": "Suspended", "status": "True"}
        await eventually(
            client, JOB, "task", {"status": {"conditions": [suspended]}}, namespace="default"
        )
        assert await client.list(POD, "default") == []
        await client.patch(JOB, "task", {"spec": {"suspend": False}}, namespace="default")
        await eventually(client, JOB, "task", {"status": {"succeeded": 1}}, namespace="default")

    async def test_it_goes_when_its_time_to_live_is_over(self, client: Client) -> None:
        await client.create(job(ttlSecondsAfterFinished=0))
        await eventually_gone(client, JOB, "task", namespace="default")


@pytest.mark.usefixtures("nodes")
class TestPod:
    async def test_a_pod_without_owner_is_scheduled_and_runs(self, client: Client) -> None:
        await client.create(pod())
        expected = {
            "spec": {"nodeName": NODE_NAME},
            "status": {
                "phase": "Running",
                "podIP": ...,
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "c", "ready": True, "state": {"running": ...}}],
            },
        }
        await eventually(client, POD, "p", expected, namespace="default")

    @pytest.mark.parametrize(
        ("shape", "phase", "reason"),
        [
            ({"image": "x:does-not-exist"}, "Pending", "ImagePullBackOff"),
            ({"annotations": {"ctrlruntime.dev/simulate": "CrashLoopBackOff"}}, "Running",
             "CrashLoopBackOff"),
        ],
    )  # fmt: skip
    async def test_a_pod_can_be_stuck(
        self, shape: dict[str, Any], phase: str, reason: str, client: Client
    ) -> None:
        await client.create(pod(**shape))
        expected = {
            "status": {
                "phase": phase,
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason}}}],
                "conditions": [{"type": "Ready", "status": "False"}],
            }
        }
        await eventually(client, POD, "p", expected, namespace="default")

    async def test_a_finalizer_holds_a_deleted_pod(self, client: Client) -> None:
        held = pod()
        held["metadata"]["finalizers"] = ["test.dev/hold"]
        await client.create(held)
        await eventually(client, POD, "p", {"status": {"phase": "Running"}}, namespace="default")
        await client.delete(POD, "p", namespace="default")
        await eventually(
            client, POD, "p", {"metadata": {"deletionTimestamp": ...}}, namespace="default"
        )
        await client.patch(POD, "p", {"metadata": {"finalizers": None}}, namespace="default")
        await eventually_gone(client, POD, "p", namespace="default")


@pytest.mark.usefixtures("nodes")
class TestSurroundings:
    async def test_there_is_one_node_and_a_daemon_set_runs_on_it(self, client: Client) -> None:
        assert await eventually(
            client,
            NODE,
            NODE_NAME,
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        )
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": template()}
        await client.create(obj("apps/v1", "DaemonSet", "agent", spec))
        status = {"desiredNumberScheduled": 1, "numberReady": 1, "updatedNumberScheduled": 1}
        await eventually(client, DAEMON_SET, "agent", {"status": status}, namespace="default")
        await client.patch(
            DAEMON_SET, "agent", {"spec": {"template": template("a:2")}}, namespace="default"
        )
        await eventually_holds(lambda: _images(client, {"a:2"}, 1))

    async def test_load_balancers_get_an_address_and_lose_it(self, client: Client) -> None:
        spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
        await client.create(obj("v1", "Service", "lb", spec))
        balanced = {"status": {"loadBalancer": {"ingress": [{"ip": ...}]}}}
        await eventually(client, SERVICE, "lb", balanced, namespace="default")
        await client.patch(SERVICE, "lb", {"spec": {"type": "ClusterIP"}}, namespace="default")
        await eventually(
            client,
            SERVICE,
            "lb",
            {"status": {"loadBalancer": {"ingress": None}}},
            namespace="default",
        )
        backend = {"service": {"name": "lb", "port": {"number": 80}}}
        await client.create(
            obj("networking.k8s.io/v1", "Ingress", "in", {"defaultBackend": backend})
        )
        await eventually(client, INGRESS, "in", balanced, namespace="default")

    async def test_autoscalers_and_budgets_follow_their_targets(self, client: Client) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"scaleTargetRef": target, "maxReplicas": 5}
        await client.create(obj("autoscaling/v2", "HorizontalPodAutoscaler", "h", spec))
        budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}
        await client.create(obj("policy/v1", "PodDisruptionBudget", "b", budget))
        unable = {"type": "AbleToScale", "status": "False"}
        await eventually(
            client, AUTOSCALER, "h", {"status": {"conditions": [unable]}}, namespace="default"
        )
        await client.create(deployment())
        able = {"type": "AbleToScale", "status": "True"}
        expected = {"status": {"conditions": [able], "currentReplicas": 3}}
        await eventually(client, AUTOSCALER, "h", expected, namespace="default")
        healthy = {"currentHealthy": 3, "desiredHealthy": 2, "disruptionsAllowed": 1}
        await eventually(client, BUDGET, "b", {"status": healthy}, namespace="default")


@pytest.mark.usefixtures("nodes")
async def test_at_rest_there_is_not_one_request(env: Environment, client: Client) -> None:
    await client.create(deployment())
    await client.create(stateful_set())
    await client.create(job())
    await eventually(
        client, DEPLOYMENT, "web", {"status": {"conditions": [COMPLETE]}}, namespace="default"
    )
    await eventually(
        client, STATEFUL_SET, "db", {"status": {"readyReplicas": 2}}, namespace="default"
    )
    await eventually(client, JOB, "task", {"status": {"succeeded": 1}}, namespace="default")
    await _quiet(env)
    mark = env.proxy.log.mark()
    await asyncio.sleep(1.5)
    since = env.proxy.log.since(mark).select(user="observed")
    assert since.total == 0, str(since)


async def test_a_restart_writes_nothing(
    env: Environment, client: Client, start: Callable[..., Any]
) -> None:
    await start()
    await client.create(deployment())
    await client.create(stateful_set())
    await eventually(
        client, DEPLOYMENT, "web", {"status": {"conditions": [COMPLETE]}}, namespace="default"
    )
    await eventually(
        client, STATEFUL_SET, "db", {"status": {"readyReplicas": 2}}, namespace="default"
    )
    await _quiet(env)
    mark = env.proxy.log.mark()
    await start()
    await _quiet(env)
    writes = env.proxy.log.since(mark).select(user="observed").select(exclude=("nodes",))
    assert writes.writes == 0, str(writes)


async def test_without_pods_a_thousandth_costs_one_write(
    env: Environment, client: Client, start: Callable[..., Any]
) -> None:
    await start(pods=False)
    await asyncio.gather(*(client.create(deployment(f"web-{i}")) for i in range(20)))
    await client.create(stateful_set())
    await client.create(job())
    for i in range(20):
        await eventually(
            client,
            DEPLOYMENT,
            f"web-{i}",
            {"status": {"conditions": [COMPLETE]}},
            namespace="default",
        )
    await eventually(
        client, STATEFUL_SET, "db", {"status": {"readyReplicas": 2}}, namespace="default"
    )
    await eventually(client, JOB, "task", {"status": {"succeeded": 1}}, namespace="default")
    await _quiet(env)
    counts = env.proxy.log.counts().select(user="observed", exclude=("nodes", "nodes/status"))
    assert counts.writes == 22, str(counts)
    assert await client.list(POD, "default") == []

    await client.create(deployment("broken", image="x:does-not-exist"))
    unavailable = {"type": "Available", "status": "False"}
    await eventually(
        client, DEPLOYMENT, "broken", {"status": {"conditions": [unavailable]}}, namespace="default"
    )


async def _quiet(env: Environment) -> None:
    """Wait until no request was made for a third of a second."""
    while True:
        mark = env.proxy.log.mark()
        await asyncio.sleep(0.3)
        if env.proxy.log.since(mark).total == 0:
            return
