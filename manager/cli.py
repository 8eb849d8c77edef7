"""The command line of the manager. A command is imported when it is called or shown."""

import importlib
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Final

import click

from ctrlruntime import __version__
from manager.commands.output import echo

_PATH = click.Path(path_type=Path)
_POSITIVE = click.IntRange(min=1)
COMMANDS: Final = {
    "run": ("manager.commands.run", "Run the controllers."),
    "task": ("manager.commands.task", "Run the tasks of Instances, one by one."),
    "instance": ("manager.commands.instance", "List, describe, pause, cancel and retry Instances."),
    "ephemeral": ("manager.commands.ephemeral", "Instances with a lease, deleted when it ends."),
    "node": ("manager.commands.node", "Run what is beside a node of a chain, and before it."),
    "operator": ("manager.commands.operator", "Deploy a stack of controllers for each data plane."),
    "uninstall": ("manager.commands.uninstall", "Take the product out of a cluster."),
    "import": (
        "manager.commands.import_command:import_tenants",
        "Adopt tenants of another operator.",
    ),
    "graph": ("manager.commands.graph", "Draw the dependencies of a template or a Tenant."),
    "render": ("manager.commands.render", "Render the resources of one tenant, from files alone."),
    "plan": ("manager.commands.plan", "Show what a change would do; write nothing."),
    "rollout": ("manager.commands.rollout", "Show, approve, pause and undo rollouts."),
    "approve": ("manager.commands.approve", "List what is held, and let it happen once."),
    "freeze": ("manager.commands.freeze", "Begin, end and exempt from freezes of all changes."),
    "top": ("manager.commands.top", "Show the whole control plane, failures first."),
    "tenant": ("manager.commands.tenant", "Show a Tenant with each of its resources."),
    "completion": ("manager.commands.completion", "Print the completion script of a shell."),
    "fleet": ("manager.commands.fleet", "List data planes, move a Tenant between two, adopt."),
}
"""Module and short help of each command; the module has the command's name there or the one behind the colon."""


class LazyGroup(click.Group):
    """A group that imports the commands of `COMMANDS` on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted({*super().list_commands(ctx), *COMMANDS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute or cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them: that takes a second."""
        shown = {name: text for name, (_, text) in COMMANDS.items()}
        shown |= {name: command.get_short_help_str(70) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted(shown.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Texts of its errors come from outside as well."""
        try:
            return super().invoke(ctx)
        except click.UsageError:
            raise
        except click.ClickException as error:
            echo(f"Error: {error.format_message()}", err=True)
            raise click.exceptions.Exit(error.exit_code) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. Raises UsageError with the name that is most like an unknown one."""
        close = get_close_matches(args[0], self.list_commands(ctx), n=1)
        if close and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            raise click.UsageError(
                f"there is no command {args[0]!r}; did you mean {close[0]!r}?", ctx
            )
        return super().resolve_command(ctx, args)


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
    from manager.manifests import folders as made

    if check:
        difference = made.check(output_dir)
        if difference:
            raise click.ClickException(
                f"generated files have drifted; run `make generate`\n{difference}"
            )
        echo("generated files match the code")
        return
    for path in made.generate(output_dir):
        echo(f"wrote {path}")


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
    from manager.test_environment import check_test_environment

    check_test_environment()
    from ctrlruntime.manager import run as run_on_uvloop
    from manager.demo.fleet import run_fleet_demo
    from manager.demo.tenants import FolderInUse, run_demo

    run = partial(run_fleet_demo, planes) if planes else run_demo
    shown = run(rows, folder.absolute(), exit_when_ready=exit_when_ready)
    try:
        run_on_uvloop(shown)
    except FolderInUse as error:
        raise click.ClickException(str(error)) from error
