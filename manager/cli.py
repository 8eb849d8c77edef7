"""The command line of the manager. A command is imported when it is called or shown."""

import importlib
from functools import partial
from pathlib import Path
from typing import Final

import click

from ctrlruntime import __version__
from ctrlruntime.manager import run as run_on_uvloop
from manager.test_environment import check_test_environment

_PATH = click.Path(path_type=Path)
_POSITIVE = click.IntRange(min=1)
COMMANDS: Final = {
    "run": "manager.run_command",
    "task": "manager.task",
    "instance": "manager.instance",
    "ephemeral": "manager.ephemeral",
    "node": "manager.node",
    "operator": "manager.operator",
    "uninstall": "manager.uninstall",
    "import": "manager.import_command:import_tenants",
    "graph": "manager.graph",
    "render": "manager.render",
    "plan": "manager.plan",
    "rollout": "manager.rollout",
    "approve": "manager.approve",
    "freeze": "manager.freeze",
    "top": "manager.top",
    "tenant": "manager.tenant",
    "completion": "manager.completion",
    "fleet": "manager.fleet",
}
"""Module of each command, which has the command's name there or the one behind the colon."""


class LazyGroup(click.Group):
    """A group that imports the commands of `COMMANDS` on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute or cmd_name)
        return command


@click.group(
    cls=LazyGroup, context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def main() -> None:
    """Run the control plane for fleets of single-tenant deployments."""


@main.command()
@click.option("--output-dir", type=_PATH, default=Path("config"), help="Directory to write to.")
@click.option(
    "--check", is_flag=True, help="Write nothing; fail with a diff if files have drifted."
)
def manifests(output_dir: Path, check: bool) -> None:
    """Write CRDs and RBAC from code."""
    from manager import manifests as made

    if check:
        difference = made.check(output_dir)
        if difference:
            raise click.ClickException(
                f"generated files have drifted; run `make generate`\n{difference}"
            )
        click.echo("generated files match the code")
        return
    for path in made.generate(output_dir):
        click.echo(f"wrote {path}")


@main.command()
@click.option(
    "--rows", type=_POSITIVE, default=50, help="Rows of the seeded table; each makes two tenants."
)
@click.option(
    "--folder", type=_PATH, default=Path(".run"), help="Where table, kubeconfig and logs go."
)
@click.option("--exit-when-ready", is_flag=True, help="Stop as soon as every tenant is ready.")
@click.option(
    "--planes", type=click.IntRange(min=0), default=0, help="Data planes of scale mode; 0: none."
)
def demo(rows: int, folder: Path, exit_when_ready: bool, planes: int) -> None:
    """See it work: embedded API server, simulated nodes, a table, two templates, the manager."""
    check_test_environment()
    from manager.demo import FolderInUse, run_demo
    from manager.demo_fleet import run_fleet_demo

    run = partial(run_fleet_demo, planes) if planes else run_demo
    shown = run(rows, folder.absolute(), exit_when_ready=exit_when_ready)
    try:
        run_on_uvloop(shown)
    except FolderInUse as error:
        raise click.ClickException(str(error)) from error
