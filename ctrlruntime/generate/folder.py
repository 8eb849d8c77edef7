"""What a command finds in the folder that it is given in."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import click

__all__ = ["importable", "setup_of"]


def importable(folder: Path) -> None:
    """Have its modules, and those in its `src`, imported: a console script looks in its own folder instead."""
    for path in (folder / "src", folder):
        if path.is_dir() and str(path) not in sys.path:
            sys.path.insert(0, str(path))


def setup_of(folder: Path) -> tuple[str, str | None] | None:
    """Return the setup function and the options of a folder's project; None where there is none.

    `setup` and `options` of [tool.ctrlruntime] in pyproject.toml; else those of a project that
    `ctrlruntime init` made. Raises click.UsageError for a file that cannot be read, and within such a project.
    """
    path = folder / "pyproject.toml"
    try:
        found = tomllib.loads(path.read_text("utf-8")) if path.exists() else {}
    except ValueError as error:
        raise click.UsageError(f"{path} cannot be read: {error}") from error
    tools = found.get("tool", {})
    table = tools.get("ctrlruntime", {}) if isinstance(tools, dict) else tools
    if not (
        isinstance(table, dict) and {type(table.get(n, "")) for n in ("setup", "options")} == {str}
    ):
        raise click.UsageError(
            f'{path}: write [tool.ctrlruntime], and below it setup = "website:setup"'
        )
    if "setup" in table:
        return table["setup"], table.get("options")
    apps = [each.parent.name for each in sorted(folder.glob("*/app.py"))]
    if (folder / ".ctrlruntime" / "project.json").exists() and len(apps) == 1:
        return f"{apps[0]}.app:setup", f"{apps[0]}.app:OPTIONS"
    for above in folder.absolute().parents:
        if (above / ".ctrlruntime" / "project.json").exists():
            raise click.UsageError(f"give the command in {above}, the folder of the project")
    return None
