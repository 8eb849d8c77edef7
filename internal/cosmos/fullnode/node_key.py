"""The key that a node is known by to its peers."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from ctrlruntime.clock import random_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FILE = "node_key.json"
"""Key in the Secret, and name of the file in the node's folder `config`."""
_TYPE = "tendermint/PrivKeyEd25519"


class BadNodeKey(ValueError):
    """The text is no node key."""


@dataclass(frozen=True, slots=True)
class NodeKey:
    """One key, as it is stored."""

    text: str
    """The file, to be kept as it is."""
    id: str
    """What peers know the node by: the first 20 bytes of SHA-256 of the public key, as 40 hex digits."""

    def __repr__(self) -> str:
        return f"NodeKey(id={self.id!r})"

    @classmethod
    def make(cls) -> NodeKey:
        """Return a new one."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls.of(Ed25519PrivateKey.from_private_bytes(random_bytes(32)))

    @classmethod
    def of(cls, private: Ed25519PrivateKey) -> NodeKey:
        """Return the file that Comet reads: seed and public key, one after the other, as base64."""
        public = private.public_key().public_bytes_raw()
        value = base64.b64encode(private.private_bytes_raw() + public).decode()
        text = orjson.dumps({"priv_key": {"type": _TYPE, "value": value}}).decode()
        return cls(text, _id(public))

    @classmethod
    def parse(cls, text: str | bytes) -> NodeKey:
        """Return the key that a file holds. Raises BadNodeKey, which never repeats what is in the file."""
        given = text.decode(errors="replace") if isinstance(text, bytes) else text
        try:
            private = orjson.loads(given)["priv_key"]
            kind, raw = private["type"], base64.b64decode(private["value"], validate=True)
        except (orjson.JSONDecodeError, KeyError, TypeError, binascii.Error):
            raise BadNodeKey(
                f"{FILE} is not JSON with priv_key.type and priv_key.value (base64)"
            ) from None
        if kind != _TYPE or len(raw) != 64:
            raise BadNodeKey(f"the key in {FILE} is not of type {_TYPE} with 64 bytes")
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        public = Ed25519PrivateKey.from_private_bytes(raw[:32]).public_key().public_bytes_raw()
        if public != raw[32:]:
            raise BadNodeKey(f"the two halves of the key in {FILE} do not belong together")
        return cls(given, _id(public))


def _id(public: bytes) -> str:
    return hashlib.sha256(public).hexdigest()[:40]
