"""The sources in use: one per registry, replaced when its settings change."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from internal.tenancy.sources.source import Source
from internal.tenancy.sources.source_type import Settings


class Sources:
    """Keeps the connections of every registry while its settings, password included, stay the same."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Settings, Source]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(
        self, registry: Hashable, settings: Settings, wake: Callable[[], None] = lambda: None
    ) -> Source:
        """Return the registry's source; the one kept, or a new one after closing one of other settings.

        A new source may call `wake` when rows may have changed.
        """
        kept = self._kept.get(registry)
        if kept is not None and kept[0] == settings:
            return kept[1]
        await self.release(registry)
        source = settings.open(wake)
        self._kept[registry] = (settings, source)
        return source

    async def release(self, registry: Hashable) -> None:
        """Close the source of a registry that is gone."""
        kept = self._kept.pop(registry, None)
        if kept is not None:
            await kept[1].close()

    async def close(self) -> None:
        """Close all sources."""
        for registry in list(self._kept):
            await self.release(registry)
