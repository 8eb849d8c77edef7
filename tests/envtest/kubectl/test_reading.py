"""get, describe and events: what the server's Tables and lists make kubectl print."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .conftest import gadget
from .runner import Kubectl

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: c, image: nginx, ports: [{containerPort: 80}]}]}
"""


@pytest.fixture
def configmaps(kubectl: Kubectl) -> Kubectl:
    kubectl("create", "configmap", "a", "--from-literal=k=v")
    kubectl("create", "configmap", "b", "--from-literal=k=v", "--from-literal=l=w")
    kubectl("label", "configmap", "b", "tier=back")
    return kubectl


@pytest.mark.criterion("KC-GET")
def test_get_prints_the_columns_of_the_kind(configmaps: Kubectl) -> None:
    header, a, b, *_ = configmaps.table("get", "configmaps")
    assert header == ["NAME", "DATA", "AGE"]
    assert a[:2] == ["a", "1"]
    assert b[:2] == ["b", "2"]
    assert re.fullmatch(r"\d+s", a[2])


def test_get_selects_by_label_and_field(configmaps: Kubectl) -> None:
    assert configmaps("get", "cm", "-l", "tier=back", "-o", "name") == "configmap/b\n"
    by_field = configmaps("get", "cm", "--field-selector=metadata.name=a", "-o", "name")
    assert by_field == "configmap/a\n"


def test_get_in_every_output(configmaps: Kubectl) -> None:
    assert configmaps.json("get", "cm", "a")["data"] == {"k": "v"}
    assert "\ndata:\n  k: v\n" in "\n" + configmaps("get", "cm", "a", "-o", "yaml")
    assert configmaps("get", "cm", "b", "-o", "jsonpath={.data.l}") == "w"
    wanted = "custom-columns=N:.metadata.name,K:.data.k"
    assert configmaps("get", "cm", "a", "-o", wanted).split() == ["N", "K", "a", "v"]
    go = "go-template={{.metadata.name}}"
    assert configmaps("get", "cm", "a", "-o", go) == "a"
    assert configmaps.json("get", "cm")["kind"] == "List"


def test_get_shows_labels_and_sorts(configmaps: Kubectl) -> None:
    rows = configmaps.table("get", "cm", "--show-labels", "--sort-by=.metadata.name")
    assert rows[0][-1] == "LABELS"
    assert rows[2][-1] == "tier=back"
    rows = configmaps.table("get", "cm", "b", "-L", "tier")
    assert rows[1][-1] == "back"


def test_get_across_namespaces(configmaps: Kubectl) -> None:
    header, *rows = configmaps.table("get", "configmaps", "-A")
    assert header[0] == "NAMESPACE"
    assert [configmaps.namespace, "a"] in [row[:2] for row in rows]


def test_get_of_what_is_not_there(kubectl: Kubectl) -> None:
    missing = kubectl.run("get", "configmap", "none")
    assert missing.code == 1
    assert 'Error from server (NotFound): configmaps "none" not found' in missing.err
    assert "No resources found" in kubectl.run("get", "secrets", "-l", "no=ne").err
    unknown = kubectl.run("get", "nonsense")
    assert unknown.code == 1
    assert 'the server doesn\'t have a resource type "nonsense"' in unknown.err


def test_get_wide_has_more_columns(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    narrow = kubectl.table("get", "pods")
    assert narrow[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert narrow[1][:4] == ["web", "1/1", "Running", "0"]
    wide = kubectl.table("get", "pods", "-o", "wide")
    assert wide[0][5:] == ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    assert wide[1][6] == "envtest-node"


@pytest.mark.criterion("KC-GET-ALL")
def test_get_all_requests_the_category(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("apply", "-f", "-", stdin=gadget(gadgets))
    kubectl("create", "service", "clusterip", "s", "--tcp=80:80")
    shown = kubectl("get", "all")
    assert "service/s" in shown
    assert f"gadget.{gadgets}/one" in shown


@pytest.mark.criterion("KC-GET-CR")
def test_custom_kinds_print_their_columns(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("apply", "-f", "-", stdin=gadget(gadgets))
    header, row = kubectl.table("get", "gdg")
    assert header == ["NAME", "SIZE", "READY", "AGE"]
    assert row[:2] == ["one", "2"]
    assert kubectl.table("get", f"gadgets.{gadgets}", "-o", "wide")[0][-1] == "NOTE"


@pytest.mark.criterion("KC-GET-W")
def test_watching_prints_a_row_for_each_change(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "a")
    with kubectl.start("get", "configmaps", "-w") as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline().split() == ["NAME", "DATA", "AGE"]
            seen = [watching.stdout.readline().split()[0]]
            if "kube-root-ca.crt" in seen:
                seen = [watching.stdout.readline().split()[0]]
            assert seen == ["a"]
            kubectl("create", "configmap", "b", "--from-literal=k=v")
            assert watching.stdout.readline().split()[:2] == ["b", "1"]
            kubectl("delete", "configmap", "b")
            assert watching.stdout.readline().split()[0] == "b"
        finally:
            watching.terminate()


def test_watching_as_json_and_only(kubectl: Kubectl) -> None:
    with kubectl.start("get", "configmaps", "--watch-only", "-o", "name") as watching:
        assert watching.stdout is not None
        try:
            # The watch may begin after any one of these.
            for count in range(20):
                kubectl("create", "configmap", f"n{count}")
                if count > 1:
                    break
            assert watching.stdout.readline().startswith("configmap/n")
        finally:
            watching.terminate()


@pytest.mark.criterion("KC-DESCRIBE")
def test_describe_shows_objects_of_many_kinds(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    kubectl("create", "configmap", "c", "--from-literal=key=value")
    kubectl("create", "secret", "generic", "s", "--from-literal=key=value")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080")
    kubectl("create", "job", "j", "--image=busybox", "--", "true")
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s")
    for kind, name, shown in (
        ("pod", "web", r"Image:\s+nginx[\s\S]*Ready:\s+True"),
        ("configmap", "c", r"key:\n----\nvalue"),
        ("secret", "s", r"key:\s+5 bytes"),
        ("service", "svc", r"TargetPort:\s+8080/TCP"),
        ("job", "j", r"Completions:\s+1"),
        ("namespace", kubectl.namespace, r"Status:\s+Active"),
        ("node", "envtest-node", r"Ready\s+True"),
        ("serviceaccount", "default", r"Name:\s+default"),
    ):
        assert re.search(shown, kubectl("describe", kind, name)), kind


def test_describe_of_a_deployment_names_its_replica_set(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "d", "--image=nginx")
    kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    shown = kubectl("describe", "deployment", "d")
    assert re.search(r"Replicas:\s+1 desired \| 1 updated \| 1 total \| 1 available", shown)
    assert re.search(r"NewReplicaSet:\s+d-\w+ \(1/1 replicas created\)", shown)


def test_describe_of_a_custom_kind(kubectl: Kubectl, gadgets: str) -> None:
    kubectl("apply", "-f", "-", stdin=gadget(gadgets))
    shown = kubectl("describe", "gadget", "one")
    assert re.search(r"Kind:\s+Gadget", shown)
    assert re.search(r"Size:\s+2", shown)


@pytest.fixture
def event(kubectl: Kubectl, tmp_path: Path) -> str:
    kubectl("apply", "-f", "-", stdin=POD)
    pod = kubectl.json("get", "pod", "web")
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": kubectl.namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "web",
            "namespace": kubectl.namespace,
            "uid": pod["metadata"]["uid"],
        },
        "type": "Warning",
        "reason": "Tested",
        "message": "this was a test",
        "firstTimestamp": pod["metadata"]["creationTimestamp"],
        "lastTimestamp": pod["metadata"]["creationTimestamp"],
        "count": 3,
        "source": {"component": "tests"},
    }
    kubectl("create", "-f", "-", stdin=json.dumps(body))
    return "web.1"


@pytest.mark.criterion("KC-EVENTS")
def test_events_are_listed_and_described(kubectl: Kubectl, event: str) -> None:
    header, *rows = kubectl.table("get", "events")
    assert header == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert ["Warning", "Tested", "pod/web", "this was a test"] in [row[1:] for row in rows]
    by_field = kubectl("get", "events", "--field-selector=reason=Tested", "-o", "name")
    assert by_field == f"event/{event}\n"
    assert re.search(r"Warning\s+Tested\s+.*this was a test", kubectl("describe", "pod", "web"))


def test_events_for_an_object(kubectl: Kubectl, event: str) -> None:
    rows = kubectl.table("events", "--for", "pod/web")
    assert rows[0] == ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert any("Tested" in row for row in rows)
    assert "Tested" in kubectl("events", "--types=Warning")
