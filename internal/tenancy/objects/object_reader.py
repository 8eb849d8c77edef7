"""Whole objects of kinds that may be kept as metadata only."""

from dataclasses import dataclass

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache import Cache, Entry
from ctrlruntime.client.errors import NotFound


@dataclass(frozen=True, slots=True)
class ObjectReader:
    """Reads from the cache where it keeps the whole object, else from the server."""

    cache: Cache

    def metadata_only(self, mapping: RESTMapping) -> bool:
        """Return whether the cache keeps only the metadata of a kind."""
        return self.cache.metadata_only(mapping)

    async def read(self, mapping: RESTMapping, entry: Entry) -> Manifest | None:
        """Return the whole object, or None if it is gone."""
        if not self.cache.informer(mapping).metadata_only:
            return entry.decode()
        try:
            found: Manifest = await self.cache.live_client.get(
                mapping, entry.name, namespace=entry.namespace or None
            )
        except NotFound:
            return None
        return found
