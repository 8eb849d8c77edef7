"""Splitting a byte stream into lines: an object of several MiB is one line of a watch."""

from ctrlruntime.client.answer_limits import AnswerSize


class LineSplitter:
    """Feed chunks, get whole lines without their newline. Empty lines are dropped."""

    __slots__ = ("_parts", "_size")

    def __init__(self, size: AnswerSize) -> None:
        """`size` limits one line."""
        self._parts: list[bytes] = []
        self._size = size

    def feed(self, chunk: bytes) -> list[bytes]:
        """Raise AnswerTooLarge for a line above the limit."""
        if b"\n" not in chunk:
            self._keep(chunk)
            return []
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if self._parts:
            self._keep(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size.close()
        self._keep(tail)
        return [line for line in lines if line]

    def _keep(self, part: bytes) -> None:
        if part:
            self._size.add(len(part))
            self._parts.append(part)

    @property
    def rest(self) -> bytes:
        """What has come without a newline yet: at the end of a stream, a line cut off."""
        return b"".join(self._parts)
