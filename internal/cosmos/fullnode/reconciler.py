"""Reconciles one CosmosFullNode: what it wants, step by step, and what came of it, in its status."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from apis.cosmos import BuilderChanges, CosmosFullNode
from apis.waiting import changes_waiting
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller import Result, UnrecoverableError
from ctrlruntime.gate import Hold
from ctrlruntime.lifecycle.remote import ClusterTrouble, Remote
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner, ordinal_of
from ctrlruntime.rollout import ChangeHolds, NoHolds, Waiting
from internal.cosmos.cache.observation import Observation, Observations
from internal.cosmos.fullnode import steps
from internal.cosmos.fullnode.errors import Explain
from internal.cosmos.fullnode.full_disks import full_disks
from internal.cosmos.fullnode.memory import NodeSetMemory
from internal.cosmos.fullnode.metadata import named
from internal.cosmos.fullnode.pass_facts import facts_of, is_too_early
from internal.cosmos.fullnode.phase import Found, nodes_behind, verdict
from internal.cosmos.fullnode.plausible import believed
from internal.cosmos.fullnode.pod_control import wanted_nodes
from internal.cosmos.fullnode.reading import read
from internal.cosmos.fullnode.removal import Finish, Removal
from internal.cosmos.fullnode.status import (
    answers_of_own,
    earlier_heights,
    next_heights,
    ready_count,
    stalled_nodes,
    synced,
)
from internal.cosmos.fullnode.status_writer import NodeSetStatusWriter
from internal.cosmos.fullnode.steps import Controls, Outcome
from internal.cosmos.labels import pod_name
from internal.cosmos.times import Times


class NodeSets(Protocol):
    """The sets as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(frozen=True, slots=True)
class NodeSetReads:
    """What passes read: all of it from memory."""

    node_sets: NodeSets
    observations: Observations
    """What the nodes last reported."""
    snapshots_served: Callable[[], bool]
    """Whether the cluster serves VolumeSnapshots."""
    hub: Remote | None = None
    """Where objects are, if not in the cluster of their set."""

    def said(self, request: Request) -> list[Observation]:
        """Return what the nodes of a set last reported."""
        return self.observations.collect(request.namespace, request.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetOptions:
    """Settings for all sets."""

    roll_builder_changes: bool = False
    """Whether every set follows a new builder, whatever its annotation."""
    script_image: str = ""
    """The image that scripts of sets run in that name none; empty: the one beside the nodes."""
    sidecar_image: str = ""
    """The image beside the nodes of sets that name none and have none recorded."""
    times: Times = field(default_factory=Times)


@dataclass(slots=True)
class FullNodeReconciler:
    """Reconciles the nodes of a set with its spec.

    Everything is read from memory: a set that is as it should be costs no request. What a set has goes with it, by
    owner references, unless the set goes with its CRD.
    """

    reads: NodeSetReads
    controls: Controls
    removal: Removal
    memory: NodeSetMemory
    writer: NodeSetStatusWriter
    options: NodeSetOptions = field(default_factory=NodeSetOptions)
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds changes of sets from outside."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when not even the status can be written."""
        entry = self.reads.node_sets.get(request.name, namespace=request.namespace)
        if entry is None:
            self.forget(request)
            return None
        hub = self.reads.hub
        if hub is not None and not hub.is_usable():
            if await self.removal.report_loss(entry, disks_known=False):
                entry = self.reads.node_sets.get(request.name, namespace=request.namespace) or entry
            return await self._wait_for_hub(entry, hub.trouble())
        if entry.deletion_timestamp is not None:
            return await self._finish(request, entry)
        if await self.removal.protect(entry):
            return None  # the answer is in the cache and brings us back
        if await self.removal.report_loss(entry):
            entry = self.reads.node_sets.get(request.name, namespace=request.namespace) or entry
        try:
            node_set = read(entry)
        except UnrecoverableError as error:
            await self.writer.refuse(entry, str(error))
            return None
        if self.options.roll_builder_changes:
            node_set.spec.strategy.builder_changes = BuilderChanges.ROLL
        if not await self.writer.record_image(request, node_set, self.options.sidecar_image):
            return None
        return await self._reconcile_object(request, entry, node_set)

    async def _reconcile_object(
        self, request: Request, entry: Entry, node_set: CosmosFullNode
    ) -> Result | None:
        owner = Owner.of(entry)
        hold = self.holds.waiting(request, entry)
        kept = (
            frozenset()
            if hold is None
            else keep_nodes(node_set, self.controls.pods.nodes_of(owner))
        )
        outcome = await self._take_steps(request, node_set, owner, hold)
        found = outcome.found
        self.memory.record_waiting(request, found)
        said = self.reads.said(request)
        own = answers_of_own(said, outcome.peers)
        reported = believed(next_heights(own), node_set.status.height, earlier_heights(own))
        admitted = self.memory.admit(request, node_set, reported)
        times = self.options.times
        found.crossing = admitted.wait or (times.upgrade if reported.unconfirmed else 0.0)
        unpolled = self.memory.unpolled(request, found, said)
        if is_too_early(found, said, unpolled):
            return Result(requeue_after=times.progress)
        now = self.writer.clock()
        disks = self.reads.observations.disks(request.namespace, request.name)
        claims = self.controls.claims.claims.of(owner).values()
        found.full = full_disks(node_set, disks, claims)
        used = {each.pod: each.usage.percent for each in disks if each.usage is not None}
        sync = synced(node_set.status.sync, said, now, unpolled, used)
        found.stalled = stalled_nodes(said, node_set.status)
        wanted = wanted_nodes(node_set)
        final = verdict(found, ready_count(sync), wanted, times, nodes_behind(sync))
        frozen = 0 if hold is None else frozen_changes(found, kept)
        self.holds.record(request, frozen)
        facts = replace(
            facts_of(node_set, owner, self.controls, outcome, final),
            waiting=changes_waiting(hold, frozen),
            sync=sync,
            heights=admitted.heights,
            lowered=reported.lowered,
            crossed=admitted.crossed,
        )
        self.memory.crossings.forget(request, facts.emptied_nodes)
        waits = [final.requeue_after]
        latest = self.reads.node_sets.get(request.name, namespace=request.namespace)
        if latest is not None and latest.uid == node_set.metadata.uid:
            waits.append(
                await self.writer.record(latest, node_set, facts, now, found.findings.notes)
            )
        wait = min(filter(None, waits), default=None)
        return Result(requeue_after=wait) if wait else None

    async def _take_steps(
        self, request: Request, node_set: CosmosFullNode, owner: Owner, hold: Waiting | None
    ) -> Outcome:
        outcome = await steps.take(
            self.controls,
            node_set,
            owner,
            self.reads.said(request),
            held="" if hold is None else hold.message,
            sidecar_image=self.options.sidecar_image,
            script_image=self.options.script_image,
            record_fixes=partial(self.writer.record_fixes, request, node_set),
            explain=self._explain(request),
        )
        outcome.found.on_hub = self.reads.hub is not None
        outcome.found.snapshots_served = self.reads.snapshots_served()
        return outcome

    def _explain(self, request: Request) -> Explain:
        """Return what distinguishes troubles of the hub from others, by an error of a step."""
        hub = self.reads.hub
        if hub is None:
            return lambda _error: None
        return lambda error: hub.explain(error, request.namespace)

    async def _wait_for_hub(self, entry: Entry, trouble: ClusterTrouble | None) -> Result:
        """Report that nothing can be done while the objects are unknown: all runs on as it is."""
        if trouble is None:
            return Result(requeue_after=self.options.times.progress)
        await self.writer.lose_hub(entry, trouble)
        return Result(requeue_after=self.options.times.external)

    async def _finish(self, request: Request, entry: Entry) -> Result | None:
        """Let a deleted set go; in a freeze, or while its disks are protected, it stays with all that it has."""
        hold = self.holds.waiting(request, entry)
        finish = await self.removal.finish(entry, Owner.of(entry), frozen=hold is not None)
        if isinstance(finish, Hold):
            self.holds.record(request, 0)
            await self.writer.record_protected(entry, finish)
            return Result(requeue_after=self.options.times.failure)
        held = finish is Finish.HELD
        self.holds.record(request, int(held))
        if held:
            await self.writer.record_held_deletion(entry, hold)
        cleaning = finish is Finish.CLEANING
        return Result(requeue_after=self.options.times.progress) if cleaning else None

    def forget(self, request: Request) -> None:
        """Forget a set that is gone, or another process's now."""
        self.holds.record(request, 0)
        self.memory.forget(request)
        self.writer.forget(request)


def keep_nodes(node_set: CosmosFullNode, pods: Iterable[Entry]) -> frozenset[str]:
    """Give the set, in memory, as many replicas that its nodes which exist stay; return the Pods of those beyond.

    So all that belongs to them stays as well: disks, Services and ConfigMaps.
    """
    spec = node_set.spec
    end = spec.ordinals.start + spec.replicas
    name = named(node_set)
    numbers = [ordinal_of(pod) for pod in pods if pod.name == pod_name(name, ordinal_of(pod))]
    beyond = [number for number in numbers if number >= end]
    if beyond:
        spec.replicas = max(beyond) + 1 - spec.ordinals.start
    return frozenset(pod_name(name, number) for number in beyond)


def frozen_changes(found: Found, kept: frozenset[str]) -> int:
    """Return how many changes were not made; a Pod that is `kept` and outdated too counts once."""
    parts = (found.pods, found.additional)
    names = kept.union(*(part.frozen for part in parts if part is not None))
    return len(names) + (0 if found.claims is None else found.claims.frozen)
