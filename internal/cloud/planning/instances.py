"""Plans the subresources of instances: what is written once an instance is as given. Writes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from apis.cloud import Instance
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError
from ctrlruntime.resources import DryRunControl, Operation, Owner, PlannedWrite, Reason
from ctrlruntime.resources.change_plan import ChangePlan, Context, Group, Grouping, Verb, Wording
from ctrlruntime.resources.field_changes import FieldChange, field_changes
from ctrlruntime.resources.lost_fields import lost_fields
from ctrlruntime.rollout import Waiting
from internal.cloud.change_holds import is_deployed, window_hold
from internal.cloud.instance.children import Children
from internal.cloud.instance.order import Child
from internal.cloud.instance.reading import Preconditions, read
from internal.cloud.instance.walk import Pass, Walk
from internal.cloud.labels import is_extracted, is_paused
from internal.cloud.subresource import ObjectStrategy, Subresource
from internal.cloud.taskdriver.inputs import content
from internal.removal_holds import held_message

WORDING: Final = Wording(
    subject="Instance", unit="instance", owner="instance", key="instance", failing="What fails"
)
_VERBS: Final = {
    Operation.CREATE: Verb.CREATE,
    Operation.UPDATE: Verb.UPDATE,
    Operation.DELETE: Verb.DELETE,
}


@dataclass(slots=True)
class InstancePlanner:
    """Plans instances, one after the other. What is applied is taken to become ready."""

    walk: PlannedWalk
    control: DryRunControl
    preconditions: Preconditions
    hold: Callable[[Entry], Waiting | None]
    """What holds changes of an instance from outside: a freeze."""
    clock: Callable[[], datetime]
    grouping: Grouping
    writes: list[PlannedWrite] = field(default_factory=list)
    """What the control passed on since it was emptied last."""
    patches: list[PlannedPatch] = field(default_factory=list)
    """What the walk's children would patch since it was emptied last."""

    async def changed(self, entry: Entry, before: Entry | None) -> ChangePlan:
        """Return the plan of one instance; `entry` is what it is to be, `before` what it is."""
        found = ChangePlan(wording=WORDING, name=entry.name, namespace=entry.namespace, total=1)
        self._itself(entry, before)
        await self.subresources(entry)
        self.grouping.into(found)
        for group in found.groups:
            if group.kind == Instance.gvk().group_kind:
                group.confirmed = True  # `entry` is the answer to a dry run
        return found

    def _itself(self, entry: Entry, before: Entry | None) -> None:
        after, live = _shown(entry), None if before is None else _shown(before)
        changes = [FieldChange("", None, after)] if live is None else field_changes(live, after)
        if changes:
            verb = Verb.CREATE if before is None else Verb.UPDATE
            operation = Operation.CREATE if before is None else Operation.UPDATE
            write = planned(operation, Instance.mapping(), entry, Owner.of(entry), before)
            self.grouping.add(context_of(entry), verb, write, changes)

    async def subresources(self, entry: Entry) -> None:
        """Plan what the controller of instances would write for one that is as `entry`."""
        context, (instance, flaw) = context_of(entry), read(entry)
        why = _why_left_alone(entry)
        held = held_message(entry.field("status"))
        if why or held:
            self.grouping.hold(context, "", "; ".join(filter(None, (why, held))))
        if why:
            return
        runs = self.walk.running(instance, Owner.of(entry))
        hindrance, revision = (
            (flaw, "") if flaw is not None else self.preconditions.check(instance, entry, runs)
        )
        if hindrance is not None:
            self.grouping.fail(context, "", hindrance.message)
            return
        self.writes.clear()
        self.patches.clear()
        self.walk.problems.clear()
        await self.walk.plan(instance, Owner.of(entry), revision)
        self._collect(context)
        hold = self.hold(entry) or window_hold(entry, self.clock())
        if hold is not None and is_deployed(entry) and (self.writes or self.patches):
            self.grouping.hold(context, "", f"the runs wait: {hold.message}")

    def _collect(self, context: Context) -> None:
        for write in self.writes:
            reason = "" if write.reason is None else write.reason.value
            verb = _VERBS[write.operation]
            self.grouping.add(context, verb, write, self._changes(write), reason=reason)
        for patch in self.patches:
            mapping = patch.subresource.kind.mapping()
            owner = Owner.of(patch.entry)
            write = planned(Operation.UPDATE, mapping, patch.entry, owner, patch.entry)
            self.grouping.add(context, Verb.UPDATE, write, patch.changes, reason="Metadata")
        for kind, problem in self.walk.problems:
            self.grouping.fail(context, kind, problem)

    def _changes(self, write: PlannedWrite) -> Sequence[FieldChange]:
        desired, entry = write.desired, write.entry
        if desired is None:
            return ()
        annotations, spec = dict(desired.annotations), desired.manifest["spec"]
        after = {"metadata": {"annotations": annotations}, "spec": spec}
        if entry is None:
            return [FieldChange("", None, after)]
        known = {name: entry.annotations[name] for name in annotations if name in entry.annotations}
        before = {"metadata": {"annotations": known}, "spec": self._spec(write.mapping, entry)}
        found = field_changes(before, after)
        if found or write.reason is Reason.REVISION:
            return found
        return lost_fields(write)

    def _spec(self, mapping: RESTMapping, entry: Entry) -> Manifest:
        """Return the spec of a subresource without what equals its default, as specs are written."""
        for item in self.walk.subresources:
            if item.kind.mapping() == mapping:
                with contextlib.suppress(ValidationError):
                    return content(entry.typed(item.kind).spec)
        found: Manifest = entry.field("spec") or {}
        return found

    async def confirm(self, found: ChangePlan) -> None:
        """Send one change of each group as a dry run, and record the answer."""
        for group in found.groups:
            write = group.example
            if write is not None and not group.confirmed and _is_of_control(write):
                await self._confirm(group, write)

    async def _confirm(self, group: Group, write: PlannedWrite) -> None:
        try:
            group.refusal = await self.control.confirm(write)
        except APIError as error:
            group.refusal = str(error)
        group.confirmed = not group.refusal


def context_of(entry: Entry) -> Context:
    """Return what groups need of an instance: values that differ from one to the next, by their fields."""
    spec = entry.field("spec") or {}
    named = {name: spec.get(name) for name in ("domain", "primaryDNSName")}
    values = {name: value for name, value in named.items() if isinstance(value, str) and value}
    return Context(
        owner=entry.name, unit=entry.name, template="", values={**values, "instance": entry.name}
    )


def planned(
    operation: Operation, mapping: RESTMapping, entry: Entry, owner: Owner, before: Entry | None
) -> PlannedWrite:
    """Return a write that no control makes."""
    return PlannedWrite(
        operation=operation,
        mapping=mapping,
        namespace=entry.namespace,
        name=entry.name,
        owner=owner,
        entry=before,
    )


def _is_of_control(write: PlannedWrite) -> bool:
    return write.desired is not None or write.operation is Operation.DELETE


def _why_left_alone(entry: Entry) -> str:
    if entry.deletion_timestamp is not None:
        return "it is being deleted"
    if is_extracted(entry.annotations):
        return "it was taken out of management"
    return "it is paused" if is_paused(entry.annotations) else ""


def _shown(entry: Entry) -> Manifest:
    """Return what a person writes of an instance."""
    metadata = {
        name: dict(found)
        for name, found in (("labels", entry.labels), ("annotations", entry.annotations))
        if found
    }
    return {"metadata": metadata, "spec": entry.field("spec") or {}}


@dataclass(frozen=True, slots=True)
class PlannedPatch:
    """A patch of a subresource that no control makes: what is foreign to it is removed, or it is annotated."""

    subresource: Subresource[Any]
    entry: Entry
    changes: Sequence[FieldChange]


@dataclass(slots=True)
class PlannedChildren(Children):
    """Decides as `Children` does, and collects the patches. Its control must be one that does not write."""

    patches: list[PlannedPatch] = field(default_factory=list)

    async def _patch(
        self, subresource: Subresource[Any], entry: Entry, patch: dict[str, Any]
    ) -> bool:
        live = {
            "metadata": {"annotations": dict(entry.annotations)},
            "spec": entry.field("spec") or {},
        }
        changes = field_changes(_part(live, patch), patch)
        self.patches.append(PlannedPatch(subresource, entry, changes))
        return True


def _part(live: object, patch: object) -> object:
    """Return what a patch is about of an object."""
    if isinstance(live, dict) and isinstance(patch, dict):
        return {key: _part(live[key], patch[key]) for key in patch if key in live}
    return live


@dataclass(slots=True)
class PlannedWalk(Walk):
    """Takes what is wanted for ready, so that all of a change is seen and not its first step only."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    """Kind and sentence of each subresource that cannot be as it should be."""

    async def plan(self, instance: Instance, owner: Owner, bundle_revision: str) -> None:
        """Take each subresource in turn. The writes are those of the control and `children.patches`."""
        at = self.prepare(instance, owner, act=True, bundle_revision=bundle_revision)
        walked: list[Child] = []
        for subresource in self.subresources:
            if subresource.strategy is ObjectStrategy.ONE_PER_UPGRADE:
                child = await self._upgrade(at, subresource, walked)
                if child.wanted:  # those after it are made for the new version
                    at = replace(at, deployed=at.wanted, upgrades=())
            else:
                child = await self._update(at, subresource, walked)
            if child.problem:
                self.problems.append((child.kind, child.problem))
            walked.append(self._as_ready(child, at))

    def _as_ready(self, child: Child, at: Pass) -> Child:
        """Return a subresource as if it had been carried out, with the outputs that it has now."""
        if not child.wanted:
            return replace(child, object=None)
        found = child.object or self.children.look(child.subresource, at.name, at.owner)
        return replace(child, object=found, ready=True, waits_for=())
