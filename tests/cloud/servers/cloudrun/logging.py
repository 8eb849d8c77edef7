"""Cloud Logging API v2, `entries:list`, as far as logs of runs need it.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list: order, pages, refusals. Of the query language it
knows equality and `timestamp>=`, joined by AND, and refuses all else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from aiohttp import web

from .rules import Refused

_TERM = re.compile(r'([a-z_.]+|labels\."[a-z_./]+")(=|>=)"([^"]*)"')
_ORDERS = ("timestamp asc", "timestamp desc")
_FIELDS = {"resourceNames", "filter", "orderBy", "pageSize", "pageToken", "projectIds"}


@dataclass
class Logging:
    """The entries of one project. `empty_pages`: pages without an entry, and with a token, that come first."""

    project: str
    page: int = 2
    """Entries of a page at most, so that whoever reads one page alone is found out."""
    empty_pages: int = 0
    denied: bool = False
    entries: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """What was asked."""

    def write(
        self,
        execution: str,
        text: str,
        *,
        at: datetime | None = None,
        insert_id: str = "",
        **more: object,
    ) -> None:
        """Add an entry that the task of an execution printed; `more` replaces fields."""
        at = at or datetime.now(UTC)
        entry: dict[str, Any] = {
            "insertId": insert_id or f"{len(self.entries):016}",
            "timestamp": at.isoformat().replace("+00:00", "Z"),
            "receiveTimestamp": (at + timedelta(seconds=1)).isoformat().replace("+00:00", "Z"),
            "logName": f"projects/{self.project}/logs/run.googleapis.com%2Fstdout",
            "resource": {"type": "cloud_run_job", "labels": {"location": "here"}},
            "labels": {"run.googleapis.com/execution_name": execution},
            "textPayload": text,
            **more,
        }
        self.entries.append({key: value for key, value in entry.items() if value is not None})

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/v2/entries:list", self._list)]

    async def _list(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        self.bodies.append(body)
        if self.denied or body.get("resourceNames") != [f"projects/{self.project}"]:
            text = "Permission denied for all log views"
            raise Refused(403, "PERMISSION_DENIED", text)
        size, order = body.get("pageSize", 50), body.get("orderBy", _ORDERS[0])
        if not 0 <= size <= 1000 or order not in _ORDERS or set(body) - _FIELDS:
            raise Refused(400, "INVALID_ARGUMENT", "page_size or order_by is invalid")
        holds = _filter(body.get("filter", ""))
        found = sorted((each for each in self.entries if holds(each)), key=_position)
        if order == _ORDERS[1]:
            found.reverse()
        first = int(body.get("pageToken", -self.empty_pages))
        if first < 0:
            return web.json_response({"nextPageToken": str(first + 1)})
        until = first + min(size, self.page)
        page: dict[str, Any] = {"entries": found[first:until]} if found[first:until] else {}
        if until < len(found):
            page["nextPageToken"] = str(until)
        return web.json_response(page)


def _position(entry: dict[str, Any]) -> tuple[datetime, str]:
    return datetime.fromisoformat(entry["timestamp"]), entry["insertId"]


def _filter(text: str) -> Callable[[dict[str, Any]], bool]:
    terms = []
    for part in text.split(" AND "):
        term = _TERM.fullmatch(part)
        if term is None:
            raise Refused(400, "INVALID_ARGUMENT", f"Unparseable filter: {part}")
        terms.append(term.groups())

    def holds(entry: dict[str, Any]) -> bool:
        for path, sign, value in terms:
            found: Any = entry
            first, _, quoted = path.partition('."')
            for name in [first, quoted.rstrip('"')] if quoted else path.split("."):
                found = found.get(name, {})
            if sign == ">=":
                if datetime.fromisoformat(found) < datetime.fromisoformat(value):
                    return False
            elif found != value:
                return False
        return True

    return holds
