"""Pass the answer to a write to the informers of the object's kind."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import msgspec
import orjson

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.cache.entry import Document, Entry, Key, split
from ctrlruntime.cache.informer import Informer
from ctrlruntime.cache.selection import Selection
from ctrlruntime.cache.write_overlay import PendingWrite
from ctrlruntime.client.call import Call
from ctrlruntime.client.errors import APIError, WriteOutcomeUnknown
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import Response

Execute = Callable[[Call], Awaitable[Response]]

_WITHOUT_EFFECT = frozenset({"token"})
"""Subresources whose use changes nothing of the object."""


_NAMESPACE = GroupKind("", "Namespace")


class _Details(msgspec.Struct):
    uid: str | None = None


class _Status(msgspec.Struct):
    details: _Details | None = None


_kind_decoder = msgspec.json.Decoder(str)
_status_decoder = msgspec.json.Decoder(_Status)


async def write_through(call: Call, execute: Execute, informers: Sequence[Informer]) -> Response:
    """Carry out a write and tell the informers what came of it.

    Where the outcome is not known (no answer, a server error, or cancelled on the way), the object
    is marked as uncertain and the error goes on to the caller.
    """
    wanted = _concerned(informers, call)
    if not wanted or call.is_dry_run or not call.is_write:
        return await execute(call)
    asked = _widened(call, wanted)
    key = None if call.name is None else (call.namespace or "", call.name)
    tickets = {} if key is None else {informer: informer.begin(key) for informer in wanted}
    try:
        response = await execute(asked)
        for informer in wanted:
            _report(informer, call, key, tickets.get(informer), response.body)
    except (WriteOutcomeUnknown, asyncio.CancelledError):
        _outcome_unknown(wanted, call, key)
        raise
    except APIError as error:
        if error.code >= 500:
            _outcome_unknown(wanted, call, key)
        raise
    finally:
        for informer, ticket in tickets.items():
            informer.end(ticket)
    return response if asked is call else _narrowed(response)


def _concerned(informers: Sequence[Informer], call: Call) -> list[Informer]:
    """Return those that may select the object, as of now: others may be declared during the write."""
    namespace = call.namespace
    if namespace is None or not call.mapping.namespaced:
        return list(informers)
    return [informer for informer in informers if informer.selection.covers(namespace)]


def _widened(call: Call, informers: Sequence[Informer]) -> Call:
    """Return a full informer needs the whole answer, even if the caller wants metadata only."""
    if call.headers:
        for informer in informers:
            if not informer.metadata_only:
                return replace(call, headers={})
    return call


def _narrowed(response: Response) -> Response:
    manifest = orjson.loads(response.body)
    kept = {name: manifest[name] for name in ("apiVersion", "kind", "metadata") if name in manifest}
    return replace(response, body=orjson.dumps(kept))


def _outcome_unknown(informers: Sequence[Informer], call: Call, key: Key | None) -> None:
    if call.verb != "deletecollection":
        _doubt(informers, key)
        return
    selection = Selection(
        namespaces=None if call.namespace is None else frozenset({call.namespace}),
        labels=call.params.get("labelSelector", ""),
        fields=call.params.get("fieldSelector", ""),
    )
    for informer in informers:
        informer.doubt_selected(selection)


def _doubt(informers: Sequence[Informer], key: Key | None) -> None:
    if key is not None:
        for informer in informers:
            informer.doubt(key)


def _report(
    informer: Informer, call: Call, key: Key | None, ticket: PendingWrite | None, body: bytes
) -> None:
    """Report an answered write. An unexpected error is never the caller's: the write was done.

    The informer then reads the object, or everything, from the server.
    """
    try:
        _notify(informer, call, key, ticket, body)
    except Exception as error:  # noqa: BLE001 - whatever it is, the object is stored
        informer.write_failed(error)
        _doubt([informer], key)


def _notify(
    informer: Informer, call: Call, key: Key | None, ticket: PendingWrite | None, body: bytes
) -> None:
    if call.verb == "deletecollection":
        for item in list_items(body):
            entry = informer.decode_listed(item)
            if entry is not None:
                informer.deleting(entry)
        return
    mapping = call.mapping
    if informer.mapping is not mapping and informer.gvk != mapping.gvk:
        _doubt([informer], key)  # another version of the kind: its form is not in the answer
        return
    document = split(body)
    kind = _kind_decoder.decode(document["kind"]) if "kind" in document else ""
    if kind in (mapping.gvk.kind, "PartialObjectMetadata"):
        _notify_of_object(informer, call, ticket, document)
    elif call.verb == "delete" and kind == "Status" and ticket is not None:
        details = _status_decoder.decode(body).details
        informer.deleted(ticket, details.uid if details else None)
    elif call.subresource not in _WITHOUT_EFFECT:
        _doubt([informer], key)


def _notify_of_object(
    informer: Informer, call: Call, ticket: PendingWrite | None, document: Document
) -> None:
    entry = informer.decode(document)
    if entry is None:
        return
    if ticket is not None and _is_last_state(call, entry):
        informer.deleted(ticket, entry.uid)
    else:
        informer.wrote(entry, ticket)


def _is_last_state(call: Call, entry: Entry) -> bool:
    """Whether the object that was answered is gone.

    A delete is answered with the last state by some kinds: as it was before, or marked as deleted where nothing
    holds it, as a Pod without a node is. And a write that takes the last finalizer off an object being deleted
    removes it (but a Namespace has finalizers of its own, in its spec).
    """
    if entry.deletion_timestamp is None:
        return call.verb == "delete"
    grace = (entry.rare or {}).get("deletionGracePeriodSeconds")
    return not entry.finalizers and not grace and call.mapping.gvk.group_kind != _NAMESPACE
