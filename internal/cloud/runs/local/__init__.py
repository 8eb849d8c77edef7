"""Local runs: each a process of this machine, with a folder, a lock and a supervisor of its own."""

from .provider import LocalOptions, LocalRuns

__all__ = ["LocalOptions", "LocalRuns"]
