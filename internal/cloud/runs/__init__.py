"""Runs of tasks: where they execute."""

from .provider import (
    Run,
    RunInput,
    RunName,
    RunOwner,
    RunProvider,
    RunRefused,
    RunRequest,
    RunState,
)

__all__ = [
    "Run",
    "RunInput",
    "RunName",
    "RunOwner",
    "RunProvider",
    "RunRefused",
    "RunRequest",
    "RunState",
]
