"""Kinds and their readiness (O), one test a scenario, on simulated nodes that run Pods."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant
from ctrlruntime.json import Json
from tests.tenancy.entries import JOB, deployment, end_job, job, manifest, pod
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    SECRET,
    TenancyHarness,
    config_map,
    mapping,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]

TENANT = "a-app"
SELECTOR = {"matchLabels": {"app": "{{ .uid }}"}}
MISSING_IMAGE = "web:does-not-exist"


@pytest.fixture
def harness(shared_harness_with_nodes: TenancyHarness) -> TenancyHarness:
    return shared_harness_with_nodes


async def made(harness: TenancyHarness, **lists: Json) -> Fleet:
    """A fleet with a tenant of these resources."""
    fleet = await Fleet.make(harness)
    fleet.row("a", replicas=2)
    await fleet.registry()
    await fleet.template(**lists)
    return fleet


async def all_ready(fleet: Fleet, number: int) -> None:
    """Wait until the tenant is ready with so many resources."""
    await fleet.ready(TENANT)
    status = (await fleet.read(Tenant, TENANT)).status
    assert (status.ready_resources, status.desired_resources) == (number, number)
    assert len(status.applied_resources) == number


def workload(resource: str, kind: str, **spec: object) -> dict[str, Any]:
    body = {"spec": {"selector": SELECTOR, "template": pod(), **spec}}
    return manifest(resource, "apps/v1", kind, body=body)


@pytest.mark.criterion("O1")
async def test_o1_a_stateful_set_is_ready_with_its_two_replicas(harness: TenancyHarness) -> None:
    stateful = workload("sts", "StatefulSet", serviceName="x", replicas="{{ .replicas | int }}")
    fleet = await made(harness, statefulSets=[stateful])
    await all_ready(fleet, 1)
    live = await fleet.get(mapping("apps/v1", "StatefulSet"), "a-sts")
    assert (live["spec"]["replicas"], live["status"]["readyReplicas"]) == (2, 2)


@pytest.mark.criterion("O2")
async def test_o2_a_job_is_ready_when_it_is_complete(harness: TenancyHarness) -> None:
    fleet = await made(harness, jobs=[job("job", seconds="600")])
    await fleet.there(JOB, "a-job")
    reported = await fleet.until(Tenant, TENANT, "Ready", "False", "NotAllResourcesReady")
    assert "the job has not completed yet" in reported.message
    await end_job(fleet, "a-job")
    await all_ready(fleet, 1)
    assert (await fleet.get(JOB, "a-job"))["status"]["succeeded"] == 1


@pytest.mark.criterion("O3")
async def test_o3_a_config_map_and_a_secret_are_ready_at_once(harness: TenancyHarness) -> None:
    secret = manifest("sec", "v1", "Secret", body={"stringData": {"k": "v"}})
    fleet = await made(harness, configMaps=[config_map("cm", "{{ .uid }}-cm")], secrets=[secret])
    await all_ready(fleet, 2)
    assert (await fleet.get(CONFIG_MAP, "a-cm"))["data"] == {"k": "v"}
    assert (await fleet.get(SECRET, "a-sec"))["data"] == {"k": "dg=="}


@pytest.mark.criterion("O4")
async def test_o4_what_is_not_to_be_waited_for_is_not(harness: TenancyHarness) -> None:
    lazy = deployment("lazy", image=MISSING_IMAGE, waitForReady=False)
    dependent = config_map("cm", "{{ .uid }}-cm", dependIds=["lazy"])
    fleet = await made(harness, deployments=[lazy], configMaps=[dependent])
    await all_ready(fleet, 2)
    live = await fleet.get(DEPLOYMENT, "a-lazy")
    assert not live.get("status", {}).get("readyReplicas")


@pytest.mark.criterion("O5")
async def test_o5_a_cron_job_is_ready_when_it_exists(harness: TenancyHarness) -> None:
    template = {"spec": {"template": pod("worker:1", restartPolicy="Never")}}
    spec = {"schedule": "0 0 * * *", "jobTemplate": template}
    cron = manifest("cron", "batch/v1", "CronJob", body={"spec": spec})
    fleet = await made(harness, cronJobs=[cron])
    await all_ready(fleet, 1)
    live = await fleet.get(mapping("batch/v1", "CronJob"), "a-cron")
    assert live["spec"]["schedule"] == "0 0 * * *"


@pytest.mark.criterion("O6")
async def test_o6_a_daemon_set_is_ready_on_every_node(harness: TenancyHarness) -> None:
    fleet = await made(harness, daemonSets=[workload("ds", "DaemonSet")])
    await all_ready(fleet, 1)
    status = (await fleet.get(mapping("apps/v1", "DaemonSet"), "a-ds"))["status"]
    assert status["numberReady"] == status["desiredNumberScheduled"] > 0


@pytest.mark.criterion("O7")
async def test_o7_a_network_policy_is_ready_when_it_exists(harness: TenancyHarness) -> None:
    kind = "networking.k8s.io/v1"
    policy = manifest("np", kind, "NetworkPolicy", body={"spec": {"podSelector": SELECTOR}})
    fleet = await made(harness, networkPolicies=[policy])
    await all_ready(fleet, 1)
    live = await fleet.get(mapping(kind, "NetworkPolicy"), "a-np")
    assert live["spec"]["podSelector"] == {"matchLabels": {"app": "a"}}


@pytest.mark.criterion("O8")
async def test_o8_an_autoscaler_of_a_deployment_is_ready(harness: TenancyHarness) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "{{ .uid }}-app"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2}
    kind = "HorizontalPodAutoscaler"
    scaler = manifest("hpa", "autoscaling/v2", kind, body={"spec": spec}, dependIds=["app"])
    fleet = await made(harness, deployments=[deployment()], horizontalPodAutoscalers=[scaler])
    await all_ready(fleet, 2)
    live = await fleet.get(mapping("autoscaling/v2", kind), "a-hpa")
    assert live["spec"]["scaleTargetRef"]["name"] == "a-app"


@pytest.mark.criterion("O9")
async def test_o9_a_namespace_has_labels_and_no_owner(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    home = f"{fleet.namespace}-a-home"
    fleet.row("a")
    await fleet.registry()
    namespace = manifest(
        "ns",
        "v1",
        "Namespace",
        nameTemplate=f"{fleet.namespace}-{{{{ .uid }}}}-home",
        labelsTemplate={"plan": "{{ .planId }}"},
    )
    await fleet.template(namespaces=[namespace])
    await all_ready(fleet, 1)
    metadata = (await fleet.get(NAMESPACE_KIND, home))["metadata"]
    assert metadata["labels"]["plan"] == "basic"
    assert "ownerReferences" not in metadata
    fleet.row("a", active=0)
    await fleet.gone(Tenant, TENANT)
    await fleet.gone(NAMESPACE_KIND, home)


@pytest.mark.criterion("O10")
@pytest.mark.criterion("FAULT-B32")
async def test_o10_a_deployment_is_ready_with_its_replicas_of_which_there_may_be_none(
    harness: TenancyHarness,
) -> None:
    two = deployment(deployment={"replicas": 2})
    fleet = await made(harness, deployments=[two, deployment("zero", deployment={"replicas": 0})])
    await all_ready(fleet, 2)
    assert (await fleet.get(DEPLOYMENT, "a-app"))["status"]["readyReplicas"] == 2
    assert not (await fleet.get(DEPLOYMENT, "a-zero"))["status"].get("readyReplicas")
