"""Outputs of Terraform as other tasks get them: texts, the sensitive ones apart."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of the root module."""

    name: str
    value: Any = field(repr=False)
    """JSON; None for an output that is null."""
    sensitive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """All outputs: a text stays as it is, everything else becomes JSON."""

    plain: Mapping[str, str] = field(default_factory=dict)
    secret: Mapping[str, str] = field(default_factory=dict, repr=False)


def split(found: Iterable[Output], wanted: frozenset[str], sensitive: frozenset[str]) -> Outputs:
    """Of the outputs found those that are wanted. One that either side calls sensitive is."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for output in found:
        if output.name in wanted and output.value is not None:
            into = secret if output.sensitive or output.name in sensitive else plain
            into[output.name] = _text(output.value)
    return Outputs(plain=dict(sorted(plain.items())), secret=dict(sorted(secret.items())))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
