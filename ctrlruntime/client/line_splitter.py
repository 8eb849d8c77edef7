"""Splitting a byte stream into lines, however long: an object of several MiB is one line of a watch."""


class LineSplitter:
    """Feed chunks, get whole lines without their newline. Empty lines are dropped."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        if b"\n" not in chunk:
            if chunk:
                self._parts.append(chunk)
            return []
        lines = chunk.split(b"\n")
        if self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        tail = lines.pop()
        if tail:
            self._parts.append(tail)
        return [line for line in lines if line]

    @property
    def rest(self) -> bytes:
        """What has come without a newline yet: at the end of a stream, a line cut off."""
        return b"".join(self._parts)
