"""What is compared of two answers.

Times, uids, addresses and the like are never compared, only their presence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ctrlruntime.json import Json
from tests.differential.servers import Answer
from tests.differential.subject import Subject

Words = tuple[tuple[re.Pattern[str], str], ...]
"""What is replaced in a message, and by what."""
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_VOLATILE: Final = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")
_ASSIGNED: Final = frozenset(
    {"clusterIP", "clusterIPs", "nodePort", "controller-uid", "batch.kubernetes.io/controller-uid"}
)
_IN_MESSAGES: Final[Words] = (
    (re.compile(r"ResourceVersion in record \(\d+\)"), "ResourceVersion in record (now)"),
    (
        re.compile(r"ResourceVersion in the? ?precondition \(\d+\)"),
        "ResourceVersion in precondition (sent)",
    ),
    (_UID, "(uid)"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "(time)"),
)
_OF_BUILT_IN: Final[Words] = (
    *_IN_MESSAGES,
    # How Go's decoder words it, how Go prints a struct, and how it differs from another.
    (re.compile(r"(cannot be handled as a \w+:).*", re.DOTALL), r"\1"),
    (re.compile(r"\n@@ .*", re.DOTALL), ""),
    (
        re.compile(r"(Invalid|Duplicate|Unsupported) value: [\w.\[\]]*\{.*\}", re.DOTALL),
        r"\1 value: (object)",
    ),
)


@dataclass(frozen=True, slots=True)
class View:
    """What is compared of an answer."""

    code: int
    wrote: bool | None
    content: Any
    warnings: tuple[str, ...] = ()


def view(subject: Subject, answer: Answer) -> View:
    """Return what is compared of an answer."""
    return View(answer.code, answer.wrote, _content(subject, answer.body), answer.warnings)


def agree(subject: Subject, real: View, ours: View) -> bool:
    """Return whether two views are the same.

    A write of a built-in kind that changes nothing is one on a real server where the second is another than at the
    last write, for some kinds: absent and empty lists count as a change beside the time.
    """
    if real.wrote and not ours.wrote and not subject.custom:
        real = replace(real, wrote=ours.wrote)
    return real == ours


def wanders(answer: Answer) -> bool:
    """Return whether the same request may be answered in other words the next time.

    The walk of a map ends at the first undeclared field, and Go's maps have no order: what
    else is wrong is told or not. Such a request is refused, so it can be sent again.
    """
    message = answer.body.get("message", "") if isinstance(answer.body, dict) else ""
    return answer.code >= 400 and "field not declared in schema" in message


def _content(subject: Subject, body: object) -> Json:
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "Status":
        return _status(body) if subject.custom else _status_of_built_in(body)
    if "items" in body:
        return [_object(item) for item in body["items"]]
    return _object(body)


def _object(obj: Mapping[str, Any]) -> Json:
    metadata = dict(obj.get("metadata") or {})
    for name in _VOLATILE:
        if name in metadata:
            metadata[name] = "present"
    managers = sorted(map(_manager, metadata.pop("managedFields", ())), key=lambda each: each[0])
    return {**_assigned_masked({**obj, "metadata": metadata}), "managers": managers}


def _manager(entry: Mapping[str, Any]) -> tuple[tuple[str, ...], bool, Json]:
    """Return the owner, whether its entry has a time, and its fields."""
    owner = (entry["manager"], entry["operation"], entry["apiVersion"])
    return (*owner, entry.get("subresource", "")), "time" in entry, entry["fieldsV1"]


def _status_of_built_in(status: Mapping[str, Any]) -> Json:
    """Return the same without how often a finding is repeated."""
    found = _status(status, _OF_BUILT_IN)
    if found["reason"] == "Invalid" and found["causes"]:
        found["message"] = []  # it is the causes again, in full
    for name in ("message", "causes"):
        found[name] = sorted(set(found[name]))
    return found


def _status(status: Mapping[str, Any], words: Words = _IN_MESSAGES) -> Json:
    details = dict(status.get("details") or {})
    if "uid" in details:
        details["uid"] = "present"
    causes = [
        (
            _worded(cause.get("field", ""), words),
            cause.get("reason", ""),
            _worded(cause.get("message", ""), words),
        )
        for cause in details.pop("causes", ())
    ]
    message = _worded(status.get("message", ""), words)
    return {
        "status": status.get("status"),
        "reason": status.get("reason"),
        # Findings come in no fixed order where the server walks a map.
        "message": sorted(filter(None, re.split(r"[\s,\[\]]+", message))),
        "details": details,
        "causes": sorted(causes),
    }


def _worded(text: str, words: Words) -> str:
    for pattern, word in words:
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
