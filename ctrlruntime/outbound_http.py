"""Requests to other servers than the API server."""

from __future__ import annotations

import aiohttp
from yarl import URL

__all__ = ["displayed_url", "outbound_session"]


def outbound_session() -> aiohttp.ClientSession:
    """Return a session that takes nothing from the environment and keeps no cookies. Close it when done."""
    return aiohttp.ClientSession(
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        auto_decompress=True,
    )


def displayed_url(url: str | URL) -> str:
    """Return an address for messages: without user, password, query and fragment."""
    try:
        return str(URL(url).with_user(None).with_query(None).with_fragment(None))
    except ValueError:
        return "an address that is none"
