"""Which Pods of a set are nodes, and which stand beside them. Pure."""

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from internal.cosmos.fullnode.metadata import named, node_ordinals
from internal.cosmos.labels import is_beside_node, pod_name


def is_node(node_set: CosmosFullNode, entry: Entry) -> bool:
    """Whether a Pod of the set is a node: by its name as long as the set wants it, else by its labels.

    A label that was changed by hand makes no Pod one of the other kind, whose control would delete it.
    """
    ordinals = node_ordinals(node_set)
    if entry.name in {pod_name(named(node_set), ordinal) for ordinal in ordinals}:
        return True
    templates = node_set.spec.additional_versioned_pods
    if entry.name in {pod_name(each.name, ordinal) for each in templates for ordinal in ordinals}:
        return False
    return not is_beside_node(entry.labels)
