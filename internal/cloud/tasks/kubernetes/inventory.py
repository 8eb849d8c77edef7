"""What was applied for an instance, so that it can be pruned: a ConfigMap in the cluster itself.

It is written before anything is applied, with the old and the new objects together, and again when
all is done: a crash in between forgets nothing.
"""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import orjson

from apis.cloud import GROUP
from ctrlruntime.api.kinds import Manifest
from internal.cloud.keys import KEY_LENGTH
from internal.cloud.tasks.kubernetes.documents import ObjectRef
from internal.cloud.tasks.task import TaskError

INVENTORY: Final = f"{GROUP}/inventory"
"""Label of the ConfigMap: the key of the instance whose objects it lists."""
UPGRADES: Final = f"{GROUP}/upgrades"
"""Label of what upgrades leave in the cluster, which goes with the workload: the key of the instance."""
OWNER: Final = f"{GROUP}/owner"
"""Annotation of every object that was applied, and of the inventory: namespace and name of the instance."""
PRUNE: Final = f"{GROUP}/prune"
"""Annotation of an object: "false" keeps it when it leaves the bundle; "true" lets even a kind go that
holds data."""
KEPT_KINDS: Final = frozenset(
    {"Namespace", "CustomResourceDefinition", "PersistentVolumeClaim", "PersistentVolume"}
)
"""Kinds whose end is the end of data: they go only if they say so themselves."""

_KEY: Final = "objects.json"


def inventory_name(key: str) -> str:
    """Return the name of the ConfigMap of an instance by its key."""
    return f"{key}-inventory"


def encode(key: str, owner: str, namespace: str, refs: Iterable[ObjectRef]) -> Manifest:
    """Return the ConfigMap that lists these objects of an instance.

    `key`: see :func:`internal.cloud.keys.instance_key`. `owner`: namespace and name of the instance.
    """
    rows = sorted([ref.group, ref.kind, ref.namespace, ref.name] for ref in set(refs))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": inventory_name(key),
            "namespace": namespace,
            "labels": {INVENTORY: key},
            "annotations": {OWNER: owner},
        },
        "data": {_KEY: orjson.dumps(rows).decode()},
    }


def former_label(instance: str) -> str:
    """Return the value that the label INVENTORY had before it was a key: the name alone.

    Instances of several namespaces share it, so an inventory that carries it proves nothing.
    """
    if len(instance) <= KEY_LENGTH:
        return instance
    digest = hashlib.sha256(instance.encode()).hexdigest()[:8]
    return f"{instance[: KEY_LENGTH - 9].rstrip('-._')}-{digest}"


def decode(config_map: Mapping[str, object]) -> set[ObjectRef]:
    """Return the objects that a ConfigMap lists. Raises TaskError if it cannot be read."""
    data = config_map.get("data")
    text = data.get(_KEY, "[]") if isinstance(data, Mapping) else "[]"
    try:
        rows = orjson.loads(text)
        return {ObjectRef(*map(str, row)) for row in rows}
    except (orjson.JSONDecodeError, TypeError) as error:
        raise TaskError(
            "the inventory in the cluster cannot be read, so nothing is changed: restore its key"
            f" {_KEY}, or delete the ConfigMap and prune by hand what left the bundle"
        ) from error


def annotations_of(manifest: Mapping[str, object]) -> Mapping[str, object]:
    """Return the annotations of a live object."""
    metadata = manifest.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def prunable(kind: str, annotations: Mapping[str, object], owner: str) -> bool:
    """Whether a live object may be deleted: it is this instance's, and does not say otherwise."""
    if annotations.get(OWNER) != owner:
        return False
    wish = annotations.get(PRUNE)
    return wish == "true" or (wish != "false" and kind not in KEPT_KINDS)
