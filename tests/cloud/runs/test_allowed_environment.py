"""Secrets set only variables of providers: nothing that the platform sets, at every door and for every provider."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import click
import pytest

from apis.cloud import Instance, TaskOperation
from ctrlruntime.webhook import AdmissionRequest, Review
from internal.cloud.admission import CloudAdmission
from internal.cloud.runs.cloudrun import job as cloud_run_job
from internal.cloud.runs.jobs.manifest import job_of
from internal.cloud.runs.report import decode_report
from internal.cloud.runs.wire import encode_input
from internal.cloud.tasks import TaskContext, TaskRejected, TaskResult
from internal.cloud.tasks.runner import run_task
from internal.cloud.tasks.terraform.task import TerraformTask
from manager.controllers.cloud_options import RunsOptions
from manager.controllers.run_providers.cloudrun import cloud_run_options
from manager.controllers.run_providers.jobs import job_options
from manager.flags.cloud import cloud_options, take_cloud_options
from tests.cloud.runs.benches import owner_of, request_of
from tests.cloud.runs.work import logger_to
from tests.cloud.tasks.terraform.test_local import SPEC, LocalBench

pytestmark = pytest.mark.criterion("S-F14")

VALUE = "the-value-of-it"
OF_THE_PLATFORM = (
    "TERRAFORM_STATE_DIR", "TERRAFORM_STATE_NAMESPACE", "TF_CLI_ARGS", "TF_CLI_ARGS_destroy", "TF_DATA_DIR",
    "TF_REATTACH_PROVIDERS", "TF_CLI_CONFIG_FILE", "TF_WORKSPACE", "TF_LOG_PATH", "TF_PLUGIN_CACHE_DIR",
    "tf_var_size", "TASK_INPUT", "TASK_ALLOWED_ENVIRONMENT", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "SSH_AUTH_SOCK",
    "KUBE_CONFIG_PATH", "KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTPS_PROXY", "https_proxy", "no_proxy", "HOME",
    "PATH", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "SSL_CERT_FILE",
    "XDG_CONFIG_HOME", "TMPDIR", "GODEBUG",
)  # fmt: skip
UNKNOWN = ("ACME_TOKEN", "FOO", "google_credentials", "key.json")
ALLOWED = ("TF_VAR_size", "TF_VAR_http_proxy", "TF_TOKEN_tfe_example", "ARM_CLIENT_SECRET", "AWS_SECRET_ACCESS_KEY",
           "GOOGLE_CREDENTIALS", "VAULT_TOKEN")  # fmt: skip
Door = Callable[..., Awaitable[dict[str, str]]]


class Seen:
    """A task that keeps the variables it runs with."""

    name = "work"

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment

    async def run(self, _context: TaskContext) -> TaskResult:
        return TaskResult(message=f"seen {VALUE}", outputs=dict(self._environment))


async def of_an_instance(folder: Path, data: dict[str, str], **environment: str) -> dict[str, str]:
    """Variables of the binary, by spec.infrastructure.environmentFrom. Raises TaskRejected."""
    bench = LocalBench(folder)
    await run_terraform(bench, data, environment=environment)
    return dict(json.loads(bench.mark.read_text()))


async def run_terraform(
    bench: LocalBench,
    data: dict[str, str],
    operation: TaskOperation = TaskOperation.APPLY,
    environment: Mapping[str, str] | None = None,
) -> TaskResult:
    sources = [{"secretRef": {"name": "cloud"}}]
    spec = {**SPEC, "infrastructure": {**SPEC["infrastructure"], "environmentFrom": sources}}
    context = bench.workbench.context(
        "terraform", spec, kind="InstanceTerraform", operation=operation
    )
    task = TerraformTask({**bench.environment, **(environment or {})})
    return await task.run(replace(context, secret_keys=lambda _name: data))


async def of_every_task(folder: Path, data: dict[str, str], **environment: str) -> dict[str, str]:
    """Variables of a task in a Job with --job-environment-from. Raises TaskRejected."""
    secret = folder / "environment" / "cloud"
    secret.mkdir(parents=True)
    for key, value in data.items():
        (secret / key).write_text(value)
    (folder / "input").write_bytes(encode_input(request_of(owner_of("shop", "1"), {}).input))
    result, log = folder / "result", io.StringIO()
    variables = {
        "TASK_INPUT": str(folder / "input"),
        "TASK_RESULT": str(result),
        "TASK_ENVIRONMENT": str(secret),
        "TASK_RESULT_LIMIT": "65536",
        **environment,
    }
    code = await run_task("work", variables, {"work": lambda: Seen(variables)}, logger_to, log)
    report = decode_report(result.read_bytes())
    assert VALUE not in log.getvalue() + report.message
    if code:
        raise TaskRejected(report.message)
    return dict(report.outputs)


@pytest.fixture(params=[of_an_instance, of_every_task])
def door(request: pytest.FixtureRequest) -> Door:
    """Where the keys of a Secret become variables."""
    return cast("Door", request.param)


@pytest.mark.parametrize("name", [*OF_THE_PLATFORM, *UNKNOWN])
async def test_s_f14_a_name_that_is_not_on_the_list_is_refused_by_name(
    door: Door, tmp_path: Path, name: str
) -> None:
    with pytest.raises(TaskRejected, match=f"key '{name}' of Secret 'cloud'") as caught:
        await door(tmp_path, {"AWS_PROFILE": VALUE, name: VALUE})
    assert VALUE not in str(caught.value)
    assert ("remove it" if name in OF_THE_PLATFORM else "rename it") in str(caught.value)


async def test_s_f14_names_of_providers_and_of_the_option_are_variables(
    door: Door, tmp_path: Path
) -> None:
    data = dict.fromkeys([*ALLOWED, "ACME_TOKEN"], VALUE)
    seen = await door(tmp_path, data, TASK_ALLOWED_ENVIRONMENT="ACME_")
    assert data.items() <= seen.items()


@pytest.mark.parametrize("name", OF_THE_PLATFORM)
async def test_s_f14_no_option_lets_a_secret_set_what_the_platform_sets(
    door: Door, tmp_path: Path, name: str
) -> None:
    with pytest.raises(TaskRejected, match=f"key '{name}' of Secret 'cloud'"):
        await door(tmp_path, {name: VALUE}, TASK_ALLOWED_ENVIRONMENT=f"{name[0]},{name}")


async def test_s_f14_all_refused_names_are_in_one_message(door: Door, tmp_path: Path) -> None:
    with pytest.raises(TaskRejected) as caught:
        await door(tmp_path, {f"X{number}": VALUE for number in range(9)} | {"HOME": "/"})
    assert all(f"'X{number}'" in str(caught.value) for number in range(4))
    assert "and 5 more" in str(caught.value)


@pytest.mark.parametrize("name", ["TERRAFORM_STATE_DIR", "TF_DATA_DIR", "TF_WORKSPACE"])
async def test_s_f14_a_teardown_does_not_succeed_without_its_state(
    tmp_path: Path, name: str
) -> None:
    bench = LocalBench(tmp_path)
    await run_terraform(bench, {"AWS_PROFILE": "a"})
    states = sorted(bench.states.rglob("*.tfstate"))
    with pytest.raises(TaskRejected, match=name):
        await run_terraform(bench, {name: str(tmp_path / "none")}, TaskOperation.TEARDOWN)
    assert sorted(bench.states.rglob("*.tfstate")) == states != []
    await run_terraform(bench, {"AWS_PROFILE": "a"}, TaskOperation.TEARDOWN)
    assert not [*bench.states.rglob("*.tfstate")]


def parse(*arguments: str) -> RunsOptions:
    found: list[RunsOptions] = []

    @click.command()
    @cloud_options
    def run(**given: object) -> None:
        found.append(take_cloud_options(given, in_cluster=False).runs)

    run.main([*arguments], standalone_mode=False)
    return found[0]


@pytest.mark.parametrize("provider", ["local", "jobs", "cloudrun"])
def test_s_f14_the_option_reaches_the_tasks_of_every_provider(provider: str) -> None:
    options = parse(
        "--allow-environment", "ACME_", "--allow-environment", "CORP_", "--run-provider", provider,
        "--job-image", "i", "--cloud-run-project", "p", "--cloud-run-location", "l", "--cloud-run-bucket", "b",
    )  # fmt: skip
    request = request_of(owner_of("shop", "1"))
    if provider == "local":
        environment = options.variables()
    elif provider == "jobs":
        job = job_of(request, job_options(options))
        environment = variables_of(job["spec"]["template"]["spec"]["containers"][0])
    else:
        made = cloud_run_job.job_of(request, cloud_run_options(options))
        environment = variables_of(made["template"]["template"]["containers"][0])
    assert environment["TASK_ALLOWED_ENVIRONMENT"] == "ACME_,CORP_"


def variables_of(container: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container["env"]}


@pytest.mark.parametrize(
    "prefix", ["", "A-", *(name for name in OF_THE_PLATFORM if name[0] != "t")]
)
def test_s_f14_the_option_refuses_what_the_platform_sets(prefix: str) -> None:
    with pytest.raises(click.BadParameter, match=r"write a prefix|--task-environment"):
        parse("--allow-environment", prefix)


def test_s_f14_a_job_reads_secrets_as_files_before_they_are_variables() -> None:
    """The variables of `envFrom` are set before anything can look at their names."""
    options = job_options(RunsOptions(job_image="i", job_environment_from=("cloud", "more")))
    pod = job_of(request_of(owner_of("shop", "1")), options)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert "envFrom" not in container
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    places = [
        (each["secret"]["secretName"], mounts[each["name"]]["mountPath"])
        for each in pod["volumes"]
        if each["name"].startswith("environment-")
    ]
    assert [name for name, _ in places] == ["cloud", "more"]
    assert variables_of(container)["TASK_ENVIRONMENT"] == ",".join(place for _, place in places)


@pytest.mark.parametrize(
    ("prefix", "fits"),
    [
        ("", True), ("TF_VAR_", True), ("TF_VAR_a", True), ("AWS", True), ("T", True), ("ACME_X", True),
        ("TF_CLI_", False), ("LD_", False), ("GIT_SSH_", False), ("FOO_", False), ("HTTPS_PROXY", False),
    ],
)  # fmt: skip
def test_s_f14_admission_refuses_a_prefix_that_no_allowed_name_has(prefix: str, fits: bool) -> None:
    source = {"secretRef": {"name": "cloud"}, "prefix": prefix}
    manifest = {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"version": "5.1.0", "infrastructure": {"environmentFrom": [source]}},
    }
    written = Instance.model_validate(manifest)
    for old in (None, written):
        review: Review[Instance] = Review(AdmissionRequest(), old)
        CloudAdmission(["ACME_"]).check_instance(written, review)
        assert bool(review.errors) is (not fits and old is None)
