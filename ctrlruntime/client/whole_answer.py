"""Answers that come whole in one read, as nearly all answers to requests do: cut apart, not parsed.

What is not plainly such an answer is left to the parser, which reads all of HTTP/1.1 and costs several calls for each field.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_VERSION: Final = b"HTTP/1.1 "
_STATUS: Final = slice(len(_VERSION), len(_VERSION) + 3)
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_WITHOUT_BODY: Final = frozenset({b"204", b"205", b"304"})


class WholeAnswer(NamedTuple):
    """Status, the lines of the head's fields, and the body."""

    status: int
    fields: bytes
    special: bool
    """Whether there may be warnings, or a compressed body."""
    body: bytes


def whole_answer(data: bytes) -> WholeAnswer | None:
    """Return the answer that ``data`` is, no more and no less; None where only the parser can tell.

    That is so of chunks, of several lengths, of folded lines, and where ``Connection`` has a say in whether more may
    follow.
    """
    start, line = data.find(_END), data.find(b"\r\n")
    status = data[_STATUS]
    if start <= line or data[: _STATUS.start] != _VERSION or status in _WITHOUT_BODY:
        return None
    head = data[line:start].lower()
    length = head.find(_LENGTH)
    if (
        length < 0
        or head.count(b"content-length") != 1
        or b"\nconnection" in head
        or b"\ntransfer-encoding" in head
        or b"\n " in head
        or b"\n\t" in head
        or b"\0" in head
    ):
        return None
    digits = head[length + len(_LENGTH) :].partition(b"\r\n")[0].strip(b" \t")
    body = data[start + len(_END) :]
    if not digits.isdigit() or not status.isdigit() or len(body) != int(digits):
        return None
    code = int(status)
    if not 200 <= code < 600:
        return None
    special = b"\nwarning" in head or b"\ncontent-encoding" in head
    return WholeAnswer(code, data[line + 2 : start + 2], special, body)
