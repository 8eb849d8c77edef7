"""Compressed streams from outside, inflated within a limit."""

from __future__ import annotations

import zlib
from typing import Final

from ctrlruntime.intake.limits import LimitExceeded, Limits, Malformed

_AUTOMATIC: Final = zlib.MAX_WBITS | 32  # gzip or zlib, by the header
_PIECE: Final = 2**18


class BoundedInflater:
    """Inflates a gzip or zlib stream that comes in pieces; at most ``limits.bytes`` come out of all of them."""

    def __init__(self, limits: Limits, what: str = "the answer") -> None:
        self._stream = zlib.decompressobj(wbits=_AUTOMATIC)
        self._limits = limits
        self._what = what
        self._total = 0

    @property
    def ended(self) -> bool:
        """Whether the whole stream was there."""
        return self._stream.eof

    def feed(self, piece: bytes) -> bytes:
        """Return what is inflated of one more piece. Raises LimitExceeded and Malformed."""
        found: list[bytes] = []
        while piece and not self._stream.eof:
            try:
                part = self._stream.decompress(piece, _PIECE)
            except zlib.error as error:
                raise Malformed(f"{self._what} cannot be decompressed: {error}") from None
            self._total += len(part)
            if self._total > self._limits.bytes:
                raise LimitExceeded(self._what, "bytes", self._limits.bytes)
            found.append(part)
            piece = self._stream.unconsumed_tail
        return b"".join(found)


def inflate(data: bytes, limits: Limits, what: str = "the answer") -> bytes:
    """Return what a whole gzip or zlib stream holds. Raises LimitExceeded, and Malformed where it is cut off."""
    inflater = BoundedInflater(limits, what)
    found = inflater.feed(data)
    if not inflater.ended:
        raise Malformed(f"{what} is cut off")
    return found
