"""A server that an object names is not on this machine, on its link, or a cloud's metadata (S-F5)."""

from __future__ import annotations

import ast
import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ctrlruntime.outbound_addresses import ALLOWED, allowed_networks, is_refused, outbound_socket
from internal.fleet.stack_builder import WORKLOADS, StackOptions, build_stack
from internal.tenancy.sources import mysql_packets
from manager.cli import main
from tests.client.wire import OK, WireServer
from tests.hostile import outbound_doors
from tests.hostile.outbound_doors import DOORS

pytestmark = pytest.mark.criterion("S-F5")
NAMES = dict.fromkeys(DOORS, "inside.example") | {"HCP Terraform": "localhost"}
"""No token goes to another name without TLS."""
Answers = Callable[..., None]


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Let names lead to one address after another; the last stays."""
    real, answers = socket.getaddrinfo, list[str]()

    def resolved(host: str | bytes, *args: int, **options: int) -> list[Any]:
        name = host.decode() if isinstance(host, bytes) else host
        if name in NAMES.values():
            host = answers.pop(0) if len(answers) > 1 else answers[0]
        return real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    return lambda *addresses: answers.extend(addresses)


@pytest.mark.parametrize("door", DOORS)
async def test_a_name_that_leads_to_this_machine_is_refused(
    door: str, resolves: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ALLOWED)
    resolves("127.0.0.1")
    server = WireServer()
    server._scripts = [server.answers(OK, keep=False)]
    async with server:
        text = await DOORS[door](f"http://{NAMES[door]}:{server.port}")
        assert server.connections == 0
        assert "127.0.0.1" not in text
        monkeypatch.setenv(ALLOWED, "127.0.0.1/32")
        await DOORS[door](f"http://{NAMES[door]}:{server.port}")
        assert server.connections > 0, "the option lets it through"


@pytest.mark.parametrize("door", DOORS)
async def test_the_address_that_was_checked_is_the_one_connected_to(
    door: str, resolves: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "127.0.0.1/32")
    resolves("127.0.0.1", "127.0.0.2")
    first, second = WireServer(), WireServer()
    first._scripts = [first.answers(OK, keep=False)]
    second._scripts = [second.answers(OK, keep=False)]
    async with first, second:
        await DOORS[door](f"http://{NAMES[door]}:{first.port}")
    assert first.connections == 1


@pytest.mark.parametrize("door", DOORS)
async def test_no_redirect_leads_to_a_refused_address(
    door: str, resolves: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "127.0.0.1/32")
    resolves("127.0.0.1")
    inner = socket.create_server(("127.0.0.2", 0))
    inner.setblocking(False)
    target = f"http://127.0.0.2:{inner.getsockname()[1]}/"
    outer = WireServer()
    head = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    outer._scripts = [outer.answers(head.encode(), keep=False)]
    with inner:
        async with outer:
            await DOORS[door](f"http://{NAMES[door]}:{outer.port}")
        assert outer.connections >= 1
        with pytest.raises(BlockingIOError):
            inner.accept()


def stand_still() -> None:
    """Let the event loop of the caller do nothing until both limits are over."""
    time.sleep(2 * outbound_doors.CONNECT_TIMEOUT + 0.1)


async def test_a_loop_that_stands_still_while_it_connects_loses_no_limit(
    resolves: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits of the socket and of the whole pass while it is made: MySQL's greeting was awaited for ever."""
    monkeypatch.setenv(ALLOWED, "127.0.0.1/32")
    monkeypatch.setattr(outbound_doors, "CONNECT_TIMEOUT", 0.5)
    resolves("127.0.0.1")
    real = outbound_socket

    async def late(host: str, port: int) -> socket.socket:
        made = await real(host, port)
        stand_still()
        return made

    monkeypatch.setattr(f"{mysql_packets.__name__}.outbound_socket", late)
    server = WireServer()
    server._scripts = [server.answers(OK, keep=False)]
    async with server, asyncio.timeout(60):
        text = await DOORS["MySQL"](f"http://{NAMES['MySQL']}:{server.port}")
    assert "did not connect within 1 s" in text


@pytest.mark.parametrize("command", ["run", "operator"])
def test_an_option_that_lists_no_networks_ends_the_command_with_the_remedy(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOWED, "localhost")
    result = CliRunner().invoke(main, [command, "--kubeconfig=/none"])
    assert result.exit_code == 2
    assert f"{ALLOWED}: 'localhost' does not appear" in result.output
    assert "such as 127.0.0.0/8" in result.output


@pytest.mark.parametrize("networks", ["", "127.0.0.0/8"])
def test_stacks_reach_what_their_operator_may_and_no_pod_changes_without_it(networks: str) -> None:
    made = build_stack("east", StackOptions(image="i", allow_addresses=networks))
    pods = [each.manifest["spec"]["template"]["spec"] for each in made if each.mapping in WORKLOADS]
    expected = [{"name": ALLOWED, "value": networks}] if networks else None
    assert [pod["containers"][0].get("env") for pod in pods] == [expected] * 3


@pytest.mark.parametrize(
    ("address", "refused"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("0.0.0.0", True),
        ("0.1.2.3", True),
        ("169.254.169.254", True),
        ("100.100.100.200", True),
        ("168.63.129.16", True),
        ("224.0.0.1", True),
        ("255.255.255.255", True),
        ("::1", True),
        ("::", True),
        ("fe80::1%eth0", True),
        ("ff02::1", True),
        ("fd00:ec2::254", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:169.254.169.254", True),
        ("64:ff9b::a9fe:a9fe", True),
        ("64:ff9b:1::7f00:1", True),
        ("::ffff:0:127.0.0.1", True),
        ("2002:7f00:1::", True),
        ("::7f00:1", True),
        ("10.0.0.7", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("100.64.0.1", False),
        ("fd12::1", False),
        ("93.184.216.34", False),
        ("2606:2800:220:1::1", False),
    ],
)
def test_which_addresses_are_refused(address: str, refused: bool) -> None:
    assert is_refused(address) == refused
    everything = allowed_networks("0.0.0.0/0, ::/0")
    assert not is_refused(address, everything)


WAYS_OUT = {
    "aiohttp.ClientSession": {
        "ctrlruntime/outbound_http.py": "the way out",
        "internal/cloud/runs/cloudrun/api.py": "Google's addresses and the machine's own metadata",
    },
    "urllib.request.urlopen": {},
    "urllib.request.OpenerDirector": {"internal/cosmos/sidecar/download.py": "checked connections"},
    "socket.create_connection": {},
    "aiomysql.create_pool": {},
    "asyncpg.connect": {},
    "loop.create_connection": {
        "ctrlruntime/client/dial.py": "a checked socket",
        "internal/tenancy/sources/postgresql/auth.py": "a checked socket",
    },
    "self._loop.create_connection": {
        "internal/tenancy/sources/postgresql/auth.py": "a checked socket",
    },
    "_open_connection": {"internal/tenancy/sources/mysql_packets.py": "a checked socket"},
    "asyncio.open_connection": {"ctrlruntime/manager/webhooks.py": "its own server"},
}
READERS = {
    "internal/cloud/runs/jobs/provider.py": "inputs of runs, of its own",
    **dict.fromkeys(
        [
            "manager/commands/importing.py",
            "manager/commands/fleet_adopt.py",
            "manager/commands/fleet_forget.py",
            "manager/commands/plane_clients.py",
        ],
        "commands, with the rights of whoever runs them",
    ),
    "internal/approvals/key.py": "the key that approvals are signed with, of its own",
    "internal/cloud/taskdriver/writes.py": "Secrets with outputs, of its own",
    "internal/named_secrets.py": "the reader",
    "internal/tenancy/dryrun/fleet.py": "values of its own tenants",
    "internal/tenancy/objects/generated_values.py": "values that were drawn",
    "manager/controllers/fleet.py": "the kubeconfig of a data plane, by a fixed name",
}


def calls(folder: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call below a folder, with its file."""
    root = Path(__file__).parents[2]
    for path in sorted((root / folder).rglob("*.py")):
        name = str(path.relative_to(root))
        if not name.startswith("ctrlruntime/envtest/"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call):
                    yield name, node


def test_no_other_place_opens_a_way_out_or_reads_a_secret() -> None:
    found: dict[str, set[str]] = {way: set() for way in WAYS_OUT}
    readers = set[str]()
    for folder in ("ctrlruntime", "apis", "internal", "manager"):
        for name, call in calls(folder):
            way = ast.unparse(call.func)
            if way in found:
                found[way].add(name)
            reads = way.rpartition(".")[2] in (
                "get",
                "entry",
                "list",
            ) and "metadata_only=True" not in ast.unparse(call)
            first = ast.unparse(call.args[0]) if call.args else ""
            if reads and first in ("SECRET", "SECRET.gvk", "Secret") and folder != "ctrlruntime":
                readers.add(name)
    assert found == {way: set(places) for way, places in WAYS_OUT.items()}
    assert readers <= set(READERS), "read it by internal.named_secrets"
