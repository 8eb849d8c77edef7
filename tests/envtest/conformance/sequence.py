"""The requests of one sequence: mostly applies by three managers, some of them wrong."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.envtest.conformance.subject import Manifest, Subject
from tests.envtest.conformance.twins import (
    APPLY,
    JSON_PATCH,
    LIVE_VERSION,
    MERGE,
    STRATEGIC,
    Step,
)


def steps_of(
    rng: random.Random, subject: Subject, collection: str, name: str, *, split: bool
) -> Iterator[Step]:
    """Requests without end; the answers do not matter for what is asked next.

    `split`: the server keeps the fields of a manager apart by subresource, and those of appliers and
    of others; old releases confuse them, so a sequence there has the one or the other.
    """
    path = f"{collection}/{name}"
    applies = split or rng.random() < 0.8
    writes = split or not applies
    last: Step | None = None
    if not applies or (writes and rng.random() < 0.3):
        yield Step("create", "POST", collection, subject.whole(rng, name))
    while True:
        kind = rng.random()
        if last is not None and kind < 0.08:
            yield last
        elif kind < 0.70 and applies:
            last = _apply(rng, subject, path, name)
            yield last
        elif kind < 0.78 and writes:
            yield Step("merge patch", "PATCH", _by(rng, path), subject.some(rng), MERGE)
        elif kind < 0.81 and writes:
            yield _json_patch(rng, path)
        elif kind < 0.85 and writes and subject.builtin:
            yield Step("strategic patch", "PATCH", _by(rng, path), subject.some(rng), STRATEGIC)
        elif kind < 0.90 and writes and subject.updates:
            yield _update(rng, subject, path, name)
        elif kind < 0.96 and writes and subject.status:
            yield _status(rng, subject, path, name, split=split)
        elif 0.96 < kind < 0.98:
            body = subject.broken(rng, name)
            body["metadata"]["name"] = name
            yield Step("create", "POST", collection, body)
        elif kind > 0.98:
            yield Step("delete", "DELETE", path)


def _by(rng: random.Random, path: str) -> str:
    return f"{path}?fieldManager={rng.choice(['u', 'v', 'a'])}"


def _apply(rng: random.Random, subject: Subject, path: str, name: str) -> Step:
    manager = rng.choice("abc")
    force = "&force=true" if rng.random() < 0.3 else ""
    chance = rng.random()
    label = "apply"
    if chance < 0.15:
        label, body = "apply (broken)", subject.broken(rng, name)
    elif chance < 0.55:
        body = subject.whole(rng, name)
    else:
        body = subject.typed(name, subject.some(rng))
    return Step(label, "PATCH", f"{path}?fieldManager={manager}{force}", body, APPLY)


def _json_patch(rng: random.Random, path: str) -> Step:
    operations: list[Any] = rng.choice(
        [
            [{"op": "add", "path": "/metadata/labels", "value": {"x": "3"}}],
            [{"op": "replace", "path": "/metadata/labels/x", "value": "4"}],
            [{"op": "remove", "path": "/metadata/labels"}],
            [{"op": "test", "path": "/metadata/labels/x", "value": "1"}],
            [{"op": "add", "path": "/metadata/annotations/z", "value": "1"}],
            [{"op": "add", "path": "/metadata/managedFields", "value": [{}]}],
            [{"op": "copy", "from": "/metadata/name", "path": "/metadata/generateName"}],
        ]
    )
    return Step("json patch", "PATCH", _by(rng, path), operations, JSON_PATCH)


def _update(rng: random.Random, subject: Subject, path: str, name: str) -> Step:
    body: Manifest = subject.whole(rng, name)
    chance = rng.random()
    if chance < 0.6:
        body["metadata"]["resourceVersion"] = LIVE_VERSION
    elif chance < 0.8:
        body["metadata"]["resourceVersion"] = "1"
    return Step("update", "PUT", _by(rng, path), body)


def _status(rng: random.Random, subject: Subject, path: str, name: str, *, split: bool) -> Step:
    content = rng.choice(subject.status)(rng)
    if not split or rng.random() < 0.5:
        return Step("status patch", "PATCH", _by(rng, f"{path}/status"), content, MERGE)
    manager = rng.choice("abc")
    body = subject.typed(name, content)
    return Step("status apply", "PATCH", f"{path}/status?fieldManager={manager}", body, APPLY)
