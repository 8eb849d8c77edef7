"""The steps of a pass, in order. Every step runs, whatever became of those before it.

Services come first, since the addresses that they get are given to peers; node keys and peers before the
configuration that names them; accounts before the Pods that run as them; Pods before claims, since a claim
goes only once its Pod is gone.
"""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from apis.cosmos import CosmosFullNode
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.controller.aggregate_error import TransientError, UnrecoverableError
from ctrlruntime.controller.error_status import where
from ctrlruntime.resources import Owner
from internal.cosmos.cache.observation import Observation
from internal.cosmos.fullnode.additional_pod_control import AdditionalPodControl
from internal.cosmos.fullnode.configmap_control import ConfigMapControl
from internal.cosmos.fullnode.disruption_budget import DisruptionBudgetControl
from internal.cosmos.fullnode.errors import Explain, Findings
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.fullnode.node_key_collector import NodeKeyCollector
from internal.cosmos.fullnode.peer_collector import PeerCollector
from internal.cosmos.fullnode.peers import Peers
from internal.cosmos.fullnode.phase import Found
from internal.cosmos.fullnode.plain_control import PlainControl
from internal.cosmos.fullnode.pod_builder import sidecar_image_of
from internal.cosmos.fullnode.pod_control import (
    PodControl,
    paused_nodes,
    still_running,
    wanted_nodes,
)
from internal.cosmos.fullnode.pvc_control import PVCControl
from internal.cosmos.workload.lost_disks import losing_disks
from internal.cosmos.workload.workload import RecordFixes

T = TypeVar("T")

_EXPECTED = (APIError, TransportError, TransientError, UnrecoverableError, TimeoutError)
"""Exceptions with a message for users. All others are logged with their traceback."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Controls:
    """One for each kind of object."""

    services: PlainControl
    node_keys: NodeKeyCollector
    peers: PeerCollector
    config_maps: ConfigMapControl
    access: Sequence[PlainControl]
    """What Pods run as, and what that may do."""
    disruption_budget: DisruptionBudgetControl
    pods: PodControl
    additional_pods: AdditionalPodControl
    claims: PVCControl


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What the steps came to."""

    found: Found = field(default_factory=Found)
    peers: Peers = field(default_factory=Peers)


async def take(
    controls: Controls,
    node_set: CosmosFullNode,
    owner: Owner,
    said: Sequence[Observation],
    *,
    sidecar_image: str,
    script_image: str,
    held: str = "",
    record_fixes: RecordFixes | None = None,
    explain: Explain = lambda _error: None,
) -> Outcome:
    """Take all steps for one set. `held`: why changes of what works wait, in words. `record_fixes` records failed Pods.

    `explain`: distinguishes troubles of another cluster, where the objects are, from other failures.
    """
    outcome = Outcome()
    found, findings = outcome.found, outcome.found.findings
    findings.explain = explain
    checksums, keys = await _configure(controls, node_set, owner, outcome)
    found.losing = losing_disks(
        controls.pods.pods.of(owner).values(), controls.claims.claims.of(owner).values()
    )
    image = sidecar_image_of(node_set, sidecar_image)
    found.pods = await _step(
        findings,
        "Pods",
        controls.pods.reconcile(
            node_set,
            owner,
            checksums,
            keys,
            said,
            findings,
            sidecar_image=image,
            script_image=script_image,
            held=held,
            record_fixes=record_fixes,
        ),
    )
    found.additional = await _step(
        findings,
        "additional Pods",
        controls.additional_pods.reconcile(
            node_set, owner, findings, held=held, record_fixes=record_fixes
        ),
    )
    nodes = [pod.name for pod in controls.pods.nodes_of(owner)]
    claims = controls.claims.reconcile(node_set, owner, findings, pods=nodes, held=held)
    found.claims = await _step(findings, "claims", claims)
    found.awaited = outcome.peers.awaited
    found.paused = paused_nodes(node_set)
    return outcome


async def _configure(
    controls: Controls, node_set: CosmosFullNode, owner: Owner, outcome: Outcome
) -> tuple[Mapping[str, str], Mapping[str, NodeKey]]:
    """Take the steps before the Pods. Return the checksums of the configuration, and the keys, by Pod."""
    findings = outcome.found.findings
    pods = controls.pods.nodes_of(owner)
    staying = still_running(node_set, pods)
    await _step(
        findings, "Services", controls.services.reconcile(node_set, owner, findings, staying)
    )
    keys = await _step(
        findings, "node keys", controls.node_keys.collect(node_set, owner, findings, pods)
    )
    outcome.peers = (
        await _step(findings, "peers", _peers(controls, node_set, owner, keys)) or Peers()
    )
    checksums = await _step(
        findings,
        "ConfigMaps",
        controls.config_maps.reconcile(
            node_set, owner, keys or {}, outcome.peers, findings, staying
        ),
    )
    await _step(
        findings,
        "PodDisruptionBudget",
        controls.disruption_budget.reconcile(
            node_set,
            owner,
            findings,
            pods,
            wanted_nodes(node_set) + len(paused_nodes(node_set)),
        ),
    )
    for control in controls.access:
        await _step(findings, control.kind.step, control.reconcile(node_set, owner, findings))
    return checksums or {}, keys or {}


async def _step(findings: Findings, step: str, work: Awaitable[T]) -> T | None:
    """Return the step's result, or None if it failed as a whole; the failure is recorded with the step's name."""
    try:
        return await work
    except _EXPECTED as error:
        findings.append(error, step)
    except Exception as error:  # noqa: BLE001 - a fault in one step ends no other
        _log.exception("a step of a set of nodes failed", step=step)
        text = f"{where(error)}; this is a defect of the manager, whose log has the traceback"
        findings.append(UnrecoverableError(text), step)
    return None


async def _peers(
    controls: Controls, node_set: CosmosFullNode, owner: Owner, keys: Mapping[str, NodeKey] | None
) -> Peers:
    return controls.peers.collect(node_set, owner, keys or {})
