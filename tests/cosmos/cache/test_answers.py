"""What nodes answer, well or not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from internal.cosmos.comet.address import Address, address_of
from internal.cosmos.comet.client import LIMIT, NodeClient
from internal.cosmos.comet.failures import Failure, NodeError
from internal.cosmos.comet.status import NodeStatus, parse_status, require_network
from internal.cosmos.comet.usage import DiskUsage, parse_usage
from tests.cosmos.servers.comet import CometNodes

HOST = "127.130.9.1"


def status(**info: object) -> bytes:
    given = {"latest_block_height": "12", "catching_up": False, **info}
    return json.dumps({"jsonrpc": "2.0", "id": -1, "result": {"sync_info": given}}).encode()


class TestStatus:
    @pytest.mark.parametrize("height", ["0", "12", "9223372036854775807", 12])
    def test_heights_are_numbers_in_texts(self, height: str | int) -> None:
        said = parse_status(status(latest_block_height=height, catching_up=True))
        assert said == NodeStatus(int(height), True)

    @pytest.mark.parametrize(
        "height",
        ["", "-1", "1.5", "1e3", " 12", "0x10", "١٢", "9223372036854775808", "9" * 400, None, -1],
        ids=ascii,
    )
    def test_other_heights_are_nonsense(self, height: object) -> None:
        with pytest.raises(NodeError) as caught:
            parse_status(status(latest_block_height=height))
        assert caught.value.failure is Failure.INVALID

    @pytest.mark.criterion("COSMOS-A4-10")
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{}",
            b"null",
            b"[]",
            b"<html>",
            b"\xff\xfe",
            b'{"result":{}}',
            b'{"result":null}',
            b'{"result":{"sync_info":{"catching_up":false}}}',
            b'{"result":{"sync_info":{"latest_block_height":"1"}}}',
            b'{"result":{"sync_info":{"latest_block_height":"1","catching_up":"no"}}}',
            b'{"result":' * 5000,
            b"[" * 100_000,
        ],
        ids=[f"body {number}" for number in range(13)],
    )
    def test_nonsense_reports_it(self, body: bytes) -> None:
        with pytest.raises(NodeError) as caught:
            parse_status(body)
        assert caught.value.failure is Failure.INVALID
        assert len(str(caught.value)) <= 200

    @pytest.mark.criterion("COSMOS-A4-10")
    def test_an_error_of_the_node_is_reported(self) -> None:
        body = b'{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error"}}'
        with pytest.raises(NodeError, match="code -32603") as caught:
            parse_status(body)
        assert caught.value.failure is Failure.REFUSED


SYNC: dict[str, object] = {"latest_block_height": "12", "catching_up": False}
NODE: dict[str, object] = {"id": "AB", "network": "pacific-1"}
ENVELOPE: dict[str, object] = {"jsonrpc": "2.0", "id": -1}


@pytest.mark.criterion("N-A9")
@pytest.mark.parametrize(
    "shape",
    [
        {**ENVELOPE, "result": {"node_info": NODE, "sync_info": SYNC}},
        {"node_info": NODE, "sync_info": SYNC, "validator_info": {}},
        {"node_info": NODE, "sync_info": {**SYNC, "latest_block_height": 12}},
        {**ENVELOPE, "result": None, "node_info": NODE, "sync_info": SYNC},
    ],
    ids=["in an envelope", "flat, as Sei's", "flat, with a number", "flat, beside no result"],
)
def test_a_status_is_read_with_an_envelope_and_without(shape: dict[str, object]) -> None:
    found = parse_status(json.dumps(shape).encode())
    assert (found.height, found.catching_up) == (12, False)
    assert (found.network, found.node_id) == ("pacific-1", "ab")
    with pytest.raises(NodeError, match="a string of 9 characters"):
        require_network(found, "hub-1")


@pytest.mark.criterion("N-A9")
@pytest.mark.parametrize(
    "wrap", [lambda info: {"result": info}, lambda info: info], ids=["result", "flat"]
)
@pytest.mark.parametrize(
    "info",
    [
        {},
        {"sync_info": None},
        {"sync_info": []},
        {"sync_info": {}},
        {"sync_info": {"catching_up": False}},
        {"sync_info": {"latest_block_height": "12"}},
        {"sync_info": {**SYNC, "catching_up": None}},
        {"sync_info": {**SYNC, "catching_up": "false"}},
        {"sync_info": {**SYNC, "catching_up": 0}},
        {"sync_info": {**SYNC, "latest_block_height": "0xc"}},
        {"sync_info": {**SYNC, "latest_block_height": 1.5}},
        {"result": {"sync_info": SYNC}, "error": {"message": "no"}},
        {"result": {"result": {"sync_info": SYNC}}},
        {"SyncInfo": SYNC},
    ],
    ids=str,
)
def test_what_cannot_be_read_of_a_status_is_unknown_and_never_in_sync(
    info: dict[str, object], wrap: Callable[[object], object]
) -> None:
    with pytest.raises(NodeError):
        parse_status(json.dumps(wrap(info)).encode())


@pytest.mark.criterion("N-A9")
def test_two_answers_in_one_are_no_answer() -> None:
    body = {"result": {"sync_info": SYNC}, "sync_info": {**SYNC, "catching_up": True}}
    with pytest.raises(NodeError, match="two"):
        parse_status(json.dumps(body).encode())


class TestUsage:
    @pytest.mark.criterion("COSMOS-A5-2")
    @pytest.mark.parametrize(
        ("total", "free", "percent"),
        [(100, 60, 40), (100, 0, 100), (100, 100, 0), (1000, 805, 20), (1000, 806, 19), (3, 1, 67)],
    )
    def test_percent_is_rounded_half_up(self, total: int, free: int, percent: int) -> None:
        assert DiskUsage(total, free).percent == percent

    @pytest.mark.criterion("COSMOS-A4-10")
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{}",
            b'{"all_bytes":0,"free_bytes":0}',
            b'{"all_bytes":10,"free_bytes":11}',
            b'{"all_bytes":10,"free_bytes":-1}',
            b'{"all_bytes":"10","free_bytes":"1"}',
        ],
        ids=[f"body {number}" for number in range(6)],
    )
    def test_nonsense_reports_it(self, body: bytes) -> None:
        with pytest.raises(NodeError) as caught:
            parse_usage(body)
        assert caught.value.failure is Failure.INVALID

    def test_what_the_container_reports_is_reported(self) -> None:
        with pytest.raises(NodeError, match="a string of 14 characters"):
            parse_usage(b'{"dir":"/x","error":"no such folder"}')


class TestAddress:
    @pytest.mark.criterion("COSMOS-A4-9")
    def test_ports_are_found_by_name(self) -> None:
        containers = [
            {"name": "other", "ports": [{"name": "rpc", "containerPort": 1}]},
            {"name": "node", "ports": [{"name": "p2p", "containerPort": 2}, {"name": "rpc", "containerPort": 3}]},
            {"name": "healthcheck", "ports": [{"name": "health", "containerPort": 4}]},
        ]  # fmt: skip
        found = address_of({"containers": containers}, {"podIP": "10.0.0.1"})
        urls = str(found.status), str(found.usage)
        assert urls == ("http://10.0.0.1:3/status", "http://10.0.0.1:4/disk")

    def test_ports_have_defaults_and_newer_addresses_brackets(self) -> None:
        found = address_of({"containers": [{"name": "node"}]}, {"podIP": "fd00::1"})
        urls = str(found.status), str(found.usage)
        assert urls == ("http://[fd00::1]:26657/status", "http://[fd00::1]:1251/disk")

    @pytest.mark.criterion("COSMOS-A4-9")
    def test_a_pod_may_have_none(self) -> None:
        assert address_of({}, {}).host == ""


class TestClient:
    @pytest.fixture
    async def comet(self) -> AsyncIterator[CometNodes]:
        async with CometNodes.start() as nodes:
            nodes.place(HOST, "hub-0")
            yield nodes

    @pytest.fixture
    async def client(self) -> AsyncIterator[NodeClient]:
        client = NodeClient(deadline=30.0)
        yield client
        await client.close()

    @pytest.fixture
    def address(self, comet: CometNodes) -> Address:
        return Address(HOST, comet.port, comet.port)

    async def test_status_and_usage(
        self, comet: CometNodes, client: NodeClient, address: Address
    ) -> None:
        comet.node("hub-0").catching_up = True
        assert await client.status(address) == NodeStatus(100, True)
        usage = await client.usage(address, "/home/operator/cosmos")
        assert usage.percent == 40
        assert comet.folders["default", "hub-0"] == "/home/operator/cosmos"

    @pytest.mark.parametrize(
        ("fields", "failure"),
        [
            ({"unreachable": True}, Failure.UNREACHABLE),
            ({"error": "not ready"}, Failure.REFUSED),
            ({"body": b"{}", "code": 503}, Failure.REFUSED),
            ({"body": b"", "code": 302, "headers": {"Location": "/disk"}}, Failure.REFUSED),
            ({"body": b"nonsense"}, Failure.INVALID),
            ({"body": status() + b" " * LIMIT}, Failure.INVALID),
        ],
        ids=["unreachable", "error", "code", "redirect", "nonsense", "large"],
    )
    async def test_what_can_go_wrong(
        self,
        comet: CometNodes,
        client: NodeClient,
        address: Address,
        fields: dict[str, Any],
        failure: Failure,
    ) -> None:
        for name, value in fields.items():
            setattr(comet.node("hub-0"), name, value)
        with pytest.raises(NodeError) as caught:
            await client.status(address)
        assert caught.value.failure is failure
        assert HOST not in str(caught.value)
        assert comet.disk_asked.total() == 0  # nobody followed where it led

    async def test_without_a_listener(self, client: NodeClient) -> None:
        with pytest.raises(NodeError, match="Connection refused") as caught:
            await client.status(Address("127.130.9.2", 1, 1))
        assert caught.value.failure is Failure.UNREACHABLE

    async def test_the_deadline_is_for_the_whole_question(
        self, comet: CometNodes, address: Address
    ) -> None:
        comet.node("hub-0").hold()
        client = NodeClient(deadline=0.05)
        with pytest.raises(NodeError, match=r"within 0\.05 s") as caught:
            await client.status(address)
        assert caught.value.failure is Failure.DEADLINE
        await client.close()

    async def test_all_questions_share_a_session_and_connections_are_kept(
        self, comet: CometNodes, client: NodeClient, address: Address
    ) -> None:
        await asyncio.gather(*(client.status(address) for _ in range(3)))
        for _ in range(5):
            await client.status(address)
        assert comet.connections <= 3

    async def test_it_can_be_used_again_after_it_was_closed(
        self, client: NodeClient, address: Address
    ) -> None:
        await client.status(address)
        await client.close()
        assert (await client.status(address)).height == 100
