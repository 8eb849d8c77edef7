"""The annotation that decides where an object goes, and what is reported where its place is in doubt."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import PLANE
from internal.fleet.routing import doubts, possible_planes, route
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    SERVICE,
    change,
    condition,
    config_map,
    entry,
    eventually,
    fleet,
    ready,
    tenant,
)
from tests.fleet.stack.test_routing import LABELS, obj, workload

pytestmark = pytest.mark.criterion("R-F13")
SECRETS = {"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}
POD = {"metadata": {"labels": LABELS}, "spec": {"containers": [SECRETS]}}


def custom(api_version: str, kind: str, place: str = "", **spec: object) -> dict[str, Any]:
    """Make an object of a kind that Kubernetes has not, with the annotation if `place` is given."""
    made = {**obj(kind, "x", spec=spec), "apiVersion": api_version}
    return annotated(made, place) if place else made


def annotated(made: dict[str, Any], place: str) -> dict[str, Any]:
    """Return an object with the annotation."""
    metadata = {**made["metadata"], "annotations": {PLANE: place}}
    return {**made, "metadata": metadata}


def places(*objects: dict[str, Any]) -> tuple[dict[str, str], set[str]]:
    """Return where objects go, and the kinds whose place is in doubt."""
    planes = route(objects)
    found = doubts(objects, planes)
    assert all(
        f"annotate it in its template with {PLANE}: hub, or data" in d for d in found.values()
    )
    return (
        {key.kind.kind: plane.value for key, plane in planes.items()},
        {key.kind.kind for key in found},
    )


UNKNOWN = [
    custom("gateway.networking.k8s.io/v1", "HTTPRoute", parentRefs=[]),
    custom("monitoring.coreos.com/v1", "ServiceMonitor"),
    custom("keda.sh/v1alpha1", "ScaledObject", scaleTargetRef={"name": "web"}),
    custom("argoproj.io/v1alpha1", "Rollout", template=POD),
    custom("serving.knative.dev/v1", "Service", template=POD),
    custom("example.com/v1", "Widget"),
]


@pytest.mark.parametrize("made", UNKNOWN, ids=lambda made: made["apiVersion"])
def test_a_kind_of_others_is_reported_until_its_place_is_chosen(made: dict[str, Any]) -> None:
    kind = made["kind"]
    assert places(made, workload("Deployment")) == ({kind: "data", "Deployment": "hub"}, {kind})
    for place in ("hub", "data"):
        assert places(annotated(made, place)) == ({kind: place}, set())
    assert places(annotated(made, "moon")) == ({kind: "data"}, {kind})


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        *(("v1", "LimitRange"), ("v1", "ResourceQuota")),
        *(("networking.k8s.io/v1", "NetworkPolicy"), ("policy/v1", "PodDisruptionBudget")),
        *(("autoscaling/v2", "HorizontalPodAutoscaler"),),
        *(("autoscaling.k8s.io/v1", "VerticalPodAutoscaler"),),
    ],
)
def test_what_acts_on_pods_alone_is_reported_where_none_run(api_version: str, kind: str) -> None:
    """Quotas of a namespace, and what selects or names Pods of another Tenant, or of a set of nodes."""
    made = custom(api_version, kind)
    for beside in (workload("Deployment"), custom("cosmos.ctrlruntime.dev/v1", "CosmosFullNode")):
        assert places(made, beside)[1] == {kind}
        assert places(annotated(made, "hub"), beside)[1] == set()
        assert places(annotated(made, "data"), beside)[1] == set()


def test_what_a_chosen_object_names_and_what_selects_its_pods_goes_with_it() -> None:
    rollout = custom("argoproj.io/v1alpha1", "Rollout", "hub", template=POD)
    service = obj("Service", "web", spec={"selector": LABELS})
    found, unknown = places(rollout, service, obj("Secret", "s"), obj("ConfigMap", "other"))
    assert found == {"Rollout": "hub", "Service": "hub", "Secret": "hub", "ConfigMap": "data"}
    assert unknown == set()


@pytest.mark.parametrize("made", [obj("ConfigMap", "c"), obj("Role", "r"), obj("Service", "s")])
def test_the_annotation_decides_for_kinds_of_kubernetes_too(made: dict[str, Any]) -> None:
    kind = made["kind"]
    assert places(annotated(made, "hub"))[0] == {kind: "hub"}
    naming = workload("Pod", volumes=[{"configMap": {"name": "c"}}])
    assert places(annotated(made, "data"), naming)[0][kind] == "data"
    possible = possible_planes(
        {key.kind for key in route([made])}, {key.kind for key in route([made])}
    )
    assert [each.value for each in possible.values()] == ["both"]


@pytest.mark.parametrize("kind", ["Deployment", "Namespace"])
def test_a_place_that_cannot_be_is_reported_and_not_taken(kind: str) -> None:
    made = annotated(obj(kind, "n", "" if kind == "Namespace" else "a"), "data")
    (found,) = doubts([made], route([made])).values()
    assert f"whatever its annotation {PLANE}=data: remove that" in found


@pytest.mark.parametrize(
    ("api_version", "kind", "moved"),
    [
        ("cosmos.ctrlruntime.dev/v1", "CosmosFullNode", {"Secret", "ConfigMap"}),
        ("cloud.ctrlruntime.dev/v1", "Instance", {"Secret"}),
    ],
)
def test_what_pods_and_runs_on_the_hub_read_is_there(
    api_version: str, kind: str, moved: set[str]
) -> None:
    spec = {"a": [{"secretRef": {"name": "s"}}], "b": {"configMapRef": {"name": "c"}}}
    made = custom(api_version, kind, podTemplate=spec)
    found, unknown = places(made, obj("Secret", "s"), obj("ConfigMap", "c"))
    assert found[kind] == "data"
    assert {name for name, place in found.items() if place == "hub"} == moved
    assert unknown == set()
    assert places(made, obj("Secret", "t"))[0]["Secret"] == "data"


def test_rights_of_an_account_whose_pods_run_on_the_hub_are_reported() -> None:
    subjects = [{"kind": "ServiceAccount", "name": "app"}]
    bound = {**custom("rbac.authorization.k8s.io/v1", "RoleBinding"), "subjects": subjects}
    account = obj("ServiceAccount", "app")
    _, unknown = places(bound, account, workload("Pod", serviceAccountName="app"))
    assert unknown == {"RoleBinding"}
    assert places(bound, account)[1] == set()


@pytest.mark.parametrize("kind", ["Role", "ClusterRole"])
def test_a_role_that_a_binding_on_the_hub_names_is_reported_where_it_is_not(kind: str) -> None:
    group = "rbac.authorization.k8s.io"
    role = {
        **obj(kind, "r", "a" if kind == "Role" else ""),
        "apiVersion": f"{group}/v1",
    }
    binding = {**custom(f"{group}/v1", "RoleBinding"), "roleRef": {"kind": kind, "name": "r"}}
    on_hub = annotated(binding, "hub")
    assert places(role, on_hub) == ({kind: "data", "RoleBinding": "hub"}, {kind})
    assert places(annotated(role, "hub"), on_hub)[1] == set()
    assert places(role, binding)[1] == set()


async def test_a_tenant_reports_places_and_follows_the_annotation_both_ways(tmp_path: Path) -> None:
    def made(place: str) -> dict[str, Any]:
        metadata = {"annotations": {PLANE: place}} if place else {}
        service = entry("svc", "Service", spec={"ports": [{"port": 80}]}, metadata=metadata)
        return tenant(config_map("notes"), service)

    async with fleet(tmp_path) as servers, servers.running():
        hub, plane = servers.hub, servers.plane
        await plane.client.create(made("moon"))
        found = await condition(plane, "PlacesKnown", "False", "PlaceUnknown")
        assert (
            f"Service svc goes to the data plane whatever its annotation {PLANE}=moon"
            in found.message
        )
        assert await plane.names(SERVICE) == {"svc"}
        for place in ("hub", ""):
            away, here = (plane, hub) if place else (hub, plane)
            await change(plane, made(place))
            await ready(plane)
            await condition(plane, "PlacesKnown", "True", "AllKnown")
            await eventually(partial(here.names, SERVICE), lambda seen: seen == {"svc"})
            await eventually(partial(away.names, SERVICE), lambda seen: not seen)
        assert await plane.names(CONFIG_MAP) == {"notes"}
