"""What each subresource wants: a part of the instance's spec, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cloud import Instance
from ctrlruntime.api import Resource
from internal.cloud.instance.children import desired_child, inputs_for
from internal.cloud.instance.order import OrderError, check_order
from internal.cloud.subresource import Upstream
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.subresources.domains import primary_domain
from internal.cloud.taskdriver.inputs import content, spec_revision
from internal.named_secrets import NamedKey, Purpose

HEADER = {"name": "A", "valueFrom": {"name": "s", "key": "k"}}
REQUEST = {"url": "https://x.example.com", "secretHeaders": [HEADER]}
BASE: dict[str, Any] = {
    "version": "5.1.0",
    "domain": "a.example.com",
    "infrastructure": {
        "gcp": {"zone": "z", "gke": {"blue": {"machineType": "small"}}},
        "terraform": {"tokenFrom": {"name": "hcp", "key": "token"}},
    },
    "cluster": {"disks": {"maxSize": "1Ti", "usage": REQUEST}},
}

T, U, K, P, V = "terraform", "upgrade", "kubernetes", "resize", "invariants"


def wants(spec: dict[str, Any], running: str = "5.0.0") -> dict[str, Any]:
    """What each subresource wants, by task."""
    made = Instance.from_manifest({"metadata": {"name": "src-1"}, "spec": spec})
    upstream = Upstream(version=running, outputs={"ip": "1"}, outputs_secret_name="secret")
    found = ((item.definition.name, item.desired(made, upstream)) for item in SUBRESOURCES)
    return {name: None if spec is None else content(spec) for name, spec in found}


def merged(base: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in change.items():
        inner = out.get(key)
        both = isinstance(value, dict) and isinstance(inner, dict)
        out[key] = merged(inner, value) if both else value  # type: ignore[arg-type]
    return out


@pytest.mark.criterion("SG-04")
@pytest.mark.criterion("SG-05")
@pytest.mark.parametrize(
    ("change", "touched"),
    [
        ({"version": "5.2.0"}, {U}),
        ({"releaseChannel": "pause"}, set()),
        ({"domain": "b.example.com"}, {T, U, K, V}),
        ({"primaryDNSName": "b.example.com"}, {T, U, K, V}),
        ({"customDomains": [{"dnsName": "c.example.com"}]}, {T}),
        ({"customDomains": [{"dnsName": "c.example.com", "primary": True}]}, {T, U, K, V}),
        ({"instanceFeatures": {"enable_cody": "true"}}, {T}),
        ({"instanceFeatures": {"ephemeral_instance_lease_time": "1"}}, set()),
        ({"instanceFeatures": {"ephemeral_instance": "true"}}, set()),
        ({"infrastructure": {"gcp": {"gke": {"blue": {"machineType": "big"}}}}}, {T}),
        ({"infrastructure": {"privateDNS": {"routes": []}}}, {T}),
        ({"cluster": {"bundle": {"manifests": [{"kind": "ConfigMap"}]}}}, {U, K}),
        ({"cluster": {"values": {"valuesFiles": ["a.yaml"]}}}, {U, K}),
        ({"cluster": {"readyTimeoutSeconds": 5}}, {U, K}),
        ({"cluster": {"kubeconfigFrom": {"name": "n", "key": "k"}}}, {U, K, P}),
        ({"cluster": {"namespace": "prod"}}, {U, K, P}),
        ({"cluster": {"disks": {"increasePercent": 50}}}, {P}),
        ({"invariants": [{"name": "i", "check": REQUEST}]}, {V}),
        ({"invariantsPeriod": "1h"}, {V}),
        ({"upgrade": {"healthCheck": REQUEST}}, {U}),
        ({"debug": {"tfcRunsMode": "vcs"}}, {T}),
        ({"debug": {"enableAlerting": False}}, {V}),
        ({"debug": {"enableDeletionProtection": False}}, set()),
        ({"deletionProtection": False}, set()),
        ({"deletionPolicy": "Orphan"}, set()),
        ({"maintenanceWindows": [{"schedule": "0 3 * * *", "duration": "2h"}]}, set()),
        ({"driftDetection": {"schedule": "0 3 * * *", "action": "Report"}}, set()),
        ({"terraformRuns": {"operation": "Plan", "approval": "Manual"}}, set()),
        ({"priority": "High"}, set()),
        ({"managedSMTP": {"disabled": True}}, {V}),
    ],
    ids=lambda value: " ".join(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_change_touches_those_whose_part_it_is(change: dict[str, Any], touched: set[str]) -> None:
    before, after = wants(BASE), wants(merged(BASE, change))
    assert {name for name in before if before[name] != after[name]} == touched


def test_every_field_of_the_spec_has_an_owner_or_none_on_purpose() -> None:
    known = {"releaseChannel", "version", "domain", "primaryDNSName", "customDomains"}
    known |= {"instanceFeatures", "infrastructure", "cluster", "invariants", "invariantsPeriod"}
    known |= {"upgrade", "debug", "managedSMTP", "maintenanceWindows", "driftDetection"}
    known |= {"terraformRuns", "priority", "deletionProtection", "deletionPolicy", "upgradePolicy"}
    known |= {"requireApprovalBy", "sourcegraphVersion"}
    fields = Instance.model_fields["spec"].annotation.model_fields  # type: ignore[union-attr]
    assert {field.serialization_alias or name for name, field in fields.items()} == known


def test_no_upgrade_to_what_runs() -> None:
    assert wants(BASE, running="5.1.0")[U] is None
    assert wants(BASE, running="5.0.0")[U]["fromVersion"] == "5.0.0"


def test_the_workload_has_the_version_that_should_run_now() -> None:
    assert wants(BASE, running="5.0.0")[K]["version"] == "5.0.0"


def test_which_secrets_a_run_may_read() -> None:
    spec = merged(BASE, {"invariants": [{"name": "i", "check": REQUEST}]})
    spec = merged(spec, {"upgrade": {"backup": {"http": REQUEST, "until": REQUEST}}})
    made = Instance.from_manifest({"metadata": {"name": "src-1"}, "spec": spec})
    upstream = Upstream(version="5.0.0", outputs_secret_name="outputs")
    found: dict[str, list[NamedKey]] = {}
    for item in SUBRESOURCES:
        wanted = item.desired(made, upstream)
        assert wanted is not None
        child: Resource[Any, Any] = item.kind.from_manifest(
            {"metadata": {"name": "src-1"}, "spec": content(wanted)}
        )
        found[item.definition.name] = list(item.secrets(child))
    cluster = NamedKey("outputs", "kubeconfig", Purpose.CLUSTER)
    header = NamedKey("s", "k", Purpose.REQUESTS)
    assert found == {
        T: [NamedKey("hcp", "token", Purpose.TERRAFORM)],
        U: [cluster, header],
        K: [cluster],
        P: [cluster, header],
        V: [header],
    }


def test_annotations_that_are_inputs_travel_with_the_one_they_are_for() -> None:
    mode = "cloud.ctrlruntime.dev/cloudsql-mode"
    metadata = {"name": "src-1", "annotations": {mode: "blueOnly", "note": "x"}}
    made = Instance.from_manifest({"metadata": metadata, "spec": BASE})
    given = {item.definition.name: inputs_for(item, made, {}) for item in SUBRESOURCES}
    assert given == {T: {mode: "blueOnly"}, U: {}, K: {}, P: {}, V: {}}


def test_the_revision_of_a_child_is_that_of_its_spec() -> None:
    made = Instance.from_manifest({"metadata": {"name": "src-1"}, "spec": BASE})
    spec = SUBRESOURCES[0].desired(made, Upstream(version="5.1.0"))
    assert spec is not None
    one = desired_child(SUBRESOURCES[0], made, spec)
    other = desired_child(SUBRESOURCES[0], made, spec, annotations={"a": "b"})
    assert one.revision == other.revision == spec_revision(spec)


def test_the_primary_domain() -> None:
    spec = Instance.from_manifest({"metadata": {"name": "a"}, "spec": BASE}).spec
    assert primary_domain(spec) == "a.example.com"


def test_an_order_that_cannot_be_is_refused() -> None:
    check_order(SUBRESOURCES)
    with pytest.raises(OrderError, match="put it behind"):
        check_order(SUBRESOURCES[1:])
    with pytest.raises(OrderError, match="twice"):
        check_order([*SUBRESOURCES, SUBRESOURCES[-1]])
