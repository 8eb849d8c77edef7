"""Free ports on loopback for servers that take theirs as an option."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from ctrlruntime.clock import draw_between

LOOPBACK: Final = "127.0.0.1"
_LOWEST: Final = 20000
_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a port that nothing listens on just now.

    It lies below the kernel's range for outgoing connections: a server that comes back to its port
    must not find a connection of another process there. Another process may still take it first,
    so whoever starts a server on it tries again with another.
    """
    highest = _first_ephemeral()
    for _ in range(200):
        port = int(draw_between(_LOWEST, highest))
        if is_free(port):
            return port
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


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
