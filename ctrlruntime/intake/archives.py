"""Members of archives from outside, within limits of number and size."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from ctrlruntime.intake.limits import LimitExceeded, Limits


def archive_members(
    archive: tarfile.TarFile, limits: Limits, what: str = "the archive"
) -> Iterator[tarfile.TarInfo]:
    """Yield the members of an open archive in order, as long as their number and sizes are within the limits.

    The sizes are those that the headers declare; ``tarfile`` reads no more than that of a member. Raises LimitExceeded.
    """
    size = 0
    for count, member in enumerate(archive, 1):
        if count > limits.items:
            raise LimitExceeded(what, "items", limits.items)
        size += max(0, member.size)
        limits.check_bytes(size, what)
        yield member
