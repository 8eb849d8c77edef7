"""What is compared of two answers, and what the releases may tell apart.

Times, uids, addresses and the like are never compared, only their presence. Against kube-apiserver
1.20 what later releases changed is masked, each change by its name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.json import Json
from tests.differential.requests import Step
from tests.differential.servers import Answer
from tests.differential.subject import Subject

_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VOLATILE: Final = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_ASSIGNED: Final = frozenset({"clusterIP", "nodePort", "controller-uid"})
_IN_MESSAGES: Final = (
    (re.compile(r"ResourceVersion in record \(\d+\)"), "ResourceVersion in record (now)"),
    (
        re.compile(r"ResourceVersion in the? ?precondition \(\d+\)"),
        "ResourceVersion in precondition (sent)",
    ),
    (_UID, "(uid)"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "(time)"),
)


@dataclass(frozen=True, slots=True)
class View:
    """What is compared of an answer."""

    code: int
    wrote: bool | None
    content: Any
    warnings: tuple[str, ...] = ()


class Masking:
    """Answers of a current release, all in words."""

    def view(self, subject: Subject, step: Step, answer: Answer) -> View:
        content = self._content(subject, answer.body)
        return View(answer.code, answer.wrote, content, answer.warnings)

    def agree(self, step: Step, real: View, ours: View) -> bool:
        del step
        return real == ours

    def misleads(self, answer: Answer) -> bool:
        """Whether the real server is known to go astray from here on."""
        del answer
        return False

    def wanders(self, answer: Answer) -> bool:
        """Whether the same request may be answered in other words the next time.

        The walk of a map ends at the first undeclared field, and Go's maps have no order: what
        else is wrong is told or not. Such a request is refused, so it can be sent again.
        """
        told = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
        return answer.code >= 400 and "field not declared in schema" in told

    def _content(self, subject: Subject, body: object) -> Json:
        if not isinstance(body, dict):
            return body
        if body.get("kind") == "Status":
            return self._status(subject, body)
        if "items" in body:
            return [self._object(subject, item) for item in body["items"]]
        return self._object(subject, body)

    def _object(self, subject: Subject, obj: Mapping[str, Any]) -> Json:
        metadata = dict(obj.get("metadata") or {})
        for name in _VOLATILE:
            if name in metadata:
                metadata[name] = "present"
        managed = metadata.pop("managedFields", ())
        rest = {**obj, "metadata": metadata}
        return {**self.settled(subject, rest), "managers": self._managers(subject, managed)}

    def settled(self, subject: Subject, obj: object) -> Json:
        del subject
        return _assigned_masked(obj)

    def _managers(self, subject: Subject, managed: Json) -> Json:
        found = [
            (self._writer(entry), "time" in entry, self._fields(subject, entry))
            for entry in managed
        ]
        return sorted(found, key=lambda each: each[0])

    def _writer(self, entry: Mapping[str, Any]) -> tuple[str, ...]:
        where = entry.get("subresource", "")
        return (entry["manager"], entry["operation"], entry["apiVersion"], where)

    def _fields(self, subject: Subject, entry: Mapping[str, Any]) -> Json:
        del subject
        return entry["fieldsV1"]

    def _status(self, subject: Subject, status: Mapping[str, Any]) -> Json:
        details = dict(status.get("details") or {})
        if "uid" in details:
            details["uid"] = "present"
        causes = [
            (
                self.worded(subject, c.get("field", "")),
                c.get("reason", ""),
                self.worded(subject, c.get("message", "")),
            )
            for c in details.pop("causes", ())
        ]
        message = self.worded(subject, status.get("message", ""))
        # Findings come in no fixed order where the server walks a map.
        words = sorted(filter(None, re.split(r"[\s,\[\]]+", message)))
        return {
            "status": status.get("status"),
            "reason": status.get("reason"),
            "message": words,
            "details": details,
            "causes": sorted(causes),
        }

    def worded(self, subject: Subject, text: str) -> str:
        del subject
        for pattern, word in _IN_MESSAGES:
            text = pattern.sub(word, text)
        return text


def _assigned_masked(value: object) -> Json:
    """Addresses and ports that a server hands out."""
    if isinstance(value, dict):
        return {
            key: "assigned" if key in _ASSIGNED and item != "None" else _assigned_masked(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_assigned_masked(item) for item in value]
    return value
