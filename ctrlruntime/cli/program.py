"""The program. Its commands are imported when they are used: `--help` needs none of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

import click

from ctrlruntime import __version__

__all__ = ["COMMANDS", "LazyGroup", "main", "program"]

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "init": ("ctrlruntime.cli.scaffold:init", "Make a project in an empty folder."),
    "create": ("ctrlruntime.cli.program:create", "Add a kind or webhooks to a project."),
    "add": ("ctrlruntime.cli.program:add", "Add a version to a kind."),
    "update": ("ctrlruntime.cli.scaffold:update", "Merge a newer scaffold into a project."),
    "dev": ("ctrlruntime.cli.dev:dev", "Run a project, and load its code again when it changes."),
    "generate": ("ctrlruntime.generate.cli:generate", "Make manifests from code."),
    "kopf": ("ctrlruntime.kopf.command:kopf", "Run handlers that were written for kopf."),
}
"""Of each command its "module:attribute" and its short help. A command of a new module is one line here."""

EXTRA: Final = frozenset({"jinja2", "rich"})
"""What the extra ``cli`` installs."""


class LazyGroup(click.Group):
    """A group of commands by "module:attribute"."""

    commands_by_name: Mapping[str, tuple[str, str]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table: that in which a project is made."""
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of that name. Raises UsageError without the extra ``cli``."""
        if cmd_name not in self.commands_by_name:
            return None
        module, _, attribute = self.commands_by_name[cmd_name][0].partition(":")
        try:
            command: click.Command = getattr(importlib.import_module(module), attribute)
        except ModuleNotFoundError as error:
            if error.name not in EXTRA:
                raise
            needed = f"{cmd_name} needs {error.name}: pip install 'ctrlruntime[cli]'"
            raise click.UsageError(needed, ctx) from error
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.commands_by_name.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command. Raises UsageError with the name that is most like an unknown one."""
        known = self.list_commands(ctx)
        close = get_close_matches(args[0], known, n=1)
        if close and args[0] not in known and not args[0].startswith("-"):
            raise click.UsageError(
                f"there is no command {args[0]!r}; did you mean {close[0]!r}?", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup, context_settings={"show_default": True, "help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def program() -> None:
    """Make a project with controllers for Kubernetes, extend it and run it."""


class CreateGroup(LazyGroup):
    """``ctrlruntime create``."""

    commands_by_name = MappingProxyType(
        {
            "api": (
                "ctrlruntime.cli.scaffold:create_api",
                "A kind with its controller and a test.",
            ),
            "webhook": ("ctrlruntime.cli.scaffold:create_webhook", "Webhooks of a kind."),
        }
    )


class AddGroup(LazyGroup):
    """``ctrlruntime add``."""

    commands_by_name = MappingProxyType(
        {"conversion": ("ctrlruntime.cli.scaffold:add_conversion", "A version of a kind.")}
    )


@click.group(cls=CreateGroup)
def create() -> None:
    """Add a kind or webhooks to a project."""


@click.group(cls=AddGroup)
def add() -> None:
    """Add a version to a kind."""


def main() -> None:
    """Run the command line."""
    program(prog_name="ctrlruntime")
