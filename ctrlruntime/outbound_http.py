"""Requests to servers that objects of users name."""

from __future__ import annotations

from collections.abc import Iterable

import aiohttp
from yarl import URL

from ctrlruntime.outbound_addresses import Network, socket_factory

__all__ = ["displayed_url", "outbound_session"]


def outbound_session(
    allowed: Iterable[Network] = (),
    *,
    limit: int = 100,
    keep_alive: float = 15.0,
    plain: bool = False,
) -> aiohttp.ClientSession:
    """Return a session that connects to no special address but `allowed` ones, and keeps no cookies. Close it when done.

    Each address is checked as it is connected to, after its name was resolved and on redirects too; what is refused is
    a ClientConnectorError with AddressRefused. `plain`: no compression is requested, and none is undone.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=limit,
            keepalive_timeout=keep_alive,
            use_dns_cache=False,
            socket_factory=socket_factory(allowed),
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        auto_decompress=not plain,
        skip_auto_headers=("Accept-Encoding", "User-Agent") if plain else None,
    )


def displayed_url(url: str | URL) -> str:
    """Return an address for messages: without user, password, query and fragment."""
    try:
        return str(URL(url).with_user(None).with_query(None).with_fragment(None))
    except ValueError:
        return "an address that is none"
