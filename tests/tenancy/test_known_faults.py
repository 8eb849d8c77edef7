"""Faults of a former operator that are absent here (FAULT-B1 to FAULT-B40), where no other test shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.json import Json
from tests.tenancy.drift_matrix import WIDGET, WIDGET_CRD
from tests.tenancy.entries import JOB, deployment, end_job, job, manifest, pods
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    SECRET,
    TenancyHarness,
    config_map,
    is_ready,
    mapping,
)
from tests.tenancy.rollout_fleet import UIDS, content, put, status
from tests.tenancy.test_metrics import series

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]

TENANT = "a-app"
SLOW = "example.com/slow"
OTHER = config_map("other", "{{ .uid }}-other")


@pytest.fixture
def harness(shared_harness_with_nodes: TenancyHarness) -> TenancyHarness:
    return shared_harness_with_nodes


async def one_tenant(harness: TenancyHarness, **spec: Json) -> Fleet:
    """A fleet with one row and no template."""
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry(**spec)
    return fleet


def queries(fleet: Fleet) -> float:
    """Return how often the rows were read."""
    found = series(fleet.harness, registry="registry", namespace=fleet.namespace)
    return sum(found["registry_query_duration_seconds_count"].values())


async def finalizers(fleet: Fleet, name: str, namespace: str, names: list[str] | None) -> None:
    """Put finalizers on a ConfigMap, or take all of them off."""
    await fleet.harness.client.patch(
        CONFIG_MAP,
        name,
        {"metadata": {"finalizers": names}},
        namespace=namespace,
        type=PatchType.MERGE,
    )


# -- statuses and queries ------------------------------------------------------------------------


@pytest.mark.criterion("FAULT-B1")
async def test_b1_an_idle_fleet_is_not_written_to(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c")
    await fleet.registry()
    maps = [config_map(f"cm-{n}", f"{{{{ .uid }}}}-cm-{n}") for n in range(10)]
    await fleet.template(configMaps=maps, deployments=[deployment()])
    await fleet.ready("a-app", "b-app", "c-app")
    await harness.idle()

    async def versions() -> list[str | None]:
        found = await harness.client.list(Tenant, fleet.namespace)
        return [each.metadata.resource_version for each in found]

    before, mark = await versions(), harness.mark()
    await harness.synced(2, fleet.namespace)
    assert fleet.writes(mark) == []
    assert await versions() == before


@pytest.mark.criterion("FAULT-B15")
async def test_b15_a_rollout_does_not_wait_for_the_next_query(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    source = {**fleet.source(), "syncInterval": "1h"}
    await fleet.registry(source=source)
    await put(fleet, content("one"), maxSkew=1)
    await fleet.ready(*(f"{uid}-app" for uid in UIDS))
    await harness.idle()
    made = queries(fleet)
    await put(fleet, content("two"), maxSkew=1)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.updated == len(UIDS))
    assert queries(fleet) - made <= 1, "the template changed; its tenants one after the other"


@pytest.mark.criterion("FAULT-B18")
async def test_b18_changes_of_statuses_cause_no_query(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    source = {**fleet.source(), "syncInterval": "1h"}
    fleet.row("a")
    await fleet.registry(source=source)
    await fleet.template(jobs=[job("job", seconds="600")])
    await fleet.until(Tenant, TENANT, "Ready", "False", "NotAllResourcesReady")
    await fleet.until(TenantTemplate, "app", "Applied", "False", "NotAllTenantsReady")
    await harness.idle()
    made, mark = queries(fleet), harness.mark()
    await end_job(fleet, "a-job")
    await fleet.ready(TENANT)
    await fleet.until(TenantTemplate, "app", "Applied", "True", "AllTenantsReady")
    await harness.idle()
    statuses = {line.split()[1].partition(".")[0] for line in fleet.writes(mark)}
    assert statuses == {"tenants", "tenanttemplates", "tenantregistries"}
    assert queries(fleet) == made


@pytest.mark.criterion("FAULT-B26")
async def test_b26_no_status_is_lost_when_many_tenants_change_at_once(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    number = 150
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number})"
    values = "SELECT 'u' || i, 'https://x.example.com', 1, 'basic', 'nginx:1', 1, 's' FROM n"
    fleet.sql(f"{numbers} INSERT INTO tenants {values}")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])

    async def tenants() -> list[Tenant]:
        found: list[Tenant] = await harness.client.list(Tenant, fleet.namespace)
        return found

    def all_have(resources: int) -> Callable[[list[Tenant]], bool]:
        return lambda seen: (
            len(seen) == number
            and all(is_ready(t) and len(t.status.applied_resources) == resources for t in seen)
        )

    await harness.eventually(tenants, all_have(1))
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm"), OTHER])
    found = await harness.eventually(tenants, all_have(2))
    assert {t.status.observed_generation for t in found} == {t.metadata.generation for t in found}


# -- templates -----------------------------------------------------------------------------------


@pytest.mark.criterion("FAULT-B4")
async def test_b4_extra_variables_and_defaults_work_in_names_labels_and_annotations(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    entry = config_map(
        "cm",
        '{{ .uid }}-{{ .planId }}-{{ .zone | default "any" }}',
        labelsTemplate={"plan": "{{ .planId }}", "tier": '{{ .tier | default "free" }}'},
        annotationsTemplate={
            "note": "{{ if .tier | default false }}paid{{ else }}{{ .planId }}{{ end }}"
        },
    )
    await fleet.template(configMaps=[entry])
    await fleet.until(TenantTemplate, "app", "Valid", "True", "ValidationPassed")
    await fleet.ready(TENANT)
    metadata = (await fleet.get(CONFIG_MAP, "a-basic-any"))["metadata"]
    assert {name: metadata["labels"][name] for name in ("plan", "tier")} == {
        "plan": "basic",
        "tier": "free",
    }
    assert metadata["annotations"]["note"] == "basic"


@pytest.mark.criterion("FAULT-B5")
async def test_b5_metadata_of_the_manifest_is_kept_beside_that_of_templates(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    place = harness.place(f"{fleet.namespace}-far")
    await harness.make_namespace(place)
    entry = config_map(
        "cm",
        "{{ .uid }}-cm",
        labelsTemplate={"plan": "{{ .planId }}"},
        annotationsTemplate={"note": "of {{ .uid }}"},
    )
    entry["spec"]["metadata"] = {
        "namespace": place,
        "labels": {"app": "web", "plan": "overridden"},
        "annotations": {"nginx.ingress.kubernetes.io/rewrite-target": "/"},
    }
    await fleet.template(configMaps=[entry])
    await fleet.ready(TENANT)
    live = await harness.get(CONFIG_MAP, "a-cm", namespace=place)
    assert live is not None
    metadata = live["metadata"]
    assert (metadata["labels"]["app"], metadata["labels"]["plan"]) == ("web", "basic")
    assert metadata["annotations"]["nginx.ingress.kubernetes.io/rewrite-target"] == "/"
    assert metadata["annotations"]["note"] == "of a"


@pytest.mark.criterion("FAULT-B20")
async def test_b20_what_a_row_holds_is_never_a_template(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    hostile = '{{ env "HOME" }}{{ uid }}{% for i in x %}'
    fleet.row("a", plan=hostile)
    await fleet.registry()
    entry = config_map(
        "cm", "{{ .uid }}-cm", {"k": "{{ .planId }}"}, annotationsTemplate={"k": "{{ .planId }}"}
    )
    await fleet.template(configMaps=[entry])
    await fleet.ready(TENANT)
    live = await fleet.get(CONFIG_MAP, "a-cm")
    assert live["data"] == {"k": hostile}
    assert live["metadata"]["annotations"]["k"] == hostile
    await fleet.template("env", configMaps=[config_map("cm", "x", {"k": '{{ env "HOME" }}'})])
    reported = await fleet.until(TenantTemplate, "env", "Valid", "False", "ValidationFailed")
    assert "'env'" in reported.message


# -- what leaves the template ----------------------------------------------------------------------


@pytest.mark.criterion("FAULT-B6")
async def test_b6_objects_of_any_kind_go_when_they_leave_the_template(
    harness: TenancyHarness,
) -> None:
    await harness.environment.install_crds(WIDGET_CRD)
    fleet = await one_tenant(harness)
    selector = {"matchLabels": {"app": "x"}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"}
    scaler = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2}
    bodies: dict[RESTMapping, tuple[str, dict[str, Any]]] = {
        mapping("policy/v1", "PodDisruptionBudget"): (
            "podDisruptionBudgets",
            {"minAvailable": 1, "selector": selector},
        ),
        mapping("networking.k8s.io/v1", "NetworkPolicy"): (
            "networkPolicies",
            {"podSelector": selector},
        ),
        mapping("autoscaling/v2", "HorizontalPodAutoscaler"): ("horizontalPodAutoscalers", scaler),
        WIDGET: ("manifests", {"size": 1}),
    }
    lists: dict[str, Any] = {
        name: [
            manifest(
                kind.plural,
                kind.gvk.api_version,
                kind.gvk.kind,
                body={"spec": spec},
                waitForReady=False,
            )
        ]
        for kind, (name, spec) in bodies.items()
    }
    await fleet.template(configMaps=[OTHER], **lists)
    await fleet.ready(TENANT)
    for kind in bodies:
        assert await fleet.get(kind, f"a-{kind.plural}") is not None
    await fleet.template(configMaps=[OTHER])
    for kind in bodies:
        await fleet.gone(kind, f"a-{kind.plural}")
    await fleet.ready(TENANT)
    found = (await fleet.read(Tenant, TENANT)).status.applied_resources
    assert found == [f"ConfigMap/{fleet.namespace}/a-other@other"]


@pytest.mark.criterion("FAULT-B10")
async def test_b10_a_templated_namespace_is_rendered_for_removal_and_for_rollouts(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    uids = ("a", "b")
    fleet.rows(*uids)
    await fleet.registry()
    name = f"{fleet.namespace}-{{{{ .uid }}}}-ns"
    home = manifest("ns", "v1", "Namespace", nameTemplate=name)
    far: dict[str, Any] = {"targetNamespace": name, "dependIds": ["ns"]}

    def lists(image: str, *more: dict[str, Any]) -> dict[str, Any]:
        web = deployment(image=image, **far)
        return {"namespaces": [home], "deployments": [web], "configMaps": [OTHER, *more]}

    await put(fleet, lists("web:1", config_map("cm", "{{ .uid }}-cm", **far)), maxSkew=1)
    await fleet.ready("a-app", "b-app")
    assert await harness.get(CONFIG_MAP, "a-cm", namespace=f"{fleet.namespace}-a-ns") is not None

    await put(fleet, lists("web:2"), maxSkew=1)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.updated == len(uids))
    await fleet.ready("a-app", "b-app")
    for uid in uids:
        place = f"{fleet.namespace}-{uid}-ns"
        await harness.gone(CONFIG_MAP, f"{uid}-cm", namespace=place)
        live = await harness.get(DEPLOYMENT, f"{uid}-app", namespace=place)
        assert live is not None
        assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "web:2"


@pytest.mark.criterion("FAULT-B12")
async def test_b12_a_resource_that_its_manifest_names_is_removed_as_any_other(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    spec = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .uid }}-plain"}}
    await fleet.template(configMaps=[{"id": "plain", "spec": spec}, OTHER])
    await fleet.ready(TENANT)
    keys = (await fleet.read(Tenant, TENANT)).status.applied_resources
    assert f"ConfigMap/{fleet.namespace}/a-plain@plain" in keys
    await fleet.template(configMaps=[OTHER])
    await fleet.gone(CONFIG_MAP, "a-plain")
    await fleet.ready(TENANT)


@pytest.mark.criterion("FAULT-B23")
async def test_b23_a_job_that_is_removed_takes_its_pods_with_it(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(jobs=[job("job", seconds="600")], configMaps=[OTHER])
    await harness.eventually(lambda: pods(fleet, job_name="a-job"))
    await fleet.template(configMaps=[OTHER])
    await fleet.gone(JOB, "a-job")
    left = await harness.eventually(lambda: pods(fleet), lambda seen: seen == [])
    assert left == []


@pytest.mark.criterion("FAULT-B24")
async def test_b24_a_job_that_is_made_once_is_waited_for(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    once = job("init", seconds="600", creationPolicy="Once")
    await fleet.template(
        jobs=[once], configMaps=[config_map("cm", "{{ .uid }}-cm", dependIds=["init"])]
    )
    await fleet.there(JOB, "a-init")
    await fleet.until(Tenant, TENANT, "Ready", "False", "NotAllResourcesReady")
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-cm") is None, "the job is not done"
    await end_job(fleet, "a-init")
    await fleet.there(CONFIG_MAP, "a-cm")
    await fleet.ready(TENANT)


@pytest.mark.criterion("FAULT-B39")
async def test_b39_a_registry_stays_until_its_tenants_are_gone_from_every_namespace(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    place = harness.place(f"{fleet.namespace}-far")
    await harness.make_namespace(place)
    far = config_map("cm", "{{ .uid }}-cm", targetNamespace=place)
    kept = config_map("kept", "{{ .uid }}-kept", targetNamespace=place, deletionPolicy="Retain")
    await fleet.template(configMaps=[far, kept, OTHER])
    await fleet.ready(TENANT)
    await finalizers(fleet, "a-cm", place, [SLOW])
    await fleet.delete(TenantRegistry, "registry")
    await fleet.gone(CONFIG_MAP, "a-other")
    await harness.idle()
    assert await fleet.find(TenantRegistry, "registry") is not None, "an object is left"
    assert await fleet.find(Tenant, TENANT) is not None
    await finalizers(fleet, "a-cm", place, None)
    await fleet.gone(TenantRegistry, "registry")
    assert await fleet.tenants() == []
    assert await harness.get(CONFIG_MAP, "a-cm", namespace=place) is None
    orphan = await harness.get(CONFIG_MAP, "a-kept", namespace=place)
    assert orphan is not None
    assert orphan["metadata"]["labels"]["tenancy.ctrlruntime.dev/orphaned"] == "true"
    assert await fleet.find(TenantTemplate, "app") is not None


# -- patches and memory ----------------------------------------------------------------------------


@pytest.mark.criterion("FAULT-B37")
async def test_b37_a_merge_replaces_lists_and_keeps_other_fields(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(deployments=[deployment(patchStrategy="merge", waitForReady=False)])
    await fleet.ready(TENANT)
    operations = [
        {
            "op": "add",
            "path": "/spec/template/spec/containers/-",
            "value": {"name": "side", "image": "side:1"},
        },
        {"op": "add", "path": "/spec/paused", "value": True},
    ]
    await harness.client.patch(
        DEPLOYMENT,
        "a-app",
        operations,
        namespace=fleet.namespace,
        type=PatchType.JSON,
        field_manager="somebody",
    )
    fleet.row("a", image="web:2")

    def containers(seen: dict[str, Any]) -> list[tuple[str, str]]:
        found = seen["spec"]["template"]["spec"]["containers"]
        return [(each["name"], each["image"]) for each in found]

    live = await fleet.there(
        DEPLOYMENT, "a-app", lambda seen: containers(seen) == [("main", "web:2")]
    )
    assert live["spec"]["paused"] is True


@pytest.mark.criterion("FAULT-B40")
async def test_b40_data_of_secrets_and_config_maps_is_not_in_memory(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    secret = manifest("sec", "v1", "Secret", body={"stringData": {"k": "v"}})
    await fleet.template(configMaps=[OTHER], secrets=[secret])
    metadata = {"name": "theirs", "namespace": fleet.namespace}
    head = {"apiVersion": "v1", "metadata": metadata}
    await harness.client.create({**head, "kind": "Secret", "stringData": {"k": "v" * 1000}})
    await harness.client.create({**head, "kind": "ConfigMap", "data": {"k": "v" * 1000}})
    await fleet.ready(TENANT)
    await harness.idle()
    assert harness.manager is not None
    cache = harness.manager.cache
    for kind, name in (
        (SECRET, "a-sec"),
        (SECRET, "theirs"),
        (CONFIG_MAP, "a-other"),
        (CONFIG_MAP, "theirs"),
    ):
        entry = cache.entry(kind, name, namespace=fleet.namespace)
        assert entry is not None, "the object is known"
        assert entry.fields == {}, "and nothing of it but its metadata"
