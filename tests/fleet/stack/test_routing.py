"""Routing of rendered objects between a hub and its data planes."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api.kinds import GroupKind
from internal.fleet.pods import WORKLOADS
from internal.fleet.routing import (
    FOLLOWERS,
    Plane,
    WorkloadOnDataPlane,
    check_plane,
    key_of,
    possible_planes,
    route,
)

API = {
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "Ingress": "networking.k8s.io/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "Role": "rbac.authorization.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
}
LABELS = {"app": "web", "tier": "front"}


def obj(kind: str, name: str, namespace: str = "a", **fields: object) -> dict[str, Any]:
    """Make a rendered object; cluster-scoped with an empty namespace."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": API.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def workload(kind: str, name: str = "web", namespace: str = "a", **pod: object) -> dict[str, Any]:
    """Make a workload whose Pods have LABELS and the given spec."""
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    if kind == "Pod":
        made = obj(kind, name, namespace, spec=pod)
        made["metadata"]["labels"] = LABELS
        return made
    if kind == "CronJob":
        return obj(kind, name, namespace, spec={"jobTemplate": {"spec": {"template": template}}})
    return obj(kind, name, namespace, spec={"template": template})


def routed(*objects: dict[str, Any]) -> dict[str, str]:
    """Route, and return the result by `Kind/name`."""
    return {f"{key.kind.kind}/{key.name}": plane.value for key, plane in route(objects).items()}


KINDS = sorted(kind.kind for kind in WORKLOADS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_workload_goes_to_the_hub_and_what_it_does_not_name_to_the_data_plane(kind: str) -> None:
    found = routed(workload(kind), obj("ConfigMap", "other"), obj("Role", "r"))
    assert found == {f"{kind}/web": "hub", "ConfigMap/other": "data", "Role/r": "data"}


REFERENCES: list[tuple[str, str, dict[str, Any]]] = [
    ("ConfigMap", "x", {"volumes": [{"configMap": {"name": "x"}}]}),
    ("Secret", "x", {"volumes": [{"secret": {"secretName": "x"}}]}),
    ("ConfigMap", "x", {"volumes": [{"projected": {"sources": [{"configMap": {"name": "x"}}]}}]}),
    ("Secret", "x", {"volumes": [{"projected": {"sources": [{"secret": {"name": "x"}}]}}]}),
    ("PersistentVolumeClaim", "x", {"volumes": [{"persistentVolumeClaim": {"claimName": "x"}}]}),
    ("Secret", "x", {"volumes": [{"csi": {"nodePublishSecretRef": {"name": "x"}}}]}),
    ("Secret", "x", {"imagePullSecrets": [{"name": "x"}]}),
    ("ServiceAccount", "x", {"serviceAccountName": "x"}),
    ("ConfigMap", "x", {"containers": [{"envFrom": [{"configMapRef": {"name": "x"}}]}]}),
    ("Secret", "x", {"initContainers": [{"envFrom": [{"secretRef": {"name": "x"}}]}]}),
    (
        "ConfigMap",
        "x",
        {"containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "x"}}}]}]},
    ),
    ("Secret", "x", {"containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "x"}}}]}]}),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("named", "name", "pod"), REFERENCES)
def test_what_a_workload_references_goes_with_it(
    kind: str, named: str, name: str, pod: dict[str, Any]
) -> None:
    found = routed(workload(kind, **pod), obj(named, name), obj(named, "y"), obj(named, name, "b"))
    both = route([workload(kind, **pod), obj(named, name), obj(named, name, "b")])
    assert (found[f"{named}/y"], found[f"{kind}/web"]) == ("data", "hub")
    planes = {key.namespace: plane for key, plane in both.items() if key.kind.kind == named}
    assert planes == {"a": Plane.HUB, "b": Plane.DATA}


def test_references_are_followed_to_their_end() -> None:
    found = routed(
        workload("Deployment", serviceAccountName="sa"),
        obj(
            "ServiceAccount", "sa", secrets=[{"name": "token"}], imagePullSecrets=[{"name": "pull"}]
        ),
        obj("Secret", "token"),
        obj("Secret", "pull"),
        obj("Secret", "other"),
    )
    assert {name for name, plane in found.items() if plane == "data"} == {"Secret/other"}


@pytest.mark.parametrize("field", ["dataSource", "dataSourceRef"])
@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_claim_brings_its_storage_class_and_the_claim_that_it_is_a_copy_of(
    field: str, ephemeral: bool
) -> None:
    claim = {"storageClassName": "fast", field: {"kind": "PersistentVolumeClaim", "name": "old"}}
    named = {"persistentVolumeClaim": {"claimName": "new"}}
    made = {"ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
    found = routed(
        workload("Pod", volumes=[made if ephemeral else named]),
        obj("PersistentVolumeClaim", "new", spec=claim),
        obj("PersistentVolumeClaim", "old"),
        obj("StorageClass", "fast", ""),
        obj("StorageClass", "slow", ""),
    )
    lonely = {"PersistentVolumeClaim/new"} if ephemeral else set()
    on_data = {name for name, plane in found.items() if plane == "data"}
    assert on_data - lonely == {"StorageClass/slow"}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Service", {"selector": {"app": "web"}}),
        ("NetworkPolicy", {"podSelector": {}}),
        ("NetworkPolicy", {"podSelector": {"matchLabels": {"app": "web"}}}),
        (
            "PodDisruptionBudget",
            {
                "selector": {
                    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front"]}]
                }
            },
        ),
        (
            "PodDisruptionBudget",
            {"selector": {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}},
        ),
        (
            "HorizontalPodAutoscaler",
            {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        ),
    ],
)
def test_what_selects_a_workload_goes_with_it(kind: str, spec: dict[str, Any]) -> None:
    assert routed(workload("Deployment"), obj(kind, "s", spec=spec))[f"{kind}/s"] == "hub"
    elsewhere = route([workload("Deployment"), obj(kind, "s", "b", spec=spec)])
    assert elsewhere[key_of(obj(kind, "s", "b"))] is Plane.DATA


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Service", {"selector": {"app": "db"}}),
        ("Service", {}),
        ("Service", {"type": "ExternalName"}),
        ("NetworkPolicy", {"podSelector": {"matchLabels": {"app": "db"}}}),
        ("PodDisruptionBudget", {}),
        ("HorizontalPodAutoscaler", {"scaleTargetRef": {"kind": "Deployment", "name": "web"}}),
        (
            "PodDisruptionBudget",
            {
                "selector": {
                    "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]
                }
            },
        ),
    ],
)
def test_what_selects_nothing_stays_on_the_data_plane(kind: str, spec: dict[str, Any]) -> None:
    assert routed(workload("Deployment"), obj(kind, "s", spec=spec))[f"{kind}/s"] == "data"


def test_an_ingress_goes_with_its_services_and_brings_its_certificate() -> None:
    backend = {"service": {"name": "web"}}
    spec = {"tls": [{"secretName": "cert"}], "rules": [{"http": {"paths": [{"backend": backend}]}}]}
    selecting = {"selector": {"app": "web"}}
    found = routed(
        workload("Deployment"),
        obj("Service", "web", spec=selecting),
        obj("Ingress", "in", spec=spec),
        obj("Ingress", "other", spec={"defaultBackend": {"service": {"name": "outside"}}}),
        obj("Secret", "cert"),
    )
    assert {name for name, plane in found.items() if plane == "data"} == {"Ingress/other"}


def test_namespaces_go_to_both() -> None:
    assert routed(obj("Namespace", "n", ""), obj("ConfigMap", "c", "n")) == {
        "Namespace/n": "both",
        "ConfigMap/c": "data",
    }


@pytest.mark.criterion("FLEET-R25")
@pytest.mark.parametrize("kind", sorted(WORKLOADS))
@pytest.mark.parametrize("plane", [Plane.DATA, Plane.BOTH])
def test_a_workload_for_a_data_plane_raises(kind: GroupKind, plane: Plane) -> None:
    check_plane(kind, Plane.HUB)
    with pytest.raises(WorkloadOnDataPlane, match="goes to the hub"):
        check_plane(kind, plane)


@pytest.mark.parametrize(
    "broken", [{}, {"kind": "Pod"}, {"apiVersion": "v1", "kind": "Pod", "metadata": "text"}]
)
def test_an_object_without_identity_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="rendered object needs"):
        route([broken])


# -- properties -----------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "c"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | NAMES,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            [
                "template", "spec", "metadata", "labels", "volumes", "configMap", "secret", "name",
                "secretName", "containers", "env", "envFrom", "selector", "podSelector", "matchLabels",
                "matchExpressions", "operator", "key", "values", "rules", "http", "paths", "backend",
                "service", "tls", "jobTemplate", "serviceAccountName", "projected", "sources",
            ]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
ANY_KIND = st.sampled_from(
    [*KINDS, *sorted(kind.kind for kind in FOLLOWERS), "Namespace", "Widget"]
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """Draw an object whose fields have any type."""
    kind = draw(ANY_KIND)
    namespace = "" if kind == "Namespace" else draw(NAMES)
    return obj(kind, draw(NAMES), namespace, spec=draw(JUNK), secrets=draw(JUNK))


@pytest.mark.criterion("FLEET-R21")
@given(st.lists(objects(), max_size=8))
def test_every_object_has_one_place_and_workloads_have_the_hub(found: list[dict[str, Any]]) -> None:
    planes = route(found)
    assert set(planes) == {key_of(each) for each in found}
    kinds = {key.kind for key in planes}
    for key, plane in planes.items():
        assert (plane is Plane.BOTH) == (key.kind.kind == "Namespace")
        assert key.kind not in WORKLOADS or plane is Plane.HUB
        possible = possible_planes(kinds)[key.kind]
        assert possible in {plane, Plane.BOTH}, key
    if WORKLOADS.isdisjoint(kinds):
        assert Plane.HUB not in planes.values()


@given(st.lists(objects(), max_size=4, unique_by=lambda each: str(key_of(each))))
def test_the_order_of_objects_does_not_count(found: list[dict[str, Any]]) -> None:
    expected = route(found)
    assert all(route(each) == expected for each in permutations(found))


@given(st.lists(objects(), max_size=6, unique_by=lambda each: str(key_of(each))), objects())
def test_another_object_never_takes_one_from_the_hub(
    found: list[dict[str, Any]], more: dict[str, Any]
) -> None:
    before = route(found)
    after = route([each for each in found if key_of(each) != key_of(more)] + [more])
    for key, plane in before.items():
        if key != key_of(more) and plane is Plane.HUB and not _is_held_by(found, more):
            assert after[key] is Plane.HUB


def _is_held_by(found: list[dict[str, Any]], more: dict[str, Any]) -> bool:
    """Whether an object of the same identity, which may be why others go to the hub, was replaced."""
    return any(key_of(each) == key_of(more) for each in found)
