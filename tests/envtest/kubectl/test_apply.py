"""apply on both sides, diff and edit, always with validation on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import gadget
from .runner import Kubectl

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "1", b: "2"}
"""
LESS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
data: {a: "3"}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - {name: c, image: "nginx:1", env: [{name: A, value: a}, {name: B, value: b}]}
"""


@pytest.mark.criterion("KC-APPLY")
def test_apply_creates_updates_and_removes(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/c created\n"
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/c unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=LESS) == "configmap/c configured\n"
    assert kubectl.json("get", "cm", "c")["data"] == {"a": "3"}


def test_apply_merges_lists_by_their_key(kubectl: Kubectl) -> None:
    """Strategic merge: the merge keys come from the server's OpenAPI or from kubectl itself."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    kubectl("set", "env", "deployment/d", "C=c")
    changed = DEPLOYMENT.replace("{name: B, value: b}", "{name: B, value: bb}")
    kubectl("apply", "-f", "-", stdin=changed)
    env = kubectl("get", "deploy", "d", "-o", "jsonpath={..env[*].value}")
    assert sorted(env.split()) == ["a", "bb", "c"]
    removed = DEPLOYMENT.replace(", {name: B, value: b}", "")
    assert "configured" in kubectl("apply", "-f", "-", stdin=removed)
    names = kubectl("get", "deploy", "d", "-o", "jsonpath={..env[*].name}")
    assert sorted(names.split()) == ["A", "C"]


def test_unknown_fields_are_found_before_anything_is_sent(kubectl: Kubectl) -> None:
    wrong = DEPLOYMENT.replace("replicas", "replcas")
    refused = kubectl.run("apply", "-f", "-", stdin=wrong)
    assert refused.code == 1
    assert "replcas" in refused.err
    assert kubectl.run("get", "deploy", "d").code == 1


@pytest.mark.criterion("KC-APPLY-CR")
def test_apply_of_a_custom_kind_with_validation(kubectl: Kubectl, gadgets: str) -> None:
    created = kubectl("apply", "-f", "-", stdin=gadget(gadgets))
    assert created == f"gadget.{gadgets}/one created\n"
    assert "configured" in kubectl("apply", "-f", "-", stdin=gadget(gadgets, size=3))
    assert kubectl("get", "gdg", "one", "-o", "jsonpath={.spec.size}") == "3"
    too_big = kubectl.run("apply", "-f", "-", stdin=gadget(gadgets, size=11))
    assert too_big.code == 1
    assert "spec.size" in too_big.err
    unknown = kubectl.run("apply", "-f", "-", stdin=gadget(gadgets).replace("port:", "prt:"))
    assert unknown.code == 1
    assert "prt" in unknown.err


def test_a_dry_run_on_the_server_changes_nothing(kubectl: Kubectl, gadgets: str) -> None:
    shown = kubectl("apply", "--dry-run=server", "-f", "-", stdin=CONFIG)
    assert shown == "configmap/c created (server dry run)\n"
    shown = kubectl("apply", "--dry-run=server", "-f", "-", stdin=gadget(gadgets))
    assert "(server dry run)" in shown
    assert kubectl.run("get", "cm", "c").code == 1


def test_prune_removes_what_is_no_longer_in_the_files(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CONFIG.replace("name: c", "name: c, labels: {app: x}"))
    other = CONFIG.replace("name: c", "name: other, labels: {app: x}")
    arguments = ("--prune", "-l", "app=x", "--prune-allowlist=core/v1/ConfigMap")
    assert "configmap/c pruned" in kubectl("apply", *arguments, "-f", "-", stdin=other)


@pytest.mark.criterion("KC-SSA")
def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    command = ("apply", "--server-side", "-f", "-")
    assert kubectl(*command, stdin=CONFIG) == "configmap/c serverside-applied\n"
    refused = kubectl.run(*command, "--field-manager=other", stdin=LESS)
    assert refused.code == 1
    assert 'conflict with "kubectl"' in refused.err
    assert ".data.a" in refused.err
    kubectl(*command, "--field-manager=other", "--force-conflicts", stdin=LESS)
    data = kubectl.json("get", "cm", "c")["data"]
    assert data == {"a": "3", "b": "2"}


def test_server_side_apply_of_a_custom_kind(kubectl: Kubectl, gadgets: str) -> None:
    shown = kubectl("apply", "--server-side", "-f", "-", stdin=gadget(gadgets))
    assert shown == f"gadget.{gadgets}/one serverside-applied\n"
    again = kubectl("apply", "--server-side", "-f", "-", stdin=gadget(gadgets))
    assert again == shown


def test_moving_from_client_side_to_server_side(kubectl: Kubectl) -> None:
    """The server hands the fields of the last applied configuration over without a conflict."""
    kubectl("apply", "-f", "-", stdin=CONFIG)
    kubectl("apply", "--server-side", "-f", "-", stdin=LESS)
    assert kubectl.json("get", "cm", "c")["data"]["a"] == "3"


@pytest.mark.criterion("KC-DIFF")
def test_diff_shows_what_would_change(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("apply", "-f", "-", stdin=CONFIG)
    assert kubectl.run("diff", "-f", "-", stdin=CONFIG).code == 0
    changed = kubectl.run("diff", "-f", "-", stdin=LESS)
    assert changed.code == 1
    assert '-  b: "2"' in changed.out
    assert '+  a: "3"' in changed.out
    kubectl("apply", "-f", "-", stdin=gadget(gadgets))
    grown = kubectl.run("diff", "-f", "-", stdin=gadget(gadgets, size=4))
    assert grown.code == 1
    assert "+  size: 4" in grown.out
    new = kubectl.run("diff", "-f", "-", stdin=gadget(gadgets, name="two"))
    assert new.code == 1
    assert "name: two" in new.out


def test_diff_on_the_server_side(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=CONFIG)
    assert kubectl.run("diff", "--server-side", "-f", "-", stdin=CONFIG).code == 0
    changed = kubectl.run("diff", "--server-side", "-f", "-", stdin=LESS)
    assert changed.code == 1
    assert '+  a: "3"' in changed.out


def _editor(folder: Path, command: str) -> str:
    script = folder / "editor"
    script.write_text(f'#!/bin/sh\nsed -i {command} "$1"\n')
    script.chmod(0o755)
    return str(script)


@pytest.mark.criterion("KC-EDIT")
def test_edit_sends_what_the_editor_changed(kubectl: Kubectl, gadgets: str, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=CONFIG)
    kubectl("apply", "-f", "-", stdin=gadget(gadgets))
    kubectl.env["KUBE_EDITOR"] = _editor(tmp_path, "'s/^  b: .*/  b: edited/'")
    assert kubectl("edit", "configmap", "c") == "configmap/c edited\n"
    assert kubectl.json("get", "cm", "c")["data"]["b"] == "edited"
    kubectl.env["KUBE_EDITOR"] = _editor(tmp_path, "'s/^  size: .*/  size: 7/'")
    assert kubectl("edit", "gadget", "one") == f"gadget.{gadgets}/one edited\n"
    assert kubectl("get", "gdg", "one", "-o", "jsonpath={.spec.size}") == "7"
    kubectl.env["KUBE_EDITOR"] = "true"
    assert "no changes made" in kubectl.run("edit", "configmap", "c").err
