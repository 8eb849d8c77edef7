"""Answers that come whole are cut apart; what they hold is what the parser would have found."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime.client.http1 import Connection, whole_answer
from ctrlruntime.client.response_headers import ResponseHeaders

pytestmark = pytest.mark.criterion("PF-2")

STATUS = b"HTTP/1.1 200 OK\r\n"
PLAIN = (
    STATUS
    + b'Audit-Id: 1\r\nContent-Type:application/json\r\nWARNING: 299 - "a, b"\r\n'
    + b'warning: 299 - "c"\r\nContent-Length: 4 \r\n\r\n{  }'
)


def answered(*parts: bytes) -> tuple[int, dict[str, str], list[str], bytes]:
    """What a connection returns for an answer that comes in these parts."""
    connection = Connection()
    connection.connection_made(_Wire())
    waiter = connection._send(b"GET", streamed=False, without_body=False)
    for part in parts:
        connection.get_buffer(-1)[: len(part)] = part
        connection.buffer_updated(len(part))
    status, headers, body = waiter.result()
    fields = {name.lower(): headers[name] for name in headers}
    return status, fields, headers.get_all("Warning"), body


class _Wire(asyncio.Transport):
    def write(self, data: object) -> None: ...

    def abort(self) -> None: ...


async def test_an_answer_means_the_same_whole_and_in_parts() -> None:
    found = answered(PLAIN)
    assert found == answered(PLAIN[:30], PLAIN[30:])
    assert found[0] == 200
    assert found[1]["content-type"] == "application/json"
    assert found[2] == ['299 - "a, b"', '299 - "c"']
    assert found[3] == b"{  }"


@pytest.mark.parametrize("status", [200, 201, 301, 404, 409, 429, 500, 503])
def test_every_status_with_a_body_is_taken(status: int) -> None:
    found = whole_answer(b"HTTP/1.1 %d Any Words\r\nContent-Length: 0\r\n\r\n" % status)
    assert found is not None
    assert (found.status, found.body) == (status, b"")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(STATUS + b"Content-Length: 3\r\n\r\n{}", id="the body is not whole"),
        pytest.param(STATUS + b"Content-Length: 1\r\n\r\n{}", id="more than the body"),
        pytest.param(STATUS + b"Content-Length: 2\r\n", id="the head is not whole"),
        pytest.param(STATUS + b"\r\n", id="no fields"),
        pytest.param(STATUS + b"X: y\r\n\r\n{}", id="no length"),
        pytest.param(
            STATUS + b"Content-Length: 2\r\ncontent-length: 2\r\n\r\n{}", id="two lengths"
        ),
        pytest.param(STATUS + b"Content-Length: 2, 2\r\n\r\n{}", id="a list of lengths"),
        pytest.param(STATUS + b"Content-Length: +2\r\n\r\n{}", id="no number"),
        pytest.param(STATUS + b"X: y\r\n Content-Length: 2\r\n\r\n{}", id="a folded line"),
        pytest.param(STATUS + b"Content-Length : 2\r\n\r\n{}", id="a space before the colon"),
        pytest.param(STATUS + b"X: \0\r\nContent-Length: 2\r\n\r\n{}", id="a zero byte"),
        pytest.param(
            STATUS + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}", id="chunks"
        ),
        pytest.param(
            STATUS + b"Connection: close\r\nContent-Length: 2\r\n\r\n{}", id="the last one"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", id="HTTP/1.0"),
        pytest.param(b"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n", id="204 has no body"),
        pytest.param(b"HTTP/1.1 100 Go\r\nContent-Length: 0\r\n\r\n", id="informational"),
        pytest.param(b"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n", id="no status"),
        pytest.param(b"\r\n\r\n", id="nothing"),
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(data: bytes) -> None:
    assert whole_answer(data) is None


@pytest.mark.parametrize(
    ("field", "special"),
    [
        (b"Content-Type: application/json\r\n", False),
        (b'Warning: 299 - "old"\r\n', True),
        (b"content-ENCODING: gzip\r\n", True),
    ],
)
def test_fields_of_an_answer_can_request_more(field: bytes, special: bool) -> None:
    found = whole_answer(STATUS + field + b"Content-Length: 0\r\n\r\n")
    assert found is not None
    assert found.special is special


def test_fields_are_read_when_one_is_wanted() -> None:
    headers = ResponseHeaders(lines=b"A: 1\r\nb:2\r\nA: 3\r\n")
    assert (len(headers), headers["a"], headers["B"], headers.get_all("a")) == (
        2,
        "1",
        "2",
        ["1", "3"],
    )
    assert "c" not in headers
