"""The header fields of an answer, as they came; decoded only where one is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

RawHeader = tuple[bytes, bytes]


class ResponseHeaders(Mapping[str, str]):
    """Names in any case. A field that came several times has the value that came first."""

    __slots__ = ("_first", "_lines", "_raw", "special")

    def __init__(
        self, raw: Sequence[RawHeader] = (), *, lines: bytes = b"", special: bool = True
    ) -> None:
        """``lines``: fields as they came, each with its end of line, where they were not taken apart.

        ``special``: whether there may be warnings, or a compressed body.
        """
        self.special = special
        self._raw = raw
        self._lines = lines
        self._first: dict[bytes, bytes] | None = None
        """The first value of each field by its name in lower case, once one was read."""

    def get_all(self, name: str) -> list[str]:
        """Return every value of one field, in the order in which they came."""
        wanted = name.lower().encode()
        if wanted not in self._by_name():
            return []
        return [_text(value) for found, value in self._raw if found.lower() == wanted]

    def __getitem__(self, name: str) -> str:
        return _text(self._by_name()[name.lower().encode()])

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower().encode() in self._by_name()

    def _by_name(self) -> dict[bytes, bytes]:
        if self._first is None:
            if self._lines:
                self._raw = [_field(line) for line in self._lines.splitlines()]
                self._lines = b""
            self._first = {name.lower(): value for name, value in reversed(self._raw)}
        return self._first

    def __iter__(self) -> Iterator[str]:
        self._by_name()
        return iter(dict.fromkeys(_text(name) for name, _ in self._raw))

    def __len__(self) -> int:
        return len(self._by_name())

    def __repr__(self) -> str:
        return f"<{len(self)} header fields>"


def _field(line: bytes) -> RawHeader:
    name, _, value = line.partition(b":")
    return name, value.lstrip(b"\t ")


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
