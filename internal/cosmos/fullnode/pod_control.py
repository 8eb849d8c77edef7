"""The Pods of a set of nodes: as many as wanted first, then those that are outdated, within the budget."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from apis.cosmos import CosmosFullNode
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Desired, Owner, Update, ordinal_of
from internal.cosmos.cache.observation import Observation, Observations
from internal.cosmos.fullnode.checks import check_pods, check_strategy
from internal.cosmos.fullnode.ended_pods import EndedPods
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.events import Note, Reason
from internal.cosmos.fullnode.metadata import named, node_ordinals, node_selector
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.fullnode.min_ready import next_available, since_of_node, with_min_ready
from internal.cosmos.fullnode.node_key import NodeKey
from internal.cosmos.fullnode.objects import Objects, conflict
from internal.cosmos.fullnode.observed_health import observed
from internal.cosmos.fullnode.pod_builder import build_pods, is_built, paused_pods
from internal.cosmos.fullnode.pod_roles import is_node
from internal.cosmos.fullnode.validator_key import has_own_disk
from internal.cosmos.labels import NODE, NODE_KEY_ID, claim_name, is_beside_node, pod_name
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM, combined
from internal.cosmos.workload.halting import PROGRESS_DEADLINE, HaltRules
from internal.cosmos.workload.lost_disks import LosingDisk, losing_disks
from internal.cosmos.workload.pod_trouble import pod_trouble
from internal.cosmos.workload.workload import Progress, RecordFixes, WorkloadControl

_ENDED = ("Failed", "Succeeded")


@dataclass(frozen=True, slots=True)
class PodControl:
    """Makes and deletes them. What they said is forgotten with them."""

    pods: Objects
    workload: WorkloadControl
    observations: Observations
    now: Callable[[], datetime]
    """The clock that answers of nodes are stamped with."""
    claims: Objects
    """Those of the nodes, to see how their disks were made."""
    ended: EndedPods
    patcher: ObjectPatcher
    """Writes in the cluster of the Pods."""
    checks_versions: bool = True
    """Whether containers in the Pods read their set, and write which height comes next."""

    def nodes_of(self, owner: Owner) -> list[Entry]:
        """Return the Pods of the nodes that are there, those being deleted included."""
        return main_pods(self.pods.of(owner).values())

    async def reconcile(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        checksums: Mapping[str, str],
        keys: Mapping[str, NodeKey],
        said: Sequence[Observation],
        findings: Findings,
        *,
        sidecar_image: str,
        script_image: str,
        held: str = "",
        record_fixes: RecordFixes | None = None,
    ) -> Progress:
        """One pass. `keys`: of the nodes, by Pod. Raises UnrecoverableError for a template that makes no Pod: none is touched then."""
        check_strategy(node_set)
        check_pods(node_set)
        losing = losing_disks(self.pods.of(owner).values(), self.claims.of(owner).values())
        await remove_ended(self.pods, self.ended, owner, findings, losing)
        names = [pod_name(named(node_set), each) for each in node_ordinals(node_set)]
        images = {"sidecar_image": sidecar_image, "script_image": script_image}
        built, known = await self._built(node_set, owner, names, checksums, images)
        current = self._current(node_set, owner, names)
        existing = {entry.name: entry for entry in current}
        seconds, now = node_set.spec.strategy.min_ready_seconds, self.now()
        paused = paused_nodes(node_set)
        probe, since = observed(said), since_of_node(said)
        desired = [
            with_key(item, existing.get(item.name), keys.get(item.name))
            for item in built
            if item.name in known or item.name in existing
        ]
        progress = await self.workload.reconcile(
            desired,
            current,
            owner,
            replicas=wanted_nodes(node_set) + len(paused),
            max_unavailable=node_set.spec.strategy.max_unavailable,
            probe=with_min_ready(probe, since, seconds, now),
            urgent=_has_another_image,
            paused=paused,
            selector=node_selector(node_set),
            held=held,
            rules=halt_rules(node_set, now),
            record_fixes=record_fixes,
        )
        await self._record_keys(progress, existing, keys, findings)
        take_down(self.pods.metrics, progress, self.pods.control.recorded(owner), findings)
        findings.settling.append(next_available(current, probe, since, seconds, now))
        findings.settling.append(until_deadline(progress, now))
        gone = [*progress.deleted, *progress.replaced]
        if gone:
            self.observations.invalidate(owner.namespace, owner.name, gone)
        return progress

    async def _built(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        names: Sequence[str],
        checksums: Mapping[str, str],
        images: Mapping[str, str],
    ) -> tuple[list[Desired], dict[str, str]]:
        """Return the Pods of the nodes, each built in a turn of the loop of its own, and the checksums that they have.

        They are built anew where what is in use changed meanwhile: it is compared with what is there then.
        """
        while True:
            current = self._current(node_set, owner, names)
            known = {**_in_use(current), **checksums}
            built = []
            for pod in build_pods(
                node_set,
                known,
                checks_versions=self.checks_versions,
                own_disks=self._own_disks(node_set, owner, current),
                **images,
            ):
                built.append(pod)
                await asyncio.sleep(0)
            now = self._current(node_set, owner, names)
            if known == {**_in_use(now), **checksums}:
                return built, known

    def _current(self, node_set: CosmosFullNode, owner: Owner, names: Sequence[str]) -> list[Entry]:
        """Return the Pods of the nodes that are there, and what has their names."""
        found = self.pods.known(owner, names).values()
        return [entry for entry in found if is_node(node_set, entry)]

    async def _record_keys(
        self,
        progress: Progress,
        pods: Mapping[str, Entry],
        keys: Mapping[str, NodeKey],
        findings: Findings,
    ) -> None:
        """Record keys on Pods that are held as an older manager built them: all else of them stays."""
        for name in progress.held:
            pod, key = pods.get(name), keys.get(name)
            if pod is None or key is None or NODE_KEY_ID in pod.annotations:
                continue
            try:
                fields = {"annotations": {NODE_KEY_ID: key.id}}
                await self.patcher.patch_metadata(self.pods.mapping, pod, fields)
            except (APIError, TransportError) as error:
                findings.append(error)

    def _own_disks(
        self, node_set: CosmosFullNode, owner: Owner, current: Sequence[Entry]
    ) -> frozenset[int]:
        """Return the numbers of the nodes whose claims are known to have been made empty."""
        name, pods = named(node_set), {entry.name: entry for entry in current}
        claims = {entry.name: entry for entry in self.claims.of(owner).values()}
        return frozenset(
            each
            for each in node_ordinals(node_set)
            if has_own_disk(pods.get(pod_name(name, each)), claims.get(claim_name(name, each)))
        )


def halt_rules(node_set: CosmosFullNode, now: datetime) -> HaltRules | None:
    """Return when failed Pods halt the set's rollouts; None: never."""
    strategy = node_set.spec.strategy
    if strategy.halt_on_failures is None:
        return None
    seconds = strategy.progress_deadline_seconds
    return HaltRules(
        limit=strategy.halt_on_failures,
        now=now,
        deadline=PROGRESS_DEADLINE if seconds is None else timedelta(seconds=seconds),
        fixes=frozenset(node_set.status.rollout.fixes),
    )


def until_deadline(progress: Progress, now: datetime) -> float:
    """Seconds until the next Pod counts as failed if it does not answer; 0 if none does."""
    at = progress.look_again
    return 0.0 if at is None else max((at - now).total_seconds(), 0.0)


def take_down(
    metrics: NodeSetMetrics, progress: Progress, owner: Owner, findings: Findings
) -> None:
    """Note what failed, and count what was done."""
    for error in progress.errors:
        findings.append(error)
    for foreign in progress.conflicts:
        why = f"it belongs to {foreign.holder}"
        findings.append(UnrecoverableError(conflict(foreign.desired, why, owner)))
    for names, reason, done in (
        (progress.replaced, Reason.POD_REPLACED, "is made anew"),
        (progress.deleted, Reason.POD_REMOVED, "was taken away"),
    ):
        texts = [f"Pod {name} {done}: {progress.reasons[name]}." for name in names]
        findings.notes += [Note(reason, text, warning=False) for text in texts]
    metrics.counted("Pod", "create", len(progress.created))
    metrics.counted("Pod", "update", len(progress.replaced) + len(progress.repaired))
    metrics.counted("Pod", "delete", len(progress.deleted))
    metrics.counted("Pod", "conflict", len(progress.conflicts))


def with_key(desired: Desired, entry: Entry | None, key: NodeKey | None) -> Desired:
    """Return the Pod of a node with the id of its key recorded; another revision if it was made with another key.

    A running container never sees that its Secret changed. A Pod without the record gets it in place: a new manager
    rolls none.
    """
    before = "" if entry is None else entry.annotations.get(NODE_KEY_ID, "")
    known = before if key is None else key.id
    if not known:
        return desired
    recorded = replace(desired, annotations={**desired.annotations, NODE_KEY_ID: known})
    if before in ("", known):
        return recorded
    return replace(
        recorded,
        revision=combined([desired.revision, known]),
        inputs=combined([desired.inputs, known]),
    )


async def remove_ended(
    pods: Objects,
    ended: EndedPods,
    owner: Owner,
    findings: Findings,
    losing: Mapping[str, LosingDisk],
) -> None:
    """Delete Pods that have ended, as one does whose machine had no room for it any more: such never start again by themselves, and nothing runs in them.

    Where they end again and again each stays for a while, with its reason; one of `losing` stays, since its disk would
    go with it. Raises the client's errors.
    """
    for entry in pods.of(owner).values():
        phase = (entry.field("status") or {}).get("phase")
        if phase not in _ENDED or entry.deletion_timestamp is not None:
            continue
        wait, is_new = ended.wait(owner.uid, entry)
        kept = losing.get(entry.name)
        if kept is not None:
            wait = 0.0
        elif wait:
            findings.waits.append(wait)
        else:
            await pods.control.remove(pods.mapping, entry, owner, Cause.REPLACED)
        if is_new:
            why = pod_trouble(entry) or "has ended"
            when = f" in {wait:.0f} s: those before it ended too" if wait else ""
            then = f"is made anew{when}" if kept is None else f"stays: {kept.words}"
            text = f"{shorten(f'Pod {entry.name} {why}')}. It {then}."
            findings.notes.append(Note(Reason.POD_ENDED, text))


def wanted_nodes(node_set: CosmosFullNode) -> int:
    """Nodes that are to run now."""
    return sum(is_built(node_set, ordinal) for ordinal in node_ordinals(node_set))


def still_running(node_set: CosmosFullNode, pods: Iterable[Entry]) -> frozenset[int]:
    """Return the numbers of nodes that are not wanted, and whose Pods are there: their Services and configuration stay."""
    return frozenset(map(ordinal_of, pods)) - set(node_ordinals(node_set))


def paused_nodes(node_set: CosmosFullNode) -> list[str]:
    """Pods that are away for a while, and were to run otherwise."""
    paused, overrides = paused_pods(node_set), node_set.spec.instance_overrides
    disabled = {name for name, override in overrides.items() if override.disable is not None}
    names = (pod_name(named(node_set), ordinal) for ordinal in node_ordinals(node_set))
    return [name for name in names if name in paused and name not in disabled]


def main_pods(entries: Iterable[Entry]) -> list[Entry]:
    """Return the Pods of the nodes themselves, without those beside them."""
    return [entry for entry in entries if not is_beside_node(entry.labels)]


def _in_use(current: Sequence[Entry]) -> dict[str, str]:
    """Return the checksums that Pods were made with: they stay so while nothing is known of the configuration."""
    return {
        entry.name: entry.annotations[CONFIG_CHECKSUM]
        for entry in current
        if CONFIG_CHECKSUM in entry.annotations
    }


def _has_another_image(update: Update) -> bool:
    """Whether the node is to run another version: such go first."""
    return _image(update.desired.manifest["spec"]) != _image(update.entry.field("spec") or {})


def _image(spec: Mapping[str, object]) -> object:
    containers = spec.get("containers")
    if not isinstance(containers, list):
        return None
    return next((each.get("image") for each in containers if each.get("name") == NODE), None)
