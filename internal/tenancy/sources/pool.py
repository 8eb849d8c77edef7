"""The sources in use: one per registry, replaced when its settings change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from internal.tenancy.sources.source import KeepsPosition, Source
from internal.tenancy.sources.source_type import Settings


class Sources:
    """Keeps the connections of every registry while its settings, password included, stay the same."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[Settings, Source]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(
        self,
        registry: Hashable,
        settings: Settings,
        wake: Callable[[], None] = lambda: None,
        positions: Callable[[], Iterable[str]] = tuple,
    ) -> Source:
        """Return the registry's source; the one kept, or a new one after closing one of other settings.

        A new source may call `wake` when rows may have changed. It goes on from the position of the one before, or the
        furthest of `positions`, the last of which was read last: older rows are not read, whatever else changed.
        """
        kept = self._kept.get(registry)
        if kept is not None and kept[0] == settings:
            return kept[1]
        position = self.position(registry)
        await self.release(registry)
        source = settings.open(wake)
        if isinstance(source, KeepsPosition):
            for each in filter(None, (*positions(), position)):
                source.resume(each)
        self._kept[registry] = (settings, source)
        return source

    def position(self, registry: Hashable) -> str:
        """Return how far the registry's source was read; empty if that is unknown."""
        kept = self._kept.get(registry)
        return kept[1].position if kept and isinstance(kept[1], KeepsPosition) else ""

    async def release(self, registry: Hashable) -> None:
        """Close the source of a registry that is gone."""
        kept = self._kept.pop(registry, None)
        if kept is not None:
            await kept[1].close()

    async def close(self) -> None:
        """Close all sources."""
        for registry in list(self._kept):
            await self.release(registry)
