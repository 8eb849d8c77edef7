"""rollout and wait, with simulated nodes making the Pods."""

from __future__ import annotations

import pytest

from .runner import Kubectl


@pytest.fixture
def deployment(kubectl: Kubectl) -> Kubectl:
    kubectl("create", "deployment", "d", "--image=nginx:1")
    return kubectl


@pytest.mark.criterion("KC-ROLLOUT")
def test_rollouts(deployment: Kubectl) -> None:
    done = deployment("rollout", "status", "deployment/d", "--timeout=60s")
    assert 'deployment "d" successfully rolled out' in done
    assert deployment("rollout", "restart", "deployment/d") == "deployment.apps/d restarted\n"
    deployment("rollout", "status", "deployment/d", "--timeout=60s")
    deployment("set", "image", "deployment/d", "nginx=nginx:2")
    deployment("rollout", "status", "deployment/d", "--timeout=60s")
    history = deployment("rollout", "history", "deployment/d")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2", "3"]
    undone = deployment("rollout", "undo", "deployment/d", "--to-revision=1")
    assert undone == "deployment.apps/d rolled back\n"
    assert deployment("get", "deploy", "d", "-o", "jsonpath={..image}") == "nginx:1"
    assert deployment("rollout", "pause", "deployment/d") == "deployment.apps/d paused\n"
    assert deployment("rollout", "resume", "deployment/d") == "deployment.apps/d resumed\n"


def test_tables_of_a_running_deployment(deployment: Kubectl) -> None:
    deployment("rollout", "status", "deployment/d", "--timeout=60s")
    header, row = deployment.table("get", "deploy", "-o", "wide")
    assert header == [
        "NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR",
    ]  # fmt: skip
    assert row[:4] == ["d", "1/1", "1", "1"]
    assert row[5:] == ["nginx", "nginx:1", "app=d"]
    assert deployment.table("get", "rs")[1][1:4] == ["1", "1", "1"]


@pytest.mark.criterion("KC-WAIT")
def test_wait_for_conditions(deployment: Kubectl) -> None:
    met = deployment("wait", "--for=condition=Available", "deployment/d", "--timeout=60s")
    assert met == "deployment.apps/d condition met\n"
    late = deployment.run("wait", "--for=condition=Progressing=False", "deploy/d", "--timeout=1s")
    assert late.code == 1
    assert "timed out" in late.err


def test_wait_for_a_value(deployment: Kubectl) -> None:
    met = deployment(
        "wait", "--for=jsonpath={.status.readyReplicas}=1", "deploy/d", "--timeout=60s"
    )
    assert met == "deployment.apps/d condition met\n"


def test_wait_for_deletion(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "c")
    with kubectl.start("wait", "--for=delete", "configmap/c", "--timeout=60s") as waiting:
        kubectl("delete", "configmap", "c")
        waiting.communicate()
    assert waiting.returncode == 0


def test_jobs(kubectl: Kubectl) -> None:
    kubectl("create", "job", "j", "--image=busybox", "--", "true")
    kubectl("wait", "--for=condition=complete", "job/j", "--timeout=60s")
    header, row = kubectl.table("get", "jobs")
    assert header == ["NAME", "STATUS", "COMPLETIONS", "DURATION", "AGE"]
    assert row[:3] == ["j", "Complete", "1/1"]


def test_nodes_can_be_cordoned_and_drained(kubectl: Kubectl) -> None:
    assert kubectl.table("get", "nodes")[1][1:3] == ["Ready", "<none>"]
    kubectl("create", "deployment", "d", "--image=nginx")
    kubectl("rollout", "status", "deployment/d", "--timeout=60s")
    dry = kubectl("drain", "envtest-node", "--dry-run=server", "--force", "--ignore-daemonsets")
    assert "node/envtest-node drained (server dry run)" in dry
    (name,) = [
        pod["metadata"]["name"] for pod in kubectl.json("get", "pods", "-l", "app=d")["items"]
    ]
    taint = kubectl("taint", "node", "envtest-node", "test=1:PreferNoSchedule", "--overwrite")
    assert taint.startswith("node/envtest-node ")
    kubectl("taint", "node", "envtest-node", "test-")
    kubectl("delete", "pod", name)
