"""The ConfigMaps that an instance's workload is made from, and one hash over their contents."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from apis.cloud import Instance
from ctrlruntime.cache import Entry, Store
from internal.cloud.labels import BUNDLE

SELECTOR = f"{BUNDLE}=true"
INDEX = "bundle"
"""Index of instances by `namespace/name` of the ConfigMaps they name."""


class BundleMissing(Exception):
    """A ConfigMap is not there. The message names the remedy."""


def config_maps_of(entry: Entry) -> list[str]:
    """Return what an instance's bundle names, for the index."""
    spec = entry.field("spec") or {}
    bundle = (spec.get("cluster") or {}).get("bundle") or {}
    names = bundle.get("configMapNames") or ()
    return sorted({f"{entry.namespace}/{name}" for name in names})


@dataclass(slots=True)
class Bundles:
    """Reads the ConfigMaps from the cache."""

    config_maps: Store

    def revision(self, instance: Instance) -> str:
        """Change with any content, and with nothing else; empty for a bundle without ConfigMaps.

        Raises BundleMissing.
        """
        names = instance.spec.cluster.bundle.config_map_names
        namespace = instance.metadata.namespace or ""
        entries = [self.config_maps.get(name, namespace=namespace) for name in names]
        missing = [name for name, entry in zip(names, entries, strict=True) if entry is None]
        if missing:
            raise BundleMissing(
                f"The bundle names the ConfigMap {', '.join(map(repr, missing))}. Create it beside the "
                f'instance, with the label {BUNDLE}: "true", or take it out of the bundle.'
            )
        return _digest([entry for entry in entries if entry is not None])

    def texts(self, namespace: str, name: str) -> Mapping[str, str] | None:
        """Return what a task is given of a ConfigMap; None if it is not there."""
        entry = self.config_maps.get(name, namespace=namespace)
        return None if entry is None else dict(entry.field("data") or {})


def _digest(entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    contents = [
        [entry.name, entry.field("data") or {}, entry.field("binaryData") or {}]
        for entry in entries
    ]
    return hashlib.sha256(msgspec.json.encode(contents, order="sorted")).hexdigest()[:16]
