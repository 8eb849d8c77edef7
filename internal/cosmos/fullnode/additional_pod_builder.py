"""The Pods beside the nodes, such as an indexer for each of them. Pure."""

from collections.abc import Iterator
from typing import Any, Final

from apis.cosmos import AdditionalPod, CosmosFullNode
from ctrlruntime.json import copied
from ctrlruntime.resources import Desired
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.desired_objects import POD, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named, node_ordinals
from internal.cosmos.fullnode.pod_builder import is_built, set_images
from internal.cosmos.fullnode.versions import node_version
from internal.cosmos.invalid import invalid_field
from internal.cosmos.labels import pod_name
from internal.cosmos.names import to_label_value

_WEIGHT: Final = 100
_PER_NODE: Final = 100
"""Additional Pods of one node are ordered within so many numbers."""


def build_additional_pods(node_set: CosmosFullNode) -> Iterator[Desired]:
    """Return those of each node that is to run, each built when it is taken: 200 nodes may have 100 each, of up to 1.5 MB.

    While a node is away nothing stands beside it: it could be writing to its disk.

    Raises InvalidSpec for a name that is the set's own, or is given twice, and for a Pod without containers.
    """
    templates = node_set.spec.additional_versioned_pods
    names = [each.name for each in templates]
    if named(node_set) in names or len(set(names)) < len(names):
        raise invalid_field(
            "spec.additionalVersionedPods",
            "names have to differ from each other and from the set's",
        )
    for place, template in enumerate(templates):
        if not template.pod_spec.get("containers"):
            raise invalid_field(
                f"spec.additionalVersionedPods[{place}]",
                "it has no containers, in spec or beside its name",
            )
    return (
        _pod(node_set, template, ordinal, place)
        for ordinal in node_ordinals(node_set)
        if is_built(node_set, ordinal)
        for place, template in enumerate(templates)
    )


def _pod(node_set: CosmosFullNode, template: AdditionalPod, ordinal: int, place: int) -> Desired:
    node, name = pod_name(named(node_set), ordinal), pod_name(template.name, ordinal)
    spec: dict[str, Any] = copied(template.pod_spec)
    version = node_version(node_set, node)
    if version is not None:
        set_images(spec, version)
    if template.prefer_same_node:
        _prefer(spec, node)
    images = [each.get("image", "") for each in spec.get("containers") or []]
    labels = {
        **default_labels(node_set, component=label_keys.ADDITIONAL, image=next(iter(images), "")),
        label_keys.INSTANCE: to_label_value(name),
        label_keys.BELONGS_TO: to_label_value(node),
    }
    return built(
        node_set,
        POD,
        {"metadata": metadata(node_set, name, labels, template.metadata), "spec": spec},
        inputs_of(labels, template, version),
        ordinal=ordinal * _PER_NODE + place,
        instance=ordinal,
    )


def _prefer(spec: dict[str, Any], node: str) -> None:
    """Rather on the machine that the node runs on, if there is room."""
    affinity = spec.setdefault("affinity", {}).setdefault("podAffinity", {})
    preferred = affinity.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
    preferred.append(
        {
            "weight": _WEIGHT,
            "podAffinityTerm": {
                "labelSelector": {"matchLabels": {label_keys.INSTANCE: to_label_value(node)}},
                "topologyKey": "kubernetes.io/hostname",
            },
        }
    )
