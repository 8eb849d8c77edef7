"""Defaulting of custom resources, in place."""

from __future__ import annotations

import copy
from typing import Any

from ctrlruntime.envtest.schema.structural import NO_DEFAULT, Structural


def default(value: object, node: Structural) -> None:
    """Fill in the defaults of absent members (changes ``value``).

    A null for a member that is not nullable and has a default counts as absent.
    """
    if not node.has_defaults:
        return
    if isinstance(value, dict):
        _default_map(value, node)
    elif isinstance(value, list) and node.items is not None:
        for item in value:
            default(item, node.items)


def _default_map(value: dict[str, Any], node: Structural) -> None:
    for name, child in node.properties.items():
        if child.default is NO_DEFAULT:
            continue
        if name not in value or (value[name] is None and not child.nullable):
            value[name] = copy.deepcopy(child.default)
    for name, item in value.items():
        member = node.child(name)
        if member is None:
            continue
        if item is None and member.default is not NO_DEFAULT and not member.nullable:
            value[name] = copy.deepcopy(member.default)
        elif item is not None:
            default(item, member)


def drop_nulls(value: object, node: Structural) -> None:
    """Remove nulls of members that are neither nullable nor have a default (changes ``value``).

    The server does so when it decodes a body, but not to the result of an apply.
    """
    if isinstance(value, list):
        if node.items is not None:
            for item in value:
                drop_nulls(item, node.items)
        return
    if not isinstance(value, dict):
        return
    for name in list(value):
        member = node.child(name)
        if member is None:
            continue
        if value[name] is None:
            if not member.nullable and member.default is NO_DEFAULT:
                del value[name]
        else:
            drop_nulls(value[name], member)
