"""The last lines of runs of Cloud Run, read from Cloud Logging with the manager's own account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.api.scalars import parse_time
from internal.cloud.log_tail import MOST_LINES, Tail
from internal.cloud.pod_logs import NoLog
from internal.cloud.runs.cloudrun.api import CloudAPI, CloudError, TokenSource
from internal.cloud.runs.cloudrun.job import OWNER_LABEL, execution_id, job_id
from internal.cloud.runs.cloudrun.logs import LOGGING_URL, CloudRunLogs, LogCursor

__all__ = ["CloudRunPlace", "CloudRunTails"]

PERIOD: Final = 5.0
"""Seconds between two looks at a log that is followed: a project may list entries once a second."""
LIMIT: Final = 1024 * 1024
"""Bytes of text that one look reads."""
_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRunPlace:
    """Where the manager has its runs, and the account that reads their logs."""

    project: str
    location: str
    token: TokenSource = field(repr=False)
    run_url: str = "https://run.googleapis.com"
    logging_url: str = LOGGING_URL


class CloudRunTails:
    """Reads logs of jobs in one place.

    What a status names is read only if the job there was made for the owner of that status: whoever may write a
    status could name the run of another.
    """

    def __init__(self, place: CloudRunPlace) -> None:
        self.project = place.project
        self._jobs = f"{place.run_url}/v2/projects/{place.project}/locations/{place.location}/jobs"
        self._api = CloudAPI(place.token)
        self._logs = CloudRunLogs(self._api, place.logging_url, most_bytes=LIMIT)

    async def read(self, owner_uid: str, run_id: str) -> Tail:
        """Return the last lines of a run. Raises NoLog and CloudError."""
        return _added(
            Tail(), await self._logs.last(await self._cursor(owner_uid, run_id), MOST_LINES)
        )

    async def follow(self, owner_uid: str, run_id: str) -> AsyncGenerator[Tail, None]:
        """Yield the last lines whenever there are more of them. Raises NoLog and CloudError."""
        cursor, tail = await self._cursor(owner_uid, run_id), Tail()
        lines = await self._logs.last(cursor, MOST_LINES)
        yield _added(tail, lines)
        while True:
            await asyncio.sleep(PERIOD)
            if lines := await self._logs.further(cursor):
                yield _added(tail, lines)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    async def _cursor(self, owner_uid: str, run_id: str) -> LogCursor:
        """Return where a run's log begins, if its job is the owner's."""
        cursor = LogCursor(self.project, owner_uid, run_id)
        job, execution = job_id(owner_uid), execution_id(owner_uid, run_id)
        try:
            cursor.filter()  # refuses what is no name of a job
            found = await self._api.json("GET", f"{self._jobs}/{job}/executions/{execution}")
        except ValueError as error:
            raise NoLog("The status names a run by an id that no provider made.") from error
        except CloudError as error:
            if error.status == _NOT_FOUND:
                raise NoLog("The object has no run of that name; maybe it was deleted.") from error
            raise
        if (found.get("labels") or {}).get(OWNER_LABEL) != owner_uid:
            raise NoLog("The run of that name was not made for this object.")
        if created := str(found.get("createTime", "")):
            cursor.since = parse_time(created)
        return cursor


def _added(tail: Tail, lines: list[str]) -> Tail:
    for line in lines:
        tail.add(line.encode())
    return tail
