"""The record that admission keeps of approvals: who gave them, signed with a key of the manager. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from ctrlruntime.json import Json

LARGEST: Final = 128 * 1024
"""Characters of a record: one that is longer is not read."""
_PURPOSE: Final = b"ctrlruntime approvals v1\0"
"""What the key signs nothing else with."""


class Identity(msgspec.Struct, frozen=True):
    """Which object a record is of."""

    kind: str
    namespace: str
    name: str
    uid: str
    """Empty in the record of a creation, before the object has one."""

    @classmethod
    def of(
        cls, kind: str, metadata: Mapping[str, Json], namespace: str = "", name: str = ""
    ) -> Self:
        """Return the identity of an object; `namespace` and `name` where its metadata has none yet."""
        texts = [
            str(metadata.get("namespace") or namespace),
            str(metadata.get("name") or name),
            str(metadata.get("uid") or ""),
        ]
        return cls(kind, *texts)


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """Who gave an approval, and when, in seconds since 1970."""

    user: str
    at: int
    groups: tuple[str, ...] = ()
    """Those of the user's groups whose members might approve."""
    spec: str = ""
    """Digest of the spec at that time."""


class Author(msgspec.Struct, frozen=True):
    """Who last changed the spec, and the digest of what it then was."""

    user: str
    spec: str


class Consent(msgspec.Struct, frozen=True):
    """Who changed the protection, from which to which, by digest."""

    user: str
    at: int
    groups: tuple[str, ...]
    before: str
    after: str
    generation: int
    """Generation of the object before that change."""


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that admission recorded of one object."""

    of: Identity
    author: Author | None = None
    given: dict[str, dict[str, Given]] = {}
    """By annotation and item."""
    consent: Consent | None = None
    deletion: Author | None = None
    """Who requested the deletion."""
    protection: dict[str, Json] | None = None
    """What was in force after that, for the day on which the status is lost; of a part, whose approvals count."""


_DECODER: Final = msgspec.json.Decoder(Record)


def signed(record: Record, key: bytes) -> str:
    """Return the text of a record."""
    payload = msgspec.json.encode(record, order="sorted")
    return f"{payload.decode()} {_signature(payload, key)}"


def verified(text: str | None, key: bytes, identity: Identity, generation: int) -> Record | None:
    """Return the record of an object; None if there is none, or another has written or copied it.

    A record without a UID was made with the object, and is of its first generation alone.
    """
    if text is None or len(text) > LARGEST:
        return None
    payload, _, signature = text.rpartition(" ")
    if not hmac.compare_digest(_signature(payload.encode(), key).encode(), signature.encode()):
        return None
    record = _decoded(payload)
    if record is None or record.of == identity:
        return record
    first = not record.of.uid and generation <= 1
    return record if first and record.of == msgspec.structs.replace(identity, uid="") else None


def stated(text: str | None, identity: Identity) -> Record | None:
    """Return what is there as the record of an object, for readers without the key: it may make things wait, and permits nothing."""
    record = None if text is None or len(text) > LARGEST else _decoded(text.rpartition(" ")[0])
    return record if record is not None and record.of == identity else None


def _decoded(payload: str) -> Record | None:
    try:
        return _DECODER.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return None


def _signature(payload: bytes, key: bytes) -> str:
    return hmac.new(key, _PURPOSE + payload, hashlib.sha256).hexdigest()
