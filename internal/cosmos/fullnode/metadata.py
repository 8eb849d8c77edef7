"""Labels and annotations of what is made for a set of nodes. Pure."""

from collections.abc import Mapping
from typing import Any

from apis.cosmos import CosmosFullNode, Metadata
from internal.cosmos import labels as label_keys
from internal.cosmos.inherited import FOUND_BY
from internal.cosmos.labels import pod_name
from internal.cosmos.names import to_label_key, to_label_value


def named(node_set: CosmosFullNode) -> str:
    """Return the name of a set."""
    return node_set.metadata.name or ""


def node_ordinals(node_set: CosmosFullNode) -> range:
    """Return the numbers of all nodes, those that are disabled or paused included."""
    start = node_set.spec.ordinals.start
    return range(start, start + node_set.spec.replicas)


def node_selector(node_set: CosmosFullNode) -> dict[str, str]:
    """Labels of the Pods of all nodes of a set, and of nothing else."""
    return {
        label_keys.NAME: to_label_value(named(node_set)),
        label_keys.COMPONENT: node_set.gvk().kind,
    }


def image_tag(image: str) -> str:
    """Return the version in an image's name: its tag, or else the beginning of its digest."""
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or digest.rpartition(":")[2][:12] or "latest"


def default_labels(
    node_set: CosmosFullNode, *, component: str = "", ordinal: int | None = None, image: str = ""
) -> dict[str, str]:
    """Return the manager's labels, in one order.

    `component` is the set's kind unless given; `ordinal`: it is one node's;
    `image` is that of a Pod, for the label of its version.
    """
    spec = node_set.spec
    labels = {
        label_keys.CREATED_BY: label_keys.FIELD_MANAGER,
        label_keys.COMPONENT: component or node_set.gvk().kind,
        label_keys.NAME: named(node_set),
        label_keys.NETWORK: spec.chain.network,
        label_keys.TYPE: spec.type.value,
    }
    if image:
        labels[label_keys.VERSION] = image_tag(image)
    if ordinal is not None:
        labels[label_keys.INSTANCE] = pod_name(named(node_set), ordinal)
    return {key: to_label_value(value) for key, value in labels.items()}


def metadata(
    node_set: CosmosFullNode,
    name: str,
    labels: Mapping[str, str],
    given: Metadata | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """`metadata` of an object: the manager's, and what users gave, which wins but for what is found by.

    Raises ValueError if the set has no namespace.
    """
    if not node_set.metadata.namespace:
        raise ValueError("a set of nodes has a namespace")
    theirs = Metadata() if given is None else given
    chosen = {to_label_key(key): to_label_value(value) for key, value in theirs.labels.items()}
    merged = {**labels, **{key: value for key, value in chosen.items() if key not in FOUND_BY}}
    noted = {to_label_key(key): value for key, value in theirs.annotations.items()}
    made: dict[str, Any] = {
        "name": name,
        "namespace": node_set.metadata.namespace,
        "labels": dict(sorted(merged.items())),
    }
    if noted := {**noted, **(annotations or {})}:
        made["annotations"] = dict(sorted(noted.items()))
    return made
