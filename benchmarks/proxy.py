"""Cost of a request through `envtest.Proxy`, beside a proxy of the same shape on aiohttp.

    python -m benchmarks.proxy [requests]

Server, client and proxy each have a process; the proxy's CPU time per request is what counts on
a busy machine, the wall time is shown beside it.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from typing import Any

import aiohttp
import uvloop
from aiohttp import web

from ctrlruntime.envtest.proxy import Delay, Match, Proxy

BODY = b'{"kind":"ConfigMap","data":{"k":"' + b"x" * 2000 + b'"}}'
EVENT = b'{"type":"MODIFIED","object":{"metadata":{"name":"a"},"data":"' + b"x" * 2000 + b'"}}\n'


class Answering(asyncio.Protocol):
    """The cheapest server that answers every request with BODY, watches with EVENTs."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            at = head.find(b"content-length: ")
            length = int(head[at + 16 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            if b"watch=" in head:
                count = int(head.split(b"watch=true&n=", 1)[1].split(b" ", 1)[0])
                self.transport.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                chunk = b"%x\r\n%b\r\n" % (len(EVENT), EVENT)
                for _ in range(count):
                    self.transport.write(chunk)
                self.transport.write(b"0\r\n\r\n")
            else:
                self.transport.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
                )


async def serve_upstream(pipe: Connection, _: str) -> None:
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
    pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await _until_told(pipe)


async def serve_raw(pipe: Connection, upstream: str) -> None:
    async with Proxy(upstream) as proxy:
        pipe.send(proxy.url)
        await _until_told(pipe)


async def serve_raw_with_rule(pipe: Connection, upstream: str) -> None:
    async with Proxy(upstream) as proxy:
        proxy.add(Delay(1), Match(user="nobody", name="none"))
        pipe.send(proxy.url)
        await _until_told(pipe)


async def serve_aiohttp(pipe: Connection, upstream: str) -> None:
    session = aiohttp.ClientSession(auto_decompress=False)

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with session.request(
            request.method, upstream + request.path_qs, data=body or None, headers=request.headers
        ) as answer:
            if "watch" not in request.query:
                content = await answer.read()
                return web.Response(body=content, status=answer.status)
            response = web.StreamResponse(status=answer.status)
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    pipe.send(f"http://127.0.0.1:{runner.addresses[0][1]}")
    await _until_told(pipe)


async def _until_told(pipe: Connection) -> None:
    """Answer every message with the CPU seconds used so far; end with the parent."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()

    def told() -> None:
        try:
            pipe.recv()
        except EOFError:
            loop.remove_reader(pipe.fileno())
            over.set_result(None)
            return
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(usage.ru_utime + usage.ru_stime)

    loop.add_reader(pipe.fileno(), told)
    await over


Serve = Callable[[Connection, str], Coroutine[Any, Any, None]]


def start(serve: Serve, upstream: str = "") -> tuple[Connection, str]:
    mine, theirs = multiprocessing.Pipe()

    def run() -> None:
        mine.close()
        uvloop.run(serve(theirs, upstream))
        os._exit(0)

    multiprocessing.get_context("fork").Process(target=run, daemon=True).start()
    theirs.close()
    return mine, mine.recv()


async def load(url: str, count: int, lanes: int) -> float:
    """Wall seconds for `count` applies over `lanes` connections."""
    async with aiohttp.ClientSession() as session:

        async def lane() -> None:
            for _ in range(count // lanes):
                target = f"{url}/api/v1/namespaces/ns/configmaps/a?fieldManager=x"
                async with session.patch(target, data=BODY) as response:
                    await response.read()

        began = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(lanes)))
        return time.perf_counter() - began


async def watch(url: str, count: int) -> None:
    async with aiohttp.ClientSession() as session:
        target = f"{url}/api/v1/configmaps?watch=true&n={count}"
        async with session.get(target) as response:
            async for _ in response.content.iter_any():
                pass


def cpu(pipe: Connection) -> float:
    pipe.send(None)
    return float(pipe.recv())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    keep, upstream = start(serve_upstream)
    direct = uvloop.run(load(upstream, count, 8)) / count
    print(f"direct: {direct * 1e6:.0f} us wall a request")
    for name, serve in [
        ("envtest.Proxy", serve_raw),
        ("envtest.Proxy with a rule", serve_raw_with_rule),
        ("aiohttp proxy", serve_aiohttp),
    ]:
        pipe, url = start(serve, upstream)
        uvloop.run(load(url, 400, 8))
        before = cpu(pipe)
        wall = uvloop.run(load(url, count, 8)) / count
        used = (cpu(pipe) - before) / count
        before = cpu(pipe)
        uvloop.run(watch(url, count))
        event = (cpu(pipe) - before) / count
        print(
            f"{name}: {used * 1e6:.0f} us CPU a request ({wall * 1e6:.0f} us wall), "
            f"{event * 1e6:.1f} us a watch event of 2 KB"
        )
        pipe.close()
    keep.close()


if __name__ == "__main__":
    main()
