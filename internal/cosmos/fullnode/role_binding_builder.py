"""Who has the rights of the role: the account that the Pods of a set run as. Pure."""

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.desired_objects import ROLE, ROLE_BINDING, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named
from internal.cosmos.fullnode.service_account_builder import account_of
from internal.cosmos.labels import role_binding_name, role_name


def build_role_bindings(node_set: CosmosFullNode) -> list[Desired]:
    """One; none if the set names an account."""
    if node_set.spec.service_account_name:
        return []
    name, labels = named(node_set), default_labels(node_set, component="vc")
    parts = {
        "metadata": metadata(node_set, role_binding_name(name), labels),
        "roleRef": {
            "apiGroup": ROLE.gvk.group,
            "kind": ROLE.gvk.kind,
            "name": role_name(name),
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": account_of(node_set),
                "namespace": node_set.metadata.namespace,
            }
        ],
    }
    return [built(node_set, ROLE_BINDING, parts, inputs_of(name, labels))]
