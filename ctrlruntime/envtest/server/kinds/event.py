"""Events, in the core group and in `events.k8s.io`: both share one storage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import qualified_name
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.kind import DEFAULT_FIELDS
from ctrlruntime.envtest.server.printers.column import Cells, part, since

_Object = dict[str, Any]


def _event_times(event: _Object) -> None:
    for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
        event.setdefault(name, None)


def _check(obj: _Object, prefix: str) -> Iterator[FieldError]:
    involved = (obj.get("involvedObject") or {}).get("namespace") or ""
    namespace = obj["metadata"].get("namespace") or ""
    if involved != namespace and not (not involved and namespace == "default"):
        detail = "does not match event.namespace"
        yield bad_value(f"{prefix}involvedObject.namespace", involved, detail)


_AT_MOST: Final = {"action": 128, "reason": 128, "reportingInstance": 128, "message": 1024}


def _check_new(obj: _Object, prefix: str) -> Iterator[FieldError]:
    """Check events of `events.k8s.io` alone, in the form that is stored."""
    if obj.get("eventTime") is None:
        yield required(f"{prefix}eventTime")
    if obj.get("type") not in {"Normal", "Warning"}:
        yield bad_value(f"{prefix}type", "", f"has invalid value: {obj.get('type') or ''}")
    if obj.get("eventTime") is None:
        return
    reporter = obj.get("reportingComponent") or ""
    if not reporter:
        yield required(f"{prefix}reportingController")
    for text in qualified_name(reporter) if reporter else ():
        yield bad_value(f"{prefix}reportingController", reporter, text)
    for name, most in _AT_MOST.items():
        value = obj.get(name) or ""
        if not value and name != "message":
            yield required(prefix + name)
        if len(value.encode()) > most:
            yield bad_value(prefix + name, "", f"can have at most {most} characters")


def _cells(obj: Manifest, now: datetime) -> Cells:
    """Of either event group: what differs are the names of the fields."""
    about = part(obj, "involvedObject") or part(obj, "regarding")
    event_time = obj.get("eventTime")
    first_seen = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or event_time
    last_seen = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first_seen
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = part(obj, "series")
    if series:
        last_seen, count = series.get("lastObservedTime"), series.get("count") or 0
    kind = str(about.get("kind") or "").lower()
    return [
        since(last_seen, now),
        obj.get("type") or "",
        obj.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        _event_source(obj),
        str(obj.get("message") or obj.get("note") or "").strip(),
        since(first_seen, now),
        count,
        obj["metadata"]["name"],
    ]


def _event_source(obj: Manifest) -> str:
    source = part(obj, "source") or part(obj, "deprecatedSource")
    names = [
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController"),
        source.get("host") or obj.get("reportingInstance"),
    ]
    return ", ".join(str(name) for name in names if name)


EVENT: Final = builtin_kind(
    "",
    "Event",
    "events",
    "ev",
    create_on_update=True,
    more_fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    defaults=Defaults(
        {"source": {}, "reportingComponent": "", "reportingInstance": "", "involvedObject": {}},
        rules=(_event_times,),
    ),
    rules=Rules(checks=(_check,)),
    columns=(
        "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | "
        "First Seen+ | Count+ | Name+"
    ),
    cells=_cells,
)
NEW_EVENT: Final = replace(
    EVENT,
    group="events.k8s.io",
    fields=(*DEFAULT_FIELDS, "reason", "reportingController", "type"),
    builtin=replace(EVENT.builtin, rules=Rules(checks=(_check_new,))),
)
