"""Pods that run as local processes find their volumes as files, and end at their deadline."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.envtest.eventually import eventually, eventually_holds
from ctrlruntime.envtest.nodes.containers import CannotStart, Command, relocated
from ctrlruntime.envtest.nodes.kinds import JOB, POD
from ctrlruntime.envtest.nodes.volumes import volume_files, volume_references

from .manifests import job, obj, template

LOCAL = {"ctrlruntime.dev/run-local": "true"}


def pod(volumes: list[dict[str, Any]], **spec: object) -> dict[str, Any]:
    mounts = [{"name": v["name"], "mountPath": f"/mnt/{v['name']}"} for v in volumes]
    container = {"name": "c", "image": "local", "volumeMounts": mounts}
    shape = {"restartPolicy": "Never", "containers": [container], "volumes": volumes, **spec}
    return obj("v1", "Pod", "p", shape, annotations=LOCAL)


SECRET = {"data": {"a": "QQ==", "b": "Qg=="}}
MAP = {"data": {"text": "ü"}, "binaryData": {"raw": "/w=="}}


def test_files_of_every_source() -> None:
    made = pod(
        [
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "m", "configMap": {"name": "m", "items": [{"key": "raw", "path": "x/y"}]}},
            {"name": "e", "emptyDir": {}},
            {
                "name": "p",
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [{"key": "a", "path": "s/a"}]}},
                        {"secret": {"name": "gone", "optional": True}},
                        {"configMap": {"name": "m"}},
                        {"serviceAccountToken": {"path": "token"}},
                    ]
                },
            },
        ]
    )
    assert volume_references(made) == {("Secret", "s"), ("Secret", "gone"), ("ConfigMap", "m")}
    files = volume_files(made, {("Secret", "s"): SECRET, ("ConfigMap", "m"): MAP})
    assert files == {
        "s": {"a": b"A", "b": b"B"},
        "m": {"x/y": b"\xff"},
        "e": {},
        "p": {"s/a": b"A", "text": "ü".encode(), "raw": b"\xff"},
    }


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"secretName": "gone"}, "secret 'gone' not found"),
        ({"secretName": "s", "items": [{"key": "z", "path": "z"}]}, "secret 's' has no key 'z'"),
    ],
)
def test_what_is_missing_keeps_it_from_starting(source: dict[str, Any], message: str) -> None:
    made = pod([{"name": "s", "secret": source}])
    with pytest.raises(CannotStart, match=message):
        volume_files(made, {("Secret", "s"): SECRET})


def test_paths_below_a_mount_lead_to_its_folder_and_others_do_not() -> None:
    command = Command(args=("/mnt/s/run", "/mnt/sun"), env={"A": "/mnt/s", "B": "see /mnt/s/x"})
    moved = relocated(command, {"/mnt/s": "/tmp/x"})
    assert moved.args == ("/tmp/x/run", "/mnt/sun")
    assert moved.env == {"A": "/tmp/x", "B": "see /mnt/s/x"}


@pytest.fixture
async def local(start: Callable[..., Any]) -> None:
    await start(run_local=True)


@pytest.mark.usefixtures("local")
async def test_a_process_reads_its_secret_once_it_is_there(client: Client) -> None:
    made = pod([{"name": "s", "secret": {"secretName": "s"}}])
    code = "import os, shutil; shutil.copy(os.environ['FROM'], os.environ['TO'])"
    made["spec"]["containers"][0] |= {
        "command": [sys.executable, "-c", code],
        "env": [
            {"name": "FROM", "value": "/mnt/s/a"},
            {"name": "TO", "value": "/dev/termination-log"},
        ],
    }
    await client.create(made)
    waiting = {"state": {"waiting": {"reason": "CreateContainerConfigError"}}}
    await eventually(
        client, POD, "p", {"status": {"containerStatuses": [waiting]}}, namespace="default"
    )
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s", "namespace": "default"},
            **SECRET,
        }
    )
    ended = {"state": {"terminated": {"exitCode": 0, "message": "A"}}}
    await eventually(
        client,
        POD,
        "p",
        {"status": {"containerStatuses": [ended]}},
        namespace="default",
        timeout=60,
    )


@pytest.mark.usefixtures("local")
async def test_a_pod_is_ended_at_its_deadline(client: Client) -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(9)); time.sleep(600)"
    made = pod([], activeDeadlineSeconds=2)
    made["spec"]["containers"][0]["command"] = [sys.executable, "-c", code]
    await client.create(made)
    ended = {"state": {"terminated": {"exitCode": lambda code: code != 0}}}
    status = {"phase": "Failed", "reason": "DeadlineExceeded", "containerStatuses": [ended]}
    await eventually(client, POD, "p", {"status": status}, namespace="default", timeout=60)


@pytest.mark.usefixtures("local")
async def test_a_job_counts_a_deleted_pod_as_failed(client: Client, tmp_path: Path) -> None:
    """As since 1.26; before, another Pod took its place."""
    file = tmp_path / "runs"
    shape = template(restartPolicy="Never", annotations=LOCAL)
    code = f"import time; open({str(file)!r}, 'a').write('x'); time.sleep(600)"
    shape["spec"]["containers"][0]["command"] = [sys.executable, "-c", code]
    await client.create(job(pod=shape, backoffLimit=0))
    await eventually_holds(lambda: file.exists() and file.read_text(), timeout=60)
    (made,) = await client.list(POD, "default")
    await client.delete(POD, made["metadata"]["name"], namespace="default", grace_period=0)
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    status = {
        "failed": 1,
        "conditions": lambda found: any(failed.items() <= c.items() for c in found),
    }
    await eventually(client, JOB, "task", {"status": status}, namespace="default", timeout=60)
    assert file.read_text() == "x"
