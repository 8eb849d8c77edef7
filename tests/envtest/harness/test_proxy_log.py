"""The proxy passes everything on unchanged and counts it exactly."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import aiohttp
import pytest

from ctrlruntime.envtest.proxy import LEASES, Fail, LogEntry, Proxy
from ctrlruntime.envtest.proxy.requests import classify

from .upstream import Upstream

PODS = "/api/v1/namespaces/ns/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/ns/deployments"
APPLY = {"Content-Type": "application/apply-patch+yaml"}


@pytest.mark.parametrize(
    ("method", "target", "content_type", "verb", "resource", "namespace", "name"),
    [
        ("GET", "/api/v1/pods", "", "list", "pods", "", ""),
        ("GET", f"{PODS}?limit=5", "", "list", "pods", "ns", ""),
        ("GET", f"{PODS}?watch=true&x=y", "", "watch", "pods", "ns", ""),
        ("GET", f"{PODS}?watch=false", "", "list", "pods", "ns", ""),
        ("GET", f"{PODS}/a", "", "get", "pods", "ns", "a"),
        ("POST", DEPLOYMENTS, "", "create", "deployments.apps", "ns", ""),
        ("PUT", f"{DEPLOYMENTS}/a", "", "update", "deployments.apps", "ns", "a"),
        ("PUT", f"{DEPLOYMENTS}/a/status", "", "update", "deployments.apps/status", "ns", "a"),
        ("PATCH", f"{DEPLOYMENTS}/a", "application/json-patch+json", "patch", "deployments.apps", "ns", "a"),
        ("PATCH", f"{DEPLOYMENTS}/a", "application/apply-patch+yaml", "apply", "deployments.apps", "ns", "a"),
        ("DELETE", f"{DEPLOYMENTS}/a", "", "delete", "deployments.apps", "ns", "a"),
        ("DELETE", DEPLOYMENTS, "", "deletecollection", "deployments.apps", "ns", ""),
        ("GET", "/api/v1/namespaces", "", "list", "namespaces", "", ""),
        ("GET", "/api/v1/namespaces/ns", "", "get", "namespaces", "", "ns"),
        ("PUT", "/api/v1/namespaces/ns/finalize", "", "update", "namespaces/finalize", "", "ns"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode", "", "get",
         "clusterroles.rbac.authorization.k8s.io", "", "system:node"),
        ("GET", "/openapi/v3?x", "", "get", "/openapi/v3", "", ""),
        ("GET", "/apis/apps/v1", "", "get", "/apis/apps/v1", "", ""),
    ],
)  # fmt: skip
def test_a_request_is_known_by_its_verb_and_object(
    method: str, target: str, content_type: str, verb: str, resource: str, namespace: str, name: str
) -> None:
    info = classify(method, target, content_type, "u")
    assert info[:5] == ("u", verb, resource, namespace, name)


@pytest.mark.parametrize(
    ("query", "streams"),
    [
        ("?watch=true&sendInitialEvents=true", True),
        ("?sendInitialEvents=true", False),
        ("?watch=true&sendInitialEvents=false", False),
        ("?watch=true", False),
    ],
)
def test_a_watch_that_begins_with_the_list_is_known(query: str, streams: bool) -> None:
    assert classify("GET", f"{PODS}{query}", "", "u").streams_list is streams


async def test_counts_are_by_user_verb_resource_and_code(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    for _ in range(3):
        await (await session.get(f"{proxy.url}{PODS}/a")).read()
    await (await session.get(f"{proxy.url}{PODS}/missing")).read()
    await (await session.patch(f"{proxy.url}{PODS}/a", data=b"{}", headers=APPLY)).read()
    async with aiohttp.ClientSession(headers={"User-Agent": "kubectl/v1.32 (linux)"}) as other:
        await (await other.post(f"{proxy.url}{PODS}", data=b"{}")).read()

    rows = {(r.user, r.verb, r.resource, r.code): r.count for r in proxy.log.counts()}

    assert rows == {
        ("alice", "get", "pods", 200): 3,
        ("alice", "get", "pods", 404): 1,
        ("alice", "apply", "pods", 200): 1,
        ("kubectl", "create", "pods", 200): 1,
    }
    alice = proxy.log.counts().select(user="alice")
    assert (alice.writes, alice.reads, alice.total) == (1, 4, 5)


async def test_a_mark_separates_before_from_after(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    await session.get(f"{proxy.url}{PODS}/before")
    mark = proxy.log.mark()
    await session.delete(f"{proxy.url}{PODS}/after")

    assert str(proxy.log.since(mark)).split() == ["1", "alice", "delete", "pods", "200"]
    assert [e.name for e in proxy.log.entries(mark)] == ["after"]


async def test_an_observer_receives_every_answer_and_its_caller(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    await session.get(f"{proxy.url}{PODS}/before")
    seen: list[LogEntry] = []
    proxy.log.observe(seen.append)
    await session.get(f"{proxy.url}{PODS}/a")
    await session.delete(f"{proxy.url}{PODS}/missing", headers={"Impersonate-User": "bob"})
    proxy.add(Fail(403))
    await session.post(f"{proxy.url}{PODS}", data=b"{}")

    assert [(e.verb, e.name, e.code, e.injected, e.acting_as) for e in seen] == [
        ("get", "a", 200, "", ""),
        ("delete", "missing", 404, "", "bob"),
        ("create", "", 403, "Fail", ""),
    ]
    assert seen == proxy.log.entries()[1:]


async def test_leases_can_be_left_out(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    leases = f"{proxy.url}/apis/coordination.k8s.io/v1/namespaces/ns/leases"
    await session.put(f"{leases}/lock")
    await session.post(f"{proxy.url}{PODS}")

    counts = proxy.log.counts()
    assert counts.select(resource=LEASES).writes == 1
    assert counts.without_leases().writes == 1


async def test_large_bodies_pass_unchanged_in_both_directions(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    body = bytes(range(256)) * 40_000
    answer = await session.post(f"{proxy.url}{PODS}?size=9000001", data=io.BytesIO(body))

    assert await answer.read() == b"x" * 9_000_001
    assert upstream.bodies == [body]


async def test_chunked_request_bodies_pass(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"two", b"three"):
            yield piece

    await session.post(f"{proxy.url}{PODS}", data=pieces())
    assert upstream.bodies == [b"onetwothree"]


async def test_many_connections_are_counted_to_the_last(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    async def work(index: int) -> None:
        for _ in range(10):
            await (await session.put(f"{proxy.url}{PODS}/p{index}", data=b"{}")).read()

    await asyncio.gather(*(work(i) for i in range(40)))
    assert proxy.log.counts().writes == 400


async def test_watch_lines_pass_as_they_come(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    async with session.get(f"{proxy.url}{PODS}?watch=true") as response:
        await upstream.watching.wait()
        upstream.send("ADDED", "a")
        first = await response.content.readline()
        assert b'"ADDED"' in first
        upstream.send_raw(b'{"type":')
        upstream.send_raw(b'"MODIFIED"}\n{"type":"DELETED"}\n')
        assert await response.content.readline() == b'{"type":"MODIFIED"}\n'
        assert await response.content.readline() == b'{"type":"DELETED"}\n'
        user = next(iter(proxy.log.counts())).user
        sent = len(first) + len('{"type":"MODIFIED"}\n{"type":"DELETED"}\n')
        assert proxy.log.watched_bytes(user) == {"pods": sent}
        assert proxy.log.watched_bytes("other") == {}
        upstream.send_raw(None)
        assert await response.content.readline() == b""
    counts = proxy.log.counts()
    assert (counts.watches, counts.reads) == (1, 0)


async def test_a_server_that_is_down_looks_down(session: aiohttp.ClientSession) -> None:
    async with Proxy("http://127.0.0.1:9") as proxy:
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(f"{proxy.url}{PODS}")


async def test_what_is_no_http_is_cut_off(proxy: Proxy) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"not http\r\nat all\r\n\r\n")
    assert await reader.read() == b""
    writer.close()
