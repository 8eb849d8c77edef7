"""Signatures of what the manager writes where people may write too: only this process makes and accepts them.

The key is made at the start and kept nowhere, so it cannot be read or stolen. What has to outlive the process is
confirmed by a status, which people may not write.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

_KEY: Final = secrets.token_bytes(32)


def sign(place: str, text: str) -> str:
    """Return the signature of a text that is written at a place, such as `namespace/name`; 64 hex digits."""
    return hmac.new(_KEY, f"{place}\n{text}".encode(), hashlib.sha256).hexdigest()


def is_signed(place: str, text: str, signature: str) -> bool:
    """Whether this process signed the text for that place."""
    return hmac.compare_digest(sign(place, text).encode(), signature.encode())
