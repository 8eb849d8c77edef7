"""Ports for servers that take theirs as an option."""

from __future__ import annotations

import socket

import pytest

from ctrlruntime.envtest.backends import ports


def test_a_port_that_was_given_is_not_given_again_before_its_server_listens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = ports.free_port(), ports.free_port()
    draws = iter([first, second, 20000, *range(20001, 20100)])
    monkeypatch.setattr(ports, "draw_between", lambda *_bounds: next(draws))
    assert ports.free_port() not in {first, second}
    with socket.socket() as server:  # the mark of a port hinders no server
        server.bind((ports.LOOPBACK, first))
        server.listen()
