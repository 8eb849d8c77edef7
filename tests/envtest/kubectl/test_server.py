"""What kubectl learns of the server itself."""

from __future__ import annotations

import json

import pytest

from .runner import Kubectl


@pytest.mark.criterion("KC-DISCOVERY")
def test_api_resources(kubectl: Kubectl, gadgets: str) -> None:
    rows = [line.split() for line in kubectl("api-resources", "--no-headers").splitlines()]
    assert ["configmaps", "cm", "v1", "true", "ConfigMap"] in rows
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in rows
    assert ["gadgets", "gdg", f"{gadgets}/v1", "true", "Gadget"] in rows
    named = kubectl("api-resources", "--namespaced=false", "-o", "name").split()
    assert "nodes" in named
    assert "pods" not in named
    only = kubectl("api-resources", f"--api-group={gadgets}", "-o", "name")
    assert only == f"gadgets.{gadgets}\n"
    listable = kubectl("api-resources", "--verbs=list,watch", "-o", "name").split()
    assert "subjectaccessreviews.authorization.k8s.io" not in listable


def test_wide_api_resources_have_verbs(kubectl: Kubectl) -> None:
    shown = kubectl("api-resources", "-o", "wide", "--api-group=apps")
    (line,) = [line for line in shown.splitlines() if line.startswith("deployments")]
    assert "deletecollection" in line


def test_api_versions(kubectl: Kubectl, gadgets: str) -> None:
    versions = kubectl("api-versions").split()
    assert {"v1", "apps/v1", "autoscaling/v2", f"{gadgets}/v1"} <= set(versions)


def test_version(kubectl: Kubectl) -> None:
    server = json.loads(kubectl("version", "-o", "json"))["serverVersion"]
    assert (server["major"], server["minor"]) == ("1", "36")


def test_cluster_info(kubectl: Kubectl) -> None:
    assert "is running at" in kubectl("cluster-info")


def test_raw_paths(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw=/readyz") == "ok"
    assert json.loads(kubectl("get", "--raw=/apis"))["kind"] == "APIGroupList"
    assert "/openapi/v2" in json.loads(kubectl("get", "--raw=/"))["paths"]
