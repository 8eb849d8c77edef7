"""One request to two servers, and what their answers have in common."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import aiohttp
import orjson

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
LIVE_VERSION: Final = "{{resourceVersion}}"
"""In a body: the resourceVersion that the server at hand gave the object."""

_IDS: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VOLATILE: Final = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "selfLink")


@dataclass(frozen=True, slots=True)
class Step:
    """A request, as both servers get it."""

    label: str
    method: str
    path: str
    body: Any = None
    content_type: str = JSON

    def told(self) -> str:
        body = "" if self.body is None else orjson.dumps(self.body).decode()
        return f"{self.label}: {self.method} {self.path} {body}"


@dataclass(slots=True)
class Server:
    """One of the two."""

    url: str
    session: aiohttp.ClientSession
    token: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    """The last resourceVersion seen, by object path."""

    async def send(self, step: Step) -> tuple[int, Any]:
        headers = {"Content-Type": step.content_type, "User-Agent": "twins/1"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None
        if step.body is not None:
            text = orjson.dumps(step.body).decode()
            live = self.versions.get(_object_path(step), "1")
            data = text.replace(LIVE_VERSION, live).encode()
        url = self.url + step.path
        async with self.session.request(step.method, url, data=data, headers=headers) as answer:
            raw = await answer.read()
            try:
                return answer.status, orjson.loads(raw)
            except orjson.JSONDecodeError:
                return answer.status, raw.decode()

    def wrote(self, step: Step, found: Any) -> bool | None:
        """Whether the object got a new resourceVersion; None where the answer has none."""
        version = _version(found)
        if version is None:
            return None
        path = _object_path(step)
        before = self.versions.get(path)
        self.versions[path] = version
        return before != version


def _version(found: Any) -> str | None:
    if not isinstance(found, dict) or found.get("kind") == "Status":
        return None
    version: str | None = (found.get("metadata") or {}).get("resourceVersion")
    return version


def _object_path(step: Step) -> str:
    path = step.path.partition("?")[0].removesuffix("/status")
    if step.method == "POST":
        return f"{path}/{step.body['metadata']['name']}"
    return path


@dataclass(frozen=True, slots=True)
class View:
    """What is compared of an answer."""

    code: int
    wrote: bool | None
    content: Any


class Twins:
    """The oracle and the embedded server.

    `strict`: wording counts as well. It does not where the oracle is of an older release, whose
    messages later ones changed. `newer` are fields that the older release does not fill in.
    """

    def __init__(self, oracle: Server, embedded: Server, *, strict: bool) -> None:
        self.oracle = oracle
        self.embedded = embedded
        self.strict = strict

    async def both(self, step: Step, newer: frozenset[str]) -> tuple[View, View]:
        answers = await asyncio.gather(self.oracle.send(step), self.embedded.send(step))
        views = []
        for server, (code, found) in zip((self.oracle, self.embedded), answers, strict=True):
            wrote = server.wrote(step, found)
            views.append(View(code, wrote, self._masked(found, newer)))
        return views[0], views[1]

    def agree(self, step: Step, real: View, ours: View) -> bool:
        """Whether the answers are the same, as far as the releases allow."""
        if not self.strict and "broken" in step.label:
            # Later releases refuse other types before the merge, and say so more clearly.
            rejected = {400, 500}
            if real.code in rejected and ours.code in rejected:
                return True
        if not self.strict and step.method == "DELETE" and real.code < 300:
            return ours.code == real.code  # more kinds show what they delete
        if not self.strict and real.wrote and not ours.wrote:
            ours = replace(ours, wrote=True)  # times alone are a write in old releases
        return real == ours

    def _masked(self, found: Any, newer: frozenset[str]) -> Any:
        if not isinstance(found, dict):
            return found
        if found.get("kind") == "Status":
            return self._status(found)
        metadata = dict(found.get("metadata") or {})
        for name in _VOLATILE:
            if name in metadata:
                metadata[name] = "present"
        managed = metadata.pop("managedFields", ())
        rest = {**found, "metadata": metadata}
        if not self.strict:
            rest = _settled(rest, newer)
        return {**rest, "managers": self._managers(managed, newer)}

    def _status(self, found: Mapping[str, Any]) -> Any:
        details = dict(found.get("details") or {})
        details.pop("uid", None)
        if details.get("group") == "extensions":
            details["group"] = "networking.k8s.io"  # what 1.20 calls its network policies
        causes = details.pop("causes", ())
        if self.strict:
            told = sorted((c.get("field", ""), c.get("reason", ""), c["message"]) for c in causes)
            message = _IDS.sub("(uid)", found.get("message", ""))
            if told and found.get("reason") == "Invalid":
                # The causes come in no fixed order.
                message = message.partition(" is invalid: ")[0]
            lines = sorted(message.split("\n"))
            return found.get("reason"), lines, details, told
        known = sorted({(c.get("field") or "", c.get("reason") or "") for c in causes})
        return found.get("reason"), details, known

    def _managers(self, managed: Any, newer: frozenset[str]) -> Any:
        views = []
        for entry in managed:
            fields = entry["fieldsV1"]
            where = entry.get("subresource", "") if self.strict else ""
            who = (entry["manager"], entry["operation"], entry["apiVersion"], where)
            if not self.strict:
                # Update entries of old releases pick up fields their managers never wrote.
                applied = entry["operation"] == "Apply"
                if not applied:
                    continue
                fields = _without_fields(fields, newer)
            # Older releases note the time of applies that change nothing.
            views.append((who, "time" in entry or not self.strict, fields))
        return sorted(views, key=lambda view: view[0])


_ATOMIC_NOW: Final = frozenset({"f:selector", "f:nodeSelector", "f:roleRef"})
"""Owned as a whole since 1.23; member by member before."""


def _settled(value: Any, newer: frozenset[str]) -> Any:
    """Without fields the older release lacks; lists with names in the order of the names."""
    if isinstance(value, dict):
        return {
            key: _settled(item, newer)
            for key, item in value.items()
            if key not in newer and item is not None
        }
    if isinstance(value, list):
        items = [_settled(item, newer) for item in value]
        if all(isinstance(item, dict) and ("name" in item or "type" in item) for item in items):
            items.sort(key=lambda item: orjson.dumps(item, option=orjson.OPT_SORT_KEYS))
        return items
    return value


def _without_fields(fields: Any, newer: frozenset[str]) -> Any:
    kept = {
        key: {} if key in _ATOMIC_NOW else _without_fields(below, newer)
        for key, below in fields.items()
        if key.removeprefix("f:") not in newer
    }
    return {} if kept.keys() == {"."} else kept
