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

from ctrlruntime.envtest.backends import Version
from ctrlruntime.envtest.server import APIServer, ServerOptions, User

from .releases import lacking
from .wire import Api

EMBEDDED: Final = "embedded"
ADMIN_TOKEN: Final = "admin"
USER_TOKEN: Final = "alice"


@dataclass(slots=True)
class RealServer:
    """A server that runs already. `definitions`: those that tests share and that are there."""

    url: str
    token: str
    user_token: str
    version: Version | None = None
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
            self.version = self.version or await version_of(api)
            api.version = self.version
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
        api.version = await version_of(api)
        await _enter(api)
        yield api


async def version_of(api: Api) -> Version:
    """Return the release of a server, (1, 36) for 1.36."""
    found = await api.get("/version")
    return int(found["major"]), int(found["minor"].rstrip("+"))


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
    """Skip what the release of the server cannot show."""
    if why := lacking(request.node, api.version):
        pytest.skip(why)
