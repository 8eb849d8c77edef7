"""The Pods beside the nodes."""

from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from ctrlruntime.resources.probe import pod_readiness
from ctrlruntime.resources.workload import Progress, WorkloadControl
from internal.cosmos.fullnode.additional_pod_builder import build_additional_pods
from internal.cosmos.fullnode.findings import Findings
from internal.cosmos.fullnode.metadata import default_labels
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.pod_control import take_down
from internal.cosmos.marks import ADDITIONAL, BELONGS_TO, COMPONENT, NAME


@dataclass(frozen=True, slots=True)
class AdditionalPodControl:
    """Makes and deletes them, with a budget of their own: by what Kubernetes calls ready."""

    pods: Objects
    workload: WorkloadControl

    async def reconcile(
        self, node_set: CosmosFullNode, owner: Owner, findings: Findings
    ) -> Progress:
        """One pass. Raises UnrecoverableError for names that are taken."""
        current = [entry for entry in self.pods.of(owner).values() if BELONGS_TO in entry.labels]
        desired = build_additional_pods(node_set)
        if not desired and not current:
            return Progress()
        labels = default_labels(node_set)
        progress = await self.workload.reconcile(
            desired,
            current,
            owner,
            replicas=len(desired),
            max_unavailable=node_set.spec.strategy.max_unavailable,
            probe=pod_readiness,
            selector={NAME: labels[NAME], COMPONENT: ADDITIONAL},
        )
        take_down(self.pods.metrics, progress, findings)
        return progress
