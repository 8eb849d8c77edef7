"""Containers as local processes, for Pods that ask for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ctrlruntime.cache.entry import Key
from ctrlruntime.envtest.nodes.containers import Command, relocated
from ctrlruntime.envtest.nodes.kinds import Manifest
from ctrlruntime.envtest.nodes.podstatus import Exit
from ctrlruntime.envtest.nodes.status import timestamp
from ctrlruntime.envtest.nodes.volumes import Files, mounts
from ctrlruntime.envtest.process import ChildProcess

MESSAGE_FILE = "TERMINATION_MESSAGE_PATH"
"""Variable that names the file whose content becomes the termination message."""
MESSAGE_LIMIT = 4096
MESSAGE_PATH = "/dev/termination-log"
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH")
RESTART_DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
CANNOT_RUN = 128
VOLUMES = "volumes"


@dataclass
class ContainerRun:
    """One container: `exit` once its process has ended for good."""

    restarts: int = 0
    exit: Exit | None = None
    child: ChildProcess | None = None


@dataclass
class PodRun:
    """One Pod's processes and its folder."""

    uid: str
    folder: Path
    grace: float
    restart: str
    containers: dict[str, ContainerRun] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def exits(self) -> dict[str, Exit] | None:
        """How every container ended; None while one runs."""
        ended = {name: run.exit for name, run in self.containers.items() if run.exit is not None}
        return ended if len(ended) == len(self.containers) else None


class LocalRunner:
    """Runs the commands of Pods as processes of this machine, in a folder for each Pod.

    The working directory is the folder, whatever `workingDir` is. The environment is the
    container's own plus PATH and the like, KUBECONFIG and TERMINATION_MESSAGE_PATH. Volumes are
    folders in it, and nothing is mounted: words and values that are a path below a mount point, or
    the container's terminationMessagePath, are changed to the path of what stands for it. `changed`
    is awaited with a Pod's key when one of its containers ended or is restarted.
    """

    def __init__(
        self,
        kubeconfig: Path,
        changed: Callable[[Key], Awaitable[None]],
        clock: Callable[[], datetime],
    ) -> None:
        self._kubeconfig = kubeconfig
        self._changed = changed
        self._now = clock
        self._runs: dict[Key, PodRun] = {}

    def run(self, key: Key) -> PodRun | None:
        return self._runs.get(key)

    def start(
        self,
        pod: Manifest,
        commands: Mapping[str, Command],
        volumes: Mapping[str, Files] | None = None,
    ) -> PodRun:
        """Start every container of the Pod, with the files of its volumes."""
        spec = pod["spec"]
        metadata = pod["metadata"]
        run = PodRun(
            uid=metadata["uid"],
            folder=Path(tempfile.mkdtemp(prefix=f"pod-{metadata['name']}-")),
            grace=float(spec.get("terminationGracePeriodSeconds", 30)),
            restart=spec.get("restartPolicy", "Always"),
        )
        key = (metadata["namespace"], metadata["name"])
        self._runs[key] = run
        for volume, files in (volumes or {}).items():
            _fill(run.folder / VOLUMES / volume, files)
        by_name = {c["name"]: c for c in spec["containers"]}
        for name, command in commands.items():
            run.containers[name] = ContainerRun()
            policy = by_name[name].get("terminationMessagePolicy", "File")
            places = _places(run.folder, by_name[name])
            loop = self._loop(key, run, name, relocated(command, places), policy)
            run.tasks.append(asyncio.create_task(loop, name=f"container {name}"))
        return run

    async def stop(self, key: Key, grace: float | None = None) -> None:
        """End a Pod's processes: SIGTERM, after its grace period SIGKILL."""
        run = self._runs.pop(key, None)
        if run is None:
            return
        for task in run.tasks:
            task.cancel()
        await asyncio.gather(*run.tasks, return_exceptions=True)
        children = [c.child for c in run.containers.values() if c.child is not None]
        period = run.grace if grace is None else grace
        await asyncio.gather(*(child.stop(grace=period) for child in children))
        shutil.rmtree(run.folder, ignore_errors=True)

    async def end(self, key: Key, grace: float) -> dict[str, Exit]:
        """End a Pod's processes for good, and tell how they ended; its folder stays."""
        run = self._runs[key]
        run.restart = "Never"
        children = [c.child for c in run.containers.values() if c.child is not None]
        await asyncio.gather(*(child.stop(grace=grace) for child in children))
        await asyncio.gather(*run.tasks)
        return run.exits or {}

    async def start_and_stop(self) -> None:
        """Wait until cancelled, then end every process: a runnable's life."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.stop_all()

    async def stop_all(self) -> None:
        await asyncio.gather(*(self.stop(key, grace=2.0) for key in list(self._runs)))

    async def _loop(self, key: Key, run: PodRun, name: str, command: Command, policy: str) -> None:
        state = run.containers[name]
        while True:
            end = await self._once(run, name, command, policy)
            again = run.restart == "Always" or (run.restart == "OnFailure" and end.code != 0)
            if not again:
                state.exit = end
                await self._changed(key)
                return
            delay = RESTART_DELAYS[min(state.restarts, len(RESTART_DELAYS) - 1)]
            state.restarts += 1
            await self._changed(key)
            await asyncio.sleep(delay)
            if run.restart == "Never":  # ended for good meanwhile
                state.exit = end
                return

    async def _once(self, run: PodRun, name: str, command: Command, policy: str) -> Exit:
        started = timestamp(self._now())
        message_file = run.folder / f"{name}.message"
        message_file.unlink(missing_ok=True)
        env = {key: os.environ[key] for key in INHERITED if key in os.environ}
        env |= {"HOME": str(run.folder), "KUBECONFIG": str(self._kubeconfig)}
        env |= {MESSAGE_FILE: str(message_file), **command.env}
        log = run.folder / f"{name}.log"
        try:
            child = await ChildProcess.start(
                command.args, log=log, env=env, cwd=run.folder, ready=False
            )
        except OSError as error:
            return Exit(code=CANNOT_RUN, message=str(error), started=started)
        run.containers[name].child = child
        code = await child.wait()
        child.kill()  # what it left behind in its group
        run.containers[name].child = None
        message = _message(message_file)
        if not message and code and policy == "FallbackToLogsOnError":
            message = child.log_tail(80)[-2048:]
        return Exit(code=code if code >= 0 else 128 - code, message=message, started=started)


def _places(folder: Path, container: Manifest) -> dict[str, str]:
    places = {path: str(folder / VOLUMES / place) for path, place in mounts(container)}
    message_path = container.get("terminationMessagePath") or MESSAGE_PATH
    return {message_path: str(folder / f"{container['name']}.message"), **places}


def _fill(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True)
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def _message(path: Path) -> str:
    try:
        return path.read_bytes()[:MESSAGE_LIMIT].decode(errors="replace")
    except FileNotFoundError:
        return ""
