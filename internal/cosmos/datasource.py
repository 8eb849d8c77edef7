"""What a new claim is filled from: a snapshot or claim that is named, or the newest snapshot that is ready."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from apis.cosmos import AutoDataSource, DataSource, VolumeClaimTemplate
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, Quantity
from ctrlruntime.cache import Cache, Entry
from ctrlruntime.client import Client, NotFound
from internal.cosmos.labels import INSTANCE, VERSION
from internal.cosmos.names import to_label_value
from internal.cosmos.volumesnapshots import (
    GROUP,
    VOLUME_SNAPSHOT,
    height_in,
    height_of,
    is_ready,
    restore_size,
    taken_at,
)

CLAIM: Final = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
NEVER: Final = datetime.min.replace(tzinfo=UTC)


class SourceReason(StrEnum):
    """Reasons of events about sources of data."""

    GET_SNAPSHOT = "DataSourceGetSnapshot"
    """The snapshot that is named is not there, or not ready."""
    GET_CLAIM = "DataSourceGetPVC"
    """The claim that is named is not there."""
    UNSUPPORTED = "DataSourceUnsupported"
    """Claims cannot be filled from such an object."""
    FIND_SNAPSHOT = "AutoDataSourceFindSnapshot"
    """No snapshot of these labels is ready."""
    EMPTY_SELECTOR = "AutoDataSourceEmptySelector"
    """No label is given, which selects no snapshot."""
    FOUND = "AutoDataSource"
    """A claim is made from the newest snapshot."""


@dataclass(frozen=True, slots=True)
class FoundSource:
    """A source that is there."""

    reference: Manifest
    """`spec.dataSource` of the claim."""
    size: Quantity | None
    """The least size of the claim; None if unknown."""
    height: int | None = None
    """Next height of the node on this disk, where it was recorded."""
    version: str = ""
    """Tag of the image that the node ran, where it was recorded."""

    @property
    def name(self) -> str:
        return str(self.reference["name"])


class SourceMissing(Exception):
    """The source cannot be had, for now or ever; the message gives the reason."""

    def __init__(self, reason: SourceReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def newest_ready(snapshots: Iterable[Entry]) -> Entry | None:
    """Of those that are ready the one taken last; by name where times are equal or unknown."""
    return max(
        filter(is_ready, snapshots),
        key=lambda entry: (taken_at(entry) or NEVER, entry.name),
        default=None,
    )


def selector_of(source: AutoDataSource, instance: str) -> dict[str, str]:
    """Return the labels to look for. The spec's own map stays as it is."""
    labels = dict(source.volume_snapshot_selector)
    if source.match_instance:
        labels[INSTANCE] = to_label_value(instance)
    return labels


def from_snapshot(entry: Entry) -> FoundSource:
    """Return a snapshot as the source of a claim."""
    reference = {"apiGroup": GROUP, "kind": VOLUME_SNAPSHOT.gvk.kind, "name": entry.name}
    version = entry.labels.get(VERSION, "")
    return FoundSource(reference, restore_size(entry), height_of(entry), version)


class DataSources:
    """Looks sources up: snapshots in the cache, a claim that is named at the server.

    VolumeSnapshots have to be declared to the cache. Needs the right to get persistentvolumeclaims.
    """

    def __init__(self, cache: Cache, live: Client) -> None:
        self._cache = cache
        self._live = live

    async def find(
        self, template: VolumeClaimTemplate, *, namespace: str, instance: str
    ) -> FoundSource | None:
        """Return the source of the claim of one node (`instance` is its Pod's name); None if none is asked for.

        Raises SourceMissing, and the client's errors.
        """
        if template.data_source is not None:
            return await self._named(template.data_source, namespace)
        if template.auto_data_source is not None:
            return self.newest(selector_of(template.auto_data_source, instance), namespace)
        return None

    def newest(self, labels: Mapping[str, str], namespace: str) -> FoundSource:
        """Return the newest snapshot of these labels that is ready. Raises SourceMissing, also for no labels."""
        if not labels:
            raise SourceMissing(
                SourceReason.EMPTY_SELECTOR,
                "the selector of the VolumeSnapshots has no label, and selects nothing: give it the labels of "
                f"those that are meant (`kubectl get volumesnapshots -n {namespace} --show-labels`)",
            )
        here = self._cache.entries(VOLUME_SNAPSHOT, namespace)
        found = newest_ready(entry for entry in here if labels.items() <= entry.labels.items())
        if found is None:
            selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
            raise SourceMissing(
                SourceReason.FIND_SNAPSHOT,
                f"no VolumeSnapshot with labels {selector} is ready to use in namespace "
                f"{namespace}{self._absent()}",
            )
        return from_snapshot(found)

    async def _named(self, source: DataSource, namespace: str) -> FoundSource:
        kind, group = source.kind, source.api_group or ""
        if (group, kind) == (GROUP, VOLUME_SNAPSHOT.gvk.kind):
            return self._snapshot(source.name, namespace)
        if (group, kind) == ("", CLAIM.gvk.kind):
            return await self._claim(source.name, namespace)
        raise SourceMissing(
            SourceReason.UNSUPPORTED,
            f"claims cannot be filled from {kind} of group {group or '(core)'}: name a VolumeSnapshot "
            f"of {GROUP}, or a PersistentVolumeClaim without apiGroup",
        )

    def _snapshot(self, name: str, namespace: str) -> FoundSource:
        entry = self._cache.entry(VOLUME_SNAPSHOT, name, namespace=namespace)
        if entry is None or not is_ready(entry):
            state = "does not exist" if entry is None else "is not ready to use"
            raise SourceMissing(
                SourceReason.GET_SNAPSHOT, f"VolumeSnapshot {name} {state}{self._absent()}"
            )
        return from_snapshot(entry)

    async def _claim(self, name: str, namespace: str) -> FoundSource:
        try:
            claim = await self._live.get(CLAIM, name, namespace=namespace)
        except NotFound:
            raise SourceMissing(
                SourceReason.GET_CLAIM, f"PersistentVolumeClaim {name} does not exist"
            ) from None
        capacity = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
        reference = {"kind": CLAIM.gvk.kind, "name": name}
        size = None if capacity is None else Quantity(capacity)
        return FoundSource(reference, size, height_in(claim["metadata"].get("annotations") or {}))

    def _absent(self) -> str:
        if self._cache.informer(VOLUME_SNAPSHOT).missing_since is None:
            return ""
        return f" (the cluster does not serve {VOLUME_SNAPSHOT.gvk.kind}s of {GROUP})"
