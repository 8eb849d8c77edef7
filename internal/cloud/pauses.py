"""What pauses Instances and their subresources: both go on being followed, and start nothing."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.lifecycle import PausePolicy
from internal.cloud.labels import (
    INSTANCE,
    PAUSED,
    is_extracted,
    is_superseded_upgrade,
    pausing_annotation,
)


class Instances(Protocol):
    """The instances as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


INSTANCE_PAUSES: Final = PausePolicy(
    paused_by=lambda entry: pausing_annotation(entry.annotations),
    observes=True,
    leaves_alone=lambda entry: is_extracted(entry.annotations),
)
"""An instance out of management is left alone."""


def subresource_pauses(instances: Instances) -> PausePolicy:
    """Return what pauses subresources: an annotation of their own, or one of their Instance."""
    return PausePolicy(
        paused_by=partial(_paused_by, instances),
        observes=True,
        handled_in="lastHandledReconcileNow",  # the other field is that of a requested run
        leaves_alone=partial(_is_left_alone, instances),
    )


def _paused_by(instances: Instances, entry: Entry) -> str:
    instance = _instance_of(instances, entry)
    of_instance = "" if instance is None else pausing_annotation(instance.annotations)
    if of_instance:
        return f"{of_instance} of its instance"
    own = pausing_annotation(entry.annotations)
    if own == PAUSED and is_superseded_upgrade(entry.annotations):
        return ""  # the mark of an upgrade that another one replaced: no person paused it
    return own


def _is_left_alone(instances: Instances, entry: Entry) -> bool:
    instance = _instance_of(instances, entry)
    return instance is not None and is_extracted(instance.annotations)


def _instance_of(instances: Instances, entry: Entry) -> Entry | None:
    """Return the Instance of a subresource: by owner, else by its spec or label, else by its own name."""
    owner = entry.controller
    if owner is not None and owner.kind == Instance.gvk().kind:
        found = instances.get(owner.name, namespace=entry.namespace)
        return found if found is not None and found.uid == owner.uid else None
    spec = entry.field("spec")
    named = spec.get("instanceName") if isinstance(spec, dict) else None
    name = named if isinstance(named, str) and named else entry.labels.get(INSTANCE) or entry.name
    return instances.get(name, namespace=entry.namespace)
