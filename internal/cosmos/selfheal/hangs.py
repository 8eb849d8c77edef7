"""Starts a node again that answered and does not any more, one at a time, within the budget of the set's rollouts.

What it takes: the container runs on, it answered since it was started (one that replays blocks for an hour has not),
and the container beside it, at the same address, does answer. So neither a slow start nor a network that the manager
cannot pass restarts anything.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from apis.cosmos import CosmosFullNode, Unresponsive
from ctrlruntime.api.scalars import format_time, time_or_none
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.resources import Owner
from internal.cosmos.cache.observation import DiskObservation, Observation
from internal.cosmos.fullnode.metadata import node_selector
from internal.cosmos.fullnode.min_ready import container_started
from internal.cosmos.fullnode.observed_health import observed
from internal.cosmos.fullnode.pod_control import main_pods, paused_nodes, wanted_nodes
from internal.cosmos.labels import NODE
from internal.cosmos.selfheal.drift import is_cooling
from internal.cosmos.selfheal.events import Notes, Reason
from internal.cosmos.selfheal.metrics import SelfHealMetrics
from internal.cosmos.workload.pod_trouble import keeps_ending
from internal.cosmos.workload.workload import WorkloadControl

FRESH: Final = timedelta(minutes=3)
"""An answer of the container beside a node counts for so long."""
_START: Final = timedelta(minutes=1)
"""A Pod that becomes unready so soon after its container started was not ready since."""


class Nodes(Protocol):
    """What nodes and disks last reported, from memory."""

    def collect(self, namespace: str, name: str) -> list[Observation]: ...

    def disks(self, namespace: str, name: str) -> list[DiskObservation]: ...

    def invalidate(self, namespace: str, name: str, pods: Iterable[str]) -> None: ...


def silent_since(pod: Entry, seen: Observation, beside: datetime) -> datetime | None:
    """Return since when a node that answered since its container started has not; None: it answers, or never did.

    `beside`: when the container beside it was polled that answered. Where a network was cut, or this process stood
    still, that may be the first answer since: it counts once the node, polled later than that, has failed too.
    An earlier manager may have had its answers: then the Pod was ready since, and counts from this manager's first
    failure.
    """
    started = container_started(pod, NODE)
    if started is None or seen.silent_since is None or pod.deletion_timestamp is not None:
        return None
    if seen.at is None or seen.at <= beside:
        return None
    if seen.answered_at is not None:
        return seen.answered_at if seen.answered_at > started else None
    unready = _became_unready(pod)
    return seen.silent_since if unready is not None and unready - started > _START else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangHealing:
    """Checks the nodes of one set after the other. It reads from memory, and deletes Pods."""

    nodes: Nodes
    pods_of: Callable[[str, str], Iterable[Entry]]
    """The Pods of a set, from the informer."""
    workload: WorkloadControl
    """The same that rolls changes out: neither takes a node down that the other counts on."""
    notes: Notes
    metrics: SelfHealMetrics
    now: Callable[[], datetime]
    """The clock that answers of nodes are stamped with."""

    async def heal(self, entry: Entry, node_set: CosmosFullNode, policy: Unresponsive) -> None:
        """Delete the Pod of the node that is silent for longest, if it may be down with what is down beside it."""
        pods = main_pods(self.pods_of(entry.namespace, entry.name))
        self._report_crashes(entry, pods)
        if not policy.restart:
            return
        seen = self.nodes.collect(entry.namespace, entry.name)
        silent = self._silent(entry, pods, seen, policy.after_seconds)
        works = {each.pod for each in seen if each.is_reachable}
        if not silent or self._is_starting(pods, {*silent, *works}, policy.after_seconds):
            return
        chosen = sorted(
            (pod for pod in pods if pod.name in silent), key=lambda pod: silent[pod.name]
        )
        try:
            deleted = await self.workload.restart_down(
                chosen,
                pods,
                Owner.of(entry),
                replicas=wanted_nodes(node_set) + len(paused_nodes(node_set)),
                max_unavailable=node_set.spec.strategy.max_unavailable,
                probe=observed(seen),
                selector=node_selector(node_set),
            )
        except (APIError, TransportError) as error:
            text = f"A node that does not answer could not be started again, which is tried again: {error}"
            self.notes.failed(entry, Reason.RESTART_FAILED, text)
            return
        if deleted:
            self.nodes.invalidate(entry.namespace, entry.name, [deleted])
            self.metrics.hang_restarts.inc()
            since = format_time(silent[deleted])
            text = f"Deleted Pod {deleted}: its node has not answered since {since}, and the container beside it does"
            self.notes.done(entry, Reason.UNRESPONSIVE, text)

    def _silent(
        self, entry: Entry, pods: Sequence[Entry], seen: Iterable[Observation], seconds: int
    ) -> dict[str, datetime]:
        """Return the Pods whose node hangs, and since when."""
        now, by_uid = self.now(), {each.uid: each for each in seen}
        beside = {
            each.pod: each.at
            for each in self.nodes.disks(entry.namespace, entry.name)
            if each.usage is not None and each.at is not None and now - each.at < FRESH
        }
        found = {
            pod.name: silent_since(pod, by_uid[pod.uid], beside[pod.name])
            for pod in pods
            if pod.uid in by_uid and pod.name in beside
        }
        limit = timedelta(seconds=seconds)
        return {name: since for name, since in found.items() if since and now - since >= limit}

    def _is_starting(self, pods: Iterable[Entry], others: Iterable[str], seconds: int) -> bool:
        """Whether a Pod was made a short time ago and does not answer yet: one after the other."""
        now, known = self.now(), set(others)
        return any(pod.name not in known and is_cooling(pod, seconds, now) for pod in pods)

    def _report_crashes(self, entry: Entry, pods: Iterable[Entry]) -> None:
        """Report nodes that keep ending, once, with what to do: no restart helps them."""
        for pod in pods:
            if trouble := keeps_ending(pod):
                text = f"{pod.name} {trouble}. {_advice(pod, trouble)}"
                self.notes.trouble(entry, Reason.CRASH_LOOP, pod.name, text)
            else:
                self.notes.well(entry, Reason.CRASH_LOOP, pod.name)


def _advice(pod: Entry, trouble: str) -> str:
    if "OOMKilled" in trouble:
        return "Raise podTemplate.resources.limits.memory, which replaces its Pod at once."
    if "no space left" in trouble.lower():
        return "Raise volumeClaimTemplate.resources.requests.storage, or let disks grow by selfHeal.pvcAutoScale."
    container = trouble.partition("container ")[2].partition(":")[0]
    return (
        f"See kubectl logs -n {pod.namespace} {pod.name} -c {container} --previous. A correction of the spec replaces "
        f"its Pod at once; if its data is broken, instanceOverrides.{pod.name}.disable: All takes its disk away, and "
        "without it a new one is made."
    )


def _became_unready(pod: Entry) -> datetime | None:
    status: dict[str, Any] = pod.field("status") or {}
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("Ready", "False"):
            return time_or_none(condition.get("lastTransitionTime"))
    return None
