"""ChangeFreezes in tests: made, awaited by their status, and gone afterwards."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from apis.operations import EXEMPT, ChangeFreeze
from ctrlruntime.api import format_time
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from tests.support.waiting import eventually

_numbers = itertools.count(1)


@contextlib.asynccontextmanager
async def frozen(
    client: Client,
    *,
    reason: str = "Inventory",
    starts_at: datetime | None = None,
    until: datetime | None = None,
    systems: list[str] | None = None,
    namespaces: list[str] | None = None,
    name: str = "",
) -> AsyncIterator[str]:
    """A freeze; its name."""
    name = name or f"freeze-{next(_numbers)}"
    spec: dict[str, Any] = {"reason": reason}
    spec |= {"systems": systems} if systems else {}
    spec |= {"namespaces": namespaces} if namespaces else {}
    spec |= {"startsAt": format_time(starts_at)} if starts_at else {}
    spec |= {"until": format_time(until)} if until else {}
    gvk = ChangeFreeze.gvk()
    head = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": name}}
    await client.create({**head, "spec": spec})
    try:
        yield name
    finally:
        with contextlib.suppress(NotFound):
            await client.delete(ChangeFreeze, name)


async def freeze_until(
    client: Client, name: str, holds: Callable[[ChangeFreeze], object]
) -> ChangeFreeze:
    """Wait for a state of a freeze."""
    return await eventually(lambda: client.get(ChangeFreeze, name), holds)


async def grant(client: Client, freeze: str, kind: str, namespace: str, name: str) -> None:
    """Exempt an object from a freeze."""
    item = {"kind": kind, "namespace": namespace, "name": name}
    await client.patch(ChangeFreeze, freeze, {"spec": {"exempt": [item]}})


def requesting(freeze: str) -> dict[str, Any]:
    """A patch whose annotation requests an exemption."""
    return {"metadata": {"annotations": {EXEMPT: freeze}}}
