"""H-B8: limits, timeouts and retries are options, and a file changes them while the manager runs."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from apis.cloud import Instance, InstanceKubernetes, TaskRun
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.generate.discovery import find_kinds, load
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.tasks.settings import LiveDefinitions, SettingsError, parse_settings
from internal.cloud.tasks.task import Concurrency, Retries, TaskDefinition
from manager.cli import main
from manager.controllers.task_settings import SettingsFile
from manager.flags.cloud import cloud_options, take_cloud_options
from tests.manager_cli.program import Program
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("H-B8")

T = TypeVar("T")
TASKS = [item.definition.name for item in SUBRESOURCES]
PLAIN = TaskDefinition(
    name="terraform",
    timeout=600.0,
    retries=Retries(limit=3, base=30.0, cap=100.0),
    concurrency=Concurrency(limit=20, starts_per_minute=25),
)
WHOLE = """
terraform:
  limit: 1
  startsPerMinute: 2
  timeoutSeconds: 3
  attempts: 4
  retryDelaySeconds: 5
  maxRetryDelaySeconds: 6
"""


def test_h_b8_settings_replace_what_they_give_and_nothing_else() -> None:
    live = LiveDefinitions([PLAIN])
    assert live.apply(parse_settings("terraform: {timeoutSeconds: 60}", TASKS)) == ["terraform"]
    assert live("terraform").timeout == 60.0
    assert live("terraform").retries == PLAIN.retries
    assert live.apply(parse_settings(WHOLE, TASKS)) == ["terraform"]
    assert live("terraform") == TaskDefinition(
        name="terraform",
        timeout=3.0,
        retries=Retries(limit=4, base=5.0, cap=6.0),
        concurrency=Concurrency(limit=1, starts_per_minute=2),
    )
    assert live.apply(parse_settings(WHOLE, TASKS)) == [], "nothing changed"
    assert live.apply(parse_settings("", TASKS)) == ["terraform"]
    assert live("terraform") == PLAIN, "an empty file gives back what was there without one"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("terraform: {limit: many}", "terraform.limit"),
        ('terraform: {limit: "5"}', "terraform.limit"),
        ("terraform: {limit: true}", "terraform.limit"),
        ("terraform: {limit: -1}", "terraform.limit"),
        ("terraform: {timeoutSeconds: 0}", "terraform.timeoutSeconds"),
        ("terraform: {timeoutSeconds: .nan}", "terraform.timeoutSeconds"),
        ("terraform: {timeoutSeconds: .inf}", "terraform.timeoutSeconds"),
        ("terraform: {timeout: 5}", "terraform.timeout"),
        ("terraform: 5", "terraform"),
        ("terrafrom: {limit: 5}", "terrafrom: no such task; there are"),
        ("[]", "file"),
        ("a: [", "it is not YAML"),
    ],
)
def test_h_b8_a_wrong_value_is_named_and_nothing_of_the_file_is_used(text: str, place: str) -> None:
    with pytest.raises(SettingsError, match=place.replace(".", r"\.")):
        parse_settings(text, TASKS)


@given(st.text(max_size=60))
def test_h_b8_any_text_is_used_or_refused(text: str) -> None:
    try:
        found = parse_settings(text, TASKS)
    except SettingsError:
        return
    assert found.keys() <= set(TASKS)


def test_h_b8_timeouts_and_attempts_are_flags() -> None:
    seen: list[Any] = []

    @click.command()
    @cloud_options
    def command(**given: object) -> None:
        seen.append(take_cloud_options(given, in_cluster=False))

    flags = ["--task-timeout", "terraform=7200", "--task-attempts", "terraform=0"]
    result = CliRunner().invoke(command, flags)
    assert result.exit_code == 0, result.output
    made = {item.definition.name: item.definition for item in seen[0].limited(SUBRESOURCES)}
    given = {item.definition.name: item.definition for item in SUBRESOURCES}
    assert made["terraform"].timeout == 7200.0
    assert made["terraform"].retries.limit == 0
    assert made["terraform"].concurrency == given["terraform"].concurrency
    assert made["upgrade"] == given["upgrade"]
    for wrong in ("terraform=0", "terraform=soon", "nothing=5"):
        refused = CliRunner().invoke(command, ["--task-timeout", wrong])
        assert refused.exit_code == 2, refused.output


def test_h_b8_a_file_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    settings = tmp_path / "tasks.yaml"
    settings.write_text("terraform: {limit: many}")
    result = CliRunner().invoke(main, ["run", "--task-settings-file", str(settings)])
    assert result.exit_code == 2
    assert "terraform.limit" in result.output


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with Environment(folder=tmp_path / "server", users=("admin",)) as environment:
        await environment.install_crds(*find_kinds(load(("apis.cloud",))))
        (tmp_path / "kubeconfig").symlink_to(environment.kubeconfig("admin"))
        yield environment.client("admin")


async def test_h_b8_a_running_manager_takes_new_settings(client: Client, tmp_path: Path) -> None:
    """On a real process. Its runs are Jobs that nobody carries out: a place stays taken."""
    settings = tmp_path / "tasks.yaml"
    settings.write_text("kubernetes: {limit: 1, timeoutSeconds: 500}")
    flags = {
        "--kubeconfig": tmp_path / "kubeconfig",
        "--system": "cloud",
        "--run-provider": "jobs",
        "--job-image": "example.com/none:1",
        "--task-settings-file": settings,
        "--metrics-bind-address": "0",
        "--health-probe-bind-address": "0",
        "--webhook-port": "-1",
    }
    arguments = [str(part) for pair in flags.items() for part in pair]
    for name in ("src-1", "src-2", "src-3"):
        manifest = {"metadata": {"name": name, "namespace": "default"}}
        spec = {"version": "5.1.0"}
        await client.create(Instance.from_manifest({**manifest, "spec": spec}))

    async def runs() -> list[TaskRun]:
        found = await client.list(InstanceKubernetes, "default")
        made = [item.status.run for item in found if item.status.run is not None]
        return sorted(made, key=lambda run: str(run.created_at))

    async def waiting() -> list[int]:
        found = await client.list(InstanceKubernetes, "default")
        return [item.status.waiting.limit for item in found if item.status.waiting is not None]

    async with await Program.start("run", *arguments) as program:
        await eventually(waiting, lambda limits: limits == [1, 1])
        begun = await eventually(runs, lambda found: len(found) == 1)
        assert timeout_of(begun[0]) == 500.0

        settings.write_text("kubernetes: {limit: many, timeoutSeconds: 1}")
        program.send(signal.SIGHUP)
        refused = await program.prints("Task settings refused, the earlier ones stay in use")
        assert "kubernetes.limit" in refused
        assert await waiting() == [1, 1]

        settings.write_text("kubernetes: {limit: 2, timeoutSeconds: 900}")
        program.send(signal.SIGHUP)
        await program.prints("Task settings in use")
        begun = await eventually(runs, lambda found: len(found) == 2)
        assert [timeout_of(run) for run in begun] == [500.0, 900.0], "what runs keeps its time"

        settings.write_text("kubernetes: {limit: 3, timeoutSeconds: 900}")  # and no signal
        await eventually(runs, lambda found: len(found) == 3)
        program.send(signal.SIGTERM)
        assert await program.wait() == 0, program.output


async def test_h_b8_a_refused_file_is_a_metric_until_a_usable_one_is_read(tmp_path: Path) -> None:
    """The alert CloudTaskSettingsRefused reads it."""
    path = tmp_path / "tasks.yaml"
    path.write_text("terraform: {limit: 1}")
    live, registry = LiveDefinitions([PLAIN]), CollectorRegistry()
    changed: list[list[str]] = []
    file = SettingsFile(path, live, changed.append, registry, period=0.05)

    def write(text: str) -> None:
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").replace(path)

    async def valid() -> float | None:
        return registry.get_sample_value("cloud_task_settings_valid")

    running = asyncio.create_task(file.start())
    try:
        await eventually(valid, lambda value: value == 1)
        write("terraform: {limit: many}")
        await eventually(valid, lambda value: value == 0)
        assert live("terraform").concurrency.limit in (1, 20), "nothing of it is in use"
        write("terraform: {limit: 2}")
        await eventually(valid, lambda value: value == 1)
        assert live("terraform").concurrency.limit == 2
    finally:
        running.cancel()
        await asyncio.wait({running})


def timeout_of(run: TaskRun) -> float:
    """Seconds that a run was given."""
    assert run.created_at is not None
    assert run.deadline is not None
    return (run.deadline - run.created_at) / timedelta(seconds=1)
