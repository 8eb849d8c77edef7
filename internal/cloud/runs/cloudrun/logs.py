"""What a run of Cloud Run printed, read from Cloud Logging (API v2, `entries:list`)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from ctrlruntime.api.scalars import format_time, time_or_none
from internal.cloud.runs.cloudrun.api import CloudAPI
from internal.cloud.runs.cloudrun.job import execution_id

__all__ = ["LOGGING_URL", "CloudRunLogs", "LogCursor", "project_of"]

LOGGING_URL: Final = "https://logging.googleapis.com"
MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of text that one look reads at most; what is older is left out."""
_PAGE: Final = 1000
"""Entries of a page: the most that the API gives."""
_MOST_PAGES: Final = 200
"""Pages of one look: the API may give many that are empty."""
_OVERLAP: Final = timedelta(seconds=30)
"""How much earlier than the newest known entry the next look begins: entries arrive out of order."""
_CONSOLE: Final = "console.cloud.google.com"
_PROJECT: Final = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{0,61}[a-z0-9]")
_EXECUTION: Final = "run.googleapis.com/execution_name"
_RUN: Final = re.compile(r"[a-z]([-a-z0-9]{0,47}[a-z0-9])?")

Obj = Mapping[str, Any]


def project_of(address: str) -> str:
    """Return the project in the address that Cloud Run reports for the log of an execution; empty if it is another."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return ""
    if (parts.scheme, parts.hostname) != ("https", _CONSOLE):
        return ""
    project = parse_qs(parts.query).get("project", [""])[0]
    return project if _PROJECT.fullmatch(project) else ""


@dataclass(slots=True)
class LogCursor:
    """What was read of the log of one run."""

    project: str
    owner_uid: str
    """UID of the object that drives the run: the run's execution is one of its job."""
    run_id: str
    since: datetime | None = None
    """When the run was created; None if unknown."""
    _newest: datetime | None = None
    _seen: dict[tuple[str, str], datetime | None] = field(default_factory=dict)

    def filter(self) -> str:
        """Return the filter of the entries that may be new."""
        if _RUN.fullmatch(self.run_id) is None:
            raise ValueError(f"{self.run_id!r} is no name of a run")
        name = execution_id(self.owner_uid, self.run_id)
        parts = ['resource.type="cloud_run_job"', f'labels."{_EXECUTION}"="{name}"']
        since = self.since if self._newest is None else self._newest - _OVERLAP
        if since is not None:
            parts.append(f'timestamp>="{format_time(since)}"')
        return " AND ".join(parts)

    def take(self, entries: Iterable[Obj]) -> list[str]:
        """Return the lines of those entries that are new, in the order given."""
        lines: list[str] = []
        for entry in entries:
            key = (str(entry.get("timestamp", "")), str(entry.get("insertId", "")))
            if key in self._seen:
                continue
            at = time_or_none(key[0])
            self._seen[key] = at
            if at is not None and (self._newest is None or at > self._newest):
                self._newest = at
            lines += _text(entry).splitlines()
        self._forget()
        return lines

    def _forget(self) -> None:
        """Forget the entries that the next look does not return."""
        if self._newest is not None:
            oldest = self._newest - _OVERLAP
            self._seen = {key: at for key, at in self._seen.items() if at and at >= oldest}


class CloudRunLogs:
    """Reads entries. The account needs `logging.logEntries.list` on the project (`roles/logging.viewer`)."""

    def __init__(
        self, api: CloudAPI, url: str = LOGGING_URL, *, most_bytes: int = MOST_BYTES
    ) -> None:
        """Use `most_bytes` as the bound of text that one look reads."""
        self._api = api
        self._most_bytes = most_bytes
        self._url = f"{url.rstrip('/')}/v2/entries:list"

    async def last(self, cursor: LogCursor, lines: int) -> list[str]:
        """Return the last lines, oldest first. Raises CloudError."""
        entries: list[Obj] = []
        size = count = 0
        async with aclosing(self._entries(cursor, "timestamp desc")) as found:
            async for entry in found:
                text = _text(entry)
                size, count = size + len(text), count + len(text.splitlines())
                entries.append(entry)
                if count >= lines or size >= self._most_bytes:
                    break
        return cursor.take(reversed(entries))[-lines:]

    async def further(self, cursor: LogCursor) -> list[str]:
        """Return the lines that came since the last look. Raises CloudError."""
        entries: list[Obj] = []
        size = 0
        async with aclosing(self._entries(cursor, "timestamp asc")) as found:
            async for entry in found:
                entries.append(entry)
                size += len(_text(entry))
                if size >= self._most_bytes:
                    break
        return cursor.take(entries)

    async def _entries(self, cursor: LogCursor, order: str) -> AsyncGenerator[Obj, None]:
        body: dict[str, Any] = {
            "resourceNames": [f"projects/{cursor.project}"],
            "filter": cursor.filter(),
            "orderBy": order,
            "pageSize": _PAGE,
        }
        for _ in range(_MOST_PAGES):
            page = await self._api.json("POST", self._url, body=body)
            for entry in page.get("entries") or ():
                yield entry
            # A page without an entry may have a token: more may follow.
            if not page.get("nextPageToken"):
                return
            body["pageToken"] = page["nextPageToken"]


def _text(entry: Obj) -> str:
    """Return what was printed: a text, or the message of a structure; empty for entries of audit logs."""
    if "textPayload" in entry:
        return str(entry["textPayload"])
    payload = entry.get("jsonPayload")
    if not isinstance(payload, Mapping):
        return ""
    message = payload.get("message")
    return message if isinstance(message, str) else json.dumps(payload, sort_keys=True)
