"""Answers of API servers are bounded, also after decompression, and an unreadable one fails that plane alone (S-F8)."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime.client.answer_limits import FOREIGN, OWN, AnswerLimits, AnswerTooLarge, AnswerTotal
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import WriteOutcomeUnknown
from ctrlruntime.client.kubeconfig import Kubeconfig
from ctrlruntime.client.transport import Transport, TransportOptions
from tests.client.wire import WireServer
from tests.hostile.measure import Door, measured
from tests.hostile.plane_answers import LIST, PLANE, WATCH, serving

pytestmark = pytest.mark.criterion("S-F8")
ATTACKS = [(door, shape) for door in (PLANE, WATCH, LIST) for shape in door.shapes]


@pytest.mark.parametrize(("door", "shape"), ATTACKS, ids=[f"{d.name}-{s}" for d, s in ATTACKS])
async def test_an_answer_costs_its_own_request_alone(door: Door, shape: str) -> None:
    found = await measured(door, shape)
    assert (found.error, found.neighbour) == ("", "")
    assert found.peak_mib < 200
    assert FOREIGN.total is not None
    assert FOREIGN.total.held == 0, "bytes of an answer still count"


async def test_a_page_that_is_too_large_is_requested_with_fewer_objects() -> None:
    server = WireServer()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await server.request(reader)
            count = int(head.partition("limit=")[2].split("&")[0].split(" ")[0])
            body = b'{"metadata":{},"items":[' + b",".join([b'"12345678"'] * count) + b"]}"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    server._scripts = [script]
    limits = AnswerLimits(body=1000, line=100, pages=10**6)
    async with server, transport(server, limits) as client:
        [page] = [page async for page in client.list_pages("/x", limit=500)]
    assert page.count(b"12345678") == 62


async def test_a_write_whose_answer_is_too_large_may_have_been_carried_out() -> None:
    limits = AnswerLimits(body=10, line=10, pages=10)
    async with serving("", lambda: [b"a" * 20]) as server, transport(server, limits) as client:
        with pytest.raises(WriteOutcomeUnknown, match="more than 10 bytes"):
            await client.request("POST", "/x", body=b"{}")
        with pytest.raises(AnswerTooLarge, match=r"GET /x: .*more than 10 bytes"):
            await client.request("GET", "/x")


async def test_a_kubeconfig_from_the_network_leads_to_a_foreign_server() -> None:
    content = b"""{current-context: a, clusters: [{name: a, cluster: {server: "https://a"}}],
        contexts: [{name: a, context: {cluster: a}}]}"""
    config = Config.of_kubeconfig(Kubeconfig.parse(content, "Secret x"))
    async with Transport(config) as foreign, Transport(Config(host="https://a")) as own:
        assert (foreign.limits, own.limits) == (FOREIGN, OWN)


def test_servers_share_what_all_of_them_may_send() -> None:
    total = AnswerTotal(100)
    assert total.take("greedy", 90)
    assert not total.take("greedy", 20), "above its half and above all"
    assert total.take("modest", 30), "below its half"
    total.give_back("greedy", 90)
    total.give_back("modest", 30)
    assert total.held == 0


def transport(server: WireServer, limits: AnswerLimits) -> Transport:
    """Return one with these limits."""
    return Transport(Config(host=server.url), TransportOptions(limits=limits))
