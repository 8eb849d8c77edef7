"""What the Pods of a set may do: the version check reads the set and tells the height; and which account has it. Pure."""

from apis.cosmos import GROUP, CosmosFullNode
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.desired_objects import ROLE, ROLE_BINDING, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named
from internal.cosmos.fullnode.service_account_builder import account_of
from internal.cosmos.labels import role_binding_name, role_name


def build_roles(node_set: CosmosFullNode) -> list[Desired]:
    """One, with rights to this one set; none if the set names an account."""
    if node_set.spec.service_account_name:
        return []
    name, labels = named(node_set), default_labels(node_set, component="vc")
    plural = node_set.mapping().plural
    rules = [
        {
            "apiGroups": [GROUP],
            "resources": [plural],
            "resourceNames": [name],
            "verbs": ["get"],
        },
        {
            "apiGroups": [GROUP],
            "resources": [f"{plural}/status"],
            "resourceNames": [name],
            "verbs": ["patch"],
        },
    ]
    parts = {"metadata": metadata(node_set, role_name(name), labels), "rules": rules}
    return [built(node_set, ROLE, parts, inputs_of(name, labels))]


def build_role_bindings(node_set: CosmosFullNode) -> list[Desired]:
    """One, for the account that the Pods of a set run as; none if the set names an account."""
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
