"""What a server answers is in no text: a status, an event and a log have lengths and types of it (S-F5)."""

from __future__ import annotations

import io
import json
import tarfile

import pytest

from tests.client.wire import WireServer
from tests.hostile.outbound_doors import DOORS

MARK = "wJalrXUtnFEMI"
HEIGHT = {"sync_info": {"latest_block_height": MARK, "catching_up": False}}
NETWORK = {
    "sync_info": {"latest_block_height": "7", "catching_up": False},
    "node_info": {"network": MARK},
}
SAMPLE = {"metric": {MARK: MARK}, "value": [1.0, MARK]}
DOCUMENTS = {
    "values": {"a": MARK, "b": [MARK, 1], "c": {MARK: 1}},
    "an error": {"error": MARK, "status": "error", "errors": [{"title": MARK, "detail": MARK}]},
    "a hook": {"healthy": False, "message": MARK},
    "a good hook": {"healthy": True, "message": MARK},
    "samples": {"status": "success", "data": {"resultType": "vector", "result": [SAMPLE] * 2}},
    "another result": {"status": "success", "data": {"resultType": MARK, "result": MARK}},
    "a height": {"result": HEIGHT},
    "a network": {"result": NETWORK},
    "an error of JSON-RPC": {"error": {"message": MARK, "data": MARK}},
    "a disk": {"error": MARK, "dir": MARK},
    "no JSON": None,
}


def archive() -> bytes:
    """Return an archive with a path that is not allowed."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as made:
        made.addfile(tarfile.TarInfo(f"/{MARK}"))
    return file.getvalue()


def reply(status: str, body: bytes, fields: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{fields}\r\n"
    return head.encode() + body


BODIES = {name: MARK if it is None else json.dumps(it) for name, it in DOCUMENTS.items()}
ANSWERS = {
    **{
        f"{n}, {code}": reply(code, b.encode())
        for n, b in BODIES.items()
        for code in ("200 OK", f"500 {MARK}")
    },
    "a redirect": reply("302 Found", b"", f"Location: http://127.0.0.1:1/{MARK}\r\n"),
    "a redirect to a file": reply("302 Found", b"", f"Location: file:///{MARK}\r\n"),
    "no HTTP": MARK.encode() + b"\r\n\r\n",
    "a bad header": reply("200 OK", b"", f"{MARK} {MARK}\r\n"),
    "an archive": reply("200 OK", archive()),
}


@pytest.mark.criterion("S-F5")
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("door", DOORS)
async def test_no_text_has_what_a_server_answered(
    door: str, answer: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    server = WireServer()
    server._scripts = [server.answers(ANSWERS[answer], keep=False)]
    async with server:
        text = await DOORS[door](server.url)
    assert server.connections >= 1
    out, err = capfd.readouterr()
    assert MARK not in text + caplog.text + out + err
