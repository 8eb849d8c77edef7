"""Objects that drive tasks: as typed, their inputs, and whether those are carried out. Pure.

A status may be edited by hand, or come out of a backup. A recorded run counts only under the name that
follows from what it is recorded to be for; where the record falls away, the provider's list of runs is
read instead. What is missing is filled in so that nothing waits forever.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from apis.cloud import (
    Instance,
    TaskOperation,
    TaskOutcome,
    TaskRun,
    TaskState,
    TaskStatus,
    TaskSuccess,
)
from ctrlruntime.api import ApiModel, Manifest, OwnerReference, Resource, find_condition
from ctrlruntime.resources.revision import canonical, revision
from internal.cloud.labels import CONTROL, INSTANCE
from internal.cloud.runs import RunOwner
from internal.cloud.taskdriver.plan_approval import trusted_plan
from internal.cloud.taskdriver.record import CONDITIONS, is_live, is_named_rightly, proof_of
from internal.cloud.tasks.task import TaskDefinition

R = TypeVar("R", bound=Resource[Any, TaskStatus])


def content(spec: ApiModel) -> Manifest:
    """Return the spec under its wire names, without what equals its default: one form to hash and to compare.

    So neither a server that writes defaults into an object, nor a release of the manager that adds a
    field with one, makes it look like another spec.
    """
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)


def spec_revision(spec: ApiModel) -> str:
    """Return the revision that the Instance controller records on the object that it gives this spec.

    An object whose spec has another one was changed by someone else since.
    """
    return revision(content(spec))


def typed(kind: type[R], manifest: Mapping[str, Any]) -> R | None:
    """Return an object as its kind. A status that cannot be read counts as none; None if the spec cannot."""
    try:
        return kind.from_manifest(manifest)
    except ValidationError:
        pass
    try:
        return kind.from_manifest({**manifest, "status": {}})
    except ValidationError:
        return None


def instance_reference(resource: Resource[Any, TaskStatus]) -> OwnerReference | None:
    """Return the reference to the instance that controls an object."""
    for reference in resource.metadata.owner_references or ():
        if reference.controller and reference.kind == Instance.gvk().kind:
            return reference
    return None


def instance_name(resource: Resource[Any, TaskStatus]) -> str:
    """Return the name of an object's instance: by owner, else by its spec (`instanceName`) or label, else its own."""
    reference = instance_reference(resource)
    if reference is not None:
        return reference.name
    named = getattr(resource.spec, "instance_name", None)
    if isinstance(named, str) and named:
        return named
    return (resource.metadata.labels or {}).get(INSTANCE) or resource.metadata.name or ""


def trusted(
    status: TaskStatus, owner: RunOwner, definition: TaskDefinition, now: datetime
) -> TaskStatus:
    """Return a copy of the status with what can be believed."""
    result = status.model_copy(deep=True)
    if result.run is not None and not _is_believable(result.run, owner, definition):
        result.run = None
    result.history = [
        run
        for run in result.history
        if run.state is TaskState.DONE and is_named_rightly(run, owner, definition.name)
    ]
    result.plan = trusted_plan(result.plan, owner.uid)
    result.task_conditions = result.task_conditions[:CONDITIONS]
    if result.run is not None:
        _mend(result.run, definition, now)
    return result


def _is_believable(run: TaskRun, owner: RunOwner, definition: TaskDefinition) -> bool:
    known = run.state is not TaskState.PENDING and run.attempt >= 1
    return known and is_named_rightly(run, owner, definition.name)


def _mend(run: TaskRun, definition: TaskDefinition, now: datetime) -> None:
    if is_live(run):
        run.created_at = min(run.created_at or now, now)
        latest = now + timedelta(seconds=definition.timeout)
        run.deadline = min(run.deadline or latest, latest)
        run.outcome = run.finished_at = run.retry_at = None
        return
    run.outcome = run.outcome or TaskOutcome.LOST
    run.finished_at = min(run.finished_at or now, now)


FOREIGN_DOMAINS: Final = (
    "kubernetes.io",
    "k8s.io",
    "argocd.argoproj.io",
    "meta.helm.sh",
)
"""Domains, with all below them, whose annotations tools write for themselves."""
LIBRARY_DOMAIN: Final = "ctrlruntime.dev"
"""What the library records on objects; the domains below it are those of the systems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of one object, now."""

    version: str
    """`<generation>-<40 hex>`: another one for every change that may matter."""
    hash: str
    """Of spec and annotations: the same again when the same content is asked for again."""
    annotations: Mapping[str, str]
    """The annotations that count."""


def inputs_of(resource: Resource[Any, TaskStatus]) -> Inputs:
    """Return the inputs of an object. Its status, labels and the order of its annotations are none."""
    annotations = counting(resource.metadata.annotations or {})
    generation = resource.metadata.generation or 0
    return Inputs(
        version=f"{generation}-{digest(annotations)}",
        hash=digest({"spec": content(resource.spec), "annotations": annotations}),
        annotations=annotations,
    )


def counting(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations that are inputs: all but those of tools, and those that steer controllers."""
    return {key: value for key, value in sorted(annotations.items()) if _counts(key)}


def _counts(key: str) -> bool:
    domain = key.rpartition("/")[0]
    if key in CONTROL or domain == LIBRARY_DOMAIN:
        return False
    return not any(domain == name or domain.endswith(f".{name}") for name in FOREIGN_DOMAINS)


def digest(value: object) -> str:
    """SHA-1 of the canonical JSON, 40 hexadecimal digits. A name, not a protection."""
    return hashlib.sha1(canonical(value), usedforsecurity=False).hexdigest()


CHECKS: Final = frozenset({TaskOperation.PLAN, TaskOperation.REPAIR})
"""Operations of runs that look for drift of inputs that are carried out."""
CHANGES: Final = frozenset({TaskOperation.APPLY, TaskOperation.REPAIR})
"""Operations of runs that may change what is there."""
READY: Final = "Ready"


def is_ready(resource: Resource[Any, TaskStatus], *, once: bool = False) -> bool:
    """Whether an object is ready for the inputs that it has now.

    The condition Ready and the record have to agree, both for the present generation. A status that
    was written for earlier inputs is never ready. `once`: the task runs once in the object's life,
    whatever becomes of its inputs.
    """
    metadata, status = resource.metadata, resource.status
    if metadata.deletion_timestamp is not None:
        return False
    if not once and not _is_observed(resource):
        return False
    condition = find_condition(status.conditions, READY)
    reported = condition is not None and condition.status == "True"
    return reported and is_fulfilled(status, inputs_of(resource), once=once)


def _is_observed(resource: Resource[Any, TaskStatus]) -> bool:
    generation = resource.metadata.generation or 0
    condition = find_condition(resource.status.conditions, READY)
    seen = None if condition is None else condition.observed_generation
    return resource.status.observed_generation == generation and seen in (None, generation)


def is_fulfilled(status: TaskStatus, inputs: Inputs, *, once: bool) -> bool:
    """Return whether these inputs are recorded as carried out and no later attempt failed.

    This is what the condition Ready is computed from. A periodic task stays ready while its next run
    is under way, and is not ready from a failed run until one has succeeded.
    """
    if once:
        return status.succeeded is not None
    return is_carried_out(status, inputs) and not _has_failed_since(status)


def is_carried_out(status: TaskStatus, inputs: Inputs) -> bool:
    """Whether these inputs were the last that a run may have changed anything for, successfully."""
    done = status.succeeded
    return done is not None and is_current(done, inputs) and not _was_undone(status, done)


def is_current(done: TaskSuccess, inputs: Inputs) -> bool:
    """Whether what was carried out is what is wanted: the same inputs, or the same content."""
    return done.inputs_version == inputs.version or (
        bool(done.inputs_hash) and done.inputs_hash == inputs.hash
    )


def _was_undone(status: TaskStatus, done: TaskSuccess) -> bool:
    """Whether a later run for other inputs may have changed what was carried out."""
    last = status.run
    if last is None or last.run_id == done.run_id or last.operation in CHECKS:
        return False
    return last.inputs_version != done.inputs_version


def _has_failed_since(status: TaskStatus) -> bool:
    ended = _last_ended(status)
    return ended is not None and ended.outcome is not TaskOutcome.SUCCEEDED


def was_built(status: TaskStatus) -> bool:
    """Return whether a status shows that a run succeeded that applied something."""
    runs = (run for run in (status.run, *status.history) if run is not None)
    applied = (run for run in runs if run.operation is TaskOperation.APPLY)
    succeeded = any(
        run.outcome is TaskOutcome.SUCCEEDED for run in applied if not _only_planned(run)
    )
    kept = status.outputs or status.outputs_secret_name or proof_of(status.record)
    return bool(succeeded or kept or status.succeeded is not None)


def may_have_applied(status: TaskStatus) -> bool:
    """Return whether a run may have changed something, whatever became of it.

    A run reports where it works before its first write, and one that ended by itself has reported all.
    """
    if status.succeeded is not None or status.record:
        return True
    runs = (run for run in (status.run, *status.history) if run is not None)
    return any(_may_have_applied(run) for run in runs if run.operation in CHANGES)


def _may_have_applied(run: TaskRun) -> bool:
    if is_live(run) or run.outcome is TaskOutcome.LOST:
        return True
    ended_by_itself = run.outcome in (TaskOutcome.FAILED, TaskOutcome.REJECTED)
    return run.started_at is not None and not ended_by_itself


def is_apply_failed(status: TaskStatus) -> bool:
    """Return whether the last run that ended was to apply something, and did not succeed."""
    run = status.run if status.run is not None and not is_live(status.run) else None
    last = run or next(iter(status.history), None)
    failed = last is not None and last.outcome is not TaskOutcome.SUCCEEDED
    return last is not None and failed and last.operation not in CHECKS


def _only_planned(run: TaskRun) -> bool:
    """Whether a run applied nothing: it was to plan only, or ended with a plan that waits."""
    waits = bool(run.plan_digest) and run.plan_decision is None
    return run.operation is TaskOperation.PLAN or waits


def _last_ended(status: TaskStatus) -> TaskRun | None:
    """Return the newest run that ended and may have changed something.

    A run under way does not make up for the failure before it.
    """
    runs = (run for run in (status.run, *status.history) if run is not None)
    changing = (run for run in runs if not _only_planned(run))
    return next((run for run in changing if run.state is TaskState.DONE), None)
