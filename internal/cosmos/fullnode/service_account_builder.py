"""The ServiceAccount of the Pods of a set. Pure."""

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.desired_objects import ACCOUNT, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named
from internal.cosmos.labels import account_name


def account_of(node_set: CosmosFullNode) -> str:
    """Return the account that the Pods run as: the one that the set names, or else the one made for it."""
    return node_set.spec.service_account_name or account_name(named(node_set))


def build_service_accounts(node_set: CosmosFullNode) -> list[Desired]:
    """One; none if the set names an account, whose rights the manager does not grant then."""
    if node_set.spec.service_account_name:
        return []
    labels = default_labels(node_set, component="vc")
    parts = {"metadata": metadata(node_set, account_of(node_set), labels)}
    return [built(node_set, ACCOUNT, parts, inputs_of(account_of(node_set), labels))]
