"""What an API server would refuse, or read differently, found while the author is still looking."""

from __future__ import annotations

import re
import warnings
from typing import Any

from ctrlruntime.api.markers import RULES

from .errors import SchemaError, SchemaWarning

__all__ = ["check_node", "check_rules"]

Schema = dict[str, Any]

_LOOK_AROUND = re.compile(r"\(\?<?[=!]")
_BACK_REFERENCE = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]|\(\?P=")
_ATOMIC_OR_POSSESSIVE = re.compile(r"\(\?>|(?<!\\)[*+?}]\+|\(\?\(")
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


def check_node(node: Schema, name: str) -> None:
    """Raise SchemaError for a list that the server would refuse; warn of a pattern it reads otherwise."""
    pattern = node.get("pattern")
    if isinstance(pattern, str):
        _check_pattern(pattern, name)
    match node.get("x-kubernetes-list-type"):
        case "map":
            _check_list_map(node, name)
        case "set":
            _check_list_set(node, name)


def _check_pattern(pattern: str, name: str) -> None:
    for problem, found in (
        ("look-around", _LOOK_AROUND),
        ("back references", _BACK_REFERENCE),
        ("possessive or conditional groups", _ATOMIC_OR_POSSESSIVE),
    ):
        if found.search(pattern):
            warnings.warn(
                f"{name}: pattern {pattern!r} uses {problem}, which API servers (RE2) do not know",
                SchemaWarning,
                stacklevel=2,
            )


def _check_list_map(node: Schema, name: str) -> None:
    items = node.get("items", {})
    properties = items.get("properties", {})
    for key in node["x-kubernetes-list-map-keys"]:
        if key not in properties:
            raise SchemaError(
                name, f"ListMap({key!r}): the items have no such field (wire names are meant)"
            )
        if properties[key].get("type") not in _SCALARS:
            raise SchemaError(name, f"ListMap({key!r}): a key must be a string, number or boolean")
        if key not in items.get("required", ()) and "default" not in properties[key]:
            raise SchemaError(name, f"ListMap({key!r}): a key must be required or have a default")


def _check_list_set(node: Schema, name: str) -> None:
    items = node.get("items", {})
    atomic = items.get("x-kubernetes-map-type") == "atomic"
    atomic = atomic or items.get("x-kubernetes-list-type") == "atomic"
    if items.get("type") not in _SCALARS and not atomic:
        raise SchemaError(name, "a set holds scalars, or objects that are MapAtomic; use ListMap")


def check_rules(schema: Schema, name: str) -> None:
    """Check where CEL rules stand.

    Raises SchemaError for a transition rule on something that has no old value to compare with;
    warns of a rule whose cost cannot be bounded because a list or map around it is not.
    """
    _check_rules(schema, name, unbounded=None, correlated=True)


def _check_rules(node: Schema, name: str, *, unbounded: str | None, correlated: bool) -> None:
    for rule in node.get(RULES, ()):
        if "oldSelf" in rule["rule"] and not correlated:
            raise SchemaError(
                name,
                f"rule {rule['rule']!r} uses oldSelf inside a list whose items have no identity: "
                "make the list a ListMap",
            )
        if unbounded is not None:
            warnings.warn(
                f"{name}: rule {rule['rule']!r} may exceed the server's cost limit, because "
                f"{unbounded} has no bound: give it a max_length",
                SchemaWarning,
                stacklevel=2,
            )
    for key, child in node.get("properties", {}).items():
        _check_rules(child, f"{name}.{key}", unbounded=unbounded, correlated=correlated)
    if isinstance(node.get("items"), dict):
        bound = unbounded or (None if "maxItems" in node else name)
        is_map = node.get("x-kubernetes-list-type") == "map"
        _check_rules(node["items"], f"{name}[]", unbounded=bound, correlated=correlated and is_map)
    if isinstance(node.get("additionalProperties"), dict):
        bound = unbounded or (None if "maxProperties" in node else name)
        _check_rules(
            node["additionalProperties"], f"{name}[*]", unbounded=bound, correlated=correlated
        )
