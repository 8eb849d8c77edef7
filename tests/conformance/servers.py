"""The servers that the suite runs against."""

from __future__ import annotations

import asyncio
import os
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final

import aiohttp
import pytest

from ctrlruntime.envtest.server import APIServer, ServerOptions, User

from .releases import CHANGES
from .wire import Api

EMBEDDED: Final = "embedded"
KUBE_APISERVER: Final = "kube-apiserver"
APIEXTENSIONS: Final = "apiextensions"
ADMIN_TOKEN: Final = "admin"
USER_TOKEN: Final = "alice"


@dataclass(slots=True)
class RealServer:
    """A server that runs already. `definitions`: those that tests share and that are there."""

    url: str
    token: str
    user_token: str
    release: int = 0
    definitions: set[str] = field(default_factory=set)

    @asynccontextmanager
    async def api(self) -> AsyncIterator[Api]:
        """The administrator's access, in a new namespace.

        What a test makes is deleted after it. The namespace stays, empty: to delete it would take
        the server longer than most tests.
        """
        connector = aiohttp.TCPConnector(ssl=_anybody())
        async with aiohttp.ClientSession(connector=connector) as session:
            api = Api(self.url, session, self.token)
            api.user_token = self.user_token
            self.release = self.release or int((await api.get("/version"))["minor"].rstrip("+"))
            api.release = self.release
            await _enter(api)
            try:
                yield api
            finally:
                api.headers["Authorization"] = f"Bearer {self.token}"
                await api.clean()
        await asyncio.sleep(0.05)  # streams that were left say farewell by TLS


@cache
def _anybody() -> ssl.SSLContext:
    """Trust every server, and so read no authorities, which takes longer than most requests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def given(backend: str) -> RealServer | None:
    """The server that the environment names in place of one of our own."""
    name = f"CTRLRUNTIME_TEST_{backend.upper().replace('-', '_')}"
    url, token, user_token = [*os.environ.get(name, "").split(), "", "", ""][:3]
    return RealServer(url, token, user_token) if url else None


@asynccontextmanager
async def embedded(options: ServerOptions) -> AsyncIterator[Api]:
    """A server for this test alone."""
    async with aiohttp.ClientSession() as session, APIServer(options) as server:
        token = ADMIN_TOKEN if ADMIN_TOKEN in options.tokens else ""
        api = Api(server.url, session, token)
        api.server, api.user_token = server, USER_TOKEN
        api.release = int((await api.get("/version"))["minor"])
        await _enter(api)
        yield api


async def _enter(api: Api) -> None:
    """A new namespace, with a label of its own for those who select namespaces."""
    unique = uuid.uuid4().hex[:8]
    api.namespace, api.group = f"t-{unique}", f"g{unique}.example.com"
    metadata = {"name": api.namespace, "labels": {"test": api.namespace}}
    await api.send("POST", "/api/v1/namespaces", {"metadata": metadata})
    api.made.clear()


TOKENS: Final = {
    ADMIN_TOKEN: User("admin", ("system:masters",)),
    USER_TOKEN: User("alice"),
}


def check_release(request: pytest.FixtureRequest, api: Api) -> None:
    """Skip what an older server cannot show; the embedded one models a current release."""
    if api.server is not None:
        return
    for mark in request.node.iter_markers("since"):
        change = CHANGES[mark.args[0]]
        if api.release < change.release:
            pytest.skip(f"since 1.{change.release}: {change.reason}")
