"""Starts nodes again that fell behind the others, within the budget of the set's rollouts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from apis.cosmos import CosmosFullNode, HeightDriftMitigation
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.resources import Owner
from internal.cosmos.cache.observation import Observation, Observations
from internal.cosmos.fullnode.metadata import node_selector
from internal.cosmos.fullnode.observed_health import observed
from internal.cosmos.fullnode.pod_control import main_pods, paused_nodes, wanted_nodes
from internal.cosmos.selfheal.drift import Laggard, is_cooling, laggards
from internal.cosmos.selfheal.events import Notes, Reason
from internal.cosmos.selfheal.metrics import SelfHealMetrics
from internal.cosmos.workload.probe import Health, Probe
from internal.cosmos.workload.workload import WorkloadControl


@dataclass(frozen=True, slots=True, kw_only=True)
class HeightHealing:
    """Checks the heights of one set after the other. It sends no request."""

    observations: Observations
    pods_of: Callable[[str, str], Iterable[Entry]]
    """The Pods of a set, from the informer."""
    workload: WorkloadControl
    """The same that rolls changes out: neither takes a node down that the other counts on."""
    notes: Notes
    metrics: SelfHealMetrics

    now: Callable[[], datetime]
    """The clock that ages of Pods are computed with."""

    async def heal(
        self, entry: Entry, node_set: CosmosFullNode, policy: HeightDriftMitigation
    ) -> None:
        """Delete the Pods of nodes that are behind, as many as may be down."""
        settled = self.observations.synced(entry.namespace, entry.name)
        cooling = self._cooling(entry, policy.cooldown_seconds)
        found = laggards(settled, policy.threshold)
        behind = [each for each in found if each.node.uid not in cooling]
        if not behind:
            return
        try:
            deleted = await self._delete(entry, node_set, settled, behind)
        except (APIError, TransportError) as error:
            text = (
                f"A node that is behind could not be started again, which is tried again: {error}"
            )
            self.notes.failed(entry, Reason.DELETE_POD, text)
            return
        if deleted:
            self.observations.invalidate(entry.namespace, entry.name, deleted)
            self.metrics.restarts.inc(len(deleted))
        for each in behind:
            if each.node.pod in deleted:
                text = f"Deleted Pod {each.node.pod}: {each.behind} blocks behind the others"
                self.notes.done(entry, Reason.HEIGHT_DRIFT, text)

    async def _delete(
        self,
        entry: Entry,
        node_set: CosmosFullNode,
        settled: Iterable[Observation],
        behind: Iterable[Laggard],
    ) -> list[str]:
        current = main_pods(self.pods_of(entry.namespace, entry.name))
        by_uid = {pod.uid: pod for pod in current}
        chosen = [by_uid[each.node.uid] for each in behind if each.node.uid in by_uid]
        return await self.workload.disrupt(
            chosen,
            current,
            Owner.of(entry),
            replicas=wanted_nodes(node_set) + len(paused_nodes(node_set)),
            max_unavailable=node_set.spec.strategy.max_unavailable,
            probe=self._probe(entry, settled),
            selector=node_selector(node_set),
        )

    def _cooling(self, entry: Entry, seconds: int) -> set[str]:
        """UIDs of Pods that were created a short time ago."""
        now = self.now()
        pods = self.pods_of(entry.namespace, entry.name)
        return {pod.uid for pod in pods if is_cooling(pod, seconds, now)}

    def _probe(self, entry: Entry, settled: Iterable[Observation]) -> Probe:
        """Return a node counts as long as it has caught up and its Pod has been ready for a while."""
        uids = {each.uid for each in settled}
        by_answer = observed(self.observations.collect(entry.namespace, entry.name))

        def probe(pod: Entry) -> Health:
            found = by_answer(pod)
            return Health(pod.uid in uids, found.reachable, found.detail, found.known)

        return probe
