"""Runs of tasks: where they execute."""

from .provider import (
    EarlierPlan,
    ProviderError,
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
    "ProviderError",
    "Run",
    "RunInput",
    "RunName",
    "RunOwner",
    "RunProvider",
    "RunRefused",
    "RunRequest",
    "RunState",
]
