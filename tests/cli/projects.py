"""Projects made in this process, and newer scaffolds to update them with."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ctrlruntime.cli.program import program
from ctrlruntime.cli.rendering import TEMPLATES
from ctrlruntime.cli.workspace import Workspace

COMMANDS = (
    "init shop",
    "create api example.com/v1 Website",
    "create api other.io/v1beta1 Website --finalizer",
    "create api example.com/v1 HTTPRoute",
    "create webhook example.com/v1 Website",
    "create webhook example.com/v1 HTTPRoute --validating",
    "add conversion example.com/v2 Website",
)
"""A project with two groups, versions, a finalizer, webhooks and a conversion."""


def ctrlruntime(folder: Path, command: str) -> Result:
    """Run a command in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return CliRunner().invoke(program, command.split())


def made(folder: Path, *commands: str) -> Path:
    """Return the folder of a project that these commands made."""
    folder.mkdir(parents=True, exist_ok=True)
    for command in commands or COMMANDS:
        result = ctrlruntime(folder, command)
        assert result.exit_code == 0, result.output
    return folder


def tree(folder: Path) -> dict[str, str]:
    """Return the text of every file of a folder by its path."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


def newer(folder: Path) -> Path:
    """Return a copy of the templates, to be changed."""
    return Path(shutil.copytree(TEMPLATES, folder))


def rendered(folder: Path) -> dict[str, str]:
    """Return what the project's files were last rendered as."""
    record = Workspace(folder).record()
    assert record is not None
    return record.texts
