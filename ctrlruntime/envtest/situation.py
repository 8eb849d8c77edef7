"""What else is known of an object for which an assertion waited in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator
from typing import Final

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, NoKindMatch, TransportError
from ctrlruntime.controller.last_errors import last_errors
from ctrlruntime.queue import Request

EVENT: Final = GroupVersionKind("", "v1", "Event")
WITHIN: Final = 5.0
"""Seconds for the events."""
MOST: Final = 5
"""Events, and errors of controllers, that are shown."""


async def situation(
    client: Client, kind: str, name: str, *, namespace: str | None, last: Manifest | None
) -> list[str]:
    """Return lines with its conditions, its events, and the last errors of controllers in this process."""
    return [
        *_conditions(last or {}),
        *await _events(client, kind, name, namespace),
        *_errors(name, namespace),
    ]


def _conditions(manifest: Manifest) -> Iterator[str]:
    status = manifest.get("status")
    conditions = status.get("conditions") if isinstance(status, dict) else None
    for each in conditions if isinstance(conditions, list) else ():
        if isinstance(each, dict):
            why = _joined(each.get("reason"), each.get("message"))
            yield f"condition {each.get('type')}={each.get('status')}{why}"


async def _events(client: Client, kind: str, name: str, namespace: str | None) -> list[str]:
    try:
        async with asyncio.timeout(WITHIN):
            found = await client.list(EVENT, namespace or "default")
    except (APIError, NoKindMatch, TransportError, TimeoutError) as error:
        return [f"its events cannot be read: {type(error).__name__}"]
    own = [
        each
        for each in found
        if (each.get("involvedObject") or {}).get("name") == name
        and (each.get("involvedObject") or {}).get("kind") == kind
    ]
    own.sort(key=lambda each: int(each["metadata"]["resourceVersion"]), reverse=True)
    return [
        f"event {each.get('type')}{_joined(each.get('reason'), each.get('message'))}"
        for each in own[:MOST]
    ]


def _errors(name: str, namespace: str | None) -> list[str]:
    """Return errors of the namespace's requests, those of the object's own name first."""
    near = [each for each in last_errors() if _is_near(each[1], namespace)]
    near.sort(key=lambda each: getattr(each[1], "name", "") != name)
    return [
        f"controller {controller} failed for {_shown(request)}: {error}"
        for controller, request, error in near[:MOST]
    ]


def _is_near(request: Hashable, namespace: str | None) -> bool:
    """Whether a request may have to do with the namespace: those of cluster-scoped objects too."""
    return not isinstance(request, Request) or request.namespace in ("", namespace)


def _shown(request: Hashable) -> str:
    if not isinstance(request, Request):
        return str(request)
    return f"{request.namespace}/{request.name}" if request.namespace else request.name


def _joined(reason: object, message: object) -> str:
    text = ": ".join(str(each) for each in (reason, message) if each)
    return f" ({text})" if text else ""
