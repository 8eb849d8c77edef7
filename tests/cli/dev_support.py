"""A project in a folder, under development on an API server in this process whose requests are counted."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.cli.dev_project import Project
from ctrlruntime.cli.dev_server import EmbeddedServer
from ctrlruntime.cli.dev_session import Display, Session
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.backends import EmbeddedBackend
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.queue import Request
from tests.support.waiting import eventually

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
HEAD = """
from ctrlruntime import *
from tests.cli.dev_support import PROBE
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
"""
CODE = (
    HEAD
    + """
VERSION = "1"
def by_name(entry):
    return [entry.name]

def setup(manager):
    async def reconcile(request):
        await PROBE.enter(VERSION, request)
        if request.name == "probe":
            live = await manager.client.get(CONFIG_MAP, "probe", namespace=request.namespace)
            if live.get("data") != {"version": VERSION}:
                await manager.client.patch(
                    CONFIG_MAP, "probe", {"data": {"version": VERSION}}, namespace=request.namespace
                )
    builder = Builder(manager).for_(CONFIG_MAP, indexes={"name": by_name}).named("copy")
    builder.build(reconcile)
"""
)
"""Writes its version into the ConfigMap `probe`, if it has another."""
VERSION_2 = ('VERSION = "1"', 'VERSION = "2"')


@dataclass(slots=True)
class Probe:
    """What the code of a project reports to its test, over all loads."""

    passes: list[tuple[str, str]] = field(default_factory=list)
    """Version and name of each reconcile, as they began."""
    held: set[str] = field(default_factory=set)
    """Versions whose reconciles of `probe` wait."""
    inside: int = 0
    most: int = 0
    """The most reconciles of `probe` at once."""
    _began: float = 0.0

    stalled: bool = False
    """Whether code stood still for a minute, and nothing interrupted it."""

    def stalls(self, version: str) -> bool:
        """Whether code of a version has to stand still: the second does."""
        began = self._began or time.monotonic()
        self._began, self.stalled = began, time.monotonic() - began >= 60
        return version == "2" and not self.stalled

    async def enter(self, version: str, request: Request) -> None:
        """Count a reconcile; one that is held waits within."""
        self.passes.append((version, request.name))
        if request.name != "probe":
            return
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            while version in self.held:  # noqa: ASYNC110 - released from another load of the code
                await asyncio.sleep(0.01)
        finally:
            self.inside -= 1


PROBE = Probe()


@dataclass(slots=True)
class Development:
    """A session that runs."""

    environment: Environment
    folder: Path
    module: str
    session: Session
    output: io.StringIO

    @property
    def client(self) -> Client:
        return self.environment.client("envtest")

    @property
    def file(self) -> Path:
        return self.folder / f"{self.module}.py"

    def edit(self, *changes: tuple[str, str], file: Path | None = None) -> None:
        """Replace texts of a file."""
        path = file or self.file
        text = path.read_text()
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text)

    async def attempted(self, count: int) -> None:
        """Wait until the code was loaded so often, or failed to be."""
        await eventually(lambda: self.session.attempts >= count)

    async def version(self, version: str) -> None:
        """Wait until code of a version has written."""
        await eventually(self._probe, lambda probe: probe.get("data") == {"version": version})

    async def _probe(self) -> Manifest:
        return await self.client.get(CONFIG_MAP, "probe", namespace="default")

    async def make_probe(self) -> None:
        """Create the object that the code writes."""
        metadata = {"name": "probe", "namespace": "default"}
        await self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    def fill(self, count: int) -> None:
        """Store so many ConfigMaps more, past the API."""
        backend = self.environment.backend
        assert isinstance(backend, EmbeddedBackend)
        storage = backend.server.state.storage
        for n in range(count):
            metadata = {"name": f"other-{n}", "namespace": "default", "uid": f"uid-{n}"}
            manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            storage.create(storage.bucket("configmaps"), manifest)


@contextlib.asynccontextmanager
async def developing(
    folder: Path,
    code: str = CODE,
    *,
    options: ManagerOptions | None = None,
    objects: int = 0,
    environment: Environment | None = None,
) -> AsyncIterator[Development]:
    """Run a session on a project; its module has a name of its own. `environment` has a proxy."""
    PROBE.__init__()  # type: ignore[misc]
    module = f"project_{folder.name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(code)
    output = io.StringIO()
    given = options or ManagerOptions(name="dev")
    given_environment = environment or Environment(proxy=True)
    async with given_environment as env, LocalWebhooks(env) as hooks:
        server = EmbeddedServer(env.config("manager"), env, hooks)
        session = Session(
            Project(folder, f"{module}:setup"),
            server,
            Display(output),
            options=lambda: given,
            logger=make_logger(format="console", level="error", stream=output),
        )
        subject = Development(env, folder, module, session, output)
        if objects:
            subject.fill(objects)
        task = asyncio.create_task(session.run())
        try:
            await subject.attempted(1)
            await eventually(lambda: not any(each.starting for each in session.manager.controllers))
            yield subject
            assert not task.done(), task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
