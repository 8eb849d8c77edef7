"""The commands that make and extend a project. Each is a change of the project, of which all files are rendered anew.

What was rendered differs from what was rendered before where the command or a newer scaffold changed it; that
difference is merged into the files, whatever the user made of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import click
import msgspec

from ctrlruntime import __version__

from .changes import Change, Plan, plan
from .project import Project, ProjectError, check_name, parse_version
from .rendering import TEMPLATES, render
from .workspace import FOLDER, Pending, Record, Workspace, find_root

__all__ = ["add_conversion", "apply", "create_api", "create_webhook", "init", "update"]

UPDATE = ["update"]
CHOOSE = "choose between the lines from <<<<<<< to >>>>>>>"
_VERSION = click.argument("api_version", metavar="GROUP/VERSION")
_KIND = click.argument("kind", metavar="KIND")


@click.command()
@click.argument("name", required=False)
def init(name: str | None) -> None:
    """Make a project in this folder, which is empty. NAME is by default that of the folder."""
    root = Path.cwd()
    name = name or root.name

    def new(_: Project | None) -> Project:
        check_name(name)
        check_empty(root)
        return Project(name=name, scaffold=__version__)

    _run(root, ["init", name], new, "ctrlruntime create api example.com/v1 Website")


@click.command()
@_VERSION
@_KIND
@click.option(
    "--finalizer", is_flag=True, help="Clean up outside of the cluster before an object goes."
)
def create_api(api_version: str, kind: str, finalizer: bool) -> None:
    """Add a kind, its controller and a test, such as example.com/v1 Website."""
    wanted = parse_version(api_version, kind)
    command = ["create api", str(wanted), str(finalizer)]
    _extend(command, lambda project: project.with_api(wanted, finalizer=finalizer))


@click.command()
@_VERSION
@_KIND
@click.option("--defaulting", is_flag=True, help="Only the one that fills in.")
@click.option("--validating", is_flag=True, help="Only the one that refuses.")
def create_webhook(api_version: str, kind: str, defaulting: bool, validating: bool) -> None:
    """Add webhooks to a kind: by default the one that fills in and the one that refuses."""
    wanted = parse_version(api_version, kind)
    both = defaulting == validating
    command = ["create webhook", str(wanted), str(both or defaulting), str(both or validating)]
    _extend(
        command,
        lambda project: project.with_webhook(
            wanted, defaulting=both or defaulting, validating=both or validating
        ),
    )


@click.command()
@_VERSION
@_KIND
def add_conversion(api_version: str, kind: str) -> None:
    """Add a version to a kind, converted from and to the one that is stored, and a test that nothing is lost."""
    wanted = parse_version(api_version, kind)
    _extend(["add conversion", str(wanted)], lambda project: project.with_conversion(wanted))


@click.command()
def update() -> None:
    """Merge the scaffold of this ctrlruntime into the project; what you changed stays."""
    root = find_root(Path.cwd())

    def newer(project: Project | None) -> Project:
        assert project is not None  # noqa: S101 - find_root
        if _numbers(project.scaffold) > _numbers(__version__):
            raise ProjectError(
                f"the project is of the scaffold of ctrlruntime {project.scaffold}, and this is {__version__}: "
                f"pip install 'ctrlruntime[cli]=={project.scaffold}'"
            )
        return msgspec.structs.replace(project, scaffold=__version__)

    _run(root, UPDATE, newer, "make install test")


def apply(
    root: Path,
    command: list[str],
    change: Callable[[Project | None], Project],
    templates: Path = TEMPLATES,
) -> Plan:
    """Change the project, and merge what is rendered of it into its files; all of it or nothing.

    A command that was killed is finished first, and done with that if it is this one. Raises ProjectError.
    """
    workspace = Workspace(root)
    with workspace.locked():
        pending = workspace.pending()
        if pending is not None:
            made = workspace.finish(pending)
            if pending.command == command:
                return Plan(changes=made)
            _check_conflicts(made)
        workspace.unite(lambda project: _as_it_was(project, templates))
        record = workspace.record()
        project = change(record.project if record else None)
        recorded = record.texts if record else {}
        rendered = render(project, templates)
        planned = plan(recorded, rendered, workspace.texts({*recorded, *rendered}))
        if command != UPDATE:
            _check_whole(planned)
        pending = Pending(command, planned.changes, Record.of(project, planned.rendered))
        workspace.begin(pending)
        planned.changes[:] = workspace.finish(pending)
        return planned


def _as_it_was(project: Project, templates: Path) -> dict[str, str]:
    """Return what was rendered of a project. Raises ProjectError where that was by templates that are not here."""
    _check_current(project, f"pip install 'ctrlruntime[cli]=={project.scaffold}'")
    return render(project, templates)


def check_empty(root: Path) -> None:
    """Raise ProjectError for a folder with anything in it but hidden entries, virtual environments and files as LICENSE.

    Files with a capital come with a new repository; one that the project has as well is refused by its name.
    """
    if (root / FOLDER / "project.json").exists():
        raise ProjectError(
            "this is a project already; add a kind to it: ctrlruntime create api example.com/v1 Website"
        )
    found = sorted(
        path.name
        for path in root.iterdir()
        if not path.name.startswith(".")
        and not (path / "pyvenv.cfg").exists()
        and not (path.name[0].isupper() and path.is_file())
    )
    if found:
        listed = ", ".join(found[:3]) + (", ..." if len(found) > 3 else "")
        raise ProjectError(
            f"{root} is not empty ({listed}); take a new folder: mkdir shop && cd shop && ctrlruntime init"
        )


def _extend(command: list[str], change: Callable[[Project], Project]) -> None:
    def extended(project: Project | None) -> Project:
        assert project is not None  # noqa: S101 - find_root
        _check_current(project)
        return change(project)

    installed = find_spec("mypy") and find_spec("ruff")
    following = "make test" if installed else "make install test"
    _run(find_root(Path.cwd()), command, extended, following)


def _check_current(project: Project, remedy: str = "first ctrlruntime update") -> None:
    if project.scaffold != __version__:
        raise ProjectError(
            f"the project is of the scaffold of ctrlruntime {project.scaffold}, and this is {__version__}: {remedy}"
        )


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _run(
    root: Path, command: list[str], change: Callable[[Project | None], Project], following: str
) -> None:
    """Change the project, and print what was done. Raises ProjectError, also where conflicts are left."""
    try:
        planned = apply(root, command, change)
    except OSError as error:
        raise ProjectError(
            f"{error}; once that is resolved, give the same command again: it goes on"
        ) from error
    for each in planned.changes:
        click.echo(f"{each.action:>9} {each.path}")
    for path in planned.foreign:
        click.echo(
            f"     kept {path}: the scaffold has a file of this name now; yours was not touched"
        )
    for path in planned.absent:
        click.echo(f"     kept {path}: stays deleted")
    for note in planned.notes:
        click.echo(f"     kept {note}")
    _check_conflicts(planned.changes)
    if planned.unresolved and command == UPDATE:
        raise ProjectError(f"conflicts are still in {', '.join(planned.unresolved)}: {CHOOSE}")
    click.echo(f"next: {following}" if planned.changes else "nothing to change")


def _check_whole(planned: Plan) -> None:
    """Raise ProjectError where a part of what a command adds would be missing."""
    if planned.foreign:
        raise ProjectError(
            f"{', '.join(planned.foreign)}: there already, and not from the scaffold; "
            "move it, then give the same command again"
        )
    if planned.absent:
        raise ProjectError(
            f"{', '.join(planned.absent)}: not there, and the command would change it; "
            f"bring it back (git checkout HEAD -- {' '.join(planned.absent)}), then give the same command again"
        )


def _check_conflicts(changes: list[Change]) -> None:
    """Raise ProjectError that names the files with conflicts, if there are any."""
    found = [each for each in changes if each.conflicts]
    if found:
        raise ProjectError(
            f"conflicts in {', '.join(each.path for each in found)}: {CHOOSE}; nothing of yours is lost"
        )
