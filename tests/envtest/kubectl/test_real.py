"""One tour on the embedded server and on the real one: the screens are the same."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import pytest_asyncio

from ctrlruntime.envtest.environment import Environment
from tests.backends import SharedServer

from .conftest import USERS, gadget, gadget_definition
from .runner import Kubectl

SETTINGS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {app: x}}
data: {a: "1", b: "2"}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: d}}
spec:
  replicas: 0
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - {name: c, image: "nginx:1", env: [{name: A, value: a}]}
"""
ROLE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: alice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: alice}]
"""
EVENT = """
apiVersion: v1
kind: Event
metadata: {name: e}
involvedObject: {apiVersion: v1, kind: ConfigMap, name: c, namespace: NAMESPACE}
reason: Tested
message: all is well
type: Normal
source: {component: tests}
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T00:00:00Z"
count: 1
"""
STEPS: tuple[tuple[str, str], ...] = (
    ("apply -f -", SETTINGS),
    ("apply -f -", SETTINGS),
    ("apply -f -", SETTINGS.replace('"2"', '"3"')),
    ("diff -f -", SETTINGS.replace('"2"', '"4"')),
    ("apply -f -", DEPLOYMENT),
    ("apply -f -", DEPLOYMENT.replace("nginx:1", "nginx:2").replace("value: a", "value: b")),
    ("apply --server-side -f -", SETTINGS),
    ("apply --server-side --field-manager=other -f -", SETTINGS.replace('"2"', '"9"')),
    ("apply --server-side --force-conflicts --field-manager=other -f -", SETTINGS),
    ("apply -f -", ROLE),
    ("create -f -", EVENT),
    ("create secret generic s --from-literal=k=v", ""),
    ("create -f -", SETTINGS),
    ("apply -f -", gadget("GROUP")),
    ("apply -f -", gadget("GROUP", size=99)),
    ("get cm -l app=x", ""),
    ("get cm c -o jsonpath={.data}", ""),
    ("get deploy", ""),
    ("get deploy d -o wide", ""),
    ("get gdg", ""),
    ("get gdg -o wide", ""),
    ("get role,rolebinding", ""),
    ("get secret s --show-labels", ""),
    ("get events", ""),
    ("get nothings", ""),
    ("get cm none", ""),
    ("describe cm c", ""),
    ("describe secret s", ""),
    ("describe role reader", ""),
    ("describe rolebinding alice", ""),
    ("scale deploy d --replicas=0", ""),
    ("set image deploy/d c=nginx:3", ""),
    ("label cm c more=1", ""),
    ("annotate cm c note=x", ""),
    ('patch cm c -p {"data":{"z":"1"}}', ""),
    ('patch gdg one --type=json -p [{"op":"replace","path":"/spec/size","value":3}]', ""),
    ("api-resources --api-group=apps --no-headers", ""),
    ("auth can-i list configmaps --as=alice", ""),
    ("auth can-i delete configmaps --as=alice", ""),
    ("delete cm c", ""),
    ("delete gdg --all", ""),
)
"""Commands, words apart, and what they read from standard input. No replicas: only the embedded server
has nodes beside it."""
VOLATILE = (
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
    (r"\b\d+[smhd](\d+[smh])?\b", "AGE"),
    (r"<(unknown|invalid)>", "AGE"),
    (r"(resourceVersion|generation): \S+", r"\1: N"),
    (r"(?s)@@ -\d\d.*", ""),
    (r"LIVE-\d+|MERGED-\d+", "FILE"),
    (r"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?( [+-]\d{4})?( UTC)?", "TIME"),
    (r"[ \t]+", " "),
    (r"-+ ?\n", "-\n"),
)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_environment(real_server: SharedServer) -> AsyncIterator[Environment]:
    async with real_server.environment(users=USERS) as running:
        yield running


_ENTRY = re.compile(r"^\w+:\n-+\n.*\n", re.MULTILINE)
"""One key of a ConfigMap as `describe` shows it, with its value."""


def _unordered(command: str, screen: str) -> tuple[str, list[str]]:
    """kubectl describes the keys of a ConfigMap in the order of a Go map, which is any order."""
    if not command.startswith("describe cm"):
        return screen, []
    entries = _ENTRY.findall(screen)
    assert entries, screen
    return _ENTRY.sub("", screen), sorted(entries)


@pytest.mark.criterion("KC-REAL")
def test_the_same_screens(
    binary: Path, environment: Environment, real_environment: Environment, tmp_path: Path
) -> None:
    places = {"embedded": environment, "real": real_environment}
    group = f"g{secrets.token_hex(4)}.example.com"
    with ThreadPoolExecutor(len(places)) as threads:
        screens = list(
            threads.map(
                lambda place: _tour(
                    Kubectl(binary, place[1].kubeconfig("admin"), tmp_path / place[0]), group
                ),
                places.items(),
            )
        )
    differences = [
        f"$ kubectl {command}\n--- embedded\n{ours}\n--- real\n{theirs}"
        for (command, _), ours, theirs in zip(STEPS, *screens, strict=True)
        if _unordered(command, ours) != _unordered(command, theirs)
    ]
    assert not differences, "\n\n".join(differences)


def _tour(kubectl: Kubectl, group: str) -> list[str]:
    kubectl.folder.mkdir()
    kubectl.namespace = f"k-{secrets.token_hex(4)}"
    kubectl("create", "namespace", kubectl.namespace)
    kubectl("apply", "-f", "-", stdin=gadget_definition(group))
    kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}", "--timeout=60s")
    try:
        return [_screen(kubectl, group, command, text) for command, text in STEPS]
    finally:
        kubectl("delete", "crd", f"gadgets.{group}", "--wait=false")
        kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


def _screen(kubectl: Kubectl, group: str, command: str, text: str) -> str:
    stdin = text.replace("GROUP", group).replace("NAMESPACE", kubectl.namespace)
    done = kubectl.run(*command.split(" "), stdin=stdin or None)
    shown = f"{done.code}\n{done.out}\n{done.err}"
    shown = shown.replace(kubectl.namespace, "NAMESPACE").replace(group, "GROUP")
    for pattern, plain in VOLATILE:
        shown = re.sub(pattern, plain, shown)
    return "\n".join(line.strip() for line in shown.splitlines() if line.strip())
