"""Reconciles one Instance: its subresources in order, and what they come to, in its status."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

from apis.cloud import Instance, InstanceKubernetes, InstanceStatus, Phase
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.debounce import Debounce
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions, Owner
from ctrlruntime.rollout import ChangeHolds, NoHolds, Waiting
from internal.cloud.instance.bundles import Bundles
from internal.cloud.instance.domains import held
from internal.cloud.instance.order import (
    PROTECTED,
    Child,
    Object,
    is_protected,
    kind_of,
    next_to_go,
    teardown_progress,
)
from internal.cloud.instance.reading import look_ahead, read, read_written
from internal.cloud.instance.status import Facts, Hindrance, is_news, leaving, summarize
from internal.cloud.instance.walk import Walk
from internal.cloud.labels import (
    APPROVE_DELETION,
    FINALIZER,
    RELEASE_ASSIGNMENT,
    RETRY,
    is_extracted,
    is_paused,
)
from internal.cloud.leases import lease_of
from internal.cloud.release_assignment import assigned_version, format_assignment, lost_assignment
from internal.cloud.subresource import Subresource

FAILING = (Phase.FAILED, Phase.RETRYING, Phase.DELETING)
"""Phases of a subresource that a retry of its instance is meant for."""


class Instances(Protocol):
    """The instances as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True)
class InstanceReconciler:
    """Reconciles an instance's subresources with its spec, one after another.

    Everything is read from the cache; an instance that is as it should be costs no request.
    """

    instances: Instances
    client: CachedClient
    walk: Walk
    bundles: Bundles
    patcher: ObjectPatcher
    definitions: Definitions
    """Which CRDs are being deleted."""
    conflict: Callable[[Instance], Hindrance | None]
    """Whether another instance has a name that this one wants."""
    clock: Callable[[], datetime]
    debounce: Debounce
    recorder: EventRecorder
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds the ends of leases from outside."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.instances.get(request.name, namespace=request.namespace)
        if entry is None:
            self.debounce.forget(request)
            self.holds.record(request, 0)
            return None
        if is_extracted(entry.annotations):
            return None
        owner = Owner.of(entry)
        if entry.deletion_timestamp is None and FINALIZER not in entry.finalizers:
            await self.patcher.add_finalizer(Instance.mapping(), entry, FINALIZER)
            return None  # the answer is in the cache and brings us back
        instance, flaw = read(entry)
        if entry.deletion_timestamp is not None:
            await self._tear_down(instance, entry, owner)
            return None
        if flaw is not None:
            await self._record_status(
                instance, entry, replace(_nothing(instance, entry), hindrance=flaw)
            )
            return None
        if await self._restore_assignment(entry):
            return None  # the answer is in the cache and brings us back
        return await self._reconcile_object(instance, entry, owner)

    async def _restore_assignment(self, entry: Entry) -> bool:
        """Write the annotation of a rollout again that was edited; True if it was.

        Without it the rollout would not know that it changed the instance, and would not return it.
        """
        lost = lost_assignment(read_written(entry)[0])
        if lost is None:
            return False
        fields = {
            "annotations": {RELEASE_ASSIGNMENT: format_assignment(lost)},
            "resourceVersion": entry.resource_version,
        }
        with contextlib.suppress(NotFound, Conflict):  # what changed brings us back
            await self.patcher.patch_metadata(Instance.mapping(), entry, fields)
        return True

    async def _reconcile_object(
        self, instance: Instance, entry: Entry, owner: Owner
    ) -> Result | None:
        lease = lease_of(instance, self.clock())
        paused = is_paused(entry.annotations)
        frozen = self._frozen(entry) if lease.delete else None
        if lease.delete and not paused and frozen is None:
            await self._let_go(entry)
            return None
        hindrance, revision = look_ahead(instance, entry, self.conflict, self.bundles)
        act = not paused and hindrance is None
        at = self.walk.prepare(instance, owner, act=act, bundle_revision=revision)
        children = await self.walk.through(at)
        if act:
            found = ((each.subresource, each.object) for each in children)
            await self._hand_on_retry(instance, found)
        facts = replace(
            _nothing(instance, entry),
            version=at.deployed,
            children=children,
            hindrance=hindrance,
            paused=paused,
            lease=lease.message if frozen is None else f"The lease has ended. {frozen.message}.",
        )
        if act:
            facts = replace(facts, handled_retry=retry_asked(instance))
        wait = await self._record_status(instance, entry, facts)
        times = [time for time in (wait, lease.look_again) if time]
        return Result(requeue_after=min(times)) if times else None

    def _frozen(self, entry: Entry) -> Waiting | None:
        """Return the freeze that keeps an instance whose lease has ended."""
        request = Request(entry.name, namespace=entry.namespace)
        hold = self.holds.waiting(request, entry.annotations)
        self.holds.record(request, int(hold is not None))
        return hold

    async def _hand_on_retry(
        self, instance: Instance, found: Iterable[tuple[Subresource[Any], Object | None]]
    ) -> None:
        """Request another attempt of whatever failed in `found`, for a new value of the annotation.

        Where nothing failed, of what is under way: a run that hangs is interrupted by it.
        """
        asked = retry_asked(instance)
        if asked and asked != instance.status.last_handled_retry:
            there = [(subresource, item) for subresource, item in found if item is not None]
            failed = [pair for pair in there if pair[1].status.phase in FAILING]
            running = [pair for pair in there if pair[1].status.phase is Phase.RUNNING]
            await self.walk.children.ask_for_retry(failed or running, asked)

    async def _record_status(self, instance: Instance, entry: Entry, facts: Facts) -> float:
        """Write the status if it is news. Returns the seconds after which to look again, or 0."""
        before = instance.status
        assigned = assigned_version(read_written(entry)[0])
        if assigned is not None:
            facts = replace(facts, assigned_by=assigned.rollout)
        after = summarize(before, facts, self.clock())
        after.assigned_version = assigned
        after.domains = held(
            instance.spec,
            before,
            ready=after.phase is Phase.READY,
            refused=facts.hindrance is not None,
        )
        wait = self.debounce.remaining(
            Request(entry.name, namespace=entry.namespace), pending=_is_silent(facts)
        )
        at_risk = before.version != after.version and any(_rolls(child) for child in walked(facts))
        if is_news(before, after, quiet=wait > 0 and not at_risk):
            await self._write(entry, before, after)
        return wait

    async def _write(self, entry: Entry, before: InstanceStatus, after: InstanceStatus) -> None:
        if await self.patcher.write_status(Instance.mapping(), entry, before, after):
            report_phase(self.recorder, entry, before, after)

    # -- the end ---------------------------------------------------------------------------

    async def _let_go(self, entry: Entry) -> None:
        """Delete an instance whose lease has ended, unless it was extended at this very moment."""
        with contextlib.suppress(NotFound, Conflict):  # what changed brings us back
            await self.client.delete(
                Instance.mapping(),
                entry.name,
                namespace=entry.namespace,
                uid=entry.uid,
                resource_version=entry.resource_version,
            )

    async def _tear_down(self, instance: Instance, entry: Entry, owner: Owner) -> None:
        """Subresources in reverse order, each kind gone before the next; then the instance.

        An instance that goes with its CRD is released, and its subresources release what they made.
        """
        if FINALIZER not in entry.finalizers:
            return
        if await self.definitions.any_removes([Instance.mapping()], APPROVE_DELETION):
            await self.patcher.remove_finalizer(Instance.mapping(), entry, FINALIZER)
            return
        held_back = _held_back(entry)
        if held_back:
            await self._leave(instance, entry, held_back)
            return
        found = (
            (each, item)
            for each in self.walk.subresources
            for item in self.walk.children.find(each, owner)
        )
        await self._hand_on_retry(instance, found)
        present = {
            kind_of(subresource): self.walk.children.entries(subresource, owner)
            for subresource in self.walk.subresources
        }
        going = next_to_go(self.walk.subresources, present)
        if going is None:
            await self.patcher.remove_finalizer(Instance.mapping(), entry, FINALIZER)
            return
        subresource, entries = going
        await self.walk.children.delete(subresource, owner, [item.name for item in entries])
        await self._leave(instance, entry, self._progress(subresource, owner))

    def _progress(self, subresource: Subresource[Any], owner: Owner) -> str:
        said = (item.status.message for item in self.walk.children.find(subresource, owner))
        return teardown_progress(kind_of(subresource), next(filter(None, said), ""))

    async def _leave(self, instance: Instance, entry: Entry, message: str) -> None:
        status = leaving(instance.status, entry.generation, message, self.clock())
        status.last_handled_retry = retry_asked(instance)
        await self._write(entry, instance.status, status)


def _rolls(child: Child) -> bool:
    """Whether the workload has begun to change, so that it no longer tells which version runs."""
    return child.subresource.kind is InstanceKubernetes and child.written


def walked(facts: Facts) -> Sequence[Child]:
    """Return the subresources, if anybody looked."""
    return facts.children or ()


def _is_silent(facts: Facts) -> bool:
    gating = (child for child in walked(facts) if child.subresource.gates)
    return any(child.silent and not child.waits_for for child in gating)


def _held_back(entry: Entry) -> str:
    if is_protected(entry):
        return PROTECTED
    if is_paused(entry.annotations):
        return "Paused: it is torn down once it is resumed with `manager instance resume`."
    return ""


def retry_asked(instance: Instance) -> str:
    """Return the value of the annotation that requests another attempt; empty if there is none."""
    return (instance.metadata.annotations or {}).get(RETRY, "")


def _nothing(instance: Instance, entry: Entry) -> Facts:
    """Facts of a pass that found out nothing: as before."""
    return Facts(
        generation=entry.generation,
        version=instance.status.version,
        handled_retry=instance.status.last_handled_retry,
    )


ACTION: Final = "Reconcile"
AT_WORK: Final = frozenset({Phase.PENDING, Phase.WAITING, Phase.RUNNING})
"""One and the same here: its subresources tell which it is, each with events of its own."""
TROUBLE: Final = frozenset({Phase.FAILED, Phase.RETRYING})


def report_phase(
    recorder: EventRecorder, entry: Entry, before: InstanceStatus, after: InstanceStatus
) -> None:
    """One event for a phase that was just written, if it is another than before.

    Its reason is the phase, its note the sentence of the status. A first roll-out is reported when it ends.
    """
    if before.phase is after.phase or {before.phase, after.phase} <= AT_WORK:
        return
    recorder.event(
        entry,
        "Warning" if after.phase in TROUBLE else "Normal",
        after.phase.value,
        ACTION,
        after.message,
    )
