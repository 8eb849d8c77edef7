"""Whole stories of rows, templates and workloads, on simulated nodes that run Pods.

Named after the scenarios of operators of this kind: data source (B), garbage collection (C), several
templates (D), dependencies (M), skipping (N), kinds and readiness (O), timeouts (P), templates (Q),
restarts (S) and workloads that stumble (U).
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE_KIND,
    SECRET,
    SERVICE,
    World,
    config_map,
    mapping,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

POD = mapping("v1", "Pod")
JOB = mapping("batch/v1", "Job")
STATEFUL_SET = mapping("apps/v1", "StatefulSet")
MISSING_IMAGE = "web:does-not-exist"
PORT = {"port": 80, "protocol": "TCP"}
"""With its protocol: before 1.21 a server cannot apply a port without."""
NO_LIMIT = {"maxDeletePercent": 100}


@pytest.fixture
def world(shared_world_with_nodes: World) -> World:
    return shared_world_with_nodes


def pod(image: str = "{{ .image }}", **spec: Any) -> dict[str, Any]:
    """A pod template."""
    containers = [{"name": "main", "image": image}]
    return {
        "metadata": {"labels": {"app": "{{ .uid }}"}},
        "spec": {"containers": containers, **spec},
    }


def manifest(resource: str, api_version: str, kind: str, **fields: Any) -> dict[str, Any]:
    """A template entry: `spec` in `fields` is the object's, the others belong to the entry."""
    spec = {"apiVersion": api_version, "kind": kind, **fields.pop("body", {})}
    return {"id": resource, "nameTemplate": "{{ .uid }}-" + resource, "spec": spec, **fields}


def deployment(resource: str = "app", image: str = "{{ .image }}", **fields: Any) -> dict[str, Any]:
    """A template entry: a Deployment."""
    selector = {"matchLabels": {"app": "{{ .uid }}"}}
    spec = {"selector": selector, "template": pod(image), **fields.pop("deployment", {})}
    return manifest(resource, "apps/v1", "Deployment", body={"spec": spec}, **fields)


def job(resource: str, seconds: str = "0", **fields: Any) -> dict[str, Any]:
    """A template entry: a Job that runs for a while."""
    template = pod("worker:1", restartPolicy="Never")
    template["metadata"] = {"annotations": {"ctrlruntime.dev/run-seconds": seconds}}
    return manifest(resource, "batch/v1", "Job", body={"spec": {"template": template}}, **fields)


async def end_job(fleet: Fleet, name: str) -> None:
    """Let a Job that runs for a long time succeed now, once its Pod has begun."""

    async def pods() -> list[dict[str, Any]]:
        client, of_job = fleet.world.client, f"job-name={name}"
        found: list[dict[str, Any]] = await client.list(POD, fleet.namespace, labels=of_job)
        return found

    now = {"metadata": {"annotations": {"ctrlruntime.dev/run-seconds": "0"}}}
    for found in await fleet.world.eventually(pods):
        await fleet.world.client.patch(
            POD, found["metadata"]["name"], now, namespace=fleet.namespace
        )


def refused(resource: str = "bad") -> dict[str, Any]:
    """A template entry that the API server refuses."""
    return manifest(
        resource, "v1", "Service", body={"spec": {"ports": [{"port": 99999, "protocol": "TCP"}]}}
    )


# -- B, C, D: rows and templates -----------------------------------------------------------------------


@pytest.mark.criterion("B1-B5")
@pytest.mark.matrix
async def test_rows_become_tenants_by_their_activation_and_columns(world: World) -> None:
    fleet = await Fleet.make(world)
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


@pytest.mark.criterion("C1-C5")
async def test_what_a_row_leaves_behind(world: World) -> None:
    fleet = await Fleet.make(world)
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


@pytest.mark.criterion("D1-D4")
@pytest.mark.matrix
async def test_two_templates_make_two_tenants_of_each_row(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.rows("a", "b")
    await fleet.registry(deletionGuard=NO_LIMIT)
    await fleet.template("one", configMaps=[config_map("cm", "{{ .uid }}-one")])
    await fleet.template("two", configMaps=[config_map("cm", "{{ .uid }}-two")])
    await fleet.ready("a-one", "a-two", "b-one", "b-two")

    async def counts() -> tuple[int, int, int]:
        status = (await fleet.find(TenantRegistry, "registry")).status
        return status.referencing_templates, status.desired, status.ready

    await world.eventually(counts, lambda seen: seen == (2, 4, 4))
    fleet.row("b", active=0)
    await fleet.gone(Tenant, "b-one")
    await fleet.gone(Tenant, "b-two")
    await fleet.delete(TenantTemplate, "two")
    await fleet.gone(Tenant, "a-two")
    await fleet.gone(CONFIG_MAP, "a-two")
    await world.eventually(counts, lambda seen: seen == (1, 1, 1))
    assert await fleet.tenants() == ["a-one"]


# -- M, N: dependencies -------------------------------------------------------------------------------


@pytest.mark.criterion("M1-M6")
async def test_resources_are_applied_in_the_order_of_their_dependencies(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.row("a")
    await fleet.registry()
    mark = world.mark()
    # a chain, a fan-in and a diamond; the job at its start takes until it is told to end
    await fleet.template(
        jobs=[job("j1", seconds="600")],
        configMaps=[
            config_map("bottom", "{{ .uid }}-bottom", dependIds=["left", "right", "free"]),
            config_map("left", "{{ .uid }}-left", dependIds=["top"]),
            config_map("right", "{{ .uid }}-right", dependIds=["top"]),
            config_map("free", "{{ .uid }}-free"),
            config_map("top", "{{ .uid }}-top", dependIds=["j1"]),
        ],
    )
    await fleet.there(CONFIG_MAP, "a-free")
    await fleet.there(JOB, "a-j1")
    assert await fleet.get(CONFIG_MAP, "a-top") is None, "the job is not done"
    await end_job(fleet, "a-j1")
    await fleet.ready("a-app")
    applied = [
        line.split()[-1]
        for line in fleet.writes(mark)
        if line.split()[1] in ("jobs.batch", "configmaps")
    ]
    order = [name.removeprefix("a-") for name in applied]
    assert sorted(order) == ["bottom", "free", "j1", "left", "right", "top"], "each once"
    assert order.index("j1") < order.index("top") < min(order.index("left"), order.index("right"))
    assert order[-1] == "bottom"

    # circles are said to be, and nothing of them is rolled out
    async def circle(name: str, **edges: str) -> None:
        maps = [config_map(i, "{{ .uid }}-x" + i, dependIds=[to]) for i, to in edges.items()]
        await fleet.template(name, configMaps=maps)
        said = await fleet.until(TenantTemplate, name, "Valid", "False", "DependencyCycle")
        assert "circular dependency detected: " in said.message

    await circle("direct", x="y", y="x")
    await circle("indirect", x="y", y="z", z="x")
    await circle("itself", x="x")
    assert await fleet.tenants() == ["a-app"]


@pytest.mark.criterion("N1-N6")
@pytest.mark.matrix
async def test_what_depends_on_a_failure_is_skipped_or_not_as_it_says(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(
        services=[refused()],
        jobs=[job("slow", seconds="600")],
        configMaps=[
            config_map("skipped", "{{ .uid }}-skipped", dependIds=["bad"]),
            config_map("cascade", "{{ .uid }}-cascade", dependIds=["skipped"]),
            config_map(
                "anyway", "{{ .uid }}-anyway", dependIds=["bad"], skipOnDependencyFailure=False
            ),
            config_map("after-anyway", "{{ .uid }}-after", dependIds=["anyway"]),
            config_map("blocked", "{{ .uid }}-blocked", dependIds=["slow"]),
        ],
    )
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    await fleet.there(CONFIG_MAP, "a-anyway")
    await fleet.there(CONFIG_MAP, "a-after")

    async def status() -> Any:
        return (await fleet.find(Tenant, "a-app")).status

    seen = await world.eventually(status, lambda s: s.ready_resources == 2)
    assert seen.skipped_resources == 2
    assert seen.skipped_resource_ids == ["cascade", "skipped"]
    assert seen.failed_resource_ids == ["bad"]
    for name in ("skipped", "cascade", "blocked"):
        assert await fleet.get(CONFIG_MAP, f"a-{name}") is None
    await fleet.event("DependencySkipped")
    notes = [event["note"] for event in await fleet.events("DependencySkipped")]
    assert set(notes) == {
        "skipped: bad failed (skipped -> bad)",
        "cascade: bad failed (cascade -> skipped -> bad)",
    }, "not ready: no skip"
    columns = {column.name: column.json_path for column in Tenant.options().print_columns}
    assert columns["Skipped"] == ".status.skippedResources"

    # mended: nothing is skipped any more, and the status forgets it
    await fleet.template(
        configMaps=[
            config_map("bad", "{{ .uid }}-bad"),
            config_map("skipped", "{{ .uid }}-skipped", dependIds=["bad"]),
            config_map("cascade", "{{ .uid }}-cascade", dependIds=["skipped"]),
        ]
    )
    await fleet.ready("a-app")
    seen = await status()
    assert (seen.skipped_resources, seen.skipped_resource_ids) == (0, [])
    await fleet.gone(CONFIG_MAP, "a-anyway")
    await fleet.gone(JOB, "a-slow")


# -- O: kinds and their readiness -------------------------------------------------------------------------


@pytest.mark.criterion("O1-O10")
async def test_every_kind_gets_ready_in_its_own_way(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.row("a", replicas=2)
    await fleet.registry()
    selector = {"matchLabels": {"app": "{{ .uid }}"}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "{{ .uid }}-app"}
    backend = {"service": {"name": "{{ .uid }}-svc", "port": {"number": 80}}}
    stateful = {"serviceName": "{{ .uid }}-svc", "replicas": "{{ .replicas | int }}"}
    task = {"template": {"spec": {"template": pod("worker:1", restartPolicy="Never")}}}
    home = f"{fleet.namespace}-a-kinds"
    scales = world.has("autoscaling/v2")  # the one version that simulated nodes look at
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
                "batch/v1" if world.has("batch/v1 CronJob") else "batch/v1beta1",
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
                "policy/v1" if world.has("policy/v1") else "policy/v1beta1",
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
                "autoscaling/v2" if scales else "autoscaling/v2beta2",
                "HorizontalPodAutoscaler",
                body={"spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2}},
                waitForReady=scales,
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
    tenant = await fleet.find(Tenant, "a-kinds")
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


@pytest.mark.criterion("P1-P2-U3-U4-U5")
async def test_slow_is_not_failed_but_too_slow_is(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.row("a", image=MISSING_IMAGE)
    fleet.row("b")
    await fleet.registry()
    await fleet.template("image", deployments=[deployment(timeoutSeconds=2)])
    deadline = {"progressDeadlineSeconds": 6, "minReadySeconds": 0}
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
    tenant = await fleet.find(Tenant, "a-image")
    assert tenant.status.failed_resources == 0


@pytest.mark.criterion("S1-U1")
async def test_an_old_deployment_that_rolls_or_loses_a_pod_is_not_failed_at_once(
    world: World,
) -> None:
    fleet = await Fleet.make(world)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(deployments=[deployment(timeoutSeconds=10, patchStrategy="replace")])
    await fleet.ready("a-app")
    await asyncio.sleep(10.1)  # older than the timeout

    # U1: a pod is evicted
    async def pods() -> list[str]:
        found = await world.client.list(POD, fleet.namespace)
        return [p["metadata"]["name"] for p in found if "deletionTimestamp" not in p["metadata"]]

    [victim] = await pods()
    await fleet.delete(POD, victim)
    await world.eventually(pods, lambda seen: len(seen) == 1 and seen != [victim])
    await fleet.ready("a-app")
    assert (await fleet.find(Tenant, "a-app")).status.failed_resources == 0

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
async def test_tenants_stay_ready_over_a_restart_and_nothing_is_written(world: World) -> None:
    fleet = await Fleet.make(world)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(deployments=[deployment()], configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app", "b-app")
    await world.rest()

    async def transitions() -> dict[str, Any]:
        found = await world.client.list(Tenant, fleet.namespace)
        return {t.metadata.name or "": find_condition(t.status.conditions, "Ready") for t in found}

    before, mark = await transitions(), world.mark()
    await world.restart_manager()
    await world.rest()
    assert fleet.writes(mark) == []
    assert await transitions() == before
    fleet.row("c")
    await fleet.ready("c-app")


# -- Q: templates ---------------------------------------------------------------------------------------


@pytest.mark.criterion("Q1-Q14")
@pytest.mark.matrix
async def test_templates_in_the_spelling_of_the_seed(world: World) -> None:
    fleet = await Fleet.make(world)
    long = "x" * 80
    fleet.row("a", plan=long, replicas="3", image="yes")
    await fleet.registry(
        extraValueMappings={"long": "plan", "n": "replicas", "flag": "image", "real": "secret"}
    )
    data = {
        "q1": "{{ .long | trunc63 }}",
        "q2": "{{ .uid | sha1sum }}",
        "q3": '{{ .none | default "d" }} {{ .uid | upper }} {{ "ABC" | lower }} {{ .uid | b64enc }}',
        "q4": "{{ .hubId }} {{ .registryId }} {{ .templateRef }}",
        "q9": '{{ .missing | default "7" | int }}',
        "q10": '{{ "junk" | int }}',
        "q14": '{{ .uid | default "other" }}',
        "if": '{{ if eq .uid "a" }}first{{ else }}other{{ end }}',
        "host": "{{ .hostOrUrl | toHost }}",
    }
    label, annotation = {"plan": "{{ .long | trunc63 }}"}, {"note": "of {{ .uid }}"}
    cm = config_map(
        "cm", "{{ .uid }}-cm", data, labelsTemplate=label, annotationsTemplate=annotation
    )
    typed = {
        "replicas": "{{ .n | int }}",
        "paused": "{{ .flag | bool }}",
        "progressDeadlineSeconds": "{{ .n | float | int }}",
    }
    native = deployment("native", image="web:1", deployment=typed, waitForReady=False)
    await fleet.template(configMaps=[cm], deployments=[native])
    await fleet.ready("a-app")
    made = await fleet.get(CONFIG_MAP, "a-cm")
    assert made["data"] == {
        "q1": "x" * 63,
        "q2": hashlib.sha1(b"a").hexdigest(),
        "q3": "d A abc YQ==",
        "q4": "registry registry app",
        "q9": "7",
        "q10": "0",
        "q14": "a",
        "if": "first",
        "host": "a.example.com",
    }
    assert made["metadata"]["labels"]["plan"] == "x" * 63
    assert made["metadata"]["annotations"]["note"] == "of a"
    spec = (await fleet.get(DEPLOYMENT, "a-native"))["spec"]
    assert (spec["replicas"], spec["paused"], spec["progressDeadlineSeconds"]) == (3, True, 3)

    # Q11: a variable that no row has
    await fleet.template(
        "unknown", configMaps=[config_map("cm", "{{ .uid }}-u", {"k": "{{ .x }}"})]
    )
    await fleet.until(TenantTemplate, "unknown", "VariablesKnown", "False", "UnknownVariables")
    said = await fleet.until(Tenant, "a-unknown", "Degraded", "True", "ResourceFailures")
    assert "'x'" in said.message
    assert (await fleet.find(Tenant, "a-unknown")).status.failed_resources == 1
    assert await fleet.get(CONFIG_MAP, "a-u") is None

    # Q12, Q13: there is no admission webhook; the template says so, and nothing is rolled out
    for name, template in (("nofunction", "{{ .uid | shout }}"), ("malformed", "{{ .uid | ")):
        await fleet.template(name, configMaps=[config_map("cm", template)])
        await fleet.until(TenantTemplate, name, "Valid", "False", "ValidationFailed")
    assert await fleet.tenants() == ["a-app", "a-unknown"]
