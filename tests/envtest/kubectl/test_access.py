"""Who may do what: auth, tokens and the kubeconfig the environment writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlruntime.envtest.environment import Environment

from .runner import Kubectl


@pytest.fixture
def alice(kubectl: Kubectl, environment: Environment, tmp_path: Path) -> Kubectl:
    """A user who may read ConfigMaps in this namespace and nothing else."""
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "alice", "--role=reader", "--user=alice")
    config = environment.kubeconfig("alice")
    return Kubectl(kubectl.binary, config, tmp_path / "alice", kubectl.namespace)


@pytest.mark.criterion("KC-AUTH")
def test_can_i(kubectl: Kubectl, alice: Kubectl) -> None:
    """kubectl sends the review as protobuf."""
    assert kubectl("auth", "can-i", "delete", "nodes") == "yes\n"
    assert alice("auth", "can-i", "list", "configmaps") == "yes\n"
    assert alice("auth", "can-i", "get", "configmap/c") == "yes\n"
    for asked in (("create", "configmaps"), ("get", "deployments.apps", "--subresource=scale")):
        refused = alice.run("auth", "can-i", *asked)
        assert (refused.code, refused.out.splitlines()[0]) == (1, "no")
    assert alice("auth", "can-i", "get", "/api") == "yes\n"
    assert alice.run("auth", "can-i", "get", "/secret-path").code == 1


def test_can_i_list(kubectl: Kubectl, alice: Kubectl) -> None:
    rows = [row.split() for row in alice("auth", "can-i", "--list").splitlines()]
    assert ["configmaps", "[]", "[]", "[get", "list]"] in rows
    assert ["*.*", "[]", "[]", "[*]"] in [
        row.split() for row in kubectl("auth", "can-i", "--list").splitlines()
    ]


def test_the_administrator_may_ask_as_another(kubectl: Kubectl, alice: Kubectl) -> None:
    assert kubectl("auth", "can-i", "list", "configmaps", "--as=alice") == "yes\n"
    refused = kubectl.run("auth", "can-i", "list", "secrets", "--as=alice")
    assert refused.code == 1


def test_what_is_forbidden_reports_it(alice: Kubectl) -> None:
    refused = alice.run("get", "secrets")
    assert refused.code == 1
    wanted = f'User "alice" cannot list resource "secrets" in API group "" in the namespace "{alice.namespace}"'
    assert wanted in refused.err


def test_whoami(alice: Kubectl) -> None:
    rows = dict(line.split(maxsplit=1) for line in alice("auth", "whoami").splitlines())
    assert rows["Username"].strip() == "alice"
    assert rows["Groups"].strip() == "[system:authenticated]"


def test_a_token_of_a_service_account(kubectl: Kubectl, alice: Kubectl) -> None:
    token = kubectl("create", "token", "default", "--duration=1h").strip()
    assert token.count(".") == 2
    who = kubectl("auth", "whoami", f"--token={token}")
    assert "Username" in who
    with_audience = kubectl("create", "token", "default", "--audience=me").strip()
    assert with_audience != token


def test_config(kubectl: Kubectl, environment: Environment) -> None:
    assert kubectl("config", "current-context").strip()
    server = "jsonpath={.clusters[0].cluster.server}"
    assert kubectl("config", "view", "-o", server) == environment.url
    copy = kubectl.folder / "copy"
    copy.write_bytes(environment.kubeconfig("admin").read_bytes())
    other = Kubectl(kubectl.binary, copy, kubectl.folder, "elsewhere")
    other("config", "set-context", "--current")
    other.namespace = ""
    assert "No resources found in elsewhere namespace." in other.run("get", "secrets").err
