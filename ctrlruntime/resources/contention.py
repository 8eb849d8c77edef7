"""Two programs that undo each other's writes of one object: found by counting, and shown with the other one's name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
import structlog

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.clock import monotonic
from ctrlruntime.events.recorder import EventRecorder
from ctrlruntime.hot_keys import HotKeys
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.drift import missing_leaves
from ctrlruntime.resources.ownership import Owner

MANY: Final = 20
"""Corrections of one object that no person causes, in so many seconds."""
WINDOW: Final = 60.0
REASON: Final = "FieldsContended"
_RECORDS: Final = "ctrlruntime.dev/"
"""In the names of what is recorded on objects, beside their content."""
_SHOWN: Final = 3


class Contention:
    """Counts the corrections of objects, and reports those that another program undoes, each at most once in ten minutes."""

    def __init__(self, cache: Cache, field_manager: str, recorder: EventRecorder | None) -> None:
        """Report by events of `recorder`, and in the log."""
        self._cache = cache
        self._field_manager = field_manager
        self._recorder = recorder
        self._hot = HotKeys(many=MANY, window=WINDOW, counters=8192, apart=True)
        self._logger = structlog.get_logger("control")

    @asynccontextmanager
    async def correcting(
        self, desired: Desired, entry: Entry, owner: Owner
    ) -> AsyncGenerator[None]:
        """Count a correction of `entry`, unless it fails: a write that is refused again and again has its own error.

        One of too many is reported before it is made, as it takes the fields from the other manager.
        """
        if self._hot.is_hot(desired.key, monotonic()):
            await self._report(desired, entry, owner)
        try:
            yield
        except BaseException:
            self._hot.take_back(desired.key)
            raise

    async def _report(self, desired: Desired, entry: Entry, owner: Owner) -> None:
        try:  # by a list, which is what an account that watches the kind may do
            found: list[Manifest] = await self._cache.live_client.list(
                desired.mapping,
                entry.namespace or None,
                fields=f"metadata.name={entry.name}",
                metadata_only=True,
            )
        except (APIError, TransportError):
            return
        fields = [each for live in found for each in live["metadata"].get("managedFields") or ()]
        note = describe(contenders(fields, desired.body(owner), self._field_manager))
        place = f"{entry.namespace}/{entry.name}" if entry.namespace else entry.name
        note = f"{entry.gvk.kind} {place} was corrected {MANY} times within {WINDOW:g} s: " + (
            note or _same(self._field_manager)
        )
        self._logger.warning(note, owner=owner.key)
        if self._recorder is None:
            return
        regarding = entry if owner.cluster else _reference(owner)
        self._recorder.event(regarding, "Warning", REASON, "Apply", note, related=entry)


def contenders(fields: list[Manifest], body: Manifest, own: str) -> dict[str, list[str]]:
    """Return, by other field managers, the paths of `body` that they hold and the manager `own` does not."""
    missing = missing_leaves(body, _fields_of(fields, own))
    lost = {path for path in missing if _RECORDS not in path}
    found: dict[str, list[str]] = defaultdict(list)
    for each in fields:
        if each.get("manager") == own or each.get("subresource"):
            continue
        theirs = orjson.dumps(each.get("fieldsV1") or {})
        if held := sorted(lost.difference(missing_leaves(body, theirs))):
            found[str(each.get("manager", ""))] += held
    return dict(found)


def describe(found: dict[str, list[str]]) -> str:
    """Return who sets what, and what to do; "" for none."""
    if not found:
        return ""
    parts = []
    for manager, paths in sorted(found.items()):
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        parts.append(f"{manager} sets {', '.join(paths[:_SHOWN])}{more}")
    return f"{'; '.join(parts)} each time. Stop one of the two, or leave these fields out of what is applied here"


def _same(field_manager: str) -> str:
    return (
        f"another process writes it as {field_manager} too, with other content, or takes off what only {field_manager} "
        "records on it. Two installations of one program need one Lease, or each its own objects"
    )


def _fields_of(fields: list[Manifest], manager: str) -> bytes | None:
    for each in fields:
        if each.get("manager") == manager and not each.get("subresource"):
            return orjson.dumps(each.get("fieldsV1") or {})
    return None


def _reference(owner: Owner) -> dict[str, Any]:
    return {
        "apiVersion": owner.gvk.api_version,
        "kind": owner.gvk.kind,
        "namespace": owner.namespace,
        "name": owner.name,
        "uid": owner.uid,
    }
