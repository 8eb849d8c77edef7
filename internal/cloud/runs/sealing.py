"""Outputs that must not be seen, made unreadable for all who lack the key of their run.

A run has no rights on any API, and its last words can be read by everybody who may look at Pods. So
its secret outputs are among them encrypted, with a key that is in the Secret with its input.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import orjson

from ctrlruntime.clock import random_bytes

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["CannotOpen", "new_key", "open_sealed", "seal"]

_NONCE: Final = 12
_LARGEST: Final = 1 << 20


class CannotOpen(ValueError):
    """Sealed with another key, for another run, or damaged."""


def new_key() -> str:
    """256 bits, as text."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return base64.b64encode(AESGCM.generate_key(256)).decode()


def seal(values: Mapping[str, str], key: str, run_id: str) -> str:
    """Compressed, encrypted (AES-256-GCM) and bound to the run. Raises ValueError for a key that is none."""
    nonce = random_bytes(_NONCE)
    plain = zlib.compress(orjson.dumps(dict(values)), 9)
    closed = _cipher(key).encrypt(nonce, plain, run_id.encode())
    return base64.b64encode(nonce + closed).decode()


def open_sealed(text: str, key: str, run_id: str) -> dict[str, str]:
    """Return what was sealed. Raises CannotOpen."""
    from cryptography.exceptions import InvalidTag

    try:
        data = base64.b64decode(text, validate=True)
        plain = _cipher(key).decrypt(data[:_NONCE], data[_NONCE:], run_id.encode())
        values = orjson.loads(zlib.decompressobj().decompress(plain, _LARGEST))
    except (ValueError, binascii.Error, InvalidTag, zlib.error) as error:
        raise CannotOpen(f"sealed outputs of run {run_id} cannot be opened: {error!r}") from error
    if not isinstance(values, dict):
        raise CannotOpen(f"sealed outputs of run {run_id} are no mapping")
    return {str(name): str(value) for name, value in values.items()}


def _cipher(key: str) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(base64.b64decode(key, validate=True))
