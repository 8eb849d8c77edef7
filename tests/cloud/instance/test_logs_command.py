"""`manager instance logs`: from files, from the Pods of Jobs, and what it prints where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cloud import InstanceInvariants, InstanceKubernetes, InstanceTerraform, TaskState
from ctrlruntime.envtest import Environment, administrator
from internal.cloud.run_logs import NoLog, find_run, log_lines
from internal.cloud.runs.cloudrun import CloudAPI, CloudRunLogs
from internal.cloud.runs.cloudrun.job import execution_id
from internal.cloud.runs.local.supervisor import shorten
from internal.cloud.subresources import SUBRESOURCES
from tests.cloud.ephemeral.test_commands import Terminal
from tests.cloud.instance.kubelet import Kubelet, make_pod, start_pod
from tests.cloud.instance.test_request_commands import running
from tests.cloud.servers.cloudrun import CloudServer

DONE = TaskState.DONE.value


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Environment(folder=tmp_path / "server") as environment:
        await environment.install_crds(*(each.kind for each in SUBRESOURCES))
        yield Terminal(environment)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "log"
    made.write_text("".join(f"line {number}\n" for number in range(10)))
    return made


async def test_the_run_under_way_goes_before_one_that_began_later(
    terminal: Terminal, file: Path
) -> None:
    late = {"state": DONE, "createdAt": "2030-01-01T00:00:00.000000Z", "logs": "/nowhere"}
    await running(terminal, InstanceKubernetes, "kubernetes-1", **late)
    await running(terminal, InstanceTerraform, "terraform-1", logs=str(file))
    shown = await terminal.types("instance", "logs", "acme", "--tail", "3")
    assert shown.splitlines() == [
        "InstanceTerraform acme-instanceterraform, run terraform-1:",
        "line 7",
        "line 8",
        "line 9",
    ]


async def test_a_run_and_a_kind_can_be_named(terminal: Terminal, file: Path) -> None:
    await running(terminal, InstanceTerraform, "terraform-1")
    await running(terminal, InstanceKubernetes, "kubernetes-1", state=DONE, logs=str(file))
    for chosen in (("--run", "kubernetes-1"), ("--kind", "InstanceKubernetes")):
        assert "line 9" in await terminal.types("instance", "logs", "acme", *chosen)
    refused = await terminal.refused("instance", "logs", "acme", "--run", "kubernetes-2")
    assert "acme has no run kubernetes-2; `manager instance describe acme`" in refused


async def test_without_a_log_the_reason_is_printed(terminal: Terminal) -> None:
    await running(terminal, InstanceTerraform, "terraform-1")
    refused = await terminal.refused("instance", "logs", "acme")
    assert "run terraform-1 has not begun; there is no log yet" in refused
    await running(terminal, InstanceInvariants, "invariants-1", state=DONE)
    refused = await terminal.refused("instance", "logs", "acme", "--run", "invariants-1")
    assert "run invariants-1 has ended, and no log of it is known" in refused
    await running(terminal, InstanceKubernetes, "kubernetes-1", logs="/nowhere/log")
    refused = await terminal.refused("instance", "logs", "acme", "--run", "kubernetes-1")
    assert "/nowhere/log is not on this machine" in refused


async def test_of_a_log_elsewhere_the_address_is_printed(terminal: Terminal) -> None:
    await running(terminal, InstanceTerraform, "terraform-1", logs="https://logs.example.com/1")
    shown = await terminal.types("instance", "logs", "acme")
    assert shown.splitlines()[-1] == "https://logs.example.com/1"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[CloudServer]:
    async with CloudServer(tmp_path, project="shops-1", location="here", bucket="runs") as server:
        yield server


VIEWER = "https://console.cloud.google.com/logs/viewer?project=shops-1&advancedFilter=x"


async def test_of_cloud_run_the_log_is_read_from_cloud_logging(
    terminal: Terminal, cloud: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", cloud.token)
    uid = await running(terminal, InstanceTerraform, "terraform-1", logs=VIEWER)
    for number in range(5):
        cloud.logging.write(execution_id(uid, "terraform-1"), f"line {number}")
    where = ("--cloud-logging-url", cloud.url)
    shown = await terminal.types("instance", "logs", "acme", "--tail", "2", *where)
    assert shown.splitlines()[1:] == ["line 3", "line 4"]


async def test_without_access_to_cloud_logging_the_address_is_printed_with_the_reason(
    terminal: Terminal, cloud: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", cloud.token)
    cloud.logging.denied = True
    await running(terminal, InstanceTerraform, "terraform-1", logs=VIEWER)
    shown = await terminal.types("instance", "logs", "acme", "--cloud-logging-url", cloud.url)
    assert "Permission denied" in shown
    assert "roles/logging.viewer" in shown
    assert cloud.token not in shown
    assert shown.splitlines()[-1] == VIEWER
    shown = await terminal.types(
        "instance", "logs", "acme", "--cloud-logging-url", "http://[::1]:9"
    )
    assert shown.splitlines()[-1] == VIEWER


async def test_following_a_run_of_cloud_run_ends_after_what_arrives_late(
    terminal: Terminal, cloud: CloudServer
) -> None:
    async def token() -> str:
        return cloud.token

    uid = await running(terminal, InstanceTerraform, "terraform-1", logs=VIEWER)
    execution = execution_id(uid, "terraform-1")
    cloud.logging.write(execution, "first")
    found = await find_run(terminal.client, "acme", namespace="default")
    api, seen = CloudAPI(token), []
    following = log_lines(
        terminal.client,
        found,
        tail=9,
        follow=True,
        cloud=CloudRunLogs(api, cloud.url),
        period=0.05,
        late=2,
    )
    async with asyncio.timeout(60):
        async for line in following:
            seen.append(line)
            if line == "first":
                cloud.logging.write(execution, "second")
            if line == "second":
                status = {"run": {"runID": "terraform-1", "state": DONE}}
                await terminal.client.patch_status(
                    InstanceTerraform,
                    "acme-instanceterraform",
                    {"status": status},
                    namespace="default",
                )
                await asyncio.sleep(0.5)
                cloud.logging.write(execution, "last")
    await api.close()
    assert seen == ["first", "second", "last"]


async def test_following_ends_with_the_run_and_has_its_last_lines(
    terminal: Terminal, file: Path
) -> None:
    await running(terminal, InstanceTerraform, "terraform-1", logs=str(file))
    found = await find_run(terminal.client, "acme", namespace="default")
    seen: list[str] = []

    async def end() -> None:
        with file.open("a") as log:
            log.write("the last line\n")
        status = {"run": {"runID": "terraform-1", "state": DONE}}
        name = "acme-instanceterraform"
        await terminal.client.patch_status(
            InstanceTerraform, name, {"status": status}, namespace="default"
        )

    async with asyncio.timeout(60):
        async for line in log_lines(terminal.client, found, tail=1, follow=True):
            seen.append(line)
            if line == "line 9":
                await end()
    assert seen == ["line 9", "the last line"]


async def test_a_log_that_was_cut_is_followed(terminal: Terminal, file: Path) -> None:
    await running(terminal, InstanceTerraform, "terraform-1", logs=str(file))
    found = await find_run(terminal.client, "acme", namespace="default")
    lines = log_lines(terminal.client, found, tail=1, follow=True)
    async with asyncio.timeout(60):
        assert await anext(lines) == "line 9"
        shorten(file, largest=40)
        assert await anext(lines) == "... 56 bytes were cut off"
    await lines.aclose()


def test_a_log_keeps_its_end_at_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"{number:07}\n" for number in range(100)))
    shorten(log, largest=800)
    assert log.stat().st_size == 800
    with log.open("ab") as task:
        task.write(b"one more\n")
        task.flush()
        shorten(log, largest=800)
        task.write(b"after\n")
        task.flush()
    first, *rest = log.read_text().splitlines()
    assert first == "... 416 bytes were cut off"
    assert rest[0] == "0000052"
    assert rest[-2:] == ["one more", "after"]


async def test_the_log_of_a_job_is_that_of_its_pod(tmp_path: Path) -> None:
    kubelet = Kubelet()
    async with (
        Environment(
            "kube-apiserver", folder=tmp_path / "server", users=(administrator("admin"),)
        ) as environment,
        kubelet.listening(tmp_path),
    ):
        await environment.install_crds(*(each.kind for each in SUBRESOURCES))
        terminal = Terminal(environment)
        where = "kubectl logs -n default job/terraform-1 -c task"
        await running(terminal, InstanceTerraform, "terraform-1", logs=where)
        found = await find_run(terminal.client, "acme", namespace="default")
        with pytest.raises(NoLog, match="its Pod was deleted"):
            await anext(log_lines(terminal.client, found, tail=5, follow=False))
        await make_pod(terminal.client, kubelet.port)
        with pytest.raises(NoLog, match="its container has not begun"):
            await anext(log_lines(terminal.client, found, tail=5, follow=False))
        await start_pod(terminal.client)
        shown = await terminal.types("instance", "logs", "acme", "--tail", "7")
        assert shown.splitlines()[1:] == ["first", "second"]
        assert kubelet.asked[-1] | {"pod": "terraform-1-x", "tailLines": "7"} == kubelet.asked[-1]
        seen = []
        async with asyncio.timeout(60):
            async for line in log_lines(terminal.client, found, tail=5, follow=True):
                seen.append(line)
                kubelet.ended.set()
        assert seen == ["first", "second", "last"]


@pytest.mark.criterion("C-13")
async def test_c_13_a_name_that_no_instance_has_is_not_an_instance_without_runs(
    terminal: Terminal,
) -> None:
    refused = await terminal.refused("instance", "logs", "nope")
    assert "there is no Instance 'nope' in namespace 'default'" in refused
