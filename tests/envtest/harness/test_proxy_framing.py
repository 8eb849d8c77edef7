"""Bodies keep their content however the network cuts them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.envtest.proxy.framing import (
    LAST_CHUNK,
    MAX_HEAD,
    ChunkedBody,
    LengthBody,
    MalformedMessage,
    chunk,
    request_body,
    response_body,
    take_head,
)

PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=6)
CUTS = st.lists(st.integers(0, 400), max_size=8)
NEXT = b"HTTP/1.1 200 OK\r\n"


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    points = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(points)]


@given(PIECES, CUTS, st.sampled_from([b"", b"Trailer: x\r\n"]))
def test_chunks_give_their_content_and_nothing_of_the_next_message(
    pieces: list[bytes], cuts: list[int], trailer: bytes
) -> None:
    wire = b"".join(map(chunk, pieces)) + b"0\r\n" + trailer + b"\r\n"
    for payload_wanted in (True, False):
        body, buffer, got = ChunkedBody(), bytearray(), b""
        for part in cut(wire + NEXT, cuts):
            buffer += part
            got += body.take_payload(buffer) if payload_wanted else body.take(buffer)
        assert body.done
        assert got == (b"".join(pieces) if payload_wanted else wire)
        assert bytes(buffer) == NEXT


@given(st.binary(max_size=300), CUTS)
def test_a_body_of_known_length_ends_there(content: bytes, cuts: list[int]) -> None:
    body, buffer, got = LengthBody(len(content)), bytearray(), b""
    for part in cut(content + NEXT, cuts):
        buffer += part
        got += body.take(buffer)
    assert (got, body.done, bytes(buffer)) == (content, True, NEXT)


def test_a_head_is_taken_whole_or_not_at_all() -> None:
    buffer = bytearray(b"GET / HTTP/1.1\r\nHost:  x \r\nA: b:c\r\n\r")
    assert take_head(buffer) is None
    buffer += b"\nrest"
    head = take_head(buffer)
    assert head is not None
    assert head.start == ["GET", "/", "HTTP/1.1"]
    assert head.headers == {b"host": b"x", b"a": b"b:c"}
    assert bytes(buffer) == b"rest"


@pytest.mark.parametrize(
    ("method", "status", "headers", "length"),
    [("HEAD", 200, b"Content-Length: 5", 0), ("GET", 204, b"A: b", 0), ("GET", 304, b"A: b", 0),
     ("GET", 200, b"Content-Length: 5", 5)],
)  # fmt: skip
def test_the_length_of_an_answer_follows_its_status_and_method(
    method: str, status: int, headers: bytes, length: int
) -> None:
    head = take_head(bytearray(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n"))
    assert head is not None
    body = response_body(head, status, method)
    assert isinstance(body, LengthBody)
    assert body.left == length


@pytest.mark.parametrize("bad", [b"Content-Length: -1", b"Content-Length: x", b"no colon"])
def test_what_is_not_http_is_refused(bad: bytes) -> None:
    def read() -> None:
        head = take_head(bytearray(b"GET / HTTP/1.1\r\n" + bad + b"\r\n\r\n"))
        request_body(head) if head is not None else pytest.fail("no head")

    with pytest.raises(MalformedMessage):
        read()


def test_a_head_without_end_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="longer than"):
        take_head(bytearray(MAX_HEAD + 1))


def test_a_chunk_size_that_is_no_number_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        ChunkedBody().take(bytearray(b"zz\r\n" + LAST_CHUNK))
