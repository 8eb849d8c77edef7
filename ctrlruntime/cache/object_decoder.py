"""From what the server sends to the entries that a store keeps, past what cannot be read or transformed."""

from collections.abc import Callable

import msgspec
from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.entry import Document, Entry, EntryDecoder, identity_of
from ctrlruntime.cache.informer_options import Transform
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.usercode import EXITS


class ObjectDecoder:
    """Decodes and transforms objects of one informer. An object that cannot be kept is reported, and costs no other.

    ``decoder`` may be replaced: what is decoded from then on is decoded by the new one.
    """

    def __init__(
        self,
        store: Store,
        decoder: EntryDecoder,
        transform: Transform | None,
        *,
        failed: Callable[[Exception], None],
        transform_failed: Callable[[], None],
        logger: FilteringBoundLogger,
    ) -> None:
        self.decoder = decoder
        self.transform = transform
        self._store = store
        self._failed = failed
        self._transform_failed = transform_failed
        self._log = logger

    def decode(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        """Return a new state of an object as it is to be kept; None if it cannot be."""
        entry = self._decode(body)
        return None if entry is None else self._transformed(entry)

    def held(self, document: Document) -> Entry | None:
        """Return the entry of the store if the document is that very state, as it is of our own writes."""
        identity = identity_of(document)
        if identity is None:
            return None
        kept = self._store.get_by_key((identity.namespace, identity.name))
        same = (
            kept is not None
            and kept.uid == identity.uid
            and kept.resource_version == identity.resource_version != ""
        )
        return kept if same else None

    def decode_listed(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        """Return an object that exists: where its state cannot be kept, the one that the store has."""
        entry = self._decode(body)
        if entry is None:
            return None
        return self._transformed(entry) or self._kept(entry)

    def decode_deleted(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        """Return the last state of a deleted object: where it cannot be kept, what the store has of it."""
        entry = self._decode(body)
        if entry is None:
            return None
        transformed = self._transformed(entry)
        if transformed is not None:
            return transformed
        last = self._kept(entry)
        if last is None:  # nothing is left to delete but a tombstone: identity is enough
            last = msgspec.structs.replace(entry, fields={}, labels={}, annotations={}, size=0)
        return msgspec.structs.replace(last, resource_version=entry.resource_version)

    def _kept(self, entry: Entry) -> Entry | None:
        kept = self._store.get_by_key(entry.key)
        return kept if kept is not None and kept.uid == entry.uid else None

    def _decode(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        try:
            if isinstance(body, dict):
                return self.decoder.take(body)
            return self.decoder.decode(body)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
            self._failed(error)
            self._log.error("an object cannot be read and is left out", error=str(error))
            return None

    def _transformed(self, entry: Entry) -> Entry | None:
        if self.transform is None:
            return entry
        key = entry.key
        try:
            transformed = self.transform(entry)
            if isinstance(transformed, Entry):
                return transformed
            raise TypeError(f"the transform returned {type(transformed).__name__}, not an Entry")
        except EXITS:
            raise
        except BaseException as error:  # noqa: BLE001 - user code: it costs this object alone
            self._transform_failed()
            self._failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            self._log.error(
                "a transform failed; this state of the object is left out", key=key, exc_info=error
            )
            return None
