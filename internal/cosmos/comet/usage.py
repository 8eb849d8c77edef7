"""How full a node's disk is, as the container beside the node reports at /disk. Pure."""

from dataclasses import dataclass
from typing import Final

import msgspec

from ctrlruntime.intake import describe_value
from internal.cosmos.comet.failures import Failure, NodeError

PATH: Final = "disk"


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """A file system, in bytes."""

    total: int
    """Its size, more than 0."""
    free: int
    """What is free of it."""

    @property
    def percent(self) -> int:
        """What is used of it, in percent, rounded half up."""
        return ((self.total - self.free) * 200 + self.total) // (self.total * 2)


class _Answer(msgspec.Struct, gc=False):
    all_bytes: int = 0
    free_bytes: int = 0
    error: str = ""


_decoder = msgspec.json.Decoder(_Answer)


def parse_usage(body: bytes) -> DiskUsage:
    """Return the usage in an answer. Raises NodeError."""
    try:
        answer = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _invalid(str(error)) from None
    if answer.error:
        raise NodeError(
            Failure.REFUSED,
            f"The usage of the disk is not known: the container beside the node answered with an error, {describe_value(answer.error)}.",
        )
    if answer.all_bytes <= 0 or not 0 <= answer.free_bytes <= answer.all_bytes:
        raise _invalid("its numbers are no sizes of a disk")
    return DiskUsage(answer.all_bytes, answer.free_bytes)


def _invalid(why: str) -> NodeError:
    return NodeError(Failure.INVALID, f"The usage of the disk cannot be read: {why}")
