"""The head of a request: what all requests of one identity share is put together once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ctrlruntime.client.dial import Endpoint

if TYPE_CHECKING:
    from ctrlruntime.client.config import Config

_KEPT: Final = 256
"""Blocks of fields that are kept: few, but for those who act as many users."""
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_Block = tuple[str | None, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Request lines and header fields for one server and one set of credentials."""

    auth: Mapping[str, str]
    fields: Mapping[str, str | Sequence[str]] = field(repr=False)
    target_prefix: str = ""
    """What comes before the path where an HTTP proxy stands between."""
    _blocks: dict[_Block, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, config: Config, auth: Mapping[str, str], *, compression: bool) -> RequestHead:
        """Raise ValueError when host or proxy of the configuration are no URLs."""
        server = Endpoint.parse(config.host)
        proxy = Endpoint.parse(config.proxy_url) if config.proxy_url else None
        fields: dict[str, str | Sequence[str]] = {
            "Host": server.authority,
            "Accept": "application/json",
            "User-Agent": config.user_agent,
            "Accept-Encoding": "gzip" if compression else "identity",
        }
        if server.authorization:
            fields["Authorization"] = server.authorization
        prefix = ""
        if proxy is not None and not server.tls:
            prefix = f"http://{server.authority}"
            if proxy.authorization:
                fields["Proxy-Authorization"] = proxy.authorization
        return cls(dict(auth), {**fields, **config.extra_headers, **auth}, prefix)

    def encode(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
    ) -> bytes:
        """Return a whole request. ``headers`` come before the shared fields of the same name.

        Raises ValueError for a target or a field that would not be one line.
        """
        if not (target.isascii() and target.isprintable()) or " " in target:
            raise ValueError(f"not a path and query for a request: {target!r}")
        key = (None if body is None else content_type, tuple(headers.items()) if headers else ())
        block = self._blocks.get(key)
        if block is None:
            block = self._block(*key)
        line = f"{method} {self.target_prefix}{target} HTTP/1.1\r\n{block}"
        if body is not None:
            return f"{line}Content-Length: {len(body)}\r\n\r\n".encode() + body
        if method in _WITH_BODY:
            return f"{line}Content-Length: 0\r\n\r\n".encode()
        return f"{line}\r\n".encode()

    def _block(self, content_type: str | None, headers: tuple[tuple[str, str], ...]) -> str:
        fields = dict(self.fields)
        if content_type is not None:
            fields["Content-Type"] = content_type
        fields.update(headers)
        lines = [
            (name, value)
            for name, given in fields.items()
            for value in ((given,) if isinstance(given, str) else given)
        ]
        for name, value in lines:
            if not name or any(character in f"{name}{value}" for character in "\r\n\0"):
                raise ValueError(f"the value of the header field {name!r} is not one line")
        block = "".join(f"{name}: {value}\r\n" for name, value in lines)
        if len(self._blocks) >= _KEPT:
            self._blocks.clear()
        self._blocks[content_type, headers] = block
        return block
