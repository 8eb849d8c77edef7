"""What the controllers of the cloud system share: options and declared informers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from apis.cloud import Instance
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.store import Store
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Definitions
from internal.cloud.instance import bundles, domains
from internal.cloud.instance.bundles import Bundles
from internal.cloud.instance.children import OF_INSTANCE, instances_of
from internal.cloud.instance.order import check_order
from internal.cloud.labels import FIELD_MANAGER
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver import Pace
from internal.cloud.tasks.definition import TaskDefinition
from internal.cloud.tasks.settings import LiveDefinitions, TaskSettings, with_settings
from manager.controllers.runs import RunsOptions
from manager.controllers.task_settings import read_settings

CONFIG_MAP: RESTMapping = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudOptions:
    """Options of the cloud system."""

    instance_concurrency: int = 20
    """Instances worked on at once."""
    subresource_concurrency: int = 10
    """Objects of one type of subresource worked on at once; no limit on runs."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """By task, runs at once; what is not named keeps its definition's. 0 is without limit."""
    starts_per_minute: Mapping[str, int] = field(default_factory=dict)
    """By task, starts in any 60 seconds; what is not named keeps its definition's. 0: no limit."""
    timeouts: Mapping[str, float] = field(default_factory=dict)
    """By task, seconds that a run may take; what is not named keeps its definition's."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """By task, attempts for one set of inputs; what is not named keeps its definition's. 0: no limit."""
    settings_file: Path | None = None
    """File whose settings take the place of those above, and may change while the manager runs."""
    runs: RunsOptions = field(default_factory=RunsOptions)
    """Where runs execute."""
    pace: Pace = field(default_factory=Pace)
    """How long the driver waits for what."""

    def limited(self, subresources: Sequence[Subresource[Any]]) -> list[Subresource[Any]]:
        """The subresources with the limits that the options give them."""
        return [replace(item, definition=self._definition(item)) for item in subresources]

    def _definition(self, item: Subresource[Any]) -> TaskDefinition:
        name = item.definition.name
        settings = TaskSettings(
            limit=self.limits.get(name),
            starts_per_minute=self.starts_per_minute.get(name),
            timeout_seconds=self.timeouts.get(name),
            attempts=self.attempts.get(name),
        )
        return with_settings(item.definition, settings)


@dataclass(slots=True)
class CloudParts:
    """What the controllers share."""

    manager: Manager
    options: CloudOptions
    subresources: Sequence[Subresource[Any]]
    instances: InformerHandle
    config_maps: InformerHandle
    kinds: Mapping[str, InformerHandle]
    """The informers of the subresources, by kind."""
    definitions: LiveDefinitions
    """The definitions of tasks as the settings have them at the moment."""
    crds: Definitions
    """Which CRDs are being deleted."""
    patcher: ObjectPatcher
    """Writes statuses and finalizers of the objects of all controllers."""

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
    manager: Manager, options: CloudOptions, subresources: Sequence[Subresource[Any]]
) -> CloudParts:
    """Declare what is read. Raises OrderError, and SettingsError for a file that cannot be used."""
    check_order(subresources)
    limited = options.limited(subresources)
    declare = manager.cache.declare
    indexes = {domains.INDEX: domains.names_of, bundles.INDEX: bundles.config_maps_of}
    instances = declare(Instance, indexes=indexes)
    instances.informer.store.add_index("uid", lambda entry: (entry.uid,))
    return CloudParts(
        manager=manager,
        options=options,
        subresources=limited,
        definitions=_live_definitions(limited, options.settings_file),
        crds=Definitions(manager.live_client),
        patcher=ObjectPatcher(manager.client, FIELD_MANAGER),
        instances=instances,
        config_maps=declare(CONFIG_MAP, labels=bundles.SELECTOR),
        kinds={
            item.kind.gvk().kind: declare(
                item.kind, track_manager=FIELD_MANAGER, indexes={OF_INSTANCE: instances_of}
            )
            for item in subresources
        },
    )


def _live_definitions(
    subresources: Sequence[Subresource[Any]], settings: Path | None
) -> LiveDefinitions:
    definitions = LiveDefinitions(item.definition for item in subresources)
    if settings is not None:
        read_settings(settings, definitions)
    return definitions
