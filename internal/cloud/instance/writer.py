"""Writes of an instance itself: its finalizer, the assignment of its version, and its status with the events."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from apis.cloud import Instance, InstanceKubernetes, InstanceStatus, Phase, TaskRun
from ctrlruntime.api.conditions import find_condition, new_condition, set_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.debounce import Debounce
from ctrlruntime.events import EventRecorder
from ctrlruntime.gate import Hold
from ctrlruntime.queue import Request
from internal.cloud.instance.children import requested_retry
from internal.cloud.instance.deletion import ORPHANED, parent_of
from internal.cloud.instance.domains import held
from internal.cloud.instance.held_runs import held_conditions
from internal.cloud.instance.order import Child
from internal.cloud.instance.reading import read_written
from internal.cloud.instance.status import FORGED, READY, Facts, is_news, leaving, summarize
from internal.cloud.labels import FINALIZER, RELEASE_ASSIGNMENT
from internal.cloud.release_assignment import (
    assigned_version,
    forged_assignment,
    format_assignment,
    lost_assignment,
    with_progress,
)
from internal.cloud.taskdriver.unavailable import PROVIDER_FAILED
from internal.removal_holds import HELD, held_condition
from internal.removal_holds import is_news as is_new_hold

_log: FilteringBoundLogger = structlog.get_logger("cloud.instance")
ACTION: Final = "Reconcile"
AT_WORK: Final = frozenset({Phase.PENDING, Phase.WAITING, Phase.RUNNING})
"""One and the same here: its subresources tell which it is, each with events of its own."""
TROUBLE: Final = frozenset({Phase.FAILED, Phase.RETRYING})


@dataclass(slots=True)
class InstanceWriter:
    """Writes instances. Every method raises the client's errors."""

    patcher: ObjectPatcher
    recorder: EventRecorder
    debounce: Debounce
    """How long a status waits for subresources to report on new inputs."""
    clock: Callable[[], datetime]

    async def protect(self, entry: Entry) -> bool:
        """Put the finalizer on. Return False if it was there."""
        if FINALIZER in entry.finalizers:
            return False
        await self.patcher.add_finalizer(Instance.mapping(), entry, FINALIZER)
        return True

    async def release(self, entry: Entry) -> None:
        """Take the finalizer off: the instance goes."""
        await self.patcher.remove_finalizer(Instance.mapping(), entry, FINALIZER)

    async def restore_assignment(self, entry: Entry) -> bool:
        """Write the annotation of a rollout again that was edited; True if it was.

        Without it the rollout would not know that it changed the instance, and would not return it.
        """
        written = read_written(entry)[0]
        lost = lost_assignment(written)
        if lost is None:
            return False
        if forged := forged_assignment(written):
            self.recorder.event(entry, "Warning", FORGED, ACTION, forged)
        fields = {
            "annotations": {RELEASE_ASSIGNMENT: format_assignment(lost)},
            "resourceVersion": entry.resource_version,
        }
        with contextlib.suppress(NotFound, Conflict):  # what changed brings it back
            await self.patcher.patch_metadata(Instance.mapping(), entry, fields)
        return True

    async def record(self, instance: Instance, entry: Entry, facts: Facts) -> float:
        """Write the status if it is news. Return the seconds after which to look again, or 0."""
        before = instance.status
        written = read_written(entry)[0]
        assigned = assigned_version(written)
        facts = replace(facts, forged=forged_assignment(written))
        if assigned is not None:
            facts = replace(facts, assigned_by=assigned.rollout)
        now = self.clock()
        after = summarize(before, facts, now)
        after.assigned_version = with_progress(
            assigned, before, after, entry.generation, now, facts.shared_inputs
        )
        after.domains = held(
            instance.spec,
            before,
            ready=after.phase is Phase.READY,
            refused=facts.hindrance is not None,
        )
        wait = self.debounce.remaining(
            Request(entry.name, namespace=entry.namespace), pending=_is_silent(facts)
        )
        at_risk = before.version != after.version and any(_rolls(child) for child in _walked(facts))
        if is_news(before, after, quiet=wait > 0 and not at_risk):
            await self._write(entry, before, after)
            if facts.forged and find_condition(before.conditions, FORGED) is None:
                self.recorder.event(entry, "Warning", FORGED, ACTION, facts.forged)
        return wait

    async def record_teardown(
        self,
        instance: Instance,
        entry: Entry,
        message: str,
        hold: Hold | None = None,
        run: TaskRun | None = None,
    ) -> None:
        """Write how far the teardown of a deleted instance has come, and what is held of it, or by a `run` of it."""
        now = self.clock()
        status = leaving(instance.status, entry.generation, message, now)
        status.last_handled_retry = requested_retry(instance)
        if hold is None:
            for each in held_conditions(status.conditions, run, entry.generation):
                set_condition(status.conditions, each, now)
        else:
            held = held_condition(parent_of(entry), hold, entry.generation)
            set_condition(status.conditions, held, now)
        await self._write(entry, instance.status, status)

    async def record_orphaned(self, instance: Instance, entry: Entry, left: str) -> None:
        """Report once what stays of an instance that goes with deletionPolicy Orphan."""
        now, message = self.clock(), f"The objects go, and what they made stays: {left}."
        status = leaving(instance.status, entry.generation, message, now)
        if find_condition(status.conditions, ORPHANED) is not None:
            return
        condition = new_condition(
            ORPHANED, True, "DeletionPolicy", message, generation=entry.generation
        )
        set_condition(status.conditions, condition, now)
        await self._write(entry, instance.status, status)
        self.recorder.event(entry, "Warning", ORPHANED, ACTION, message)
        _log.warning("Orphaned", instance=f"{entry.namespace}/{entry.name}", left=left)

    def forget(self, request: Request) -> None:
        """Forget an instance that is gone."""
        self.debounce.forget(request)

    async def _write(self, entry: Entry, before: InstanceStatus, after: InstanceStatus) -> None:
        if await self.patcher.write_status(Instance.mapping(), entry, before, after):
            report_phase(self.recorder, entry, before, after)
            report_hold(self.recorder, entry, before, after)


def report_hold(
    recorder: EventRecorder, entry: Entry, before: InstanceStatus, after: InstanceStatus
) -> None:
    """One event for what is held since a status was just written, unless that of the phase has the message."""
    found = find_condition(after.conditions, HELD)
    shown = before.phase is not after.phase and found is not None and found.message == after.message
    if (
        found is not None
        and not shown
        and is_new_hold(find_condition(before.conditions, HELD), found)
    ):
        recorder.event(entry, "Warning", HELD, ACTION, found.message)


def _rolls(child: Child) -> bool:
    """Whether the workload has begun to change, so that the version that runs no longer follows from it."""
    return child.subresource.kind is InstanceKubernetes and child.written


def _walked(facts: Facts) -> Sequence[Child]:
    """Return the subresources, if anybody looked."""
    return facts.children or ()


def _is_silent(facts: Facts) -> bool:
    gating = (child for child in _walked(facts) if child.subresource.gates)
    return any(child.silent and not child.waits_for for child in gating)


def report_phase(
    recorder: EventRecorder, entry: Entry, before: InstanceStatus, after: InstanceStatus
) -> None:
    """One event for a phase that was just written, if it is another than before.

    Its reason is the phase, its note the sentence of the status. A first roll-out is reported when it ends. What the
    provider of runs refuses is reported whatever the phase, once for each text.
    """
    ready, was = (find_condition(each.conditions, READY) for each in (after, before))
    if ready is not None and ready.reason == PROVIDER_FAILED:
        if was is None or was.message != ready.message:
            recorder.event(entry, "Warning", PROVIDER_FAILED, ACTION, after.message)
        return
    if before.phase is after.phase or {before.phase, after.phase} <= AT_WORK:
        return
    recorder.event(
        entry,
        "Warning" if after.phase in TROUBLE else "Normal",
        after.phase.value,
        ACTION,
        after.message,
    )
