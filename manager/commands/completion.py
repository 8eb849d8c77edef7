"""`manager completion`: the script by which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from manager.commands.output import echo

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    bash: `source <(manager completion bash)` in ~/.bashrc. zsh: the same in ~/.zshrc, after compinit. fish:
    `manager completion fish > ~/.config/fish/completions/manager.fish`. The program has to be on PATH.
    """
    root = context.find_root()
    program = root.info_name or "manager"
    found = get_completion_class(shell)
    if found is None:
        raise click.ClickException(f"no completion for {shell}")
    echo(found(root.command, {}, program, variable_of(program)).source())


def variable_of(program: str) -> str:
    """Return the environment variable by which a shell requests completions of a program."""
    return f"_{program}_COMPLETE".replace("-", "_").replace(".", "_").upper()
