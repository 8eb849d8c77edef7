"""get and list, with consistent pages."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server import table
from ctrlruntime.envtest.server.errors import (
    StatusError,
    bad_request,
    expired,
    not_found,
    too_large_version,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import Request, parse_version
from ctrlruntime.envtest.server.selectors import Selection, selection
from ctrlruntime.envtest.server.shards import parse_shards
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Bucket, Record, sort_key

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results. Continuing with the provided token results "
    "in an inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_MAX_SNAPSHOTS = 100


@dataclass(slots=True)
class _Snapshot:
    """The rest of a list at one revision, held for the client that pages through it."""

    records: list[Record]
    expires: float


@dataclass(slots=True)
class Page:
    records: list[Record]
    revision: int
    token: str = ""
    remaining: int | None = None


def select(state: State, kind: Kind, request: Request) -> Selection:
    """Return what a request selects. Raises BadRequest, and StatusError for a bad shard selector."""
    fields = selectable_fields(kind, request.version)
    namespace = request.namespace if kind.namespaced else ""
    query = request.query
    shards = query.get("shardSelector") if state.options.sharded_list_watch else None
    return selection(
        kind,
        fields,
        namespace,
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        parse_shards(shards) if shards else None,
    )


def shard_info(kind: Kind, request: Request, chosen: Selection) -> dict[str, Any]:
    """Return what the metadata of a list has of its ranges: nothing for custom resources and in other forms."""
    if chosen.shards is None or kind.custom or request.form != "full":
        return {}
    return {"shardInfo": {"selector": chosen.shards.text}}


def selectable_fields(kind: Kind, version: str) -> tuple[str, ...]:
    if not kind.custom:
        return kind.fields
    extra = kind.version_entry(version).get("selectableFields") or ()
    return (*kind.fields, *(item["jsonPath"].lstrip(".") for item in extra))


class Reader:
    """Answers get and list."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._snapshots: dict[tuple[str, int], _Snapshot] = {}

    def get(self, kind: Kind, request: Request) -> Record:
        namespace = request.namespace if kind.namespaced else ""
        record = self._state.bucket(kind).get(namespace, request.name)
        if record is None:
            raise not_found(kind.group, kind.plural, request.name)
        if version := request.query.get("resourceVersion"):
            self._check_future(parse_version(version))
        return record

    def one(self, kind: Kind, request: Request) -> bytes:
        """Return the object in the form asked for."""
        record = self.get(kind, request)
        if request.form != "table":
            return self._state.encode(kind, record, request.version, request.form)
        shown = self._state.shown(kind, record, request.version)
        include, now = table.included(request), self._state.options.clock()
        revision = str(record.revision)
        return orjson.dumps(
            table.render(kind, request.version, [shown], revision, include=include, now=now)
        )

    def _check_future(self, wanted: int) -> None:
        if wanted > self._state.storage.revision:
            raise too_large_version(wanted, self._state.storage.revision)

    def page(self, kind: Kind, request: Request) -> bytes:
        chosen = select(self._state, kind, request)
        page = self._page(kind, request, chosen)
        return self._render(kind, request, page, shard_info(kind, request, chosen))

    def _page(self, kind: Kind, request: Request, chosen: Selection) -> Page:
        query = request.query
        bucket = self._state.bucket(kind)
        limit = max(0, request.number("limit"))
        if "sendInitialEvents" in query:
            text = "sendInitialEvents is forbidden for list"
            raise _invalid_list("sendInitialEvents", f"Forbidden: {text}")
        if token := query.get("continue"):
            if query.get("resourceVersionMatch"):
                text = "resourceVersionMatch is forbidden when continue is provided"
                raise _invalid_list("resourceVersionMatch", f"Forbidden: {text}")
            if query.get("resourceVersion", "0") not in {"", "0"}:
                raise bad_request("specifying resource version is not allowed when using continue")
            return self._continue(bucket, chosen, token, limit)
        request.number("timeoutSeconds")
        self._check_version_options(request, bucket)
        records = self._matching(bucket, chosen)
        return self._cut(bucket, chosen, records, self._state.storage.revision, limit)

    def _check_version_options(self, request: Request, bucket: Bucket) -> None:
        version = request.query.get("resourceVersion", "")
        match = request.query.get("resourceVersionMatch", "")
        if match and not version:
            text = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise _invalid_list("resourceVersionMatch", f"Forbidden: {text}")
        if match and match not in {"Exact", "NotOlderThan"}:
            text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
            raise _invalid_list("resourceVersionMatch", text)
        if match == "Exact" and version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            raise _invalid_list("resourceVersionMatch", f"Forbidden: {text}")
        if not version:
            return
        wanted = parse_version(version)
        self._check_future(wanted)
        if match == "Exact" and bucket.changed > wanted:
            raise expired("The resourceVersion for the provided list is too old.")

    @staticmethod
    def _matching(bucket: Bucket, chosen: Selection) -> list[Record]:
        if chosen.name and chosen.namespace:
            record = bucket.get(chosen.namespace, chosen.name)
            found = [] if record is None else [record]
        else:
            found = list(bucket.scan(chosen.namespace))
        if chosen.everything:
            return found
        return [record for record in found if chosen.matches(record.obj)]

    def _cut(
        self,
        bucket: Bucket,
        chosen: Selection,
        records: list[Record],
        revision: int,
        limit: int,
        after: str = "",
    ) -> Page:
        if not limit or len(records) <= limit:
            return Page(records, revision)
        head, rest = records[:limit], records[limit:]
        self._keep(bucket, revision)
        last = head[-1]
        start = last.name if chosen.namespace else sort_key(last.namespace, last.name)
        token = _encode_token(revision, start)
        remaining = len(rest) if chosen.labels is None and not chosen.fields else None
        if remaining is not None and chosen.shards is not None:  # ranges are left out of account
            remaining = sum(1 for _ in bucket.scan(chosen.namespace, after)) - limit
        return Page(head, revision, token, remaining)

    def _keep(self, bucket: Bucket, revision: int) -> None:
        """Hold the whole bucket as it is: other selections may continue from it as well."""
        now = self._state.options.clock().timestamp()
        lifetime = self._state.options.continue_lifetime
        key = (bucket.resource, revision)
        if key not in self._snapshots:
            self._snapshots[key] = _Snapshot(list(bucket.scan()), now + lifetime)
        for old in [k for k, snapshot in self._snapshots.items() if snapshot.expires < now]:
            del self._snapshots[old]
        while len(self._snapshots) > _MAX_SNAPSHOTS:
            del self._snapshots[next(iter(self._snapshots))]

    def _continue(self, bucket: Bucket, chosen: Selection, token: str, limit: int) -> Page:
        revision, start = _decode_token(token)
        after = sort_key(chosen.namespace, start) if chosen.namespace else start
        if revision < 0:
            revision = self._state.storage.revision
        snapshot = self._snapshots.get((bucket.resource, revision))
        now = self._state.options.clock().timestamp()
        if snapshot is not None and snapshot.expires >= now:
            records = [
                record
                for record in snapshot.records
                if sort_key(record.namespace, record.name) > after and chosen.matches(record.obj)
            ]
        elif bucket.changed <= revision:
            records = [r for r in bucket.scan(chosen.namespace, after) if chosen.matches(r.obj)]
        else:
            error = expired(_EXPIRED)
            error.list_metadata = {"continue": _encode_token(-1, start)}
            raise error
        return self._cut(bucket, chosen, records, revision, limit, after)

    def _render(self, kind: Kind, request: Request, page: Page, shards: dict[str, Any]) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(page.revision), **shards}
        if kind.custom and request.form == "full":
            metadata["continue"] = ""
        if page.token:
            metadata["continue"] = page.token
            if page.remaining is not None:
                metadata["remainingItemCount"] = page.remaining
        state, version = self._state, request.version
        if request.form == "table":
            shown = [state.shown(kind, record, version) for record in page.records]
            rendered = table.render(
                kind,
                version,
                shown,
                str(page.revision),
                include=table.included(request),
                list_metadata=metadata,
                now=state.options.clock(),
            )
            return orjson.dumps(rendered)
        items = [state.encode_item(kind, record, version, request.form) for record in page.records]
        if request.form == "partial":
            head = _head("PartialObjectMetadataList", "meta.k8s.io/v1", metadata)
        else:
            head = _head(kind.list_name, kind.api_version(version), metadata)
        return head + b",".join(items) + b"]}"


def _head(kind: str, api_version: str, metadata: Manifest) -> bytes:
    head = orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata})
    return head[:-1] + b',"items":['


def _invalid_list(field: str, text: str) -> StatusError:
    details = {
        "group": "meta.k8s.io",
        "kind": "ListOptions",
        "causes": [
            {
                "reason": "FieldValueForbidden"
                if text.startswith("Forbidden")
                else "FieldValueNotSupported",
                "message": text,
                "field": field,
            }
        ],
    }
    message = f'ListOptions.meta.k8s.io "" is invalid: {field}: {text}'
    return StatusError(422, "Invalid", message, details)


def _encode_token(revision: int, after: str) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": after + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decode_token(token: str) -> tuple[int, str]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        value = orjson.loads(raw)
        return int(value["rv"]), str(value["start"]).removesuffix("\0")
    except (ValueError, KeyError, TypeError):
        raise bad_request("invalid continue token: continue key is not valid") from None
