"""The last lines of runs for people who look at them: read once, or followed for as long as someone looks.

Idle, it opens no connection and no file. A run that several look at is followed once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apis.cloud.common import TaskState
from ctrlruntime.client.errors import APIError, Forbidden, TransportError
from internal.cloud.cloud_run_tails import CloudRunTails
from internal.cloud.log_tail import MOST_LINES, FileState, Tail, file_state, file_tail
from internal.cloud.pod_logs import NoLog, find_pod, pod_log_lines
from internal.cloud.runs.cloudrun import CloudError, project_of
from internal.cloud.runs.local.folder import is_name
from internal.cloud.runs.local.supervisor import LOG

if TYPE_CHECKING:
    from ctrlruntime.client.client import Client

__all__ = ["LogSource", "NoLog", "RunTails", "TailWatch"]

PERIOD: Final = 1.0
"""Seconds between two looks at a file that is followed."""
RETRY: Final = 5.0
"""Seconds until the log of a Pod is followed again, after its end or an error."""
TIMEOUT: Final = 10.0
"""Seconds that reading a log once may take."""
SILENCE: Final = 86400.0
"""A run that is followed may print nothing for so many seconds."""
LIMIT: Final = 1024 * 1024
"""Bytes of one answer of the API server: a line has no other bound."""
FEW_LINES: Final = 10
"""Lines that are requested where MOST_LINES are more than LIMIT."""
AT_ONCE: Final = 4
"""Logs that are read at once; those that are followed come on top."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """Where the log of a run is."""

    namespace: str
    owner_uid: str
    """UID of the object whose task runs."""
    run_id: str
    logs: str
    """The place as its provider reported it."""
    ended: bool = False

    @classmethod
    def of(cls, namespace: str, owner_uid: str, run: Mapping[str, Any]) -> LogSource:
        """Return the source of a run as a status has it."""
        name, logs = str(run.get("runID", "")), str(run.get("logs", ""))
        return cls(namespace, owner_uid, name, logs, run.get("state") == TaskState.DONE)

    @property
    def is_pod(self) -> bool:
        """Whether it is the log of a Job's Pod."""
        return self.logs.startswith("kubectl logs ")


class RunTails:
    """Reads logs of runs with the manager's own rights; callers have reviewed those of the user.

    `folder`: of local runs; None if there are none. The path in a status is not opened: whoever may write
    a status could name any file. `cloud`: reads logs of Cloud Run; None if no runs are there.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        folder: Path | None,
        cloud: CloudRunTails | None = None,
    ) -> None:
        self._connect = connect
        self._client: Client | None = None
        self._folder = folder
        self._cloud = cloud
        self._followers: dict[LogSource, _Follower] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    def __len__(self) -> int:
        """Return how many runs are followed."""
        return len(self._followers)

    async def close(self) -> None:
        """Follow no longer, and close the client."""
        for each in list(self._followers.values()):
            await each.stop()
        self._followers.clear()
        if self._client is not None:
            await self._client.close()
            self._client = None
        if self._cloud is not None:
            await self._cloud.close()

    async def read(self, source: LogSource) -> Tail:
        """Return the last lines of a run. Raises NoLog."""
        follower = self._followers.get(source)
        if follower is not None and follower.tail is not None:
            return follower.tail
        try:
            async with self._slots, asyncio.timeout(TIMEOUT):
                if source.is_pod:
                    return await self._pod_tail(source)
                if (cloud := self._cloud_of(source)) is not None:
                    return await cloud.read(source.owner_uid, source.run_id)
                return await asyncio.to_thread(file_tail, self._file(source))
        except OSError as error:
            if isinstance(error, TimeoutError):
                raise NoLog("The log was not read in time; try again.") from error
            raise NoLog(
                "The log is not on the machine of this replica, or the run was deleted."
            ) from error
        except CloudError as error:
            raise NoLog(
                f"Cloud Logging was not read: {error}. The manager's account needs roles/logging.viewer and "
                f"roles/run.viewer on the project. The log is at {source.logs}"
            ) from error
        except Forbidden as error:
            raise NoLog(
                f"The manager may not read logs of Pods in namespace {source.namespace}: its account needs "
                "the right to get pods/log."
            ) from error
        except (APIError, TransportError) as error:
            raise NoLog(f"The log was not read: {error}") from error

    @contextmanager
    def watching(self, notify: Callable[[], None]) -> Iterator[TailWatch]:
        """Follow logs for the length of a block; `notify` is called when there is more to read."""
        watch = TailWatch(self, notify)
        try:
            yield watch
        finally:
            watch.follow(None)

    # -- for followers ---------------------------------------------------------------------

    def attach(self, source: LogSource, notify: Callable[[], None]) -> None:
        """Follow a run, or join those who do."""
        follower = self._followers.get(source)
        if follower is None:
            follower = self._followers[source] = _Follower()
            follower.task = asyncio.create_task(self._follow(source, follower))
        follower.readers.append(notify)

    def detach(self, source: LogSource, notify: Callable[[], None]) -> None:
        """Leave a run; with the last reader it is followed no longer."""
        follower = self._followers.get(source)
        if follower is None:
            return
        follower.readers.remove(notify)
        if not follower.readers:
            del self._followers[source]
            follower.cancel()

    async def _follow(self, source: LogSource, follower: _Follower) -> None:
        try:
            if source.is_pod:
                await self._follow_pod(source, follower)
            elif (cloud := self._cloud_of(source)) is not None:
                await self._follow_cloud(cloud, source, follower)
            else:
                await self._follow_file(self._file(source), follower)
        except NoLog:
            return  # there will be none: readers get the reason when they read

    async def _follow_cloud(
        self, cloud: CloudRunTails, source: LogSource, follower: _Follower
    ) -> None:
        """Follow until the readers leave; what cannot be read now is tried again."""
        while True:
            try:
                async with aclosing(cloud.follow(source.owner_uid, source.run_id)) as found:
                    async for tail in found:
                        follower.tail = tail
                        follower.notify()
            except CloudError:
                await asyncio.sleep(RETRY)

    async def _follow_file(self, path: Path, follower: _Follower) -> None:
        """Notify readers of changes; they read the file themselves."""
        last: FileState | None = None
        while True:
            now = file_state(path)
            if now != last:
                last = now
                follower.notify()
            await asyncio.sleep(PERIOD)

    async def _follow_pod(self, source: LogSource, follower: _Follower) -> None:
        _check_name(source.run_id)
        tail = MOST_LINES
        while True:
            try:
                pod = await find_pod(self._api(), source.namespace, source.run_id)
                size = await self._follow_stream(source, pod, tail, follower)
                tail = MOST_LINES if size < LIMIT - tail else FEW_LINES
            except (NoLog, APIError, TransportError):
                tail = MOST_LINES
            await asyncio.sleep(RETRY)

    async def _follow_stream(
        self, source: LogSource, pod: str, lines: int, follower: _Follower
    ) -> int:
        """Follow until the server ends the answer; return its size. What it begins with replaces the tail."""
        client, namespace, size = self._api(), source.namespace, 0
        found = pod_log_lines(
            client, namespace, pod, tail=lines, follow=True, inactivity=SILENCE, limit=LIMIT
        )
        fresh = Tail()
        async with aclosing(found):
            async for line in found:
                size += len(line) + 1
                fresh.add(line)
                follower.tail = fresh
                follower.notify()
        return size

    # -- parts -----------------------------------------------------------------------------

    async def _pod_tail(self, source: LogSource) -> Tail:
        _check_name(source.run_id)
        client, namespace = self._api(), source.namespace
        pod = await find_pod(client, namespace, source.run_id)
        for most in (MOST_LINES, FEW_LINES):
            tail, size = Tail(), 0
            lines = pod_log_lines(
                client, namespace, pod, tail=most, inactivity=TIMEOUT, limit=LIMIT
            )
            async with aclosing(lines):
                async for line in lines:
                    size += len(line) + 1
                    tail.add(line)
            # Empty lines are not counted above.
            if size < LIMIT - most:
                break
        return tail

    def _file(self, source: LogSource) -> Path:
        """Return the file of a local run. Raises NoLog for a run of another provider."""
        if not source.logs and source.ended:
            raise NoLog(f"Run {source.run_id} has ended, and no log of it is known.")
        if not source.logs:
            raise NoLog(f"Run {source.run_id} has not begun; there is no log yet.")
        if not source.logs.startswith("/"):
            raise NoLog(f"The log is kept elsewhere: {source.logs}")
        if self._folder is None:
            raise NoLog("This manager has no local runs; the log is where the run was started.")
        _check_name(source.owner_uid)
        _check_name(source.run_id)
        return self._folder.absolute() / source.owner_uid / source.run_id / LOG

    def _cloud_of(self, source: LogSource) -> CloudRunTails | None:
        """Return what reads the log, if that is in the manager's own project of Cloud Run."""
        cloud = self._cloud
        return cloud if cloud is not None and project_of(source.logs) == cloud.project else None

    def _api(self) -> Client:
        if self._client is None:
            self._client = self._connect()
        return self._client


class TailWatch:
    """What one reader follows: at most one run at a time."""

    def __init__(self, tails: RunTails, notify: Callable[[], None]) -> None:
        self._tails = tails
        self._notify = notify
        self._source: LogSource | None = None

    def follow(self, source: LogSource | None) -> None:
        """Follow a run in place of the last one; None: follow none."""
        if source == self._source:
            return
        if self._source is not None:
            self._tails.detach(self._source, self._notify)
        self._source = source
        if source is not None:
            self._tails.attach(source, self._notify)


class _Follower:
    """One run that is followed, and by whom."""

    def __init__(self) -> None:
        self.readers: list[Callable[[], None]] = []
        self.tail: Tail | None = None
        """The lines so far; None where readers read for themselves."""
        self.task: asyncio.Task[None] | None = None

    def notify(self) -> None:
        for each in self.readers:
            each()

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def stop(self) -> None:
        self.cancel()
        if self.task is not None:
            await asyncio.gather(self.task, return_exceptions=True)


def _check_name(text: str) -> None:
    """Raise NoLog for what names no run: it would be part of a path or of a selector."""
    if not is_name(text):
        raise NoLog("The status names a run by an id that no provider made.")
