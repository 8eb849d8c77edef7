"""Rows as the printers of a real server make them; cells were recorded from one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctrlruntime.envtest.server.builtin import builtin_kinds
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.printers import printer_for
from ctrlruntime.envtest.server.printers.column import human_duration
from ctrlruntime.envtest.server.printers.jsonpath import InvalidPath, compile_path
from ctrlruntime.envtest.server.table import render
from ctrlruntime.json import Json

NOW = datetime(2026, 11, 21, 0, 0, 44, tzinfo=UTC)
KINDS = {(kind.group, kind.kind): kind for kind in builtin_kinds()}


def row(group: str, kind: str, **fields: Json) -> list[Any]:
    created = {"creationTimestamp": "2026-11-21T00:00:43Z"}
    metadata = {"name": "x", **created, **fields.pop("metadata", {})}
    obj = {"kind": kind, "metadata": metadata, **fields}
    table = render(KINDS[group, kind], "v1", [obj], "1", now=NOW)
    (found,) = table["rows"]
    assert len(found["cells"]) == len(table["columnDefinitions"])
    cells: list[Any] = found["cells"]
    return cells


def pod(status: dict[str, Any], **spec: object) -> list[Any]:
    spec.setdefault("containers", [{"name": "a"}, {"name": "b"}])
    return row("", "Pod", spec=spec, status=status)[1:4]


def container(state: dict[str, Any], *, ready: bool = False, restarts: int = 0) -> dict[str, Any]:
    return {"name": "a", "state": state, "ready": ready, "restartCount": restarts}


WAITING = {"waiting": {"reason": "CrashLoopBackOff"}}
RUNNING: dict[str, Any] = {"running": {}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}


@pytest.mark.criterion("KC-TABLE-POD")
@pytest.mark.parametrize(
    ("status", "cells"),
    [
        ({"phase": "Pending"}, ["0/2", "Pending", "0"]),
        ({"phase": "Failed", "reason": "Evicted"}, ["0/2", "Evicted", "0"]),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    container(WAITING, restarts=3),
                    container(RUNNING, ready=True),
                ],
            },
            ["1/2", "CrashLoopBackOff", "3"],
        ),
        (
            {"phase": "Failed", "containerStatuses": [container({"terminated": {"exitCode": 1}})]},
            ["0/2", "ExitCode:1", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [container(DONE), container(RUNNING, ready=True)],
                "conditions": [{"type": "Ready", "status": "True"}],
            },
            ["1/2", "Running", "0"],
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [container(DONE), container(RUNNING, ready=True)],
            },
            ["1/2", "NotReady", "0"],
        ),
        (
            {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}],
            },
            ["0/2", "SchedulingGated", "0"],
        ),
    ],
)
def test_the_status_of_a_pod(status: dict[str, Any], cells: list[str]) -> None:
    assert pod(status) == cells


def test_init_containers_and_sidecars() -> None:
    init = [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]
    waiting = {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": RUNNING}]}
    assert pod(waiting, initContainers=init) == ["0/3", "Init:0/2", "0"]
    failed = {"terminated": {"exitCode": 2}}
    status = {"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": failed}]}
    assert pod(status, initContainers=init)[1] == "Init:ExitCode:2"
    up = {
        "phase": "Running",
        "initContainerStatuses": [
            {"name": "i", "state": DONE},
            {"name": "s", "state": RUNNING, "started": True, "ready": True, "restartCount": 1},
        ],
        "containerStatuses": [container(RUNNING, ready=True)],
    }
    assert pod(up, initContainers=init) == ["2/3", "Running", "1"]


def test_restarts_report_their_time() -> None:
    last = {"terminated": {"finishedAt": "2026-11-20T23:58:44Z"}}
    status = {"phase": "Running", "containerStatuses": [container(RUNNING, restarts=2)]}
    status["containerStatuses"][0]["lastState"] = last  # type: ignore[index]
    assert pod(status)[2] == "2 (2m ago)"


def test_a_pod_on_its_way_out() -> None:
    leaving = {"deletionTimestamp": "2026-11-21T00:00:43Z"}
    assert row("", "Pod", metadata=leaving, status={"phase": "Running"})[2] == "Terminating"
    lost = {"phase": "Running", "reason": "NodeLost"}
    assert row("", "Pod", metadata=leaving, status=lost)[2] == "Unknown"


def test_rows_of_finished_pods_carry_a_condition() -> None:
    obj = {"metadata": {"name": "x"}, "status": {"phase": "Succeeded"}}
    (found,) = render(KINDS["", "Pod"], "v1", [obj], "1", now=NOW)["rows"]
    assert found["conditions"][0]["reason"] == "Succeeded"


@pytest.mark.criterion("KC-TABLE")
def test_services() -> None:
    port = {"port": 80, "protocol": "TCP", "nodePort": 32684}
    balanced = {"type": "LoadBalancer", "clusterIP": "10.0.100.110", "ports": [port]}
    wanted = ["LoadBalancer", "10.0.100.110", "<pending>", "80:32684/TCP", "1s", "<none>"]
    assert row("", "Service", spec=balanced)[1:] == wanted
    named = {"type": "ExternalName", "externalName": "example.com"}
    wanted = ["ExternalName", "<none>", "example.com", "<none>", "1s", "<none>"]
    assert row("", "Service", spec=named)[1:] == wanted


def test_endpoints_show_three() -> None:
    addresses = [{"ip": f"1.2.3.{n}"} for n in range(1, 6)]
    subset = {"addresses": addresses, "ports": [{"port": 80}]}
    shown = row("", "Endpoints", subsets=[subset])[1]
    assert shown == "1.2.3.1:80,1.2.3.2:80,1.2.3.3:80 + 2 more..."


def test_nodes() -> None:
    cells = row(
        "",
        "Node",
        metadata={"labels": {"node-role.kubernetes.io/control-plane": ""}},
        spec={"unschedulable": True},
        status={
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1", "osImage": "o", "kernelVersion": "k"},
        },
    )
    assert cells[1:4] == ["Ready,SchedulingDisabled", "control-plane", "1s"]
    assert cells[4:] == ["v1", "1.2.3.4", "<none>", "o", "k", "<unknown>"]


def test_volumes_and_claims() -> None:
    cells = row(
        "",
        "PersistentVolume",
        spec={
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "volumeMode": "Filesystem",
        },
        status={"phase": "Pending"},
    )
    assert cells[1:6] == ["1Gi", "RWO,ROX", "Retain", "Pending", ""]
    cells = row("", "PersistentVolumeClaim", spec={}, status={"phase": "Pending"})
    assert cells[1:6] == ["Pending", "", "", "", ""]


def test_jobs() -> None:
    status = {
        "succeeded": 2,
        "startTime": "2026-11-21T00:00:00Z",
        "completionTime": "2026-11-21T00:01:05Z",
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    assert row("batch", "Job", spec={"completions": 2}, status=status)[1:4] == [
        "Complete", "2/2", "65s",
    ]  # fmt: skip
    assert row("batch", "Job", spec={"parallelism": 3})[1:4] == ["Running", "0/1 of 3", ""]


def test_events_of_both_groups() -> None:
    core = row(
        "",
        "Event",
        involvedObject={"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
        type="Normal",
        reason="R",
        message="m\n",
        count=3,
        source={"component": "x", "host": "h"},
        firstTimestamp="2026-11-20T23:00:44Z",
        lastTimestamp="2026-11-20T23:58:44Z",
    )
    wanted = [
        "2m", "Normal", "R", "pod/p", "spec.containers{c}", "x, h", "m", "60m", 3, "x",
    ]  # fmt: skip
    assert core == wanted
    new = row(
        "events.k8s.io",
        "Event",
        regarding={"kind": "Pod", "name": "p"},
        note="m",
        eventTime="2026-11-20T23:58:44.000000Z",
        reportingController="c",
    )
    assert new[0] == "2m"
    assert new[3:7] == ["pod/p", "", "c", "m"]


def test_access() -> None:
    subjects = [
        {"kind": "User", "name": "u"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
    ]
    cells = row(
        "rbac.authorization.k8s.io",
        "RoleBinding",
        roleRef={"kind": "Role", "name": "r"},
        subjects=subjects,
    )
    assert cells[1:] == ["Role/r", "1s", "u", "", "n/s"]
    assert row("rbac.authorization.k8s.io", "ClusterRole")[1] == "2026-11-21T00:00:43Z"


@pytest.mark.parametrize("key", sorted(KINDS))
def test_every_kind_prints_an_object_with_nothing_in_it(key: tuple[str, str]) -> None:
    assert row(*key)
    names = [column.name for column in printer_for(KINDS[key], "v1").columns]
    assert "Name" in names


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"), (-0.5, "0s"), (119, "119s"), (120, "2m"), (130, "2m10s"), (3599, "59m"),
        (3600 * 3, "3h"), (3600 * 3 + 60, "3h1m"), (3600 * 47, "47h"), (3600 * 49, "2d1h"),
        (86400 * 9, "9d"), (86400 * 324, "324d"), (86400 * 365 * 3, "3y"),
        (86400 * (365 * 3 + 2), "3y2d"), (86400 * 365 * 9, "9y"),
    ],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


# -- custom kinds ----------------------------------------------------------------------------


def custom(columns: list[dict[str, Any]], obj: dict[str, Any]) -> list[Any]:
    kind = Kind(
        group="example.com",
        kind="Widget",
        plural="widgets",
        custom=True,
        schemas={"v1": {"additionalPrinterColumns": columns}},
    )
    full = {"metadata": {"name": "x", "creationTimestamp": "2026-11-21T00:00:43Z"}, **obj}
    (found,) = render(kind, "v1", [full], "1", now=NOW)["rows"]
    cells: list[Any] = found["cells"]
    return cells[1:]


@pytest.mark.criterion("KC-TABLE-CR")
@pytest.mark.parametrize(
    ("kind", "path", "cell"),
    [
        ("integer", ".i", 3),
        ("integer", ".s", None),
        ("string", ".i", "3"),
        ("number", ".f", 1.5),
        ("string", ".o", '{"a":1}'),
        ("string", ".l", '["x","y"]'),
        ("string", ".l[*]", "x"),
        ("string", ".l[0]", "x"),
        ("string", ".l[-1:]", "y"),
        ("date", ".s", "<invalid>"),
        ("date", ".future", "<invalid>"),
        ("date", ".past", "2m"),
        ("boolean", ".b", True),
        ("string", ".b", "true"),
        ("string", ".none", None),
        ("string", '.c[?(@.type=="Ready")].status', "True"),
        ("string", ".c[?(@.n > 1)].type", "Other"),
        ("string", ".c[?(@.n)].type", "Other"),
        ("string", r".labels.a\.b/c", "v"),
        ("string", ".labels['a.b/c']", "v"),
        ("string", "..type", "Ready"),
    ],
)
def test_cells_by_column_type(kind: str, path: str, cell: object) -> None:
    obj = {
        "i": 3,
        "s": "text",
        "f": 1.5,
        "o": {"a": 1},
        "l": ["x", "y"],
        "b": True,
        "future": (NOW + timedelta(hours=1)).isoformat(),
        "past": (NOW - timedelta(minutes=2)).isoformat(),
        "c": [{"type": "Ready", "status": "True"}, {"type": "Other", "n": 2}],
        "labels": {"a.b/c": "v"},
    }
    assert custom([{"name": "C", "type": kind, "jsonPath": path}], obj) == [cell]


def test_without_columns_there_is_the_age() -> None:
    assert custom([], {}) == ["1s"]


@pytest.mark.parametrize("path", [".a[", ".a[?(b)]", "a b"])
def test_paths_that_cannot_be_read(path: str) -> None:
    with pytest.raises(InvalidPath):
        compile_path(path)
