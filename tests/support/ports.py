"""Ports of servers that are away for a while."""

from __future__ import annotations

import socket


def held(port: int) -> socket.socket:
    """Keep a port of the loopback address from other processes until the socket is closed.

    Connections are refused. A server may come back to it meanwhile, if it listens with SO_REUSEADDR. Raises OSError if a
    server listens there.
    """
    made = socket.socket()
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
    except OSError:
        made.close()
        raise
    return made
