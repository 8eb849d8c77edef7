"""Options of health checks of rollouts. Imports nothing of them: the command line reads the defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheckOptions:
    """Where health checks of rollouts may send requests."""

    urls: tuple[str, ...] = ()
    """Addresses that they may be below; none allows none."""
    token_file: Path | None = None
    """File with the bearer token that is sent to them; read for each request."""
