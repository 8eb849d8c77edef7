"""The program: which part of the command line is imported for which command."""

from __future__ import annotations

import sys

from ctrlruntime.fast_imports import fast_imports


def main(name: str = "manager") -> None:
    """Run the command that `sys.argv` gives. `name`: as help and messages call the program."""
    if sys.argv[1:2] == ["task"]:
        # A run of a task: without the controllers, whose imports take a second.
        from manager.commands.task import task

        task(args=sys.argv[2:], prog_name=f"{name} task")
    elif sys.argv[1:2] == ["node"]:
        # Beside every node: it costs half of the memory so.
        from manager.commands.node import node

        node(args=sys.argv[2:], prog_name=f"{name} node")
    else:
        with fast_imports():
            from manager.cli import main as command

        command(prog_name=name)
