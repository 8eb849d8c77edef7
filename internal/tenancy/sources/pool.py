"""The sources in use: one per registry, replaced when its settings change."""

from __future__ import annotations

from collections.abc import Hashable

from internal.tenancy.sources.mysql import MySQLSettings, MySQLSource
from internal.tenancy.sources.source import Source
from internal.tenancy.sources.sqlite import SQLiteSettings, SQLiteSource

Settings = MySQLSettings | SQLiteSettings


class Sources:
    """Keeps the connections of every registry while its settings, password included, stay the same."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Settings, Source]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, registry: Hashable, settings: Settings) -> Source:
        """The registry's source; the one kept, or a new one after closing one of other settings."""
        kept = self._kept.get(registry)
        if kept is not None and kept[0] == settings:
            return kept[1]
        await self.release(registry)
        source: Source = (
            MySQLSource(settings) if isinstance(settings, MySQLSettings) else SQLiteSource(settings)
        )
        self._kept[registry] = (settings, source)
        return source

    async def release(self, registry: Hashable) -> None:
        """Closes the source of a registry that is gone."""
        kept = self._kept.pop(registry, None)
        if kept is not None:
            await kept[1].close()

    async def close(self) -> None:
        """Closes all sources."""
        for registry in list(self._kept):
            await self.release(registry)
