"""Which addresses a server may have that an object of a user names: judged after its name was resolved."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

import aiohappyeyeballs

__all__ = [
    "ALLOWED",
    "LOOPBACK",
    "AddressRefused",
    "allowed_environment",
    "allowed_networks",
    "checked_connection",
    "is_loopback",
    "is_refused",
    "outbound_socket",
    "require_allowed",
    "socket_factory",
]

Network = IPv4Network | IPv6Network

ALLOWED: Final = "MANAGER_ALLOW_ADDRESSES"
"""Environment variable: networks, with commas between them, that are reached although they would be refused."""
LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
SECOND_ADDRESS_AFTER: Final = 0.25
"""Seconds that one of several addresses has before the next one is tried beside it (RFC 8305)."""
_METADATA: Final = tuple(
    map(
        ip_network,
        (
            "100.100.100.200/32",
            "168.63.129.16/32",
            "192.0.0.192/32",
            "fd00:ec2::/32",
            "fd20:ce::254/128",
        ),
    )
)
"""Services of clouds that hand out credentials outside of the link-local networks."""
_THIS_HOST: Final = ip_network("0.0.0.0/8")
_BROADCAST: Final = ip_address("255.255.255.255")
_TRANSLATED: Final = tuple(map(ip_network, ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96")))
"""NAT64 (RFC 6052), its networks for local use (RFC 8215), and SIIT (RFC 2765)."""
_COMPATIBLE: Final = ip_network("::/96")
_REMEDY: Final = (
    "the address is one of this machine, of a link or of a cloud's metadata, which objects may not reach; "
    f"to allow it, the manager needs the network in {ALLOWED}"
)


class AddressRefused(OSError):
    """An address that is not connected to. The message names no address: it may be an answer of a name server."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, _REMEDY)


def allowed_networks(text: str | None = None) -> tuple[Network, ...]:
    """Return the networks of a text, or else of the environment variable `ALLOWED`. Raises ValueError."""
    given = os.environ.get(ALLOWED, "") if text is None else text
    return tuple(ip_network(each.strip()) for each in given.split(",") if each.strip())


def allowed_environment() -> dict[str, str]:
    """Return the variable `ALLOWED` for a process that is started elsewhere; empty: it is not set."""
    text = os.environ.get(ALLOWED)
    return {ALLOWED: text} if text else {}


def is_refused(address: str, allowed: Iterable[Network] = ()) -> bool:
    """Whether a numeric address, or an IPv4 address within it, is refused and in no allowed network."""
    networks = tuple(allowed)
    for each in _meant(ip_address(address.partition("%")[0])):
        if _is_special(each) and not any(each in network for network in networks):
            return True
    return False


def is_loopback(host: str) -> bool:
    """Whether a host is given as a numeric address of this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def require_allowed(address: str, allowed: Iterable[Network] = ()) -> None:
    """Raise AddressRefused for an address that is refused."""
    if is_refused(address, allowed):
        raise AddressRefused


def checked_connection(
    host: str, port: int, timeout: float | None, allowed: Iterable[Network]
) -> socket.socket:
    """Return a connection to the first address of a host that accepts one; the addresses that were checked are used.

    Raises OSError.
    """
    networks, last = tuple(allowed), OSError(errno.EHOSTUNREACH, os.strerror(errno.EHOSTUNREACH))
    for family, kind, protocol, _, target in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    ):
        connection = socket.socket(family, kind, protocol)
        try:
            require_allowed(str(target[0]), networks)
            connection.settimeout(timeout)
            connection.connect(target)
        except OSError as error:
            connection.close()
            last = error
        else:
            return connection
    raise last


def socket_factory(
    allowed: Iterable[Network] = (),
) -> Callable[[aiohappyeyeballs.AddrInfoType], socket.socket]:
    """Return what makes the socket for an address that is about to be connected to; it raises AddressRefused."""
    networks = (*allowed, *allowed_networks())

    def checked_socket(info: aiohappyeyeballs.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, address = info
        require_allowed(str(address[0]), networks)
        return socket.socket(family, kind, protocol)

    return checked_socket


async def outbound_socket(host: str, port: int) -> socket.socket:
    """Return a connection to a host that an object names, without a protocol. Raises OSError, AddressRefused among them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return await aiohappyeyeballs.start_connection(
        found,
        happy_eyeballs_delay=SECOND_ADDRESS_AFTER,
        interleave=1,
        socket_factory=socket_factory(),
    )


def _meant(address: IPv4Address | IPv6Address) -> Iterator[IPv4Address | IPv6Address]:
    """Yield an address, and the IPv4 addresses that gateways take from it."""
    yield address
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            yield address.ipv4_mapped
        if address.sixtofour is not None:
            yield address.sixtofour
        if address.teredo is not None:
            yield address.teredo[1]
        if any(address in each for each in _TRANSLATED) or (
            address in _COMPATIBLE and int(address) > 1
        ):
            yield IPv4Address(int(address) & 0xFFFFFFFF)


def _is_special(address: IPv4Address | IPv6Address) -> bool:
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address == _BROADCAST
        or any(address in network for network in (*_METADATA, _THIS_HOST))
    )
