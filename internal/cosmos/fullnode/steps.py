"""The steps of a pass, in order. Every step runs, whatever became of those before it.

Services come first, since the addresses that they get are told to peers; node keys and peers before the
configuration that names them; accounts before the Pods that run as them; Pods before claims, since a claim
goes only once its Pod is gone.
"""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from apis.cosmos import CosmosFullNode
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.controller.failures import Failures, TransientError, UnrecoverableError
from ctrlruntime.resources import Owner
from internal.cosmos.cache.observation import Observation
from internal.cosmos.fullnode.additional_pod_control import AdditionalPodControl
from internal.cosmos.fullnode.configmap_control import ConfigMapControl
from internal.cosmos.fullnode.events import Note
from internal.cosmos.fullnode.node_key_collector import NodeKeyCollector
from internal.cosmos.fullnode.peer_collector import PeerCollector
from internal.cosmos.fullnode.peers import Peers
from internal.cosmos.fullnode.pod_builder import sidecar_image_of
from internal.cosmos.fullnode.pod_control import PodControl, paused_nodes
from internal.cosmos.fullnode.pvc_control import PVCControl
from internal.cosmos.fullnode.role_binding_control import RoleBindingControl
from internal.cosmos.fullnode.role_control import RoleControl
from internal.cosmos.fullnode.service_account_control import ServiceAccountControl
from internal.cosmos.fullnode.service_control import ServiceControl
from internal.cosmos.fullnode.verdict import Found

T = TypeVar("T")

_TOLD = (APIError, TransportError, TransientError, UnrecoverableError)
"""What a step may end with; everything else is a fault of the program, and ends the pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """One for each kind of object."""

    services: ServiceControl
    node_keys: NodeKeyCollector
    peers: PeerCollector
    config_maps: ConfigMapControl
    accounts: ServiceAccountControl
    roles: RoleControl
    role_bindings: RoleBindingControl
    pods: PodControl
    additional_pods: AdditionalPodControl
    claims: PVCControl


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the steps came to."""

    found: Found = field(default_factory=Found)
    peers: Peers = field(default_factory=Peers)
    notes: list[Note] = field(default_factory=list)


async def take(
    controls: Controls,
    node_set: CosmosFullNode,
    owner: Owner,
    said: Sequence[Observation],
    *,
    sidecar_image: str,
) -> Outcome:
    """Take all steps for one set."""
    outcome = Outcome()
    found, failures = outcome.found, outcome.found.failures
    await _step(failures, "Services", controls.services.reconcile(node_set, owner, failures))
    keys = await _step(failures, "node keys", controls.node_keys.collect(node_set, owner, failures))
    outcome.peers = controls.peers.collect(node_set, owner, keys or {})
    checksums = await _step(
        failures,
        "ConfigMaps",
        controls.config_maps.reconcile(node_set, owner, keys or {}, outcome.peers, failures),
    )
    for step, control in (
        ("ServiceAccount", controls.accounts),
        ("Role", controls.roles),
        ("RoleBinding", controls.role_bindings),
    ):
        await _step(failures, step, control.reconcile(node_set, owner, failures))
    image = sidecar_image_of(node_set, sidecar_image)
    found.pods = await _step(
        failures,
        "Pods",
        controls.pods.reconcile(
            node_set, owner, checksums or {}, said, failures, sidecar_image=image
        ),
    )
    found.additional = await _step(
        failures,
        "additional Pods",
        controls.additional_pods.reconcile(node_set, owner, failures),
    )
    found.claims = await _step(
        failures, "claims", controls.claims.reconcile(node_set, owner, failures, outcome.notes)
    )
    found.awaited = outcome.peers.awaited
    found.paused = paused_nodes(node_set)
    return outcome


async def _step(failures: Failures, step: str, work: Awaitable[T]) -> T | None:
    """The step's result; None if it failed as a whole, which is noted."""
    try:
        return await work
    except _TOLD as error:
        failures.append(error, step)
        return None
