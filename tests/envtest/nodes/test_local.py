"""Pods that ask for it run as processes of this machine, and only on servers of our own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually, eventually_gone, eventually_holds
from ctrlruntime.envtest.kubeconfig import write_kubeconfig
from ctrlruntime.envtest.nodes.kinds import DEPLOYMENT, JOB, POD
from ctrlruntime.envtest.process import ChildProcess, ProcessFailed

from .manifests import deployment, job, obj, template

LOCAL = {"ctrlruntime.dev/run-local": "true"}


def python(code: str, **container: object) -> list[dict[str, Any]]:
    return [{"name": "c", "image": "local", "command": [sys.executable, "-c", code], **container}]


def local_pod(code: str, restart: str = "Never", **container: object) -> dict[str, Any]:
    spec = {"restartPolicy": restart, "containers": python(code, **container)}
    return obj("v1", "Pod", "p", spec, annotations=LOCAL)


@pytest.fixture
async def local(start: Callable[..., Any]) -> None:
    await start(run_local=True)


def terminated(**state: object) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "c", "state": {"terminated": state}}]}


@pytest.mark.usefixtures("local")
class TestLocalProcess:
    async def test_exit_code_and_termination_message_are_reported(self, client: Client) -> None:
        code = "import os, sys; open(os.environ['TERMINATION_MESSAGE_PATH'], 'w').write('sad'); sys.exit(3)"
        await client.create(local_pod(code))
        ended = terminated(exitCode=3, message="sad", reason="Error", finishedAt=...)
        await eventually(
            client, POD, "p", {"status": {"phase": "Failed"} | ended}, namespace="default"
        )

    async def test_the_environment_comes_from_maps_and_secrets(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for kind, name in (("ConfigMap", "m"), ("Secret", "s")):
            made = {
                "apiVersion": "v1",
                "kind": kind,
                "metadata": {"name": name, "namespace": "default"},
            }
            field = "data" if kind == "ConfigMap" else "stringData"
            await client.create({**made, field: {kind.upper(): f"from {kind}"}})
        code = (
            "import os; e = os.environ; "
            "open(e['TERMINATION_MESSAGE_PATH'], 'w').write("
            "'|'.join([e['CONFIGMAP'], e['SECRET'], e['POD'], os.path.basename(os.getcwd())[:6],"
            " str('HOSTNAME_OF_TESTS' in e)]))"
        )
        pod_name = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        sources = [{"configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}}]
        monkeypatch.setenv("HOSTNAME_OF_TESTS", "leaks")
        await client.create(local_pod(code, env=[pod_name], envFrom=sources))
        message = "from ConfigMap|from Secret|p|pod-p-|False"
        ended = terminated(exitCode=0, message=message)
        await eventually(
            client, POD, "p", {"status": {"phase": "Succeeded"} | ended}, namespace="default"
        )

    async def test_a_missing_secret_is_a_reason_to_wait(self, client: Client) -> None:
        await client.create(local_pod("pass", envFrom=[{"secretRef": {"name": "none"}}]))
        waiting = {"reason": "CreateContainerConfigError", "message": "secret 'none' not found"}
        statuses = [{"name": "c", "state": {"waiting": waiting}}]
        await eventually(
            client, POD, "p", {"status": {"containerStatuses": statuses}}, namespace="default"
        )

    async def test_a_program_that_is_not_there_reports_it(self, client: Client) -> None:
        missing = local_pod("pass")
        missing["spec"]["containers"][0]["command"] = ["/does/not/exist"]
        await client.create(missing)
        ended = terminated(exitCode=128, message=lambda m: "No such file" in m)
        await eventually(
            client, POD, "p", {"status": {"phase": "Failed"} | ended}, namespace="default"
        )

    async def test_a_deleted_pod_takes_its_processes_with_it(
        self, client: Client, tmp_path: Path
    ) -> None:
        child_file = tmp_path / "pids"
        code = (
            "import os, subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            f"open({str(child_file)!r}, 'w').write(f'{{os.getpid()}} {{child.pid}} ')\n"
            "time.sleep(600)"
        )
        await client.create(local_pod(code))
        await eventually_holds(
            lambda: child_file.exists() and len(child_file.read_text().split()) == 2
        )
        pids = [int(pid) for pid in child_file.read_text().split()]
        await client.delete(POD, "p", namespace="default")
        await eventually_gone(client, POD, "p", namespace="default")
        await eventually_holds(lambda: not any(map(_runs, pids)))

    async def test_a_pod_deleted_without_grace_is_killed_too(
        self, client: Client, tmp_path: Path
    ) -> None:
        file = tmp_path / "pid"
        code = (
            f"import os, time; open({str(file)!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(600)"
        )
        await client.create(local_pod(code))
        await eventually_holds(lambda: file.exists() and file.read_text().endswith(" "))
        await client.delete(POD, "p", namespace="default", grace_period=0)
        await eventually_holds(lambda: not _runs(int(file.read_text())))

    async def test_a_job_really_does_its_task(self, client: Client, tmp_path: Path) -> None:
        file = tmp_path / "done"
        shape = template(restartPolicy="Never", annotations=LOCAL)
        shape["spec"]["containers"] = python(f"open({str(file)!r}, 'a').write('x')")
        await client.create(job(pod=shape))
        await eventually(client, JOB, "task", {"status": {"succeeded": 1}}, namespace="default")
        assert file.read_text() == "x"

    async def test_a_deployment_restarts_its_process(self, client: Client, tmp_path: Path) -> None:
        file = tmp_path / "runs"
        web = deployment(replicas=1)
        web["spec"]["template"] = template(annotations=LOCAL)
        code = (
            f"import time; open({str(file)!r}, 'a').write('x'); n = len(open({str(file)!r}).read());\n"
            "n < 2 and exit(1); time.sleep(600)"
        )
        web["spec"]["template"]["spec"]["containers"] = python(code)
        await client.create(web)
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 1}}, namespace="default"
        )
        await eventually_holds(lambda: file.exists() and len(file.read_text()) == 2)
        (made,) = await client.list(POD, "default")
        counted = {"status": {"containerStatuses": [{"name": "c", "restartCount": 1}]}}
        await eventually(client, POD, made["metadata"]["name"], counted, namespace="default")


async def test_nothing_runs_unless_it_is_allowed(
    client: Client, start: Callable[..., Any], tmp_path: Path
) -> None:
    await start()
    await client.create(local_pod(f"open({str(tmp_path / 'ran')!r}, 'w')"))
    await eventually(client, POD, "p", {"status": {"phase": "Succeeded"}}, namespace="default")
    assert not (tmp_path / "ran").exists()


async def test_pods_that_do_not_ask_for_it_are_simulated(
    client: Client, start: Callable[..., Any], tmp_path: Path
) -> None:
    await start(run_local=True)
    silent = local_pod(f"open({str(tmp_path / 'ran')!r}, 'w')")
    del silent["metadata"]["annotations"]
    await client.create(silent)
    await eventually(client, POD, "p", {"status": {"phase": "Succeeded"}}, namespace="default")
    assert not (tmp_path / "ran").exists()


async def test_processes_run_only_for_servers_of_the_environment(tmp_path: Path) -> None:
    async with Environment() as env:
        foreign = write_kubeconfig(tmp_path / "config", env.backend.url, None, env.user("nodes"))
        with pytest.raises(ProcessFailed, match="was not started by the test environment"):
            await ChildProcess.start(
                [sys.executable, "-m", "ctrlruntime.envtest.nodes", "--kubeconfig", str(foreign),
                 "--run-local"],
                log=tmp_path / "log",
            )  # fmt: skip


@pytest.mark.criterion("EN-01")
async def test_nodes_run_as_a_process_and_end_their_children(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with Environment(nodes=True, run_local=True) as env:
        code = (
            f"import os, time; open({str(file)!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(600)"
        )
        await env.client().create(local_pod(code))
        await eventually_holds(lambda: file.exists() and file.read_text().endswith(" "))
        await eventually(
            env.client(), POD, "p", {"status": {"phase": "Running"}}, namespace="default"
        )
        assert env.nodes is not None
        nodes = env.nodes
    assert nodes.returncode == 0, nodes.log_tail()
    await eventually_holds(lambda: not _runs(int(file.read_text())))


async def test_killed_nodes_take_their_children_with_them(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    async with Environment(nodes=True, run_local=True) as env:
        code = (
            f"import os, time; open({str(file)!r}, 'w').write(f'{{os.getpid()}} '); time.sleep(600)"
        )
        await env.client().create(local_pod(code))
        await eventually_holds(lambda: file.exists() and file.read_text().endswith(" "))
        assert env.nodes is not None
        os.kill(env.nodes.pid, signal.SIGKILL)
        await eventually_holds(lambda: not _runs(int(file.read_text())))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_the_server_can_bring_its_nodes(tmp_path: Path) -> None:
    child = await ChildProcess.start(
        [sys.executable, "-m", "ctrlruntime.envtest", "--nodes", "--no-pods", "--token", "a=t",
         "--kubeconfig", str(tmp_path / "config")],
        log=tmp_path / "log",
    )  # fmt: skip
    async with Client.connect(await Config.load(tmp_path / "config")) as client:
        await client.create(deployment())
        await eventually(
            client, DEPLOYMENT, "web", {"status": {"readyReplicas": 3}}, namespace="default"
        )
    assert await child.stop(grace=60) == 0
