"""A project under development: its code runs, and is loaded again when a file changes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TextIO

from rich.console import Console
from rich.text import Text
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.redeclaration import RestartNeeded
from ctrlruntime.cli.dev_manager import DevManager, Setup
from ctrlruntime.cli.dev_passes import Pass, PassRecorder
from ctrlruntime.cli.dev_project import Project, ProjectError, explain
from ctrlruntime.cli.dev_server import Server
from ctrlruntime.cli.dev_stall import StallWatch, StoodStill
from ctrlruntime.clock import perf
from ctrlruntime.generate.discovery import find_kinds
from ctrlruntime.manager import ManagerOptions

POLL: Final = 0.2
"""Seconds from one look at the files to the next."""
GRACE: Final = 5.0
"""Seconds that reconciles in progress have at the end."""


class Display:
    """Writes what happens: in colours on a terminal, else in plain lines."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._console = Console(
            file=stream or sys.stdout, soft_wrap=True, highlight=False, markup=False
        )
        self._quiet = 0

    def note(self, text: str) -> None:
        """Write a line of the command itself."""
        self.line("cyan", f"dev: {text}")

    def error(self, text: str) -> None:
        """Write what is wrong with the code."""
        self.line("bold red", text)

    def show(self, ended: Pass) -> None:
        """Write a reconcile; those that found nothing to do for a listed object are counted."""
        if ended.quiet:
            self._quiet += 1
            return
        self.flush()
        for style, text in ended.lines():
            self.line(style, text)

    def flush(self) -> None:
        """Write how many reconciles were counted."""
        count, self._quiet = self._quiet, 0
        if count:
            word = "reconcile" if count == 1 else "reconciles"
            self.line("dim", f"{count} {word} of listed objects: nothing to do")

    def line(self, style: str, text: str) -> None:
        """Write one line, whose control characters are replaced."""
        safe = "\n".join(
            "".join(
                each if each.isprintable() or each == "\t" else "\N{REPLACEMENT CHARACTER}"
                for each in line
            )
            for line in text.split("\n")
        )
        self._console.print(Text(safe, style=style))


class Session:
    """Runs a project against a server until cancelled."""

    def __init__(
        self,
        project: Project,
        server: Server,
        display: Display,
        *,
        options: Callable[[], ManagerOptions] = ManagerOptions,
        logger: FilteringBoundLogger | None = None,
    ) -> None:
        """`options` are those of the program's manager; what a developer's machine is not for is left out of them."""
        self._project = project
        self._server = server
        self._display = display
        self.manager = DevManager(
            server.config,
            _with_webhook(options(), server),
            shown=display.show,
            note=display.note,
            logger=logger,
        )
        self.loads = 0
        """How often the code was loaded without an error."""
        self.attempts = 0
        """How often it was tried to."""
        self._reported: set[GroupVersionKind] = set()

    async def run(self) -> None:
        """Load the code, and again after each change."""
        async with self.manager.running():
            try:
                await self._load([])
                while True:
                    await asyncio.sleep(POLL)
                    if changed := self._project.changed():
                        await self._load(changed)
                    self._report_missing()
                    self._display.flush()
            finally:
                await self.manager.end(GRACE)

    def stall_watch(self) -> StallWatch:
        """Return what shows where the project's code stands still; for the main thread of a process of its own."""
        caught = {PassRecorder.reconcile.__code__, Session._load.__code__}
        return StallWatch(
            self._project.folder, self._display.note, self._project.changed, interruptible=caught
        )

    async def _load(self, changed: list[str]) -> None:
        began = perf()
        try:
            await self.manager.reload(self._import, self._install)
        except (Exception, SystemExit, StoodStill) as error:  # noqa: BLE001 - the user's code: the next edit mends it
            self._refuse(error)
        else:
            self._project.succeeded()
            self._announce(changed, perf() - began)
        self.attempts += 1

    async def _import(self) -> Setup:
        """Import the modules, and install definitions that are new: what is declared then is served already."""
        setup = self._project.load()
        await self._server.install_new(self._kinds())
        return setup

    def _kinds(self) -> list[type[Resource[Any, Any]]]:
        return find_kinds(self._project.modules())

    async def _install(self) -> None:
        await self._server.install(self._kinds(), self._display.note)
        self.manager.cache.notify_discovery_changed()

    def _refuse(self, error: BaseException) -> None:
        if isinstance(error, ProjectError):
            text = str(error)
        else:
            text = explain(error, self._project.folder)
        self._display.error(text)
        if isinstance(error, RestartNeeded):
            rest = "this change needs a restart: end the command, and start it again"
        else:
            rest = "the next change of a file is tried"
        former = "the former code runs on; " if self.loads else ""
        self._display.note(f"not loaded: {former}{rest}")

    def _announce(self, changed: list[str], seconds: float) -> None:
        self.loads += 1
        names = ", ".join(each.name for each in self.manager.controllers) or "no controllers"
        what = f"loaded {', '.join(changed)} again" if changed else "loaded"
        kept = (
            f"{self.manager.cached_objects} objects in the cache" if changed else "watching files"
        )
        self._display.note(f"{what} in {seconds * 1000:.0f} ms ({names}); {kept}")
        for kind in self.manager.stale_transforms:
            self._display.note(
                f"{kind}: its transform has changed; objects that are cached stay as they are until a restart"
            )

    def _report_missing(self) -> None:
        """Write once of each kind why its objects do not come."""
        waiting = self.manager.cache.unsynced()
        missing = self.manager.cache.missing()
        for gvk in [*missing, *(gvk for gvk, error in waiting.items() if error is not None)]:
            if gvk not in self._reported:
                self._reported.add(gvk)
                why = waiting.get(gvk) or "the server does not serve it: install its CRD"
                self._display.note(f"{gvk}: {why}")
        self._reported &= {*missing, *waiting}


def _with_webhook(options: ManagerOptions, server: Server) -> ManagerOptions:
    return replace(options, webhook=server.webhook)
