"""Variables of tasks: from flags, a file, and a Secret of Jobs."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from internal.cloud.runs.jobs.manifest import job_of
from internal.cloud.runs.local.supervisor import read_environment
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.tasks.redaction import secret_values
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.controllers.run_providers.jobs import job_options
from manager.flags.cloud import cloud_options, take_cloud_options
from tests.cloud.runs.benches import owner_of, request_of

pytestmark = pytest.mark.criterion("H-B10")


def parse(*arguments: str, in_cluster: bool = False) -> RunsOptions:
    """The options that the flags of `manager run` give."""
    found: list[RunsOptions] = []

    @click.command()
    @cloud_options
    def run(**given: object) -> None:
        found.append(take_cloud_options(given, in_cluster=in_cluster).runs)

    run.main([*arguments], standalone_mode=False)
    return found[0]


def test_h_b10_flags_reach_the_local_provider(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("TOKEN=a=b \n")
    options = parse(
        "--task-environment", "A=1", "--task-environment", "B=x=y",
        "--task-environment-file", str(file),
    )  # fmt: skip
    assert options.environment == {"A": "1", "B": "x=y"}
    assert options.environment_file == file
    assert read_environment(file) == {"TOKEN": "a=b "}
    assert "TOKEN" not in repr(options)


def test_h_b10_a_secret_reaches_jobs_and_its_values_are_hidden() -> None:
    options = parse(
        "--job-image", "example.com/manager:1", "--job-environment-from", "cloud",
        "--task-environment", "TERRAFORM_STATE_NAMESPACE=states", in_cluster=True,
    )  # fmt: skip
    job = job_of(request_of(owner_of("shop", "1")), job_options(options))
    container = job["spec"]["template"]["spec"]["containers"][0]
    sources = [each.get("secret") for each in job["spec"]["template"]["spec"]["volumes"]]
    assert {"secretName": "cloud", "optional": True, "defaultMode": 0o444} in sources
    environment = {item["name"]: item["value"] for item in container["env"]}
    inside = {
        **environment, "PATH": "/usr/bin", "KUBERNETES_PORT": "443", "AWS_SECRET_ACCESS_KEY": "hush",
    }  # fmt: skip
    assert secret_values(inside) == ["hush"]
    assert secret_values({"AWS_SECRET_ACCESS_KEY": "hush"}) == [], "nothing is known to be secret"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--task-environment", "novalue"), "NAME=VALUE"),
        (("--task-environment", "TASK_INPUT=x"), "NAME=VALUE"),
        (("--task-environment-file", "{bad}"), "line 2 of"),
        (("--task-environment-file", "{missing}"), "does not exist"),
        (("--task-environment-file", "{good}", "--run-provider", "jobs"), "--job-environment-from"),
        (("--job-environment-from", "cloud"), "--task-environment-file"),
    ],
)
def test_h_b10_what_cannot_work_is_refused_without_its_value(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    files = {name: tmp_path / name for name in ("good", "bad", "missing")}
    files["good"].write_text("A=1\n")
    files["bad"].write_text("A=1\nhunter2\n")
    with pytest.raises(click.BadParameter) as caught:
        parse(*(each.format(**files) for each in arguments))
    assert says in caught.value.message
    assert "hunter2" not in caught.value.message


@pytest.mark.criterion("H-B9")
def test_h_b9_time_limits_and_the_grace_have_flags() -> None:
    found: list[CloudOptions] = []

    @click.command()
    @cloud_options
    def run(**given: object) -> None:
        found.append(take_cloud_options(given, in_cluster=False))

    run.main(
        ["--task-timeout", "terraform=60", "--run-interrupt-grace", "5"], standalone_mode=False
    )
    [options] = found
    assert options.pace.interrupt == 5
    timeouts = {
        each.definition.name: each.definition.timeout for each in options.limited(SUBRESOURCES)
    }
    assert (timeouts["terraform"], timeouts["upgrade"]) == (60, 4 * 3600)
    with pytest.raises(click.BadParameter):
        run.main(["--task-timeout", "terraform=0"], standalone_mode=False)
