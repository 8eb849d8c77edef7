"""Time that passes only when somebody waits."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Seconds since the start; `sleep` is what the task under test is given."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.naps: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Time passes, without anybody waiting for it."""
        self.naps.append(seconds)
        self.passed += seconds
        await asyncio.sleep(0)

    def now(self) -> datetime:
        """The time of day."""
        return START + timedelta(seconds=self.passed)

    def stamp(self) -> str:
        """The time of day as the API writes it."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
