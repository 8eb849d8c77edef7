"""What all builders return: a manifest, whose it is, and what it was built from. Pure."""

from typing import Final

import orjson

from apis.cosmos import BuilderChanges, CosmosFullNode
from ctrlruntime.api import BUILTIN, ApiModel, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.resources import Desired
from ctrlruntime.resources import inputs_of as hash_of
from internal.cosmos.inherited import labels_beside

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM: Final = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
CONFIG_MAP: Final = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
SECRET: Final = BUILTIN[GroupVersionKind("", "v1", "Secret")]
SERVICE: Final = BUILTIN[GroupVersionKind("", "v1", "Service")]
ACCOUNT: Final = BUILTIN[GroupVersionKind("", "v1", "ServiceAccount")]
DISRUPTION_BUDGET: Final = BUILTIN[GroupVersionKind("policy", "v1", "PodDisruptionBudget")]
_RBAC: Final = "rbac.authorization.k8s.io"
ROLE: Final = BUILTIN[GroupVersionKind(_RBAC, "v1", "Role")]
ROLE_BINDING: Final = BUILTIN[GroupVersionKind(_RBAC, "v1", "RoleBinding")]


def inputs_of(*parts: object) -> str:
    """Return a short name for what a builder is given.

    It does not change with the builder, and what equals its default counts as absent: neither a new
    manager nor a field that it adds makes an unchanged resource look changed.
    """
    return hash_of(*(plain(part) if isinstance(part, ApiModel) else part for part in parts))


def plain(part: ApiModel, *without: str) -> Manifest:
    """Return a part of a spec, without the fields named and what equals its default."""
    return part.model_dump(
        mode="json", by_alias=True, exclude_defaults=True, exclude=set(without) or None
    )


def built(
    node_set: CosmosFullNode,
    mapping: RESTMapping,
    parts: Manifest,
    inputs: str,
    *,
    ordinal: int = 0,
    instance: int | None = None,
    once: bool = False,
) -> Desired:
    """Return the desired object, with the labels of the set that it has not itself. `ordinal` orders objects of one kind; `instance` is the number of the node.

    Its manifest is a copy: it shares nothing with the set, nor with what else is built of it.
    """
    gvk = mapping.gvk
    own = parts["metadata"].get("labels") or {}
    manifest = {"apiVersion": gvk.api_version, "kind": gvk.kind, **parts}
    return Desired(
        mapping=mapping,
        manifest=orjson.loads(orjson.dumps(manifest)),
        ordinal=ordinal,
        once=once,
        instance=instance,
        inputs=inputs,
        roll_on_builder_change=follows_builder(node_set),
        inherited=labels_beside(node_set.metadata.labels, own),
    )


def follows_builder(node_set: CosmosFullNode) -> bool:
    """Whether objects are brought up to date that only a new manager would build in another way."""
    return node_set.spec.strategy.builder_changes is BuilderChanges.ROLL
