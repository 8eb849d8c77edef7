"""What the differential test does to an object of some kind: parts to write and ways to break it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
Part = Callable[[random.Random], Manifest]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind under test.

    `base` is what every valid object needs; `parts` are fragments laid over it, some at a time;
    `breaks` are fragments that make it wrong, in whatever way.
    """

    api_version: str
    kind: str
    plural: str
    base: Manifest
    parts: Sequence[Part]
    breaks: Sequence[Manifest]
    status: Sequence[Part] = ()
    builtin: bool = True
    updates: bool = True
    """Whether a PUT without the members that the server sets means the same in all releases."""
    newer: frozenset[str] = field(default_factory=frozenset)
    """Names of fields that older servers do not fill in, or own in another way."""

    @property
    def root(self) -> str:
        return ("/apis/" if "/" in self.api_version else "/api/") + self.api_version

    def typed(self, name: str, content: Manifest) -> Manifest:
        identity = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": name},
        }
        made: Manifest = laid_over(identity, content)
        return made

    def whole(self, rng: random.Random, name: str) -> Manifest:
        """A valid object, for POST, PUT and most applies."""
        return self.typed(name, laid_over(self.base, self.some(rng)))

    def some(self, rng: random.Random) -> Manifest:
        """A few parts, metadata among them."""
        content: Manifest = {}
        pool = [*self.parts, *METADATA]
        for part in rng.sample(pool, k=rng.randint(1, min(4, len(pool)))):
            content = laid_over(content, part(rng))
        return content

    def broken(self, rng: random.Random, name: str) -> Manifest:
        breaks = [*self.breaks, *BREAKS]
        made: Manifest = laid_over(self.whole(rng, name), rng.choice(breaks))
        return made


def laid_over(below: Any, above: Any) -> Any:
    """`above` over `below`: objects member by member, everything else replaced."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = laid_over(below[key], value) if key in below else value
    return merged


def pick(path: str, *values: Any) -> Part:
    """A part that sets the field at a dotted path to one of the values."""

    def part(rng: random.Random) -> Manifest:
        content: Any = rng.choice(values)
        for name in reversed(path.split(".")):
            content = {name: content}
        found: Manifest = content
        return found

    return part


def items(path: str, *values: Any) -> Part:
    """A part that sets the list at a dotted path to some of the values, in any order."""

    def part(rng: random.Random) -> Manifest:
        count = rng.randint(1, min(3, len(values)))
        return pick(path, rng.sample(values, k=count))(rng)

    return part


METADATA: Sequence[Part] = (
    lambda rng: {"metadata": {"labels": {rng.choice("xyz"): rng.choice("12")}}},
    lambda rng: {"metadata": {"annotations": {rng.choice("xyz"): rng.choice(["1", ""])}}},
    lambda rng: {"metadata": {"labels": {"x": rng.choice("12"), "y": rng.choice("12")}}},
    lambda rng: {"metadata": {"finalizers": [f"example.com/{rng.choice('ab')}"]}},
)
_OWNER = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}
BREAKS: Sequence[Manifest] = (
    {"metadata": {"labels": {"a b": "1"}}},
    {"metadata": {"labels": {"x": "-"}}},
    {"metadata": {"annotations": {"/": "1"}}},
    {"metadata": {"labels": {"x": 1}}},
    {"metadata": {"finalizers": ["a b"]}},
    {"metadata": {"ownerReferences": [_OWNER]}},
    {"metadata": {"namespace": "elsewhere"}},
    {"metadata": {"name": "another"}},
    {"metadata": {"bogus": "1"}},
    {"metadata": {"resourceVersion": "1"}},
    {"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}},
    {"apiVersion": "other.example.com/v1"},
    {"kind": "Other"},
    {"bogus": {"a": 1}},
)
