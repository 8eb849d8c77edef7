"""The ConfigMap in an instance's cluster that lists what was applied there. Pure.

It is written before anything is applied, with the old and the new objects together, and again when all
is done: a crash in between forgets nothing. The last write names the run, and which fields of each
object that run owns: where the cluster is the manager's own, that shows what was deleted or edited since.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from apis.cloud import GROUP
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.cloud.keys import KEY_LENGTH
from internal.cloud.labels import RUN_ID
from internal.cloud.tasks.kubernetes.documents import ObjectRef
from internal.cloud.tasks.task import TaskError

INVENTORY: Final = f"{GROUP}/inventory"
"""Label of the ConfigMap: the key of the instance whose objects it lists."""
WORKLOAD: Final = f"{GROUP}/workload"
"""Label of every object that was applied: the key of the instance."""
OWNER: Final = f"{GROUP}/owner"
"""Annotation of every object that was applied, and of the inventory: namespace and name of the instance."""
FIELD_MANAGER: Final = "cloud-bundle"
"""Field manager of what a bundle applies."""

_OBJECTS: Final = "objects.json"
_FIELDS: Final = "fields.json"


@dataclass(frozen=True, slots=True)
class AppliedRecord:
    """What a successful run left behind."""

    run_id: str
    fields: Mapping[ObjectRef, str]
    """By object, the digest of the fields that the run owns."""

    @classmethod
    def of(cls, run_id: str, answers: Mapping[ObjectRef, Manifest]) -> "AppliedRecord":
        """Return the record of a run by the server's answers to its writes."""
        return cls(run_id, {ref: _digest_of(answer) for ref, answer in answers.items()})

    @property
    def text(self) -> str:
        """The fields as JSON."""
        rows = [
            [ref.group, ref.kind, ref.namespace, ref.name, digest]
            for ref, digest in sorted(self.fields.items())
        ]
        return orjson.dumps(rows).decode()


def record_of(inventory: Entry) -> AppliedRecord | None:
    """Return what the last run left behind by its inventory; None while one is under way, or if it is unreadable."""
    run_id = inventory.annotations.get(RUN_ID, "")
    text = (inventory.field("data") or {}).get(_FIELDS)
    if not run_id or not isinstance(text, str):
        return None
    try:
        rows = orjson.loads(text)
        return AppliedRecord(run_id, {ObjectRef(*row[:4]): str(row[4]) for row in rows})
    except (orjson.JSONDecodeError, TypeError, IndexError, KeyError):
        return None


def fields_digest(owned: bytes | None) -> str:
    """Return a digest of a fieldsV1 document, without the number of replicas: that is an autoscaler's to change."""
    fields = orjson.loads(owned) if owned else {}
    spec = fields.get("f:spec")
    if isinstance(spec, dict):
        spec.pop("f:replicas", None)
    text = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:16]


def _digest_of(answer: Manifest) -> str:
    group, _, version = str(answer["apiVersion"]).rpartition("/")
    gvk = GroupVersionKind(group, version, str(answer["kind"]))
    decoder = EntryDecoder(gvk, metadata_only=True, track_manager=FIELD_MANAGER)
    return fields_digest(decoder.decode_manifest(answer).owned)


def inventory_name(key: str) -> str:
    """Return the name of the ConfigMap of an instance by its key."""
    return f"{key}-inventory"


def encode(
    key: str,
    owner: str,
    namespace: str,
    refs: Iterable[ObjectRef],
    applied: "AppliedRecord | None" = None,
    labels: Mapping[str, str] | None = None,
) -> Manifest:
    """Return the ConfigMap that lists these objects of an instance.

    `key`: see :func:`internal.cloud.keys.instance_key`. `owner`: namespace and name of the instance.
    `applied`: what a run left behind; None while it is under way. `labels`: further ones.
    """
    rows = sorted([ref.group, ref.kind, ref.namespace, ref.name] for ref in set(refs))
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": inventory_name(key),
            "namespace": namespace,
            "labels": {**(labels or {}), INVENTORY: key},
            "annotations": {OWNER: owner} | ({RUN_ID: applied.run_id} if applied else {}),
        },
        "data": {_OBJECTS: orjson.dumps(rows).decode()}
        | ({_FIELDS: applied.text} if applied else {}),
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
    text = data.get(_OBJECTS, "[]") if isinstance(data, Mapping) else "[]"
    try:
        rows = orjson.loads(text)
        return {ObjectRef(*map(str, row)) for row in rows}
    except (orjson.JSONDecodeError, TypeError) as error:
        raise TaskError(
            "the inventory in the cluster cannot be read, so nothing is changed: restore its key"
            f" {_OBJECTS}, or delete the ConfigMap and prune by hand what left the bundle"
        ) from error
