"""Reconciles one CosmosFullNode: what it wants, step by step, and what came of it, in its status."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Protocol

from apis.cosmos import (
    BuilderChanges,
    CosmosFullNode,
    CosmosFullNodeSpec,
    CosmosFullNodeStatus,
)
from apis.waiting import changes_waiting
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.selectors import label_text
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from ctrlruntime.resources.ordinal import ordinal_of
from ctrlruntime.rollout import ChangeHolds, NoHolds
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.observation import Observation, Observations
from internal.cosmos.fullnode import events, steps
from internal.cosmos.fullnode.held_changes import frozen_changes, keep_nodes
from internal.cosmos.fullnode.metadata import node_ordinals, node_selector
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.fullnode.phase import (
    Found,
    Verdict,
    conditions,
    nodes_behind,
    rollout_of,
    verdict,
)
from internal.cosmos.fullnode.plausible import believed
from internal.cosmos.fullnode.pod_control import main_pods, wanted_nodes
from internal.cosmos.fullnode.pvc_control import disk_heights
from internal.cosmos.fullnode.reading import read
from internal.cosmos.fullnode.removal import Removal
from internal.cosmos.fullnode.status import (
    Facts,
    earlier_heights,
    next_heights,
    ready_count,
    refuse,
    set_status,
    synced,
)
from internal.cosmos.fullnode.steps import Controls, Outcome
from internal.cosmos.fullnode.upgrade_gate import Admitted, Crossings
from internal.cosmos.labels import claim_name, pod_name
from internal.cosmos.times import Times

Statuses = StatusClient[CosmosFullNodeSpec, CosmosFullNodeStatus]


class NodeSets(Protocol):
    """The sets as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True, kw_only=True)
class FullNodeReconciler:
    """Reconciles the nodes of a set with its spec.

    Everything is read from memory: a set that is as it should be costs no request. What a set has goes with it, by
    owner references, unless the set goes with its CRD.
    """

    node_sets: NodeSets
    controls: Controls
    removal: Removal
    observations: Observations
    statuses: Statuses
    recorder: EventRecorder
    metrics: NodeSetMetrics
    crossings: Crossings
    clock: Callable[[], datetime]
    snapshots_served: Callable[[], bool]
    roll_builder_changes: bool = False
    """Whether every set follows a new builder, whatever its annotation."""
    script_image: str = ""
    """The image that scripts of sets run in that name none; empty: the one beside the nodes."""
    sidecar_image: str = ""
    """The image beside the nodes of sets that name none and have none recorded."""
    times: Times = field(default_factory=Times)
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds changes of sets from outside."""
    waiting: set[Request] = field(default_factory=set)
    """Sets with a claim that waits for what it is to be filled from."""
    made: dict[Request, set[str]] = field(default_factory=dict)
    """Pods that were created, and not polled since."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when not even the status can be written."""
        entry = self.node_sets.get(request.name, namespace=request.namespace)
        if entry is None:
            self._forget(request)
            return None
        if entry.deletion_timestamp is not None:
            await self._finish(request, entry)
            return None
        if await self.removal.protect(entry):
            return None  # the answer is in the cache and brings us back
        try:
            node_set = read(entry)
        except UnrecoverableError as error:
            await self._refuse(entry, str(error))
            return None
        if self.roll_builder_changes:
            node_set.spec.strategy.builder_changes = BuilderChanges.ROLL
        return await self._reconcile_object(request, entry, node_set)

    async def _reconcile_object(
        self, request: Request, entry: Entry, node_set: CosmosFullNode
    ) -> Result | None:
        said = self.observations.collect(request.namespace, request.name)
        if not await self._record_image(request, node_set):
            return None
        owner = _owner(entry)
        hold = self.holds.waiting(request, entry.annotations)
        kept = 0 if hold is None else keep_nodes(node_set, self._pods_of(owner))
        outcome = await steps.take(
            self.controls,
            node_set,
            owner,
            said,
            held="" if hold is None else hold.message,
            sidecar_image=self.sidecar_image,
            script_image=self.script_image,
            record_fixes=partial(self._record_fixes, request, node_set),
        )
        found = outcome.found
        found.snapshots_served = self.snapshots_served()
        waits = found.claims is not None and bool(found.claims.waiting)
        (self.waiting.add if waits else self.waiting.discard)(request)
        said = self.observations.collect(request.namespace, request.name)
        reported = believed(next_heights(said), node_set.status.height, earlier_heights(said))
        admitted = self._admit(request, node_set, reported.heights)
        found.crossing = admitted.wait or (self.times.upgrade if reported.unconfirmed else 0.0)
        made = self._made(request, outcome, said)
        if is_too_early(found, said, made):
            return Result(requeue_after=self.times.progress)
        now = self.clock()
        sync = synced(node_set.status.sync, said, now, made)
        wanted = wanted_nodes(node_set)
        final = verdict(found, ready_count(sync), wanted, self.times, nodes_behind(sync))
        frozen = 0 if hold is None else kept + frozen_changes(found)
        self.holds.record(request, frozen)
        facts = replace(
            self._facts(node_set, owner, outcome, final),
            waiting=changes_waiting(hold, frozen),
            sync=sync,
            heights=admitted.heights,
            lowered=reported.lowered,
            crossed=admitted.crossed,
        )
        self.crossings.forget(request, facts.emptied_nodes)
        await self._record_status(request, node_set, facts, now, found.findings.notes)
        return Result(requeue_after=final.requeue_after) if final.requeue_after else None

    async def _finish(self, request: Request, entry: Entry) -> None:
        """Let a deleted set go; in a freeze it stays, with all that it has."""
        hold = self.holds.waiting(request, entry.annotations)
        held = await self.removal.finish(entry, _owner(entry), held=hold is not None)
        self.holds.record(request, int(held))
        if held:
            waiting = changes_waiting(hold, 1)

            def report(status: CosmosFullNodeStatus) -> None:
                status.waiting = waiting
                status.status = "Being deleted, and held: " + ("" if hold is None else hold.message)

            await self._sync(request, report, entry.uid)

    def _pods_of(self, owner: Owner) -> list[Entry]:
        return main_pods(self.controls.pods.pods.of(owner).values())

    # -- what has to be known before anything is done -----------------------------------------

    def _admit(
        self, request: Request, node_set: CosmosFullNode, polled: Mapping[str, int]
    ) -> Admitted:
        boundaries = [version.height for version in node_set.spec.chain.versions]
        return self.crossings.admit(request, node_set.status.height, polled, boundaries)

    async def _record_image(self, request: Request, node_set: CosmosFullNode) -> bool:
        """Write down which image runs beside the nodes before they are made with it. False if the set is gone.

        Heights need no such step: Pods go by those of the status, never by what was heard just now.
        """
        template, image = node_set.spec.pod_template, self.sidecar_image
        if template.sidecar_image or node_set.status.sidecar_image or not image:
            return True

        def record(status: CosmosFullNodeStatus) -> None:
            status.sidecar_image = status.sidecar_image or image

        written = await self._sync(request, record, node_set.metadata.uid)
        if written is None:
            return False
        node_set.status = written
        return True

    async def _record_fixes(
        self, request: Request, node_set: CosmosFullNode, names: Collection[str]
    ) -> bool:
        """Record Pods that have failed before they are replaced. False if the set is gone."""

        def record(status: CosmosFullNodeStatus) -> None:
            status.rollout.fixes = sorted({*status.rollout.fixes, *names})

        written = await self._sync(request, record, node_set.metadata.uid)
        if written is None:
            return False
        node_set.status = written
        return True

    async def _sync(
        self, request: Request, update: Callable[[CosmosFullNodeStatus], None], uid: str | None
    ) -> CosmosFullNodeStatus | None:
        return await self.statuses.sync_status(
            request.name, update, namespace=request.namespace, uid=uid
        )

    def _made(
        self, request: Request, outcome: Outcome, said: Sequence[Observation]
    ) -> Collection[str]:
        """Pods that this manager created, and that were not polled since."""
        pods = outcome.found.pods
        made = self.made.setdefault(request, set())
        made |= {*pods.created, *pods.deleted, *pods.replaced} if pods is not None else set()
        made -= {each.pod for each in said if each.at is not None}
        return made

    # -- what is told afterwards ---------------------------------------------------------------

    def _facts(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        outcome: Outcome,
        final: Verdict,
    ) -> Facts:
        found, controls = outcome.found, self.controls
        names = {
            claim_name(owner.name, number): pod_name(owner.name, number)
            for number in _numbers(node_set, controls, owner)
        }
        claims = {key.name for key in controls.claims.claims.of(owner)}
        emptied = [] if found.claims is None else [*found.claims.created, *found.claims.deleted]
        kept = {pod for claim, pod in names.items() if claim in claims}
        wanted = {pod_name(owner.name, number) for number in node_ordinals(node_set)}
        return Facts(
            generation=node_set.metadata.generation or 0,
            phase=final.phase,
            message=final.message,
            is_invalid=found.findings.is_invalid,
            selector=label_text(node_selector(node_set)) or "",
            replicas=len(main_pods(controls.pods.pods.of(owner).values())),
            wanted=wanted_nodes(node_set),
            nodes=kept | wanted,
            peers=outcome.peers.external if final.is_built else None,
            rollout=rollout_of(found.pods, found.additional),
            disk_heights=_of_disks(controls, owner, names),
            emptied=emptied,
            emptied_nodes=[names.get(claim, "") for claim in emptied],
            conditions=conditions(node_set, found),
        )

    async def _record_status(
        self,
        request: Request,
        node_set: CosmosFullNode,
        facts: Facts,
        now: datetime,
        notes: Collection[events.Note],
    ) -> None:
        """Write the status if it changed; report by events what changed for the worse."""
        entry = self.node_sets.get(request.name, namespace=request.namespace)
        if entry is None or entry.uid != node_set.metadata.uid:
            return
        before = node_set.status
        after = before.model_copy(deep=True)
        set_status(after, facts, now)
        self.metrics.show(request, facts.phase, after.rollout)
        if after != before:
            uid = node_set.metadata.uid
            await self._sync(request, lambda status: set_status(status, facts, now), uid)
        events.record(self.recorder, entry, [*notes, *events.of_status(before, after)])

    async def _refuse(self, entry: Entry, message: str) -> None:
        """Report a set that cannot be read: nothing of it is touched."""
        now = self.clock()
        await self._sync(
            Request(entry.name, namespace=entry.namespace),
            lambda status: refuse(status, entry.generation, message, now),
            entry.uid,
        )

    def _forget(self, request: Request) -> None:
        self.waiting.discard(request)
        self.holds.record(request, 0)
        self.made.pop(request, None)
        self.crossings.forget(request)
        self.metrics.forget(request)


def is_too_early(found: Found, said: Sequence[Observation], made: Collection[str]) -> bool:
    """Whether a change waits only until nodes from before this manager's start have been asked once.

    What an earlier manager reported stays until then: nothing better is known.
    """
    waits = found.pods is not None and bool(found.pods.blocked)
    return waits and any(each.error == NOT_ASKED and each.pod not in made for each in said)


def _of_disks(controls: Controls, owner: Owner, names: Mapping[str, str]) -> dict[str, int]:
    """Return the heights that are recorded on claims, by Pod."""
    found = disk_heights(controls.claims.claims.of(owner).values())
    return {names[claim]: height for claim, height in found.items() if claim in names}


def _numbers(node_set: CosmosFullNode, controls: Controls, owner: Owner) -> list[int]:
    """Numbers of all nodes that are wanted or still have something."""
    left = {ordinal_of(entry) for entry in controls.claims.claims.of(owner).values()}
    return sorted({*node_ordinals(node_set), *left})


def _owner(entry: Entry) -> Owner:
    return Owner.of(entry)
