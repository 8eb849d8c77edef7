"""Bodies and files from outside, read within limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from pathlib import Path

from ctrlruntime.intake.limits import LimitExceeded, Limits


async def read_body(chunks: AsyncIterable[bytes], limits: Limits, what: str = "the body") -> bytes:
    """Return all chunks as one. Raises LimitExceeded for too many bytes, or seconds until the last of them."""
    found: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in chunks:
                size += len(chunk)
                limits.check_bytes(size, what)
                found.append(chunk)
    except TimeoutError:
        raise LimitExceeded(what, "seconds", limits.seconds) from None
    return b"".join(found)


def read_file(path: Path, limits: Limits, what: str | None = None) -> bytes:
    """Return a file's content; of a device or a growing file no more than the limit is read. Raises LimitExceeded."""
    with path.open("rb") as file:
        found = file.read(limits.bytes + 1)
    limits.check_bytes(len(found), what or str(path))
    return found
