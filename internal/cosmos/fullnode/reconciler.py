"""Reconciles one CosmosFullNode: what it wants, step by step, and what came of it, in its status."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from apis.cosmos import (
    BuilderChanges,
    CosmosFullNode,
    CosmosFullNodeSpec,
    CosmosFullNodeStatus,
    FullNodePhase,
)
from ctrlruntime.api import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.selectors import label_text
from ctrlruntime.client.statuses import StatusClient
from ctrlruntime.controller.failures import UnrecoverableError
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.observation import Observation, Observations
from internal.cosmos.fullnode import events, steps
from internal.cosmos.fullnode.crossings import Admitted, Crossings
from internal.cosmos.fullnode.metadata import node_ordinals, node_selector
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.fullnode.pod_control import main_pods, wanted_nodes
from internal.cosmos.fullnode.reading import read
from internal.cosmos.fullnode.status import (
    Facts,
    next_heights,
    ready_count,
    synced,
    tell,
)
from internal.cosmos.fullnode.steps import Controls, Outcome
from internal.cosmos.fullnode.verdict import Found, Times, Verdict, conditions, rollout_of, verdict
from internal.cosmos.marks import claim_name, pod_name

Statuses = StatusClient[CosmosFullNodeSpec, CosmosFullNodeStatus]


class NodeSets(Protocol):
    """The sets as the cache has them."""

    def get(self, namespace: str, name: str) -> Entry | None: ...


@dataclass(slots=True, kw_only=True)
class FullNodeReconciler:
    """Makes the nodes of a set what its spec says.

    Everything is read from memory: a set that is as it should be costs no request. There is no finalizer:
    what a set has goes with it, by owner references.
    """

    node_sets: NodeSets
    controls: Controls
    observations: Observations
    statuses: Statuses
    recorder: EventRecorder
    metrics: NodeSetMetrics
    crossings: Crossings
    clock: Callable[[], datetime]
    snapshots_served: Callable[[], bool]
    roll_builder_changes: bool = False
    """Whether every set follows a new builder, whatever it says of its own."""
    sidecar_image: str = ""
    """The image beside the nodes of sets that name none and have none recorded."""
    times: Times = field(default_factory=Times)
    waiting: set[Request] = field(default_factory=set)
    """Sets with a claim that waits for what it is to be filled from."""
    made: dict[Request, set[str]] = field(default_factory=dict)
    """Pods that were made, and that nobody has asked since."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when not even the status can be written."""
        entry = self.node_sets.get(request.namespace, request.name)
        if entry is None:
            self._forget(request)
            return None
        if entry.deletion_timestamp is not None:
            return None
        try:
            node_set = read(entry)
        except UnrecoverableError as error:
            await self._refuse(entry, str(error))
            return None
        if self.roll_builder_changes:
            node_set.spec.strategy.builder_changes = BuilderChanges.ROLL
        return await self._bring_about(request, entry, node_set)

    async def _bring_about(
        self, request: Request, entry: Entry, node_set: CosmosFullNode
    ) -> Result | None:
        said = self.observations.collect(request.namespace, request.name)
        if not await self._record_image(request, node_set):
            return None
        owner = Owner(
            gvk=CosmosFullNode.gvk(),
            namespace=request.namespace,
            name=request.name,
            uid=entry.uid,
        )
        outcome = await steps.take(
            self.controls, node_set, owner, said, sidecar_image=self.sidecar_image
        )
        found = outcome.found
        found.snapshots_served = self.snapshots_served()
        waits = found.claims is not None and bool(found.claims.waiting)
        (self.waiting.add if waits else self.waiting.discard)(request)
        said = self.observations.collect(request.namespace, request.name)
        admitted = self._admit(request, node_set, said)
        found.crossing = admitted.wait
        made = self._made(request, outcome, said)
        if is_too_early(found, said, made):
            return Result(requeue_after=self.times.progress)
        now = self.clock()
        sync = synced(node_set.status.sync, said, now, made)
        final = verdict(found, ready_count(sync), wanted_nodes(node_set), self.times)
        facts = replace(
            self._facts(node_set, owner, outcome, final),
            sync=sync,
            heights=admitted.heights,
            crossed=admitted.crossed,
        )
        self.crossings.forget(request, facts.emptied_nodes)
        await self._tell(request, node_set, facts, now, found.findings.notes)
        return Result(requeue_after=final.requeue_after) if final.requeue_after else None

    # -- what has to be known before anything is done -----------------------------------------

    def _admit(
        self, request: Request, node_set: CosmosFullNode, said: Sequence[Observation]
    ) -> Admitted:
        boundaries = [version.height for version in node_set.spec.chain.versions]
        polled = next_heights(said)
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
        node_set.status = written.status
        return True

    async def _sync(
        self, request: Request, update: Callable[[CosmosFullNodeStatus], None], uid: str | None
    ) -> Resource[Any, CosmosFullNodeStatus] | None:
        return await self.statuses.sync_update(request.namespace, request.name, update, uid=uid)

    def _made(
        self, request: Request, outcome: Outcome, said: Sequence[Observation]
    ) -> Collection[str]:
        """Pods that were made by this manager and that nobody has asked since."""
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
        complete = final.phase is FullNodePhase.COMPLETE
        return Facts(
            generation=node_set.metadata.generation or 0,
            phase=final.phase,
            message=final.message,
            selector=label_text(node_selector(node_set)) or "",
            replicas=len(main_pods(controls.pods.pods.of(owner).values())),
            wanted=wanted_nodes(node_set),
            nodes=kept | wanted,
            peers=outcome.peers.external if complete else None,
            rollout=rollout_of(found.pods),
            emptied=emptied,
            emptied_nodes=[names.get(claim, "") for claim in emptied],
            conditions=conditions(node_set, found),
        )

    async def _tell(
        self,
        request: Request,
        node_set: CosmosFullNode,
        facts: Facts,
        now: datetime,
        notes: Collection[events.Note],
    ) -> None:
        """Write the status if it is news; tell by events what changed for the worse."""
        entry = self.node_sets.get(request.namespace, request.name)
        if entry is None or entry.uid != node_set.metadata.uid:
            return
        before = node_set.status
        after = before.model_copy(deep=True)
        tell(after, facts, now)
        self.metrics.show(request, facts.phase, after.rollout)
        if after != before:
            uid = node_set.metadata.uid
            await self._sync(request, lambda status: tell(status, facts, now), uid)
        events.record(self.recorder, entry, [*notes, *events.of_status(before, after)])

    async def _refuse(self, entry: Entry, message: str) -> None:
        """A set that cannot be read: nothing of it is touched."""

        def refuse(status: CosmosFullNodeStatus) -> None:
            status.phase, status.status = FullNodePhase.ERROR, message
            status.observed_generation = entry.generation

        await self._sync(Request(entry.namespace, entry.name), refuse, entry.uid)

    def _forget(self, request: Request) -> None:
        self.waiting.discard(request)
        self.made.pop(request, None)
        self.crossings.forget(request)
        self.metrics.forget(request)


def is_too_early(found: Found, said: Sequence[Observation], made: Collection[str]) -> bool:
    """Whether a change waits only until nodes from before this manager's start have been asked once.

    What was told of it by an earlier manager stays until then: nothing is known better.
    """
    waits = found.pods is not None and bool(found.pods.blocked)
    return waits and any(each.error == NOT_ASKED and each.pod not in made for each in said)


def _numbers(node_set: CosmosFullNode, controls: Controls, owner: Owner) -> list[int]:
    """Numbers of all nodes that are wanted or still have something."""
    left = {ordinal_of(entry) for entry in controls.claims.claims.of(owner).values()}
    return sorted({*node_ordinals(node_set), *left})
