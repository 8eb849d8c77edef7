"""`ctrlruntime dev`: a project's controllers, with changed code loaded again and the cache kept.

ctrlruntime dev --setup website:setup
ctrlruntime dev --setup website:setup --kubeconfig ~/.kube/config --context staging
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from ctrlruntime.cli.dev_project import Project, ProjectError, explain
from ctrlruntime.cli.dev_server import ExistingServer, Server, embedded_server
from ctrlruntime.cli.dev_session import Display, Session
from ctrlruntime.client.config import Config, ConfigError
from ctrlruntime.generate.folder import setup_of
from ctrlruntime.manager import ManagerOptions, run
from ctrlruntime.manager.logs import configure

__all__ = ["dev"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of the command line."""

    setup: str
    options: str | None
    kubeconfig: Path | None
    context: str | None
    write_kubeconfig: Path | None
    nodes: bool
    log_level: str


@click.command(context_settings={"show_default": True})
@click.option(
    "--setup",
    metavar="MODULE:FUNCTION",
    help="Function that adds controllers to a manager. Default: `setup` of [tool.ctrlruntime] in pyproject.toml.",
)
@click.option("--options", metavar="MODULE:NAME", help="ManagerOptions of the program.")
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, exists=True, path_type=Path),
    help="Run against this cluster. Default: an API server in memory.",
)
@click.option("--context", help="Context of the kubeconfig.")
@click.option(
    "--write-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig of the API server in memory.",
)
@click.option("--nodes/--no-nodes", default=True, help="Simulate nodes beside it.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info"
)
def dev(setup: str | None, options: str | None, **others: object) -> None:
    """Run a project's controllers, and load changed code again with the cache kept.

    Each reconcile is shown with its cause, its requests, what they changed and how long it took. Nothing is
    elected and no time limit ends a reconcile: breakpoint() works.
    """
    if setup is None:
        setup, given = configured(Path())
        options = options or given
    settings = msgspec.convert({"setup": setup, "options": options, **others}, Settings)
    if settings.context is not None and settings.kubeconfig is None:
        raise click.UsageError("--context needs --kubeconfig: it selects a context of that file")
    leave_interrupts_to_the_command()
    try:
        run(develop(settings, Path()))
    except (ProjectError, ConfigError) as error:
        raise click.ClickException(str(error)) from error


def leave_interrupts_to_the_command() -> None:
    """Have Ctrl-C end the command after a breakpoint() too; pdb would take it for itself from then on.

    A debugger that PYTHONBREAKPOINT names is left as it is.
    """

    def stop(*_: object, **__: object) -> None:
        debugger = importlib.import_module("pdb").Pdb(nosigint=True)
        debugger.set_trace(sys._getframe(1))

    if not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = stop


def configured(folder: Path) -> tuple[str, str | None]:
    """Return the setup function and the options of a folder's project. Raises click.UsageError where neither is found."""
    found = setup_of(folder)
    if found is None:
        raise click.UsageError(
            "name the function that adds the controllers, as in --setup website:setup; or in pyproject.toml, below "
            '[tool.ctrlruntime], setup = "website:setup"'
        )
    return found


async def develop(settings: Settings, folder: Path) -> None:
    """Run until cancelled. Raises ProjectError and ConfigError for options that cannot work."""
    display = Display()
    project = Project(folder, settings.setup)
    logger = configure(format="console", level=settings.log_level)
    async with _server(settings, display) as server:
        session = Session(
            project, server, display, options=_options(settings.options), logger=logger
        )
        async with session.stall_watch().running():
            await session.run()


def _options(name: str | None) -> Callable[[], ManagerOptions]:
    def load() -> ManagerOptions:
        if name is None:
            return ManagerOptions(name="dev")
        module, _, attribute = name.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except (AttributeError, ValueError) as error:
            raise ProjectError(f"--options {name}: {error}; write MODULE:NAME") from error
        except (Exception, SystemExit) as error:
            raise ProjectError(f"--options {name}:\n{explain(error, Path.cwd())}") from error
        if not isinstance(found, ManagerOptions):
            raise ProjectError(f"--options {name} is a {type(found).__name__}: name ManagerOptions")
        return found

    return load


@contextlib.asynccontextmanager
async def _server(settings: Settings, display: Display) -> AsyncIterator[Server]:
    if settings.kubeconfig is not None:
        config = await Config.load(settings.kubeconfig, settings.context)
        display.note(
            f"API server {config.host}: no election, so end the controllers that run there"
        )
        yield ExistingServer(config, settings.setup)
        return
    try:
        async with embedded_server(
            display.note, nodes=settings.nodes, kubeconfig=settings.write_kubeconfig
        ) as server:
            yield server
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("ctrlruntime.envtest"):
            raise
        raise ProjectError(
            "the API server in memory needs its extra: pip install 'ctrlruntime[cli,envtest]'; or "
            "name a cluster with --kubeconfig"
        ) from error


if __name__ == "__main__":
    dev(prog_name="python -m ctrlruntime.cli.dev")
