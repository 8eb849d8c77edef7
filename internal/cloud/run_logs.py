"""The log of a run, wherever its provider keeps it: a file of this machine, the Pod of a Job, or Cloud Logging."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apis.cloud import GROUP, Instance, TaskState
from ctrlruntime.client.answer_limits import OWN, AnswerSize
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.line_splitter import LineSplitter
from internal.cloud.labels import INSTANCE
from internal.cloud.pod_logs import NoLog, find_pod, pod_log_lines
from internal.cloud.runs.cloudrun import CloudError, CloudRunLogs, LogCursor, project_of
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.taskdriver.record import is_live

if TYPE_CHECKING:
    from apis.cloud import TaskRun
    from ctrlruntime.client.client import Client

__all__ = ["LogElsewhere", "NoLog", "RunLog", "find_run", "log_lines"]

LONGEST_LINE: Final = 16384
"""Characters of a line; the rest of it is left out."""
PERIOD: Final = 0.5
"""Seconds between two looks at a file, or for a Pod, while following."""
_CHUNK: Final = 65536
LOGGING_PERIOD: Final = 5.0
"""Seconds between two looks at Cloud Logging while following: a project may list entries once a second."""
LATE: Final = 15.0
"""Seconds for which entries of a run that has ended are awaited."""
_SILENCE: Final = 86400.0
"""A run may print nothing for so many seconds."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


class LogElsewhere(Exception):
    """The log is at an address that this program does not read, or could not read for the `reason`."""

    def __init__(self, address: str, reason: str = "") -> None:
        super().__init__(f"its logs are at {address}")
        self.address = address
        self.reason = reason


@dataclass(frozen=True, slots=True)
class RunLog:
    """A run of a subresource of an Instance."""

    kind: type[Any]
    name: str
    namespace: str
    run: TaskRun
    uid: str = ""
    """Of the subresource."""

    @property
    def is_live(self) -> bool:
        """Whether the run was under way when it was read."""
        return is_live(self.run)


async def find_run(
    client: Client, instance: str, *, namespace: str, kind: str = "", run_id: str = ""
) -> RunLog:
    """Return the run of an Instance that is under way, or else the one that began last.

    `kind`: of the subresource; `run_id`: this run and no other. Raises NoLog, and what the client raises.
    """
    found = [
        RunLog(
            subresource.kind,
            each.metadata.name,
            namespace,
            each.status.run,
            each.metadata.uid or "",
        )
        for subresource in SUBRESOURCES
        if kind in ("", subresource.kind.__name__)
        for each in await client.list(subresource.kind, namespace, labels=f"{INSTANCE}={instance}")
        if each.status.run is not None and run_id in ("", each.status.run.run_id)
    ]
    if not found:
        if not (kind or run_id):
            await _check_instance(client, instance, namespace)
        what = f"no run {run_id}" if run_id else f"no run of {kind}" if kind else "no run"
        raise NoLog(f"{instance} has {what}; `manager instance describe {instance}` shows its runs")
    return max(found, key=lambda log: (log.is_live, log.run.created_at or _NEVER))


async def _check_instance(client: Client, instance: str, namespace: str) -> None:
    """Raise NoLog if there is no such Instance."""
    try:
        await client.get(Instance, instance, namespace=namespace)
    except NotFound as error:
        raise NoLog(
            f"there is no Instance {instance!r} in namespace {namespace!r}; `kubectl get instances.{GROUP} -n {namespace}`"
            " lists those that there are"
        ) from error


async def log_lines(
    client: Client,
    log: RunLog,
    *,
    tail: int,
    follow: bool,
    cloud: CloudRunLogs | None = None,
    late: float = LATE,
    period: float = LOGGING_PERIOD,
) -> AsyncGenerator[str, None]:
    """Yield the last `tail` lines of a run's log, then with `follow` further ones until the run has ended.

    `cloud` reads logs of Cloud Run, every `period` seconds and for `late` seconds after the end of the run. Raises NoLog, LogElsewhere, and what the client raises.
    """
    where = log.run.logs
    if where.startswith("/"):
        lines = _of_file(client, log, Path(where), tail=tail, follow=follow)
    elif where.startswith("kubectl logs "):
        lines = _of_pod(client, log, tail=tail, follow=follow)
    elif where and cloud is not None and (project := project_of(where)):
        cursor = LogCursor(project, log.uid, log.run.run_id, log.run.created_at)
        lines = _of_cloud_run(
            client, log, cloud, cursor, tail=tail, follow=follow, late=late, period=period
        )
    elif where:
        raise LogElsewhere(where)
    elif log.run.state is TaskState.DONE:
        raise NoLog(f"run {log.run.run_id} has ended, and no log of it is known")
    else:
        raise NoLog(f"run {log.run.run_id} has not begun; there is no log yet")
    async with aclosing(lines):
        async for line in lines:
            yield line[:LONGEST_LINE]


async def _of_file(
    client: Client, log: RunLog, path: Path, *, tail: int, follow: bool
) -> AsyncGenerator[str, None]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NoLog(
            f"{path} is not on this machine: read it where the manager runs, or the run was deleted"
        ) from None
    with file:
        splitter = LineSplitter(AnswerSize(OWN.line, what="a line of the log"))
        last: deque[bytes] = deque(maxlen=tail)
        while chunk := file.read(_CHUNK):
            last.extend(splitter.feed(chunk))
        for line in last:
            yield _text(line)
        while follow:
            follow = await _is_under_way(client, log)
            # A log that became shorter was cut by its size limit: what is left begins anew.
            if path.stat().st_size < file.tell():  # noqa: ASYNC240
                file.seek(0)
            while chunk := file.read(_CHUNK):
                for line in splitter.feed(chunk):
                    yield _text(line)
            if follow:
                await asyncio.sleep(PERIOD)
        if splitter.rest:
            yield _text(splitter.rest)


async def _of_pod(
    client: Client, log: RunLog, *, tail: int, follow: bool
) -> AsyncGenerator[str, None]:
    while True:
        try:
            pod = await find_pod(client, log.namespace, log.run.run_id)
            break
        except NoLog:
            if not follow or not await _is_under_way(client, log):
                raise
            await asyncio.sleep(PERIOD)
    lines = pod_log_lines(client, log.namespace, pod, tail=tail, follow=follow, inactivity=_SILENCE)
    async with aclosing(lines):
        async for line in lines:
            yield _text(line)


async def _of_cloud_run(
    client: Client,
    log: RunLog,
    cloud: CloudRunLogs,
    cursor: LogCursor,
    *,
    tail: int,
    follow: bool,
    late: float,
    period: float,
) -> AsyncGenerator[str, None]:
    """Raise LogElsewhere if Cloud Logging does not answer, or refuses to."""
    clock = asyncio.get_running_loop().time
    until: float | None = None
    try:
        for line in await cloud.last(cursor, tail):
            yield line
        while follow and (until is None or clock() < until):
            if until is None and not await _is_under_way(client, log):
                until = clock() + late
            await asyncio.sleep(period)
            for line in await cloud.further(cursor):
                yield line
    except (CloudError, ValueError) as error:
        raise LogElsewhere(log.run.logs, f"Cloud Logging was not read: {error}") from error


async def _is_under_way(client: Client, log: RunLog) -> bool:
    """Whether the subresource still has this run, and it has not ended."""
    try:
        found = await client.get(log.kind, log.name, namespace=log.namespace)
    except NotFound:
        return False
    run = found.status.run
    return run is not None and run.run_id == log.run.run_id and is_live(run)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
