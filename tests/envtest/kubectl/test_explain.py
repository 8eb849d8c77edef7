"""explain: fields and their descriptions, by OpenAPI v3."""

from __future__ import annotations

import re

import pytest

from .runner import Kubectl


@pytest.mark.criterion("KC-EXPLAIN")
def test_built_in_fields_have_their_descriptions(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "deployment.spec.strategy")
    assert "DeploymentStrategy describes how to replace existing pods with new ones." in shown
    assert re.search(r"rollingUpdate\s+<", shown)
    field = kubectl("explain", "pod.spec.containers.image")
    assert re.search(r"FIELD:\s+image <string>", field)
    assert "Container image name" in field


def test_every_scalar_shape(kubectl: Kubectl) -> None:
    assert "<integer>" in kubectl("explain", "deployment.spec.replicas")
    assert re.search(r"<map\[string\]string>", kubectl("explain", "configmap.data"))
    assert "<IntOrString>" in kubectl("explain", "service.spec.ports") or "<string>" in kubectl(
        "explain", "service.spec.ports.targetPort"
    )
    assert "<[]" in kubectl("explain", "pod.spec")


def test_recursive_lists_all_fields(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "deployment", "--recursive")
    for name in ("maxSurge", "livenessProbe", "topologySpreadConstraints", "observedGeneration"):
        assert name in shown


def test_versions_of_a_kind(kubectl: Kubectl) -> None:
    shown = kubectl("explain", "hpa.spec", "--api-version=autoscaling/v1")
    assert "targetCPUUtilizationPercentage" in shown
    assert "metrics" in kubectl("explain", "hpa.spec", "--api-version=autoscaling/v2")


@pytest.mark.criterion("KC-EXPLAIN-CR")
def test_custom_kinds(kubectl: Kubectl, gadgets: str) -> None:
    assert "A gadget of the workshop." in kubectl("explain", "gadget")
    spec = kubectl("explain", "gadget.spec")
    assert "What is wanted of the gadget." in spec
    assert re.search(r"size\s+<integer>", spec)
    assert "How big it is." in kubectl("explain", "gdg.spec.size")
    assert re.search(r"note\s+<", kubectl("explain", "gadget", "--recursive"))


def test_a_field_that_is_not_there(kubectl: Kubectl) -> None:
    missing = kubectl.run("explain", "pod.spec.nothing")
    assert missing.code == 1
    assert 'field "nothing" does not exist' in missing.err
