"""Connections that give a password away only to a server whose certificate was verified.

The server chooses how a client authenticates. Most plugins prove the password; `mysql_clear_password`
demands it as it is, and the handshake of before 4.1 sends it in a form that can be reversed.
"""

from __future__ import annotations

import ssl
from typing import Final

import aiomysql
from pymysql.constants import CLIENT

from internal.tenancy.sources.errors import InsecureConnection

REVEALING: Final = frozenset({"mysql_clear_password", "mysql_old_password"})
"""Plugins that tell the server, and whoever listens, the password."""


class GuardedConnection(aiomysql.Connection):  # type: ignore[misc]
    """A connection that refuses to reveal the password. Raises InsecureConnection."""

    async def _request_authentication(self) -> None:
        """Check TLS and plugin of the server's greeting before anything is sent."""
        if self._ssl_context and not self.server_capabilities & CLIENT.SSL:
            raise InsecureConnection("the database offers no TLS, which the registry requires")
        self._check(self._client_auth_plugin or self._server_auth_plugin)
        if not self.server_capabilities & CLIENT.PLUGIN_AUTH:
            self._check("mysql_old_password")
        await super()._request_authentication()

    async def _process_auth(self, plugin_name: bytes, auth_packet: object) -> object:
        """Check the plugin that the server switches to."""
        self._check(plugin_name.decode("ascii", "replace"))
        return await super()._process_auth(plugin_name, auth_packet)

    def _check(self, plugin: str) -> None:
        context = self._ssl_context
        if plugin not in REVEALING or (context and context.verify_mode is ssl.CERT_REQUIRED):
            return
        raise InsecureConnection(
            f"the database at {self._host}:{self._port} demands the password in clear text "
            f"({plugin}); that needs tls with the mode VerifyCA or VerifyIdentity"
        )


class GuardedPool(aiomysql.Pool):  # type: ignore[misc]
    """A pool of such connections, without any at first."""

    async def _fill_free_pool(self, override_min: bool) -> None:
        """Drop dead connections, and connect if none is left and one more is allowed."""
        await super()._fill_free_pool(False)
        if self._free or not override_min or self.size >= self.maxsize:
            return
        self._acquiring += 1
        try:
            made = GuardedConnection(echo=self._echo, loop=self._loop, **self._conn_kwargs)
            await made._connect()
            self._free.append(made)
            self._cond.notify()
        finally:
            self._acquiring -= 1
