"""What the controllers of the cloud system share: declared informers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apis.cloud import Instance
from ctrlruntime.api import BUILTIN, GroupVersionKind, Resource, RESTMapping
from ctrlruntime.cache import Cache, InformerHandle, Store
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.lifecycle.owner_index import uid_index
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Definitions
from internal.cloud import workload_drift
from internal.cloud.hub_instances import HubInstances
from internal.cloud.instance import bundles, domains
from internal.cloud.instance.bundles import Bundles
from internal.cloud.instance.children import OF_INSTANCE, instances_of
from internal.cloud.instance.order import check_order
from internal.cloud.labels import FIELD_MANAGER, INSTANCE
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver.writes import SECRET
from internal.cloud.tasks.settings import LiveDefinitions
from internal.cloud.terraform_types import TerraformTypes
from manager.controllers.cloud_options import CloudOptions
from manager.controllers.object_cluster import ObjectCluster
from manager.controllers.task_settings import read_settings
from manager.controllers.terraform_types import read_types

if TYPE_CHECKING:
    from manager.controllers.hub import Hub

CONFIG_MAP: RESTMapping = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


@dataclass(slots=True)
class CloudParts:
    """What the controllers share."""

    manager: Manager
    options: CloudOptions
    subresources: Sequence[Subresource[Any]]
    instances: InformerHandle
    config_maps: InformerHandle
    inventories: InformerHandle
    kinds: Mapping[str, InformerHandle]
    """The informers of the subresources, by kind."""
    definitions: LiveDefinitions
    """The definitions of tasks as the settings have them at the moment."""
    types: TerraformTypes
    """The types of infrastructure that there are at the moment."""
    crds: Definitions
    """Which CRDs are being deleted."""
    patcher: ObjectPatcher
    """Writes statuses and finalizers of the objects of all controllers."""
    objects: ObjectCluster
    """Where runs are, and what they read and hand over."""
    hub: HubInstances | None
    """The same on the hub of a data plane; None: the objects are in one cluster with their runs."""

    @property
    def bundles(self) -> Bundles:
        """The ConfigMaps that workloads are made from."""
        return Bundles(self.config_maps.informer.store)

    def handle_of(self, kind: type[Resource[Any, Any]]) -> InformerHandle:
        """Return the informer of instances or of a subresource."""
        return self.instances if kind is Instance else self.kinds[kind.gvk().kind]

    def store_of(self, kind: type[Resource[Any, Any]]) -> Store:
        """Return the objects of a kind as the cache has them."""
        return self.handle_of(kind).informer.store


def make_parts(
    manager: Manager,
    options: CloudOptions,
    subresources: Sequence[Subresource[Any]],
    hub: Hub | None = None,
) -> CloudParts:
    """Declare what is read. `hub`: where runs are, if the manager's own cluster is a data plane.

    Raises OrderError, and SettingsError for a file that cannot be used.
    """
    check_order(subresources)
    limited = options.limited(subresources)
    declared = declare_kinds(manager.cache, subresources)
    objects = ObjectCluster(manager, hub, field_manager=FIELD_MANAGER, selected=INSTANCE)
    return CloudParts(
        manager=manager,
        options=options,
        subresources=limited,
        definitions=_live_definitions(limited, options.settings_file),
        types=read_types(options.terraform_types_file),
        crds=Definitions(manager.live_client),
        patcher=ObjectPatcher(manager.client, FIELD_MANAGER),
        instances=declared.instances,
        config_maps=declared.config_maps,
        inventories=objects.declare(CONFIG_MAP, labels=workload_drift.SELECTOR),
        kinds=declared.kinds,
        objects=objects,
        hub=_hub_instances(objects, declared.instances.informer.store, options.pace.hub),
    )


def _hub_instances(objects: ObjectCluster, instances: Store, period: float) -> HubInstances | None:
    view = objects.view()
    if view is None:
        return None
    for mapping in (CONFIG_MAP, SECRET):
        objects.declare(mapping, labels=INSTANCE, track_manager=FIELD_MANAGER, metadata_only=True)
    return HubInstances(hub=view, control=objects.control(instances), period=period)


@dataclass(frozen=True, slots=True)
class DeclaredKinds:
    """The informers of what is read."""

    instances: InformerHandle
    config_maps: InformerHandle
    kinds: Mapping[str, InformerHandle]
    """Those of the subresources, by kind."""


def declare_kinds(cache: Cache, subresources: Sequence[Subresource[Any]]) -> DeclaredKinds:
    """Declare what is read, with its indexes."""
    indexes = {domains.INDEX: domains.names_of, bundles.INDEX: bundles.config_maps_of}
    instances = cache.declare(Instance, indexes=indexes)
    kinds = {
        item.kind.gvk().kind: cache.declare(
            item.kind, track_manager=FIELD_MANAGER, indexes={OF_INSTANCE: instances_of}
        )
        for item in subresources
    }
    for handle in (instances, *kinds.values()):
        handle.informer.store.add_index("uid", uid_index)
    return DeclaredKinds(instances, cache.declare(CONFIG_MAP, labels=bundles.SELECTOR), kinds)


def _live_definitions(
    subresources: Sequence[Subresource[Any]], settings: Path | None
) -> LiveDefinitions:
    definitions = LiveDefinitions(item.definition for item in subresources)
    if settings is not None:
        read_settings(settings, definitions)
    return definitions
