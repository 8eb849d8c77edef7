"""Connections that give a password away only to a server whose certificate was verified.

The server chooses how a client authenticates. Two plugins prove the password. All others demand it: as it is,
in a form that can be reversed, or encrypted by a key that the server itself sends.
"""

from __future__ import annotations

import ssl
from typing import Final

import aiomysql
from pymysql.constants import CLIENT

from internal.tenancy.sources.errors import InsecureConnection
from internal.tenancy.sources.mysql_packets import BoundedConnection

PROVING: Final = frozenset({"", "mysql_native_password", "caching_sha2_password", "client_ed25519"})
"""Plugins by which a client proves the password. With `caching_sha2_password` the server may demand it all the same."""
PERFORM_FULL_AUTHENTICATION: Final = b"\x01\x04"
"""By this `caching_sha2_password` demands the password itself."""


class GuardedConnection(BoundedConnection):
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

    async def caching_sha2_password_auth(self, pkt: object) -> object:
        """Refuse to send the password itself, or to encrypt it by a key that the server sends."""
        self.demand_of_password = self._check_demand
        try:
            if not pkt.is_auth_switch_request():  # type: ignore[attr-defined]
                self._check_demand(pkt.get_all_data())  # type: ignore[attr-defined]
            return await super().caching_sha2_password_auth(pkt)
        finally:
            self.demand_of_password = None

    def _check_demand(self, packet: bytes) -> None:
        if packet[:2] == PERFORM_FULL_AUTHENTICATION and self._password:
            self._check("caching_sha2_password, full authentication", proving=False)

    def _check(self, plugin: str, *, proving: bool = True) -> None:
        context = self._ssl_context
        if (proving and plugin in PROVING) or (
            context and context.verify_mode is ssl.CERT_REQUIRED
        ):
            return
        raise InsecureConnection(
            f"the database at {self._host}:{self._port} demands the password itself, not a proof of it "
            f"({plugin[:64]}); set tls with the mode VerifyCA or VerifyIdentity and its CA in caRef, "
            "or give the user the plugin mysql_native_password"
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
