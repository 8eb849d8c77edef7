"""Creating or changing an object to fit, with no request when it fits already; retries on conflict."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.api.resource import KindRef, Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.patches import difference
from ctrlruntime.clock import draw

Obj = TypeVar("Obj", bound=Resource[Any, Any] | Manifest)
T = TypeVar("T")


class Upserted(StrEnum):
    """What had to be done (controllerutil's OperationResult)."""

    UNCHANGED = "unchanged"
    CREATED = "created"
    UPDATED = "updated"
    UPDATED_STATUS = "updatedStatus"
    UPDATED_STATUS_ONLY = "updatedStatusOnly"


async def create_or_update(
    client: Client, obj: Obj, mutate: Callable[[Obj], None]
) -> tuple[Obj, Upserted]:
    """Read the object that ``obj`` names, let ``mutate`` change it in place, and update it.

    Created from ``obj`` and ``mutate`` where there is none. Nothing is sent when ``mutate`` changes
    nothing. Raises ValueError if it changes name or namespace, Conflict if another client was faster.
    """
    found = await _read(client, obj)
    if found is None:
        return await _create(client, obj, mutate), Upserted.CREATED
    before = _wire(found)
    mutate(found)
    _check_key(before, _wire(found))
    if before == _wire(found):
        return found, Upserted.UNCHANGED
    return await client.update(found), Upserted.UPDATED


async def create_or_patch(
    client: Client, obj: Obj, mutate: Callable[[Obj], None]
) -> tuple[Obj, Upserted]:
    """Like `create_or_update`, with merge patches of what changed: one for the object, one for its status."""
    found = await _read(client, obj)
    if found is None:
        created = await _create(client, obj, mutate)
        status = _wire(obj).get("status")
        if status:
            await _patch(client, created, {"status": status}, "status")
        return created, Upserted.CREATED
    before = _wire(found)
    mutate(found)
    after = _wire(found)
    _check_key(before, after)
    patch = difference(before, after)
    status = {"status": patch.pop("status")} if "status" in patch else None
    if patch:
        found = await _patch(client, found, patch, None)
    if status:
        found = await _patch(client, found, status, "status")
    return found, _outcome(bool(patch), status is not None)


def _outcome(patched: bool, status: bool) -> Upserted:
    if patched:
        return Upserted.UPDATED_STATUS if status else Upserted.UPDATED
    return Upserted.UPDATED_STATUS_ONLY if status else Upserted.UNCHANGED


async def _read(client: Client, obj: Obj) -> Obj | None:
    metadata = _wire(obj)["metadata"]
    kind: KindRef = type(obj) if isinstance(obj, Resource) else GroupVersionKind.of(obj)
    try:
        found: Any = await client.get(kind, metadata["name"], namespace=metadata.get("namespace"))
    except NotFound:
        return None
    return found  # type: ignore[no-any-return]


async def _create(client: Client, obj: Obj, mutate: Callable[[Obj], None]) -> Obj:
    before = _wire(obj)
    mutate(obj)
    _check_key(before, _wire(obj))
    return await client.create(obj)


async def _patch(client: Client, obj: Obj, patch: dict[str, Any], subresource: str | None) -> Obj:
    metadata = _wire(obj)["metadata"]
    kind: KindRef = type(obj) if isinstance(obj, Resource) else GroupVersionKind.of(obj)
    patched: Any = await client.patch(
        kind, metadata["name"], patch, namespace=metadata.get("namespace"), subresource=subresource
    )
    return patched  # type: ignore[no-any-return]


def _wire(obj: Resource[Any, Any] | Manifest) -> Manifest:
    """Return a copy that later changes of ``obj`` do not reach."""
    manifest = obj.to_manifest() if isinstance(obj, Resource) else obj
    copied: Manifest = orjson.loads(orjson.dumps(manifest))
    return copied


def _check_key(before: Manifest, after: Manifest) -> None:
    for name in ("name", "namespace"):
        if before["metadata"].get(name) != after["metadata"].get(name):
            raise ValueError(f"the mutation must not change metadata.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """client-go's ``retry.DefaultRetry``. Seconds."""

    steps: int = 5
    initial: float = 0.01
    factor: float = 1.0
    jitter: float = 0.1


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]],
    retry: Retry = Retry(),
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Run ``attempt`` again while it raises Conflict. It has to read the object anew each time, live.

    A conflict over fields of another manager is not retried: it would not go away.
    """
    delay = retry.initial
    for _ in range(retry.steps - 1):
        try:
            return await attempt()
        except Conflict as error:
            if error.is_field_conflict:
                raise
        await sleep(delay * (1.0 + retry.jitter * draw()))
        delay *= retry.factor
    return await attempt()
