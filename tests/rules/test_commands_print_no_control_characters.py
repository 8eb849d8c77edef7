"""Commands print texts from outside without control characters (S-F19): by the one function, and in their errors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api.printable import printable
from manager.cli import LazyGroup
from manager.commands.import_command import _print_items
from manager.commands.importing import Item, Standing
from manager.commands.output import echo
from tests.hostile.test_tokens_and_text import HARMLESS, HOSTILE

pytestmark = pytest.mark.criterion("S-F19")
MANAGER = Path(__file__).parents[2] / "manager"
BY_ITSELF = {"commands/output.py", "commands/tables.py", "demo/tenants.py", "demo/fleet.py"}
"""They write tables by cells that are made printable; of the demo, texts of its own."""


def prints(path: Path) -> Iterator[str]:
    """Yield each name of what writes to a terminal past `echo`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in {
                "click.echo",
                "click.secho",
                "sys.stdout",
                "sys.stderr",
                "click.echo_via_pager",
            }:
                yield f"{path.name}: {name}"
        if isinstance(node, ast.Name) and node.id in {"print", "Console"}:
            yield f"{path.name}: {node.id}"


def test_no_command_prints_past_the_one_function() -> None:
    found = [
        each
        for path in MANAGER.rglob("*.py")
        if path.relative_to(MANAGER).as_posix() not in BY_ITSELF and path.parent.name != "console"
        for each in prints(path)
    ]
    assert found == []


@given(st.text(alphabet=st.sampled_from([*HOSTILE, "\u2028", "\x85", "\ufeff", "x"])))
def test_what_is_printed_is_printable_and_nothing_else_goes(text: str) -> None:
    @click.group(cls=LazyGroup)
    def program() -> None: ...

    @program.command()
    def out() -> None:
        echo(text)
        raise click.ClickException(text)

    result = CliRunner().invoke(program, ["out"])
    assert result.output == f"{printable(text)}\nError: {printable(text)}\n"
    assert result.exit_code == 1


def test_what_another_operator_named_is_printable_in_an_import(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_items([Item(place=HOSTILE, standing=Standing.CHANGED, note=HOSTILE)])
    assert f"  {HARMLESS}: {HARMLESS}\n" in capsys.readouterr().out
