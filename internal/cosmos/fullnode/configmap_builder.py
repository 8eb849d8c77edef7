"""ConfigMaps with what is laid over the configuration of each node. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from apis.cosmos import CosmosFullNode, DatabaseBackend, PeerRollout
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.desired_objects import CONFIG_MAP, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named, node_ordinals
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.fullnode.peers import Peers
from internal.cosmos.fullnode.toml_overlay import (
    APP_OVERLAY,
    CONFIG_OVERLAY,
    app_overlay,
    config_overlay,
)
from internal.cosmos.fullnode.versions import halt_height
from internal.cosmos.labels import pod_name
from internal.cosmos.workload.checksums import content_checksum

BEFORE: Final = DatabaseBackend.GOLEVELDB
"""What managers up to 0.1 wrote where no database was given: an input that was recorded then stays the same."""


def build_config_maps(
    node_set: CosmosFullNode, keys: Mapping[str, NodeKey], peers: Peers
) -> Iterator[Desired]:
    """Yield one for each node, also for those that are disabled or paused, each built when it is taken.

    `keys` are those of the nodes, by name of the Pod: a node without one gets no ConfigMap yet. Raises
    UnrecoverableError for overrides that are no TOML or too large, with the name of the field.
    """
    for ordinal in node_ordinals(node_set):
        if pod_name(named(node_set), ordinal) in keys:
            yield _config_map(node_set, ordinal, peers)


def steady_checksums(node_set: CosmosFullNode, peers: Peers) -> Iterator[tuple[str, str]]:
    """Yield Pods with the checksum of their configuration without its peers; its own address is part of it."""
    none = {"peers": "", "seeds": "", "private_peer_ids": "", "unconditional_peer_ids": ""}
    chain = node_set.spec.chain
    bare_chain = chain.model_copy(update={"config": chain.config.model_copy(update=none)})
    spec = node_set.spec.model_copy(update={"chain": bare_chain})
    bare = node_set.model_copy(update={"spec": spec})
    for ordinal in node_ordinals(node_set):
        pod = pod_name(named(node_set), ordinal)
        own = peers.get(pod)
        alone = Peers(() if own is None else (own,))
        data = {
            CONFIG_OVERLAY: config_overlay(bare, pod, alone),
            APP_OVERLAY: app_overlay(bare, pod),
        }
        yield pod, content_checksum({"data": data})


def _config_map(node_set: CosmosFullNode, ordinal: int, peers: Peers) -> Desired:
    pod, chain = pod_name(named(node_set), ordinal), node_set.spec.chain
    labels = default_labels(node_set, ordinal=ordinal)
    nodes = [(peer.pod, peer.id, peer.address, peer.external) for peer in peers.nodes]
    given = node_set.spec.peers.rollout
    rollout = (
        () if given is PeerRollout.ROLLING else (given.value,)
    )  # as recorded before there was a choice
    inputs = inputs_of(
        labels,
        chain.config,
        chain.app,
        (chain.database_backend or BEFORE).value,
        chain.log_level and chain.log_level.value,
        chain.log_format and chain.log_format.value,
        halt_height(node_set, pod),
        nodes,
        *rollout,
    )
    parts = {
        "metadata": metadata(node_set, pod, labels),
        "data": {
            CONFIG_OVERLAY: config_overlay(node_set, pod, peers),
            APP_OVERLAY: app_overlay(node_set, pod),
        },
    }
    return built(node_set, CONFIG_MAP, parts, inputs, ordinal=ordinal, instance=ordinal)
