"""One tour with another kubectl than the suites have: each minor version asks in its own way."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlruntime.envtest.environment import Environment

from .binaries import NEWEST, provisioned
from .conftest import gadget, gadget_definition, in_namespace
from .runner import Kubectl


@pytest.fixture
def newest(environment: Environment, tmp_path: Path) -> Iterator[Kubectl]:
    """Debian unstable's kubectl, in a namespace of its own."""
    try:
        binary = provisioned(NEWEST)
    except RuntimeError as error:
        pytest.skip(str(error))
    yield from in_namespace(Kubectl(binary, environment.kubeconfig("admin"), tmp_path))


@pytest.mark.criterion("KC-SKEW")
def test_a_tour_with_the_newest(newest: Kubectl) -> None:
    group = f"g{secrets.token_hex(4)}.example.com"
    newest("apply", "-f", "-", stdin=gadget_definition(group))
    assert newest("apply", "-f", "-", stdin=gadget(group)).endswith("created\n")
    assert newest("apply", "-f", "-", stdin=gadget(group, size=3)).endswith("configured\n")
    wrong = newest.run("apply", "-f", "-", stdin=gadget(group).replace("port:", "prt:"))
    assert wrong.code == 1
    assert "prt" in wrong.err
    assert newest.table("get", "gdg")[1][:2] == ["one", "3"]
    assert "How big it is." in newest("explain", "gdg.spec.size")
    assert "DeploymentStrategy" in newest("explain", "deployment.spec.strategy")
    applied = newest("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=gadget(group))
    assert applied.endswith("serverside-applied\n")
    diff = newest.run("diff", "--server-side", "-f", "-", stdin=gadget(group, size=5))
    assert diff.code == 1
    assert "+  size: 5" in diff.out
    assert newest("auth", "can-i", "create", "pods") == "yes\n"
    newest("create", "deployment", "d", "--image=nginx")
    newest("wait", "--for=condition=Available", "deployment/d", "--timeout=60s")
    assert newest.table("get", "deploy")[1][:2] == ["d", "1/1"]
    assert "nginx" in newest("describe", "deployment", "d")
    ready = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    newest("patch", "gdg", "one", "--subresource=status", "--type=merge", "-p", ready)
    newest("wait", "--for=condition=Ready", "gdg/one", "--timeout=60s")
    newest("events", "--for", "deployment/d")
    newest("delete", "gdg", "one")
    newest("delete", "crd", f"gadgets.{group}")
