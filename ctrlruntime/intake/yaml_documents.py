"""YAML from outside: its events are counted before anything is composed.

The parser of libyaml needs no stack for them; composing does, for each level, and aliases multiply what
walks over the result.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ctrlruntime.intake.json_documents import encoded
from ctrlruntime.intake.limits import DOCUMENT, LimitExceeded, Limits, Malformed
from ctrlruntime.json import Json

if TYPE_CHECKING:
    import yaml

_MERGE_TAG: Final = "tag:yaml.org,2002:merge"
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LONG_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9a-fA-FxXoO_:.]{127,}\Z")
"""Python needs quadratic time for these, or refuses them."""


def read_yaml(data: bytes | str, limits: Limits = DOCUMENT, what: str = "the document") -> Json:
    """Return the only document; None for an empty one. Raises LimitExceeded and Malformed.

    ``what`` names it in their messages. Merge keys are refused. Tags other than those of plain data are refused.
    """
    found = read_yaml_all(data, limits, what)
    if len(found) > 1:
        raise Malformed(f"{what} has {len(found)} YAML documents where one is expected")
    return found[0] if found else None


def read_yaml_all(
    data: bytes | str,
    limits: Limits = DOCUMENT,
    what: str = "the document",
    *,
    timestamps: bool = True,
) -> list[Json]:
    """Return all documents of a stream. The limits are those of the stream. Raises LimitExceeded and Malformed.

    Without ``timestamps`` plain dates are text, as in JSON.
    """
    import yaml

    body = encoded(data, what)
    limits.check_bytes(len(body), what)
    loader = _loader(timestamps)
    try:
        counter = _Counter(limits, what)
        for event in yaml.parse(body, Loader=loader):
            counter.count(event)
        return list(yaml.load_all(body, Loader=loader))
    except yaml.YAMLError as error:
        raise Malformed(f"{what} is not YAML{_fault(error)}") from None
    except LimitExceeded:
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, Malformed):
            raise
        raise Malformed(
            f"{what} has a value that YAML cannot hold: {type(error).__name__}"
        ) from None


@cache
def _loader(timestamps: bool) -> Json:
    import yaml

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    if timestamps:
        return safe
    resolvers = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in safe.yaml_implicit_resolvers.items()
    }
    return type("TextLoader", (safe,), {"yaml_implicit_resolvers": resolvers})


class _Counter:
    """Counts what the events of a stream amount to, each alias as often as what it stands for."""

    def __init__(self, limits: Limits, what: str) -> None:
        self._limits = limits
        self._what = what
        self._items = 0
        self._open: list[tuple[str | None, int, int]] = []
        """Anchor, values before it and deepest level so far of each collection that has not ended."""
        self._anchors: dict[str, tuple[int, int]] = {}
        """Values and levels of what each anchor stands for."""

    def count(self, event: yaml.Event) -> None:
        """Raise LimitExceeded and Malformed."""
        import yaml

        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((event.anchor, self._items, 0))
            self._add(1, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before, levels = self._open.pop()
            self._reached(levels + 1)
            if anchor is not None:
                self._anchors[anchor] = (self._items - before, levels + 1)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors.clear()

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        plain = not event.style
        if event.tag == _MERGE_TAG or (plain and event.tag is None and event.value == "<<"):
            raise Malformed(
                f"{self._what} uses a merge key (<<){_place(event)}: write the keys out"
            )
        if (plain or event.tag in _NUMBERS) and _LONG_NUMBER.match(event.value):
            raise Malformed(f"{self._what} has a very long number{_place(event)}: quote it")
        if event.anchor is not None:
            self._anchors[event.anchor] = (1, 0)
        self._add(1, 0)

    def _alias(self, event: yaml.AliasEvent) -> None:
        known = self._anchors.get(event.anchor or "")
        if known is None:
            raise Malformed(
                f"{self._what} has an alias of something that does not exist, or that contains it{_place(event)}"
            )
        self._add(*known)

    def _add(self, items: int, levels: int) -> None:
        self._items += items
        if self._items > self._limits.items:
            raise LimitExceeded(self._what, "items", self._limits.items)
        if len(self._open) + levels > self._limits.depth:
            raise LimitExceeded(self._what, "depth", self._limits.depth)
        self._reached(levels)

    def _reached(self, levels: int) -> None:
        """Record ``levels`` below the innermost open collection."""
        if self._open:
            anchor, before, deepest = self._open[-1]
            if levels > deepest:
                self._open[-1] = (anchor, before, levels)


def _fault(error: yaml.YAMLError) -> str:
    """Return problem and place, of those that show no content."""
    problem = getattr(error, "problem", None)
    mark = getattr(error, "problem_mark", None)
    return f" (line {mark.line + 1}, column {mark.column + 1})" if problem and mark else ""


def _place(event: yaml.Event) -> str:
    return f" (line {event.start_mark.line + 1})" if event.start_mark is not None else ""
