"""The log of a run on its page: bounded, by its own right, followed while someone looks, and no file but its own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import aiohttp
import pytest
import yaml

from apis.cloud import InstanceTerraform
from ctrlruntime.client.errors import Forbidden
from internal.cloud import cloud_run_tails, run_tails
from internal.cloud.cloud_run_tails import CloudRunPlace
from internal.cloud.log_tail import MOST_BYTES, MOST_LINES
from internal.cloud.pod_logs import POD
from internal.cloud.runs.cloudrun import CloudRunOptions
from internal.cloud.runs.cloudrun.job import OWNER_LABEL, execution_id, job_id, job_of
from internal.cloud.runs.files import SECRETS
from internal.cloud.runs.local.supervisor import LOG
from internal.cloud.runs.provider import RunOwner
from manager.console.options import ConsoleOptions
from tests.cloud.instance.kubelet import NODE, Kubelet, make_pod, start_pod
from tests.cloud.runs.benches import request_of
from tests.cloud.servers.cloudrun import CloudServer
from tests.console.harness import ADMIN, RBAC, TEAM, Harness, running
from tests.console.test_stream import followed
from tests.docs.blocks import blocks
from tests.support.waiting import eventually

RUN = "terraform-3f9a"
PROJECT = "shops-1"
ADDRESS = f"https://console.cloud.google.com/logs/viewer?project={PROJECT}"
WORD = "hunter2-c0rrect-h0rse"
"""Stands for what is secret."""


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Harness]:
    options = ConsoleOptions(bind_address="127.0.0.1:0", runs_folder=tmp_path / "runs")
    async with running(options) as harness:
        yield harness


def page_of(namespace: str = "default") -> str:
    return f"/runs/instanceterraforms/{namespace}/acme"


async def begin(console: Harness, namespace: str = "default", **run: object) -> Path:
    """Make a run under way, and return the file of its log."""
    given = {"runID": RUN, "state": "Started", "logs": "/anywhere", **run}
    status = {"phase": "Running", "run": given}
    await console.put(InstanceTerraform, "acme", {"domain": "a.example.com"}, status, namespace)
    found = await console.client.get(InstanceTerraform, "acme", namespace=namespace)
    folder = console.console.state.run_tails._folder
    assert folder is not None
    file = folder / str(found.metadata.uid) / RUN / LOG
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def lines_of(page: str) -> list[str]:
    """The lines of the log that a page shows."""
    found = re.search(r"<pre[^>]*>\n?(.*?)\n?</pre>", page, re.DOTALL)
    return unescape(found[1]).splitlines() if found else []


async def test_a_page_has_the_last_lines_as_plain_text(console: Harness) -> None:
    file = await begin(console)
    assert "The run has printed nothing." in await console.page(page_of())
    lines = [f"line {number}" for number in range(1000)]
    lines += ["\x1b[1m\x1b[32mgreen\x1b[0m", "10 %\r90 %\r", "<script>alert(1)</script>", "no end"]
    file.write_text("\n".join(lines))
    page = await console.page(page_of())
    shown = lines_of(page)
    assert len(shown) == MOST_LINES
    assert shown[0] == f"line {1004 - MOST_LINES}"
    assert shown[-4:] == ["green", "90 %", "<script>alert(1)</script>", "no end"]
    assert "<script>alert" not in page


@pytest.mark.parametrize("text", ["'", "\U0001f600", "x"])
async def test_a_page_with_long_lines_stays_small(console: Harness, text: str) -> None:
    file = await begin(console)
    file.write_text("\n".join(text * 3000 for _ in range(300)) + "\nlast")
    page = await console.page(page_of())
    assert lines_of(page)[-1] == "last"
    assert MOST_BYTES / 2 < len(page.encode()) <= 100 * 1024


async def test_a_log_takes_a_right_of_its_own(console: Harness) -> None:
    file = await begin(console, "team")
    file.write_text(f"{WORD}\n")
    page = await console.page(page_of("team"), TEAM)
    assert WORD not in page
    assert "It takes the right to get pods/log in namespace team." in page
    assert lines_of(await console.page(page_of("team"))) == [WORD]
    async with followed(console, f"/live{page_of('team')}", TEAM):
        assert len(console.console.state.run_tails) == 0
    block, *_ = blocks("docs/console.md")
    role = yaml.safe_load(block.text)
    await console.client.create(role)
    metadata = {"name": "logs", "namespace": "team"}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]}
    subject = {"apiGroup": RBAC, "kind": "User", "name": TEAM.name}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": metadata}
    await console.client.create(binding | {"subjects": [subject], "roleRef": reference})
    console.console.reviews._rights._known.clear()  # as after 30 seconds
    assert lines_of(await console.page(page_of("team"), TEAM)) == [WORD]


async def test_a_status_names_no_other_file(console: Harness) -> None:
    file = await begin(console)
    secrets = file.parent / SECRETS
    secrets.mkdir()
    (secrets / "password").write_text(WORD)
    (secrets / LOG).write_text(WORD)
    for logs, run_id in (
        (str(secrets / "password"), RUN),
        ("/etc/passwd", f"{RUN}/{SECRETS}"),
        ("/etc/passwd", f"../{file.parent.parent.name}/{RUN}/{SECRETS}"),
        (f"kubectl logs -n default job/{RUN} -c task", f"{RUN},a!=b"),
        ("javascript:alert(1)", RUN),
    ):
        run = {"runID": run_id, "state": "Started", "logs": logs}
        await console.report(InstanceTerraform, "acme", {"run": run})
        page = await console.page(page_of())
        assert (WORD not in page, "root:" not in page, lines_of(page)) == (True, True, [])
    file.unlink()
    file.symlink_to(secrets / "password")
    await console.report(InstanceTerraform, "acme", {"run": {"runID": RUN, "logs": "/x"}})
    page = await console.page(page_of())
    assert WORD not in page
    assert "The log is not on the machine of this replica" in page


async def test_new_lines_are_a_change_until_the_run_ends(
    console: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tails, "PERIOD", 0.05)
    tails = console.console.state.run_tails
    file = await begin(console)
    log = console.environment.proxy.log
    async with (
        followed(console, f"/live{page_of()}") as events,
        followed(console, f"/live{page_of()}", ADMIN),
    ):
        assert await events.event() == "change"  # what came since the page was read
        assert len(tails) == 1
        await console.page(page_of())
        before = log.mark()
        for number in range(2):
            with file.open("a") as text:
                text.write(f"line {number}\n")
            assert await events.event() == "change"
            assert lines_of(await console.page(page_of()))[-1] == f"line {number}"
        assert log.since(before).select(user="manager").total == 0
        ended = {"runID": RUN, "state": "Done", "outcome": "Succeeded", "logs": "/anywhere"}
        await console.report(InstanceTerraform, "acme", {"run": ended})
        assert await events.event() == "change"
        await eventually(lambda: len(tails) == 0)
        assert lines_of(await console.page(page_of()))[-1] == "line 1"


async def test_a_run_is_followed_while_its_page_is_open(console: Harness) -> None:
    tails = console.console.state.run_tails
    await begin(console)
    await console.page(page_of())
    assert len(tails) == 0
    async with followed(console, f"/live{page_of()}"), followed(console, "/live/"):
        await eventually(lambda: len(tails) == 1)
    await eventually(lambda: len(tails) == 0)


async def test_the_log_of_a_job_is_that_of_its_pod(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_tails, "RETRY", 0.1)
    options = ConsoleOptions(bind_address="127.0.0.1:0", runs_folder=tmp_path / "runs")
    kubelet = Kubelet()
    async with (
        running(options, server=request.getfixturevalue("real_server")) as console,
        kubelet.listening(tmp_path),
    ):
        where = "kubectl logs -n default job/terraform-1 -c task"
        await begin(console, runID="terraform-1", logs=where)
        assert "its Pod was deleted" in await console.page(page_of())
        await make_pod(console.client, kubelet.port)
        await start_pod(console.client)
        assert lines_of(await console.page(page_of())) == ["first", "second"]
        assert len(kubelet.asked) == 1
        async with followed(console, f"/live{page_of()}") as events:
            assert await events.event() == "change"
            await eventually(lambda: len(kubelet.asked) == 2)
            follower = next(iter(console.console.state.run_tails._followers.values()))
            await eventually(lambda: follower.tail is not None and len(follower.tail.lines) == 2)
            # Whoever reads meanwhile gets what is followed, without another request.
            assert lines_of(await console.page(page_of())) == ["first", "second"]
            assert len(kubelet.asked) == 2
            assert kubelet.asked[-1]["follow"] == "true"
            kubelet.ended.set()
            await eventually(lambda: follower.tail is not None and "last" in follower.tail.lines)
        await eventually(lambda: len(console.console.state.run_tails) == 0)
        await console.client.delete(POD, "terraform-1-x", namespace="default")
        await console.client.delete(NODE, "n")
        await console.client.delete(InstanceTerraform, "acme", namespace="default")


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[CloudServer]:
    made = CloudServer(tmp_path / "cloud", project=PROJECT, location="here", bucket="runs")
    async with made:
        yield made


@pytest.fixture
async def beside_cloud_run(cloud: CloudServer, tmp_path: Path) -> AsyncIterator[Harness]:
    """A console of a manager whose runs are jobs of Cloud Run."""

    async def token() -> str:
        return cloud.token

    place = CloudRunPlace(
        project=PROJECT, location="here", token=token, run_url=cloud.url, logging_url=cloud.url
    )
    options = ConsoleOptions(
        bind_address="127.0.0.1:0", cloud_run=place, runs_folder=tmp_path / "runs"
    )
    async with running(options) as harness:
        yield harness


async def make_job(cloud: CloudServer, owner_uid: str, label: str | None = None) -> None:
    """Make the Cloud Run job of the run, as the provider does for this owner, with another's label if given."""
    owner = RunOwner(
        api_version="cloud.ctrlruntime.dev/v1",
        kind="InstanceTerraform",
        namespace="default",
        name="acme",
        uid=owner_uid,
    )
    options = CloudRunOptions(
        project=PROJECT, location="here", bucket="runs", image="i", command=("true",)
    )
    url = f"{cloud.url}/v2/{options.parent}/jobs/{job_id(owner_uid)}?allowMissing=true"
    headers = {"Authorization": f"Bearer {cloud.token}"}
    body = job_of(request_of(owner, run_id=RUN), options)
    if label is not None:
        body = json.loads(
            json.dumps(body).replace(
                f'"{OWNER_LABEL}": "{owner_uid}"', f'"{OWNER_LABEL}": "{label}"'
            )
        )
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.patch(url, json=body) as answer,
    ):
        assert answer.status == 200, await answer.text()


async def test_the_log_of_cloud_run_is_read_and_followed_within_bounds(
    beside_cloud_run: Harness, cloud: CloudServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_run_tails, "PERIOD", 0.05)
    console = beside_cloud_run
    await begin(console, "team", logs=ADDRESS)
    found = await console.client.get(InstanceTerraform, "acme", namespace="team")
    await make_job(cloud, str(found.metadata.uid))
    printed_by = execution_id(str(found.metadata.uid), RUN)
    for number in range(300):
        cloud.logging.write(printed_by, f"line {number}")
    cloud.logging.write("another-run", WORD)
    before = len(cloud.requests)
    page = await console.page(page_of("team"), TEAM)
    assert "It takes the right to get pods/log in namespace team." in page
    assert len(cloud.requests) == before, "without the right nothing is read"
    shown = lines_of(await console.page(page_of("team")))
    assert (len(shown), shown[-1]) == (MOST_LINES, "line 299")
    async with followed(console, f"/live{page_of('team')}") as events:
        assert await events.event() == "change"
        cloud.logging.write(printed_by, "\x1b[32mmore\x1b[0m")
        assert await events.event() == "change"
        assert lines_of(await console.page(page_of("team")))[-1] == "more"
    await eventually(lambda: len(console.console.state.run_tails) == 0)
    idle = len(cloud.requests)
    await asyncio.sleep(0.3)
    assert len(cloud.requests) == idle, "without a reader nothing is read"
    cloud.logging.denied = True
    refused = unescape(await console.page(page_of("team")))
    assert "Cloud Logging was not read: Permission denied" in refused
    assert "roles/logging.viewer" in refused
    assert ADDRESS in refused


@pytest.mark.criterion("instance-logs")
async def test_a_status_names_no_other_run_of_cloud_run(
    beside_cloud_run: Harness, cloud: CloudServer
) -> None:
    console = beside_cloud_run
    await begin(console, logs=ADDRESS)
    await make_job(cloud, "another-owner")
    cloud.logging.write(execution_id("another-owner", RUN), WORD)
    page = await console.page(page_of())
    assert (WORD not in page, "has no run of that name" in page) == (True, True)
    found = await console.client.get(InstanceTerraform, "acme", namespace="default")
    uid = str(found.metadata.uid)
    await make_job(cloud, uid, label="another-owner")
    cloud.logging.write(execution_id(uid, RUN), WORD)
    page = await console.page(page_of())
    assert (WORD not in page, "was not made for this object" in page) == (True, True)
    for run_id, where in (
        (f'{RUN}" OR "', ADDRESS),
        (f"../jobs/{RUN}", ADDRESS),
        ("deleted", ADDRESS),
        (RUN, ADDRESS.replace(PROJECT, "another-project")),
    ):
        run = {"runID": run_id, "state": "Started", "logs": where}
        await console.report(InstanceTerraform, "acme", {"run": run})
        page = await console.page(page_of())
        assert (WORD not in page, lines_of(page)) == (True, [])
    assert "The log is kept elsewhere" in page


async def test_without_the_managers_right_the_page_names_it(
    console: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object) -> str:
        raise Forbidden("no")

    monkeypatch.setattr(run_tails, "find_pod", refused)
    await begin(console, logs=f"kubectl logs -n default job/{RUN} -c task")
    page = await console.page(page_of())
    assert "The manager may not read logs of Pods in namespace default" in page
