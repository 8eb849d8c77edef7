"""An API server in memory, over real HTTP, for tests and demonstrations."""

from __future__ import annotations

from ctrlruntime.envtest.server.app import APIServer
from ctrlruntime.envtest.server.options import Latency, ServerOptions, User

__all__ = ["APIServer", "Latency", "ServerOptions", "User"]
