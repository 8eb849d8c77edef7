"""Calls to webhooks: TLS with the configuration's CA, timeouts, one client for all."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import orjson

from ctrlruntime.envtest.server.options import ServerOptions

_JSON: Final = {"Content-Type": "application/json"}


class CallError(Exception):
    """A webhook that could not be reached or did not answer as it must."""


class WebhookClient:
    """Posts reviews. One session, one TLS context per CA."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, client: Mapping[str, Any], body: Mapping[str, Any], seconds: float
    ) -> dict[str, Any]:
        """Return the answer of the webhook that `clientConfig` names. Raises CallError."""
        url, name = self._address(client)
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=False)
        context = self._context(str(client.get("caBundle") or ""))
        timeout = aiohttp.ClientTimeout(total=seconds)
        try:
            async with self._session.post(
                url,
                data=orjson.dumps(body),
                headers=_JSON,
                ssl=context,
                server_hostname=name,
                timeout=timeout,
            ) as response:
                raw = await response.read()
                status = response.status
        except TimeoutError:
            raise CallError(
                f'Post "{url}?timeout={seconds:g}s": context deadline exceeded'
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise CallError(f'Post "{url}?timeout={seconds:g}s": {error}') from None
        return _read(raw, status)

    def _address(self, client: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the URL and, for a service, the name its certificate must have."""
        service = client.get("service")
        if not service:
            return str(client.get("url") or ""), None
        namespace, name = service["namespace"], service["name"]
        host = f"{name}.{namespace}.svc"
        path = "/" + str(service.get("path") or "").lstrip("/")
        base = self._options.service_urls.get((namespace, name))
        if base is None:
            raise CallError(
                f'Post "https://{host}:{service.get("port", 443)}{path}": service "{name}" is not '
                "mapped: set ServerOptions.service_urls"
            )
        return base.rstrip("/") + path, host

    def _context(self, bundle: str) -> ssl.SSLContext:
        context = self._contexts.get(bundle)
        if context is None:
            data = base64.b64decode(bundle).decode() if bundle else None
            try:
                context = ssl.create_default_context(cadata=data)
            except ssl.SSLError as error:
                raise CallError(f"unable to load root certificates: {error}") from None
            self._contexts[bundle] = context
        return context


def _read(raw: bytes, status: int) -> dict[str, Any]:
    if status != 200:
        raise CallError(f"the server responded with the status code {status}")
    try:
        answer = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise CallError(f"the answer is not JSON: {error}") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("response"), dict):
        raise CallError("received invalid webhook response: expected response, but got none")
    return answer
