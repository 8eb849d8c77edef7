"""How much of an API server's answers is kept: a server never decides how much memory its client takes.

What is too large is an error of that request, after which nothing of it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.client.errors import TransportError

MIB: Final = 2**20
LARGEST_HEAD: Final = 256 * 1024
"""Bytes of an answer that bring no body: its head, framing of chunks, trailers, informational answers."""
SMALL_PIECE: Final = 64
"""Bytes that a piece of a body counts for at least: 16 MiB in chunks of a byte are 20 seconds of the processor."""
EMPTY_PAGE: Final = 64 * 1024
"""Bytes that a page of a list counts for at least, so that a list of empty pages ends as well."""
_SHRINK: Final = 8


class AnswerTooLarge(TransportError):
    """The answer exceeds the limits of its client. The server may have carried out what was requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """Bytes that are kept of what a server sends."""

    body: int
    """Of one answer: as it came and decompressed. A list whose page is larger is read in smaller pages."""
    line: int
    """Of one event of a watch: an object has 1.5 MiB by the API server's own limit, and less than twice that as JSON."""
    pages: int
    """Of all pages of one list."""
    total: AnswerTotal | None = None
    """Of all answers at once that share it; None is no such limit."""

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below 1."""
        if min(self.body, self.line, self.pages) < 1:
            raise ValueError("limits of answers are at least 1 byte")

    def answer_size(self, server: object) -> AnswerSize:
        return AnswerSize(self.body, self.total, server)

    def line_size(self, server: object) -> AnswerSize:
        """Return the size of one event of a watch."""
        return AnswerSize(self.line, self.total, server, "an event of a watch")


@dataclass(slots=True, eq=False)
class AnswerTotal:
    """The bytes of several servers' answers that are under way at once, shared among those servers.

    Above the limit an answer fails whose server has more than an equal share, so that one server cannot take
    the room of the others; together they have at most twice the limit.
    """

    limit: int
    _held: dict[object, int] = field(default_factory=dict, repr=False)
    _sum: int = 0

    @property
    def held(self) -> int:
        """Bytes under way."""
        return self._sum

    def take(self, server: object, size: int) -> bool:
        """Count bytes for a server. Return False, and count nothing, where they are too many."""
        own = self._held.get(server, 0) + size
        others = len(self._held) + (server not in self._held)
        if self._sum + size > self.limit and own > self.limit // others:
            return False
        self._held[server] = own
        self._sum += size
        return True

    def give_back(self, server: object, size: int) -> None:
        """Count them no more."""
        if not size:
            return
        self._sum -= size
        left = self._held.pop(server, 0) - size
        if left > 0:
            self._held[server] = left


@dataclass(slots=True, eq=False)
class AnswerSize:
    """The size of one answer, or of one line of a stream, as it grows. Close it once that was taken or is given up."""

    limit: int
    total: AnswerTotal | None = None
    server: object = None
    what: str = "the answer"
    size: int = 0

    def add(self, count: int) -> None:
        """Raise AnswerTooLarge."""
        if self.size + count > self.limit:
            raise AnswerTooLarge(
                f"{self.what} has more than {in_mib(self.limit)}, which is the limit"
            )
        total = self.total
        if total is not None and not total.take(self.server, count):
            raise AnswerTooLarge(
                f"the answers of all such servers together have more than {in_mib(total.limit)}, "
                "which is the limit, and those of this server the largest part"
            )
        self.size += count

    def close(self) -> None:
        """Count it no more. May be called again."""
        if self.total is not None:
            self.total.give_back(self.server, self.size)
        self.size = 0


def in_mib(size: int) -> str:
    """Return a number of bytes for a message."""
    return f"{size / MIB:g} MiB" if size >= MIB else f"{size:,} bytes"


OWN: Final = AnswerLimits(body=512 * MIB, line=64 * MIB, pages=4096 * MIB)
"""Of a server that the operator of this process chose: the cluster it runs in, a kubeconfig file."""
FOREIGN: Final = AnswerLimits(
    body=16 * MIB, line=8 * MIB, pages=256 * MIB, total=AnswerTotal(64 * MIB)
)
"""Of a server that a kubeconfig from the network names: a data plane, a cluster by a Secret."""


@dataclass(slots=True)
class PageLimit:
    """How many objects the next page of a list requests, and how much the list may still have."""

    limits: AnswerLimits
    limit: int
    """Objects of a page; 0 is all."""
    _taken: int = 0

    def count(self, page: bytes) -> None:
        """Count a page. Raises AnswerTooLarge once all of them are too large."""
        self._taken += max(len(page), EMPTY_PAGE)
        if self._taken > self.limits.pages:
            raise AnswerTooLarge(
                f"the pages of one list have more than {in_mib(self.limits.pages)}, which is the limit"
            )

    def shrink(self) -> bool:
        """Request less in the next page, after one that was too large. False where that cannot be."""
        if self.limit <= 1:
            return False
        self.limit = max(1, self.limit // _SHRINK)
        return True
