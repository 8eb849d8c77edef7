"""What the test does to objects of a kind: parts to write and ways to break them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ctrlruntime.json import Json
from tests.differential.choices import Choices

Manifest = dict[str, Any]
Part = Callable[[Choices], Manifest]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kind under test.

    `base` is what every valid object needs; `parts` are laid over it, some at a time; `breaks` make
    it wrong, in whatever way; `status` are parts for the subresource.
    """

    api_version: str
    kind: str
    plural: str
    base: Manifest
    parts: Sequence[Part]
    breaks: Sequence[Manifest]
    status: Sequence[Part] = ()
    custom: bool = False
    scaled: bool = False
    replaces: bool = True
    """Whether a PUT without what the server filled in means the same in all releases."""
    partial: bool = True
    """Whether an apply may leave out parts of `base` that nobody else owns."""
    deletes: bool = True
    versions: bool = True
    """Whether an apply that creates may name a resourceVersion."""
    finalizers: bool = True
    """Whether finalizers come and go; not where the server adds one of its own."""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    def collection(self, namespace: str) -> str:
        root = "/apis/" if self.group else "/api/"
        return f"{root}{self.api_version}/namespaces/{namespace}/{self.plural}"

    def typed(self, name: str, content: Manifest) -> Manifest:
        head = {"apiVersion": self.api_version, "kind": self.kind, "metadata": {"name": name}}
        made: Manifest = laid_over(head, content)
        return made

    def whole(self, choices: Choices, name: str) -> Manifest:
        """A valid object, for POST, PUT and most applies."""
        return self.typed(name, laid_over(self.base, self.some(choices)))

    def some(self, choices: Choices) -> Manifest:
        """A few parts, metadata among them."""
        content: Manifest = {}
        for part in choices.some([*self.parts, *METADATA[: 4 if self.finalizers else 3]], 4):
            content = laid_over(content, part(choices))
        return content

    def broken(self, choices: Choices, name: str) -> Manifest:
        fault = choices.one([*self.breaks, *BREAKS])
        made: Manifest = laid_over(self.whole(choices, name), fault)
        return made


def laid_over(below: object, above: object) -> Json:
    """`above` over `below`: objects member by member, everything else replaced."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = laid_over(below[key], value) if key in below else value
    return merged


def pick(path: str, *values: object) -> Part:
    """A part that sets the field at a dotted path to one of the values."""
    return lambda choices: at(path, choices.one(values))


def items(path: str, *values: object) -> Part:
    """A part that sets the list at a dotted path to some of the values, in any order."""
    return lambda choices: at(path, choices.some(values, 3))


def at(path: str, content: Json) -> Manifest:
    for name in reversed(path.split(".")):
        content = {name: content}
    made: Manifest = content
    return made


METADATA: Sequence[Part] = (
    lambda choices: at("metadata.labels", {choices.one("xyz"): choices.one("12")}),
    lambda choices: at("metadata.annotations", {choices.one("xyz"): choices.one(["1", ""])}),
    lambda choices: at("metadata.labels", {"x": choices.one("12"), "y": choices.one("12")}),
    lambda choices: at("metadata.finalizers", [f"example.com/{choices.one('ab')}"]),
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
    {"apiVersion": "other.example.com/v1"},
    {"kind": "Other"},
    {"bogus": {"a": 1}},
)
