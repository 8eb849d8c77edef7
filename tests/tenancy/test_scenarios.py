"""Whole stories of rows, templates and workloads, on simulated nodes that run Pods.

Named after the scenarios of operators of this kind: data source (B), garbage collection (C), several
templates (D), kinds and readiness (O), timeouts (P), restarts (S) and workloads that stumble (U).
"""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from tests.tenancy.entries import JOB, POD, deployment, job, manifest, pod
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    SECRET,
    SERVICE,
    TenancyHarness,
    config_map,
    mapping,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

STATEFUL_SET = mapping("apps/v1", "StatefulSet")
MISSING_IMAGE = "web:does-not-exist"
PORT = {"port": 80, "protocol": "TCP"}
"""With its protocol: before 1.21 a server cannot apply a port without."""
NO_LIMIT = {"maxDeletePercent": 100}


@pytest.fixture
def harness(shared_harness_with_nodes: TenancyHarness) -> TenancyHarness:
    return shared_harness_with_nodes


# -- B, C, D: rows and templates -----------------------------------------------------------------------


@pytest.mark.criterion("B1", "B2", "B3", "B4", "B5")
@pytest.mark.matrix
async def test_rows_become_tenants_by_their_activation_and_columns(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    truthy = ("1", "true", "TRUE", "True", "yes", "YES", "Yes")
    falsy = ("0", "false", "", "no", "y", "on", "2", None)
    for number, value in enumerate(truthy):
        fleet.row(f"on-{number}", active=value, plan=f"plan-{number}")
    for number, no in enumerate(falsy):
        fleet.row(f"off-{number}", active=no)
    mappings = {"uid": "tenant_uid", "hostOrUrl": "url", "activate": "active"}
    await fleet.registry(valueMappings=mappings, deletionGuard=NO_LIMIT)
    data = {"plan": "{{ .planId }}", "host": "{{ .host }}", "url": "{{ .hostOrUrl }}"}
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", data)])

    # B5: a column that is not there
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "UnknownColumn")
    assert "'tenant_uid'" in said.message
    assert await fleet.tenants() == []
    mappings["uid"] = "uid"
    await fleet.patch(TenantRegistry, "registry", {"spec": {"valueMappings": mappings}})

    # B3, B4
    await fleet.ready(*(f"on-{number}-app" for number in range(len(truthy))))
    assert await fleet.tenants() == [f"on-{number}-app" for number in range(len(truthy))]
    made = await fleet.get(CONFIG_MAP, "on-3-cm")
    assert made["data"] == {
        "plan": "plan-3",
        "host": "on-3.example.com",
        "url": "https://on-3.example.com/start",
    }

    # B1, B2
    fleet.row("new")
    await fleet.ready("new-app")
    fleet.row("new", active=0)
    await fleet.gone(Tenant, "new-app")


@pytest.mark.criterion("C1", "C2", "C3", "C4", "C5")
async def test_what_a_row_leaves_behind(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c", "d", "e")
    await fleet.registry(deletionGuard=NO_LIMIT)
    kept = config_map("kept", "{{ .uid }}-kept", deletionPolicy="Retain")
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm"), kept])
    await fleet.ready(*(f"{uid}-app" for uid in "abcde"))
    before = await fleet.get(CONFIG_MAP, "a-kept")

    fleet.row("a", active=0)
    fleet.row("b", active=0)
    fleet.delete_row("c")
    for uid in "abc":
        await fleet.gone(Tenant, f"{uid}-app")
        await fleet.gone(CONFIG_MAP, f"{uid}-cm")
        orphan = (await fleet.get(CONFIG_MAP, f"{uid}-kept"))["metadata"]
        assert orphan["labels"]["tenancy.ctrlruntime.dev/orphaned"] == "true"
        assert "tenancy.ctrlruntime.dev/tenant" not in orphan["labels"]
        assert orphan["annotations"]["tenancy.ctrlruntime.dev/orphaned-reason"] == "TenantDeleted"
        assert "tenancy.ctrlruntime.dev/orphaned-at" in orphan["annotations"]
    assert await fleet.tenants() == ["d-app", "e-app"]
    assert await fleet.get(CONFIG_MAP, "d-cm") is not None

    fleet.row("a")
    await fleet.ready("a-app")
    again = (await fleet.get(CONFIG_MAP, "a-kept"))["metadata"]
    assert again["uid"] == before["metadata"]["uid"], "the same object, adopted again"
    assert again["labels"] == before["metadata"]["labels"]
    assert "tenancy.ctrlruntime.dev/orphaned-reason" not in again["annotations"]


@pytest.mark.criterion("D1", "D2", "D3", "D4")
@pytest.mark.matrix
async def test_two_templates_make_two_tenants_of_each_row(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry(deletionGuard=NO_LIMIT)
    await fleet.template("one", configMaps=[config_map("cm", "{{ .uid }}-one")])
    await fleet.template("two", configMaps=[config_map("cm", "{{ .uid }}-two")])
    await fleet.ready("a-one", "a-two", "b-one", "b-two")

    async def counts() -> tuple[int, int, int]:
        status = (await fleet.read(TenantRegistry, "registry")).status
        return status.referencing_templates, status.desired, status.ready

    await harness.eventually(counts, lambda seen: seen == (2, 4, 4))
    fleet.row("b", active=0)
    await fleet.gone(Tenant, "b-one")
    await fleet.gone(Tenant, "b-two")
    await fleet.delete(TenantTemplate, "two")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "TemplateGone")
    await fleet.approve("Held: a-two")
    await fleet.gone(Tenant, "a-two")
    await fleet.gone(CONFIG_MAP, "a-two")
    await harness.eventually(counts, lambda seen: seen == (1, 1, 1))
    assert await fleet.tenants() == ["a-one"]


# -- O: kinds and their readiness -------------------------------------------------------------------------


@pytest.mark.criterion("FAULT-B19", "FAULT-B32")
async def test_every_kind_gets_ready_in_its_own_way(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", replicas=2)
    await fleet.registry()
    selector = {"matchLabels": {"app": "{{ .uid }}"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "{{ .uid }}-app"}
    backend = {"service": {"name": "{{ .uid }}-svc", "port": {"number": 80}}}
    stateful = {"serviceName": "{{ .uid }}-svc", "replicas": "{{ .replicas | int }}"}
    task = {"template": {"spec": {"template": pod("worker:1", restartPolicy="Never")}}}
    home = f"{fleet.namespace}-a-kinds"
    await fleet.template(
        "kinds",
        serviceAccounts=[manifest("sa", "v1", "ServiceAccount")],
        deployments=[
            deployment(),
            deployment("lazy", image=MISSING_IMAGE, waitForReady=False),
            deployment("zero", deployment={"replicas": 0}),
        ],
        statefulSets=[
            manifest(
                "sts",
                "apps/v1",
                "StatefulSet",
                body={"spec": {"selector": selector, "template": pod(), **stateful}},
            )
        ],
        daemonSets=[
            manifest(
                "ds",
                "apps/v1",
                "DaemonSet",
                body={"spec": {"selector": selector, "template": pod()}},
            )
        ],
        services=[
            manifest("svc", "v1", "Service", body={"spec": {"ports": [PORT]}}),
            manifest(
                "lb",
                "v1",
                "Service",
                body={"spec": {"type": "LoadBalancer", "ports": [PORT]}},
            ),
        ],
        ingresses=[
            manifest(
                "ing", "networking.k8s.io/v1", "Ingress", body={"spec": {"defaultBackend": backend}}
            )
        ],
        configMaps=[config_map("cm", "{{ .uid }}-cm")],
        secrets=[manifest("sec", "v1", "Secret", body={"stringData": {"k": "v"}})],
        persistentVolumeClaims=[
            manifest("pvc", "v1", "PersistentVolumeClaim", body={"spec": claim})
        ],
        jobs=[job("job")],
        cronJobs=[
            manifest(
                "cron",
                "batch/v1",
                "CronJob",
                body={
                    "spec": {
                        "schedule": "0 0 * * *",
                        "jobTemplate": {"spec": task["template"]["spec"]},
                    }
                },
            )
        ],
        podDisruptionBudgets=[
            manifest(
                "pdb",
                "policy/v1",
                "PodDisruptionBudget",
                body={"spec": {"minAvailable": 1, "selector": selector}},
            )
        ],
        networkPolicies=[
            manifest(
                "np", "networking.k8s.io/v1", "NetworkPolicy", body={"spec": {"podSelector": {}}}
            )
        ],
        horizontalPodAutoscalers=[
            manifest(
                "hpa",
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                body={"spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2}},
            )
        ],
        namespaces=[
            manifest(
                "ns",
                "v1",
                "Namespace",
                nameTemplate=f"{fleet.namespace}-{{{{ .uid }}}}-{{{{ .templateRef }}}}",
                labelsTemplate={"plan": "{{ .planId }}"},
            )
        ],
    )
    await fleet.ready("a-kinds")
    tenant = await fleet.read(Tenant, "a-kinds")
    assert tenant.status.ready_resources == tenant.status.desired_resources == 18
    assert len(tenant.status.applied_resources) == 18
    assert (await fleet.get(STATEFUL_SET, "a-sts"))["status"]["readyReplicas"] == 2
    assert (await fleet.get(JOB, "a-job"))["status"]["succeeded"] == 1
    assert (await fleet.get(DEPLOYMENT, "a-app"))["status"]["readyReplicas"] == 1
    assert (await fleet.get(SERVICE, "a-lb"))["status"]["loadBalancer"]["ingress"]
    assert (await fleet.get(SECRET, "a-sec"))["data"] == {"k": "dg=="}
    namespace = (await fleet.get(NAMESPACE_KIND, home))["metadata"]
    assert namespace["labels"]["plan"] == "basic"
    assert "ownerReferences" not in namespace
    owner = (await fleet.get(CONFIG_MAP, "a-cm"))["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Tenant", "a-kinds", True)
    fleet.row("a", active=0)
    await fleet.gone(Tenant, "a-kinds")
    await fleet.gone(NAMESPACE_KIND, home)


# -- P, S, U: time and stumbling workloads ------------------------------------------------------------


@pytest.mark.criterion("P1", "P2", "U3", "U4", "U5")
async def test_slow_is_not_failed_but_too_slow_is(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", image=MISSING_IMAGE)
    fleet.row("b")
    await fleet.registry()
    await fleet.template("image", deployments=[deployment(timeoutSeconds=2)])
    deadline = {"progressDeadlineSeconds": 3, "minReadySeconds": 0}
    await fleet.template("deadline", deployments=[deployment("d", deployment=deadline)])
    await fleet.template("slow", jobs=[job("slow", seconds="2.5", timeoutSeconds=60)])

    # P1, U3: an image that does not exist; the other tenant is not held up by it
    await fleet.ready("b-image", "b-deadline")
    said = await fleet.until(Tenant, "a-image", "Ready", "False", "ResourcesFailed")
    assert "app (not ready within 2 s" in said.message
    assert "0 of 1 replicas are ready" in said.message
    # U4: the Deployment's own deadline is known long before ours
    said = await fleet.until(Tenant, "a-deadline", "Ready", "False", "ResourcesFailed")
    assert "its rollout exceeded its progress deadline" in said.message
    # U5: slow success is no failure
    await fleet.ready("a-slow", "b-slow")
    failed = {event["regarding"]["name"] for event in await fleet.events("ResourceFailed")}
    assert failed >= {"a-image", "a-deadline"}
    assert failed.isdisjoint({"a-slow", "b-slow"})

    # P2: mended through the row
    fleet.row("a", image="web:2")
    await fleet.ready("a-image", "a-deadline")
    tenant = await fleet.read(Tenant, "a-image")
    assert tenant.status.failed_resources == 0


@pytest.mark.criterion("S1", "U1", "FAULT-B32")
async def test_an_old_deployment_that_rolls_or_loses_a_pod_is_not_failed_at_once(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(deployments=[deployment(timeoutSeconds=10, patchStrategy="replace")])
    await fleet.ready("a-app")
    harness.advance(10.1)  # older than the timeout

    # U1: a pod is evicted
    async def pods() -> list[str]:
        found = await harness.client.list(POD, fleet.namespace)
        return [p["metadata"]["name"] for p in found if "deletionTimestamp" not in p["metadata"]]

    [victim] = await pods()
    await fleet.delete(POD, victim)
    await harness.eventually(pods, lambda seen: len(seen) == 1 and seen != [victim])
    await fleet.ready("a-app")
    assert (await fleet.read(Tenant, "a-app")).status.failed_resources == 0

    # S1: replaced with a new image
    fleet.row("a", image="nginx:2")
    await fleet.there(
        DEPLOYMENT,
        "a-app",
        lambda d: d["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2",
    )
    await fleet.ready("a-app")
    assert await fleet.events("ResourceFailed") == []
    await fleet.until(Tenant, "a-app", "Degraded", "False", "Healthy")


@pytest.mark.criterion("S4")
async def test_tenants_stay_ready_over_a_restart_and_nothing_is_written(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(deployments=[deployment()], configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app", "b-app")
    await harness.idle()

    async def transitions() -> dict[str, Any]:
        found = await harness.client.list(Tenant, fleet.namespace)
        return {t.metadata.name or "": find_condition(t.status.conditions, "Ready") for t in found}

    before, mark = await transitions(), harness.mark()
    await harness.restart_manager()
    await harness.idle()
    assert fleet.writes(mark) == []
    assert await transitions() == before
    fleet.row("c")
    await fleet.ready("c-app")
