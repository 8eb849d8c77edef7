"""One tour with every kubectl that is found: each minor version asks in its own way."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from ctrlruntime.envtest.environment import Environment

from .binaries import others, provisioned
from .conftest import gadget, gadget_definition, in_namespace
from .runner import Kubectl


@pytest.mark.criterion("KC-SKEW")
@pytest.mark.parametrize("label", ["1.32", *sorted(others())])
def test_a_tour(label: str, environment: Environment, tmp_path: Path) -> None:
    binary = others().get(label) or provisioned(label)
    kubectl = Kubectl(binary, environment.kubeconfig("admin"), tmp_path)
    for running in in_namespace(kubectl):
        _tour(running)


def _tour(kubectl: Kubectl) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    kubectl("apply", "-f", "-", stdin=gadget_definition(group))
    assert kubectl("apply", "-f", "-", stdin=gadget(group)).endswith("created\n")
    assert kubectl("apply", "-f", "-", stdin=gadget(group, size=3)).endswith("configured\n")
    wrong = kubectl.run("apply", "-f", "-", stdin=gadget(group).replace("port:", "prt:"))
    assert wrong.code == 1
    assert "prt" in wrong.err
    assert kubectl.table("get", "gdg")[1][:2] == ["one", "3"]
    assert "How big it is." in kubectl("explain", "gdg.spec.size")
    assert "DeploymentStrategy" in kubectl("explain", "deployment.spec.strategy")
    applied = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=gadget(group))
    assert applied.endswith("serverside-applied\n")
    diff = kubectl.run("diff", "--server-side", "-f", "-", stdin=gadget(group, size=5))
    assert diff.code == 1
    assert "+  size: 5" in diff.out
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    kubectl("create", "deployment", "d", "--image=nginx")
    kubectl("wait", "--for=condition=Available", "deployment/d", "--timeout=60s")
    assert kubectl.table("get", "deploy")[1][:2] == ["d", "1/1"]
    assert "nginx" in kubectl("describe", "deployment", "d")
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    kubectl("patch", "gdg", "one", "--subresource=status", "--type=merge", "-p", ready)
    kubectl("wait", "--for=condition=Ready", "gdg/one", "--timeout=60s")
    kubectl("events", "--for", "deployment/d")
    kubectl("delete", "gdg", "one")
    kubectl("delete", "crd", f"gadgets.{group}")
