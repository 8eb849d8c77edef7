"""Command line flags of Go servers."""

from __future__ import annotations

Flags = dict[str, str | None]
"""Values by name without dashes; None leaves a flag out, so that callers can remove a default."""


def flag_list(flags: Flags) -> list[str]:
    """`--name=value` for each."""
    return [f"--{name}={value}" for name, value in flags.items() if value is not None]
