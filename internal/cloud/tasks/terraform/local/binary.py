"""The binary of Terraform: where it is, its states and variables, and one command of it as a process."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from apis.cloud import EnvironmentFrom
from ctrlruntime.processes import end_process, uninterrupted
from internal.cloud.environment_names import environment_problem
from internal.cloud.keys import instance_key
from internal.cloud.runs import wire
from internal.cloud.tasks.task import TaskRejected

STATE_DIR: Final = "TERRAFORM_STATE_DIR"
"""Folder with a folder for each instance; on a volume that outlives the task."""
STATE_NAMESPACE: Final = "TERRAFORM_STATE_NAMESPACE"
"""Namespace in which states are kept as Secrets, by Terraform's backend `kubernetes`."""
BINARIES: Final = ("terraform", "tofu")
_LINE: Final = 64 << 20
"""Bytes that are kept of a line: a diagnostic may hold a whole file, a plan as JSON is one line."""
_CHUNK: Final = 64 << 10
_LAST: Final = 20
_SHOWN: Final = 16 << 10
"""Bytes that are kept of each of the last lines: 20 of the longest were more than a run has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How the binary is run."""

    binary: Path
    backend: Mapping[str, Any]
    """The backend block."""
    state: Path | None
    """Folder of the instance's state; None if it is not in a folder."""
    environment: Mapping[str, str]
    """Of the binary: that of the task, so that cloud credentials reach it and a provider finds its
    processes, less the names of the task's own files."""


def local_settings(environment: Mapping[str, str], namespace: str, instance: str) -> LocalSettings:
    """For one instance. Raises TaskRejected where there is no binary, or no place for a state."""
    path = environment.get("PATH")
    found = next(filter(None, (shutil.which(name, path=path) for name in BINARIES)), None)
    if found is None:
        raise TaskRejected(
            "neither terraform nor tofu is on the PATH of the task, and the instance names no HCP"
            " Terraform organization: set infrastructure.terraform.organization, or use an image with"
            " one of them"
        )
    folder, secrets = environment.get(STATE_DIR), environment.get(STATE_NAMESPACE)
    if folder:
        state = Path(folder).absolute() / namespace / instance
        backend: dict[str, Any] = {"local": {"path": str(state / "terraform.tfstate")}}
    elif secrets:
        state = None
        backend = {"kubernetes": _in_cluster(environment, secrets, namespace, instance)}
    else:
        raise TaskRejected(
            f"there is no place for Terraform's state: start the manager with --task-environment"
            f" {STATE_DIR}=FOLDER or {STATE_NAMESPACE}=NAMESPACE, or set"
            " infrastructure.terraform.organization for the instance"
        )
    return LocalSettings(
        binary=Path(found),
        backend=backend,
        state=state,
        environment=_passed_on(environment),
    )


def _in_cluster(
    environment: Mapping[str, str], secrets: str, namespace: str, instance: str
) -> dict[str, Any]:
    inside = "KUBERNETES_SERVICE_HOST" in environment
    suffix = instance_key(namespace, instance)
    return {"secret_suffix": suffix, "namespace": secrets, "in_cluster_config": inside}


def _passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in environment.items() if key not in wire.VARIABLES}
    return {**kept, "TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}


def environment_from(
    sources: Iterable[EnvironmentFrom],
    secret: Callable[[str], Mapping[str, str]],
    allowed: Sequence[str] = (),
) -> dict[str, str]:
    """Return the variables; later sources win. `secret` reads a whole Secret by name.

    `allowed`: prefixes of names that the manager allows besides the usual ones. Raises TaskRejected for a
    Secret that is missing, and for keys that may not be variables. No message has a value in it.
    """
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    for source in sources:
        name = source.secret_ref.name
        for key, value in secret(name).items():
            variable = source.prefix + key
            found[variable] = value.rstrip("\n")
            places[variable] = f"key {key!r} of Secret {name!r}"
    problem = environment_problem(places, allowed)
    if problem:
        raise TaskRejected(f"infrastructure.environmentFrom: {problem}")
    return found


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    last: Sequence[str]
    """The last lines of both streams, without those that `line` received."""

    @property
    def error(self) -> str:
        """Return what the command reported as an error, in one line, without what it printed before; else `said`."""
        lines = [line.strip("\u2577\u2502\u2575 ") for line in self.said.splitlines()]
        first = next((n for n, line in enumerate(lines) if line.startswith("Error:")), 0)
        return " ".join(line for line in lines[first:] if line)

    @property
    def said(self) -> str:
        """Return the last lines that are not empty, or else how the command ended."""
        text = "\n".join(line for line in self.last if line.strip())
        if text:
            return text
        if self.code < 0:
            return (
                f"it was killed by {signal.Signals(-self.code).name}; it may have run out of memory"
            )
        return f"it ended with exit code {self.code} and printed nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Runs commands in one folder."""

    path: Path
    folder: Path
    environment: Mapping[str, str]
    grace: float = 60.0
    """Seconds between the interrupt, at which it saves the state and gives back the lock, and the kill."""

    async def run(
        self,
        *arguments: str,
        line: Callable[[bytes], None] | None = None,
        interrupted: Callable[[int], None] | None = None,
    ) -> Ended:
        """Run it to its end; `line` receives each line of standard output.

        Cancelled, it interrupts the command, waits for it, and kills it after the grace; `interrupted` receives the exit
        code, which is negative after a kill.
        """
        process = await asyncio.create_subprocess_exec(
            self.path,
            *arguments,
            cwd=self.folder,
            env=dict(self.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        last: deque[str] = deque(maxlen=_LAST)
        reading = asyncio.ensure_future(_read(process, last, line))
        try:
            await asyncio.shield(reading)
            return Ended(await process.wait(), list(last))
        except asyncio.CancelledError:
            await uninterrupted(self._interrupt(process, reading))
            if interrupted is not None and process.returncode is not None:
                interrupted(process.returncode)
            raise
        finally:
            if process.returncode is None:
                _signal(process, signal.SIGKILL)
            await end_process(process)

    async def _interrupt(
        self, process: asyncio.subprocess.Process, reading: "asyncio.Future[None]"
    ) -> None:
        """Interrupt the command, and kill it after the grace."""
        for number in (signal.SIGINT, signal.SIGKILL):
            _signal(process, number)
            await asyncio.wait({reading}, timeout=self.grace)
            if reading.done():
                break
        await process.wait()


async def _read(
    process: asyncio.subprocess.Process,
    last: deque[str],
    line: Callable[[bytes], None] | None,
) -> None:
    async def take(
        stream: asyncio.StreamReader | None, tell: Callable[[bytes], None] | None
    ) -> None:
        if stream is not None:
            async for each in _lines(stream):
                keep(each) if tell is None else tell(each)

    def keep(each: bytes) -> None:
        last.append(each[:_SHOWN].decode("utf-8", "replace").rstrip())

    await asyncio.gather(take(process.stdout, line), take(process.stderr, None))


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream with their ends; a line that is too long is cut."""
    line = bytearray()
    while chunk := await stream.read(_CHUNK):
        for part in chunk.splitlines(keepends=True):
            line += part[: max(0, _LINE - len(line))]
            if part.endswith(b"\n"):
                yield bytes(line)
                line.clear()
    if line:
        yield bytes(line)


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    """To the whole group, providers included."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
