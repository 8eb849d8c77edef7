"""Runs of tasks: where they execute."""

from .provider import (
    EarlierPlan,
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
    "EarlierPlan",
    "Run",
    "RunInput",
    "RunName",
    "RunOwner",
    "RunProvider",
    "RunRefused",
    "RunRequest",
    "RunState",
]
