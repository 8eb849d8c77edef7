"""The Pods beside the nodes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.additional_pod_builder import build_additional_pods
from internal.cosmos.fullnode.checks import check_strategy
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.metadata import default_labels
from internal.cosmos.fullnode.min_ready import next_available, since_ready, with_min_ready
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.pod_control import halt_rules, take_down, until_deadline
from internal.cosmos.fullnode.pod_roles import is_node
from internal.cosmos.labels import ADDITIONAL, COMPONENT, NAME
from internal.cosmos.workload.probe import pod_readiness
from internal.cosmos.workload.workload import Progress, RecordFixes, WorkloadControl


@dataclass(frozen=True, slots=True)
class AdditionalPodControl:
    """Makes and deletes them, with a budget of their own: by what Kubernetes calls ready."""

    pods: Objects
    workload: WorkloadControl
    now: Callable[[], datetime]
    """The clock."""

    async def reconcile(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        findings: Findings,
        *,
        held: str = "",
        record_fixes: RecordFixes | None = None,
    ) -> Progress:
        """One pass. Raises UnrecoverableError for names that are taken."""
        desired = []
        for item in build_additional_pods(node_set):
            desired.append(item)
            await asyncio.sleep(0)
        found = self.pods.known(owner, [item.name for item in desired])
        current = [entry for entry in found.values() if not is_node(node_set, entry)]
        if not desired and not current:
            return Progress()
        check_strategy(node_set)
        labels = default_labels(node_set)
        seconds, now = node_set.spec.strategy.min_ready_seconds, self.now()
        progress = await self.workload.reconcile(
            desired,
            current,
            owner,
            replicas=len(desired),
            max_unavailable=node_set.spec.strategy.max_unavailable,
            probe=with_min_ready(pod_readiness, since_ready, seconds, now),
            selector={NAME: labels[NAME], COMPONENT: ADDITIONAL},
            held=held,
            rules=halt_rules(node_set, now),
            record_fixes=record_fixes,
        )
        wait = next_available(current, pod_readiness, since_ready, seconds, now)
        findings.settling += [wait, until_deadline(progress, now)]
        take_down(self.pods.metrics, progress, self.pods.control.recorded(owner), findings)
        return progress
