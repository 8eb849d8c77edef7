"""The command line: options, errors, generated manifests."""

from __future__ import annotations

import shutil
import socket
from dataclasses import fields
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from manager.cli import main
from manager.console.options import ConsoleOptions
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.tenancy_options import TenancyOptions
from manager.options import RunOptions
from tests.docs.blocks import ROOT
from tests.manager_cli.program import Program

UNREACHABLE = """
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
contexts: [{name: here, context: {cluster: none, user: me}}]
current-context: here
"""


def option(name: str) -> click.Parameter:
    run = main.get_command(click.Context(main), "run")
    assert run is not None
    return next(item for item in run.params if item.name == name)


@pytest.mark.parametrize(
    ("name", "default"),
    [("registry_concurrency", 3), ("template_concurrency", 5), ("tenant_concurrency", 10)],
)
def test_concurrency_options_are_the_seeds(name: str, default: int) -> None:
    assert option(name).opts == [f"--{name.replace('_', '-')}"]
    assert option(name).default == default


def test_options_and_code_have_the_same_defaults() -> None:
    parts = {
        "tenancy",
        "cloud",
        "cosmos",
        "console",
        "runs",
        "pace",
        "times",
        "clock",
        "now",
        "health_checks",
    }
    elsewhere = {"own_namespace", "command", "environment", "job_annotations", "provider"}
    elsewhere |= {"file_period"}  # shorter in tests alone
    elsewhere |= {"instead_of_foreign"}  # by the kind of installation, see `run`
    names = {"folder": "runs_folder"}
    for options in (
        RunOptions(),
        TenancyOptions(),
        CloudOptions(),
        CosmosOptions(),
        RunsOptions(),
    ):
        for item in fields(options):
            if item.name in parts | elsewhere:
                continue
            given = option(names.get(item.name, item.name)).default
            expected = getattr(options, item.name)
            assert given == expected or (not isinstance(given, str | int) and not expected), (
                item.name
            )


def test_flags_and_options_of_the_console_have_the_same_defaults() -> None:
    of_other_flags = {"most_streams", "runs_folder", "cloud_run"}
    for item in fields(ConsoleOptions):
        if item.name not in of_other_flags:
            default = option(f"console_{item.name}").default
            assert default == item.default or (not isinstance(default, str) and not item.default)


def test_every_command_explains_itself() -> None:
    for command in ([], ["run"], ["manifests"], ["demo"]):
        result = CliRunner().invoke(main, [*command, "--help"])
        assert result.exit_code == 0
        assert "Usage:" in result.output


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    path.write_text(UNREACHABLE)
    return path


async def failure(*arguments: str | Path) -> tuple[int, str]:
    """How `manager run` ends, and what it says."""
    async with await Program.start("run", *arguments) as program:
        code = await program.wait()
    assert "Traceback" not in program.output
    return code, program.output


async def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    code, said = await failure("--kubeconfig", tmp_path / "nowhere")
    assert (code, said) == (
        1,
        f"Error: cannot read the kubeconfig {tmp_path}/nowhere: No such file or directory\n",
    )


async def test_a_kubeconfig_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("clusters: [")
    code, said = await failure("--kubeconfig", path)
    assert code == 1
    assert said.startswith(f"Error: the kubeconfig {path} is not YAML")


async def test_an_unknown_context_is_answered_with_those_there_are(kubeconfig: Path) -> None:
    code, said = await failure("--kubeconfig", kubeconfig, "--context", "there")
    assert (code, said) == (1, f"Error: {kubeconfig}: no context 'there'; there are: here\n")


async def test_an_impossible_address_is_explained(kubeconfig: Path) -> None:
    code, said = await failure("--kubeconfig", kubeconfig, "--metrics-bind-address", "anywhere")
    assert code == 1
    assert "address 'anywhere' is not" in said


async def test_a_taken_port_is_explained(kubeconfig: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = await failure("--kubeconfig", kubeconfig, "--metrics-bind-address", address)
    assert code == 1
    assert f"cannot listen on {address} for the metrics endpoint" in said


def test_leader_election_outside_of_a_cluster_needs_a_namespace() -> None:
    result = CliRunner().invoke(main, ["run", "--leader-elect"])
    assert result.exit_code == 2
    assert "needs --leader-election-namespace" in result.output


def test_a_concurrency_of_nothing_is_refused() -> None:
    result = CliRunner().invoke(main, ["run", "--tenant-concurrency", "0"])
    assert result.exit_code == 2
    assert "--tenant-concurrency" in result.output


# -- generated manifests ---------------------------------------------------------------------------


def test_the_tree_matches_the_code() -> None:
    result = CliRunner().invoke(
        main, ["manifests", "--check", "--output-dir", str(ROOT / "config")]
    )
    assert (result.exit_code, result.output) == (0, "generated files match the code\n")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "config", tmp_path / "config"))


def test_a_file_that_drifted_is_shown_and_mended(config: Path) -> None:
    role = config / "rbac" / "role.yaml"
    role.write_text(role.read_text().replace("  - watch\n", "", 1))
    arguments = ["manifests", "--output-dir", str(config)]
    result = CliRunner().invoke(main, [*arguments, "--check"])
    assert result.exit_code == 1
    assert "run `make generate`" in result.output
    assert "role.yaml" in result.output
    assert "+  - watch" in result.output
    assert CliRunner().invoke(main, arguments).output == f"wrote {role}\n"
    assert CliRunner().invoke(main, [*arguments, "--check"]).exit_code == 0


def test_a_file_that_is_missing_is_named(config: Path) -> None:
    definition = next((config / "crd" / "bases").iterdir())
    definition.unlink()
    result = CliRunner().invoke(main, ["manifests", "--check", "--output-dir", str(config)])
    assert result.exit_code == 1
    assert definition.name in result.output


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--webhooks"], "needs --webhook-cert-path"),
        (["--metrics-cert-path", "."], "needs --metrics-secure"),
    ],
)
def test_what_could_not_be_served_is_refused_at_once(flags: list[str], says: str) -> None:
    result = CliRunner().invoke(main, ["run", *flags])
    assert result.exit_code == 2
    assert says in result.output


def test_secure_metrics_ask_who_reads_them() -> None:
    options = RunOptions(metrics_secure=True, webhook_port=-1).manager_options()
    assert options.metrics.secure
    assert options.metrics.authorize
    assert options.webhook.port == -1
    assert not RunOptions().manager_options().metrics.authorize


def test_an_unknown_command_names_the_one_that_is_meant() -> None:
    shown = CliRunner().invoke(main, ["tenent", "acme"])
    assert (shown.exit_code, "did you mean 'tenant'?" in shown.output) == (2, True)
