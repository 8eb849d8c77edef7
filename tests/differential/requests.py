"""Requests to one object: mostly applies by several managers, some of them wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from hypothesis import strategies as st

from tests.differential.choices import Choices
from tests.differential.subject import Manifest, Subject

APPLY: Final = "application/apply-patch+yaml"
MERGE: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON: Final = "application/json"
LIVE_VERSION: Final = "{resourceVersion}"
"""In a body: the resourceVersion that the server at hand gave the object."""
NAME: Final = "{name}"
NAMESPACE: Final = "differential"
LENGTH: Final = 20
MANAGERS: Final = ("a", "b", "c", "d")
_BYTES: Final = 24


@dataclass(frozen=True, slots=True)
class Step:
    """A request as both servers get it. `{name}` stands for the object's name."""

    verb: str
    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    manager: str = ""

    def described(self) -> str:
        body = "" if self.body is None else " " + orjson.dumps(self.body).decode()
        kind = "" if self.content_type == JSON else f" [{self.content_type}]"
        return f"{self.method} {self.path}{kind}{body}"


@dataclass(frozen=True, slots=True)
class Script:
    """The requests to one object."""

    subject: Subject
    steps: tuple[Step, ...]


DRAWS: Final = st.lists(
    st.binary(min_size=_BYTES, max_size=_BYTES), min_size=LENGTH, max_size=LENGTH
)
"""The bytes of one script."""


def script(subject: Subject, drawn: Sequence[bytes]) -> Script:
    """What the bytes make of the subject."""
    writer = _Writer(subject)
    return Script(subject, tuple(writer.step(Choices(each)) for each in drawn))


class _Writer:
    """Writes one script. What is asked next depends on no answer."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._collection = subject.collection(NAMESPACE)
        self._path = f"{self._collection}/{NAME}"
        self._last: Step | None = None

    def step(self, choices: Choices) -> Step:
        """The table of shares; the rest are applies."""
        share = choices.below(256)
        for limit, make in self._table():
            if share < limit:
                made = make(choices)
                if made is not None:
                    return made
                break
        return self._apply(choices)

    def _table(self) -> Sequence[tuple[int, Callable[[Choices], Step | None]]]:
        return (
            (12, self._create),
            (26, self._merge),
            (36, self._json_patch),
            (50, self._strategic),
            (68, self._update),
            (88, self._status),
            (96, self._scale),
            (106, self._read),
            (116, self._delete),
        )

    # -- applies -------------------------------------------------------------------------------

    def _apply(self, choices: Choices) -> Step:
        if self._last is not None and choices.chance(8):
            return self._last
        manager = choices.one(MANAGERS)
        query = f"?fieldManager={manager}"
        if choices.chance(25):
            query += "&force=true"
        if choices.chance(4):
            query += "&dryRun=All"
        fault = choices.chance(13)
        version = choices.below(256)
        if fault:
            body = self._subject.broken(choices, NAME)
        elif choices.chance(55) or not self._subject.partial:
            body = self._subject.whole(choices, NAME)
        else:
            body = self._subject.typed(NAME, self._subject.some(choices))
        if version < 8 and self._subject.versions:
            value = "1" if version < 4 else LIVE_VERSION
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": value}}
        step = Step("apply", "PATCH", self._path + query, body, APPLY, manager)
        self._last = None if fault else step
        return step

    # -- other writes --------------------------------------------------------------------------

    def _by(self, choices: Choices, path: str) -> tuple[str, str]:
        """A path for a writer; some write what they also apply."""
        manager = choices.one(("u", "v", "a"))
        dry = "&dryRun=All" if choices.chance(6) else ""
        return f"{path}?fieldManager={manager}{dry}", manager

    def _create(self, choices: Choices) -> Step:
        path, manager = self._by(choices, self._collection)
        make = self._subject.broken if choices.chance(30) else self._subject.whole
        body = make(choices, NAME)
        body = {**body, "metadata": {**body["metadata"], "name": NAME}}
        return Step("create", "POST", path, body, manager=manager)

    def _merge(self, choices: Choices) -> Step:
        path, manager = self._by(choices, self._path)
        body = self._subject.some(choices)
        if choices.chance(25):
            removals: Sequence[Manifest] = _REMOVALS
            body = choices.one(removals if self._subject.finalizers else removals[:2])
        return Step("merge patch", "PATCH", path, body, MERGE, manager)

    def _json_patch(self, choices: Choices) -> Step:
        path, manager = self._by(choices, self._path)
        operations = choices.one(_OPERATIONS[: 8 if self._subject.finalizers else 7])
        return Step("json patch", "PATCH", path, operations, JSON_PATCH, manager)

    def _strategic(self, choices: Choices) -> Step | None:
        if self._subject.custom:
            return None
        path, manager = self._by(choices, self._path)
        body = self._subject.some(choices)
        return Step("strategic patch", "PATCH", path, body, STRATEGIC, manager)

    def _update(self, choices: Choices) -> Step | None:
        if not self._subject.replaces:
            return None
        path, manager = self._by(choices, self._path)
        version = choices.one((LIVE_VERSION, LIVE_VERSION, "1", ""))
        body = self._subject.whole(choices, NAME)
        if version:
            body = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        return Step("update", "PUT", path, body, manager=manager)

    def _status(self, choices: Choices) -> Step | None:
        if not self._subject.status:
            return None
        content = choices.one(self._subject.status)(choices)
        path = f"{self._path}/status"
        if choices.chance(50):
            manager = choices.one(MANAGERS)
            force = "&force=true" if choices.chance(30) else ""
            path += f"?fieldManager={manager}{force}"
            body = self._subject.typed(NAME, content)
            return Step("apply", "PATCH", path, body, APPLY, manager)
        manager = choices.one("uv")
        return Step(
            "merge patch", "PATCH", f"{path}?fieldManager={manager}", content, MERGE, manager
        )

    def _scale(self, choices: Choices) -> Step | None:
        if not self._subject.scaled:
            return None
        path = f"{self._path}/scale"
        if choices.chance(30):
            return Step("get", "GET", path)
        manager = choices.one("uv")
        body = {"spec": {"replicas": choices.one((0, 1, 2, 3, -1))}}
        path += f"?fieldManager={manager}&dryRun=All"
        return Step("merge patch", "PATCH", path, body, MERGE, manager)

    # -- reads and deletes ---------------------------------------------------------------------

    def _read(self, choices: Choices) -> Step:
        if choices.chance(40):
            return Step("get", "GET", self._path)
        labels = choices.one(
            ("", "x", "!x", "x=1", "x in (1,2),y", "y notin (1)", "x=1,y=2", "a b")
        )
        query = f"?fieldSelector=metadata.name={NAME}&labelSelector={labels}"
        return Step("list", "GET", self._collection + query)

    def _delete(self, choices: Choices) -> Step | None:
        if not self._subject.deletes:
            return None
        options: Manifest = {"kind": "DeleteOptions", "apiVersion": "v1"}
        path = self._path
        case = choices.below(8)
        # The garbage collector answers to the other policies in its own time.
        options["propagationPolicy"] = "Background"
        if case == 1:
            options["preconditions"] = {"uid": "00000000-0000-4000-8000-000000000000"}
        elif case == 2:
            options["preconditions"] = {"resourceVersion": "1"}
        elif case == 3:
            options["preconditions"] = {"resourceVersion": LIVE_VERSION}
        elif case == 4:
            options["propagationPolicy"] = choices.one(("Foreground", "Orphan", "Sideways"))
            options["dryRun"] = ["All"]
        elif case == 5:
            path += "?dryRun=All"
        return Step("delete", "DELETE", path, options)


_REMOVALS: Final[Sequence[Manifest]] = (
    {"metadata": {"labels": None}},
    {"metadata": {"annotations": {"x": None}}},
    {"metadata": {"finalizers": None}},
)
_OPERATIONS: Final[Sequence[list[Manifest]]] = (
    [{"op": "add", "path": "/metadata/labels", "value": {"x": "3"}}],
    [{"op": "replace", "path": "/metadata/labels/x", "value": "4"}],
    [{"op": "remove", "path": "/metadata/labels"}],
    [{"op": "test", "path": "/metadata/labels/x", "value": "1"}],
    [{"op": "add", "path": "/metadata/annotations/z", "value": "1"}],
    [{"op": "add", "path": "/metadata/managedFields", "value": [{}]}],
    [{"op": "replace", "path": "/metadata/name", "value": "another"}],
    [{"op": "remove", "path": "/metadata/finalizers"}],
)
