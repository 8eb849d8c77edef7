"""Webhook configurations that wait as long as an API server allows."""

from __future__ import annotations

from collections.abc import Iterable

from ctrlruntime.api.kinds import Manifest

SECONDS = 30
"""The most that a configuration may have."""


def patient(configurations: Iterable[Manifest]) -> list[Manifest]:
    """Return the configurations with the longest timeout: on a busy machine a late answer would admit the object."""
    return [
        {**each, "webhooks": [{**hook, "timeoutSeconds": SECONDS} for hook in each["webhooks"]]}
        for each in configurations
    ]
