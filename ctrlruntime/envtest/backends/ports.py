"""Free ports on loopback for servers that take theirs as an option."""

from __future__ import annotations

import socket
from collections import deque
from pathlib import Path
from typing import Final

from ctrlruntime.clock import draw_between

LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 20000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_MOST: Final = 100
_given: Final[deque[int]] = deque()
"""File descriptors of sockets for datagrams on the last ports that this process was given, which no server here uses.

As numbers: they are open until the process ends, and socket objects would warn then that nothing closed them.
"""


def free_port() -> int:
    """Return a port that nothing listens on just now.

    It lies below the kernel's range for outgoing connections: a server that comes back to its port
    must not find a connection of another process there. No other caller on this machine gets it while this process
    runs, or before it has been given a hundred more; what else listens may still take it first, so whoever starts
    a server on it tries again with another.
    """
    highest = _first_ephemeral()
    for _ in range(200):
        port = int(draw_between(_LOWEST, highest))
        if _reserve(port) and is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _reserve(port: int) -> bool:
    """Keep a port from other callers. A server takes seconds to listen: two that start at once would draw the same one.

    The kernel keeps ports of datagrams apart from those of connections, so the mark hinders no server; it goes with
    the process, however that ends.
    """
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind((LOOPBACK, port))
    except OSError:
        mark.close()
        return False
    _given.append(mark.detach())
    if len(_given) > _MOST:
        socket.close(_given.popleft())
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _first_ephemeral() -> int:
    try:
        first = int(_EPHEMERAL.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        first = 32768
    return first if first > _LOWEST + 1000 else 32768
