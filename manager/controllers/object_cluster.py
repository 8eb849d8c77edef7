"""Where the objects of a system are: the manager's own cluster, or the hub of a data plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ctrlruntime.api import Resource, RESTMapping
from ctrlruntime.cache import Cache, Informer, InformerHandle
from ctrlruntime.cache.store import IndexFn, Store
from ctrlruntime.client.client import Client
from ctrlruntime.client.selectors import LabelSelector
from ctrlruntime.cluster import Cluster, ClusterRef, ClusterSet
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.handlers import MapFunc, enqueue_map_func
from ctrlruntime.controller.predicates import Predicate
from ctrlruntime.lifecycle.owner_index import (
    OF_OWNER,
    owner_index,
    recorded_owner,
    recorded_owner_index,
    uid_index,
)
from ctrlruntime.lifecycle.remote import Remote
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Control, RemoteControl, RemotePlacement

if TYPE_CHECKING:
    from manager.controllers.hub import Hub


class ObjectCluster:
    """Reads, writes and watches what the objects of a system have."""

    def __init__(
        self,
        manager: Manager,
        hub: Hub | None = None,
        *,
        field_manager: str,
        selected: LabelSelector | None = None,
    ) -> None:
        """`hub`: the objects are there, and the manager's own cluster is a data plane.

        `selected`: labels of everything that has an owner, so that what others run in the cluster is not read.
        """
        self._manager = manager
        self._field_manager = field_manager
        self._selected = selected
        self._hub = hub
        self._informers: list[Informer] = []
        self.owner_index: IndexFn = (
            owner_index if hub is None else partial(recorded_owner_index, hub.data_plane)
        )

    @property
    def is_hub(self) -> bool:
        """Whether objects are in another cluster than their owners."""
        return self._hub is not None

    @property
    def cluster(self) -> Cluster:
        """Where they are."""
        return self._manager.cluster if self._hub is None else self._hub.cluster

    @property
    def cache(self) -> Cache:
        return self.cluster.cache

    @property
    def live_client(self) -> Client:
        """Reads past the cache."""
        return self.cluster.live_client

    @property
    def watched(self) -> ClusterRef:
        """The cluster, as watches name it."""
        return ClusterSet.LOCAL if self._hub is None else self._hub.cluster

    @property
    def placement(self) -> RemotePlacement | None:
        """How objects are written that are on the hub; None: there is none."""
        hub = self._hub
        if hub is None:
            return None
        return RemotePlacement(owner_cluster=hub.data_plane, labels=hub.labels)

    def view(self) -> Remote | None:
        """Return the hub as reconcilers see it; None: there is none."""
        hub = self._hub
        if hub is None:
            return None
        return Remote(
            explain=hub.explain, unreachable=hub.unreachable, informers=lambda: self._informers
        )

    def subscribe(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` when the hub answers no longer, or again."""
        if self._hub is not None:
            self._hub.monitor.subscribe(on_change)

    def control(self, owners: Store) -> Control:
        """Return what writes those that the objects of a store own; the store gets an index of UIDs."""
        owners.add_index("uid", uid_index)

        def alive(uid: str) -> bool:
            return bool(owners.count("uid", uid))

        if self._hub is None:
            return Control(self._manager.cluster, field_manager=self._field_manager, alive=alive)
        return RemoteControl(
            self._hub.cluster,
            owner_cluster=self._hub.data_plane,
            labels=self._hub.labels,
            field_manager=self._field_manager,
            alive=alive,
        )

    def declare(
        self,
        mapping: RESTMapping,
        *,
        labels: LabelSelector | None = None,
        track_manager: str | None = None,
        metadata_only: bool = False,
        indexes: Mapping[str, IndexFn] | None = None,
    ) -> InformerHandle:
        """Request that a kind is watched; see `Cache.declare`."""
        handle = self.cache.declare(
            mapping,
            labels=labels,
            track_manager=track_manager,
            metadata_only=metadata_only,
            indexes=indexes,
        )
        self._informers.append(handle.informer)
        return handle

    def declare_owned(self, mapping: RESTMapping, *, metadata_only: bool = False) -> InformerHandle:
        """Request that a kind is watched whose objects have owners: those of this system alone."""
        return self.declare(
            mapping,
            labels=self._selected,
            track_manager=self._field_manager,
            metadata_only=metadata_only,
            indexes={OF_OWNER: self.owner_index},
        )

    def watch_owned(
        self,
        builder: Builder[Request],
        kind: type[Resource[Any, Any]],
        mapping: RESTMapping,
        *,
        metadata_only: bool = False,
        predicates: Sequence[Predicate] = (),
    ) -> None:
        """Have a controller of `kind` follow the objects of another kind that it owns."""
        labels, indexes = self._selected, {OF_OWNER: self.owner_index}
        if self._hub is None:
            builder.owns(
                mapping,
                labels=labels,
                track_manager=self._field_manager,
                metadata_only=metadata_only,
                indexes=indexes,
                predicates=predicates,
            )
            return
        builder.watches(
            mapping,
            enqueue_map_func(partial(recorded_owner, kind), cluster=""),
            labels=labels,
            track_manager=self._field_manager,
            metadata_only=metadata_only,
            indexes=indexes,
            predicates=predicates,
            cluster=self._hub.cluster,
        )

    def watch(
        self,
        builder: Builder[Request],
        mapping: RESTMapping,
        fn: MapFunc[Any, Request],
        *,
        labels: LabelSelector | None = None,
        predicates: Sequence[Predicate] = (),
        optional: bool = False,
    ) -> None:
        """Have a controller follow objects of a kind, and request what `fn` finds for each."""
        builder.watches(
            mapping,
            enqueue_map_func(fn, cluster=""),
            labels=labels,
            track_manager=self._field_manager,
            predicates=predicates,
            optional=optional,
            cluster=self.watched,
        )
