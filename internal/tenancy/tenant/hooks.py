"""Hooks: Jobs that run once before a tenant is made, before it is removed, and after that.

A hook that fails stops what it comes before: nothing is applied, or nothing is removed, until its Job is
deleted to run again, or the hook is skipped by an annotation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from apis.tenancy import Hook, HookMoment, Tenant
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError
from ctrlruntime.resources import OWNER_UID, Action, Desired, Owner
from ctrlruntime.resources.readiness import Phase, assess
from internal.tenancy.objects.builder import build_hook, hooks_of
from internal.tenancy.objects.ready_when import as_object
from internal.tenancy.objects.target_clusters import KindMappings, TargetClusters, any_mapping
from internal.tenancy.objects.values import SensitiveValues
from internal.tenancy.objects.variables import VariablesError, variables_of
from internal.tenancy.rendering import Renderer
from internal.tenancy.shared.labels import SKIP_HOOKS
from internal.tenancy.shared.missing_permissions import impersonated
from internal.tenancy.shared.outcome import HOOK_FAILED, HOOK_RUNNING, refusal
from internal.tenancy.shared.privileges import Privileges

JOB: Final = GroupVersionKind("batch", "v1", "Job")
SHORTEST_TTL: Final = 300
"""Seconds that a Job has to stay once it has ended, so that its end is seen."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The hook that nothing goes on without: the reason of a condition, and its message."""

    reason: str
    message: str
    retry: bool = False
    """Whether another attempt may mend it without a change of any object."""


@dataclass(frozen=True, slots=True)
class HookResult:
    """What became of the hooks of a moment."""

    completed: tuple[str, ...] = ()
    """Ids of those that have run by now."""
    stopped: Stopped | None = None


@dataclass(slots=True)
class Hooks:
    """Runs the hooks of tenants."""

    targets: TargetClusters
    renderer: Renderer
    values: SensitiveValues
    privileges: Privileges = field(default_factory=Privileges)

    async def run(
        self,
        tenant: Tenant,
        owner: Owner,
        annotations: Mapping[str, str],
        moment: HookMoment,
        mappings: KindMappings,
        draw: Callable[[], Awaitable[None]],
    ) -> HookResult:
        """Start the hooks of a moment one after the other, until one has not ended well.

        `draw` draws the generated values that are not there yet: a tenant may go before it had any. Raises
        VariablesError.
        """
        completed: list[str] = []
        for hook in hooks_of(tenant, annotations, moment):
            if hook.id not in tenant.status.completed_hooks:
                stopped = await self._run(tenant, owner, hook, mappings, draw)
                if stopped is not None:
                    return HookResult(tuple(completed), stopped)
            completed.append(hook.id)
        return HookResult(tuple(completed))

    async def _run(
        self,
        tenant: Tenant,
        owner: Owner,
        hook: Hook,
        mappings: KindMappings,
        draw: Callable[[], Awaitable[None]],
    ) -> Stopped | None:
        """Return why a hook has not ended well yet; None: it has."""
        home = tenant.metadata.namespace or ""
        if problems := check_hook(hook, home):  # of a Tenant that no template made
            return _failed(tenant, hook, "; ".join(problems))
        try:
            await draw()
            variables = variables_of(tenant, await self.values.of(tenant))
        except VariablesError as error:
            return _failed(tenant, hook, str(error), retry=True)
        lookup = partial(any_mapping, mappings)
        built = await build_hook(tenant, hook, variables, self.renderer, lookup, self.privileges)
        if built.desired is None:
            return _failed(tenant, hook, built.problem, retry=built.transient)
        try:
            return await self._job(tenant, owner, hook, built.desired)
        except APIError as error:
            return _failed(tenant, hook, refusal(error, variables.hidden), retry=True)

    async def _job(
        self, tenant: Tenant, owner: Owner, hook: Hook, desired: Desired
    ) -> Stopped | None:
        control = self.targets.impersonating(impersonated(tenant, self.privileges)).local.control
        entry = control.look(desired)
        if entry is None:
            outcome = await control.ensure(desired, owner)
            if outcome.action is Action.CONFLICT:
                return _failed(tenant, hook, f"its Job {desired.name!r}: {outcome.conflict}")
            return _running(hook, f"its Job {desired.name!r} was created")
        if entry.annotations.get(OWNER_UID) != owner.uid:
            if control.holds(entry, owner):  # of a former tenant of this name: it goes
                return _running(hook, f"a former Job {desired.name!r} is still there")
            return _failed(tenant, hook, f"another object is in the way: Job {desired.name!r}")
        return _judged(tenant, hook, entry)


def _judged(tenant: Tenant, hook: Hook, entry: Entry) -> Stopped | None:
    """Return why the Job of a hook has not ended well. It is never written again: what it did is done."""
    if entry.deletion_timestamp is not None:
        return _running(hook, f"a former Job {entry.name!r} is being deleted")
    found = assess(as_object(entry))
    if found.phase is Phase.READY:
        return None
    if found.phase is Phase.FAILED:
        again = f"to run it again: kubectl -n {entry.namespace} delete job {entry.name}"
        return _failed(tenant, hook, f"its Job {entry.name!r} failed ({found.reason}); {again}")
    return _running(hook, f"its Job {entry.name!r} has not completed yet")


def _running(hook: Hook, why: str) -> Stopped:
    return Stopped(HOOK_RUNNING, f"The hook {hook.id} ({hook.moment.value}) runs: {why}.")


def _failed(tenant: Tenant, hook: Hook, why: str, *, retry: bool = False) -> Stopped:
    namespace, name = tenant.metadata.namespace, tenant.metadata.name
    way_out = (
        f"to go on without it: kubectl -n {namespace} annotate tenant {name} {SKIP_HOOKS}={hook.id}"
    )
    message = f"The hook {hook.id} ({hook.moment.value}) failed: {why.rstrip('.')}; {way_out}."
    return Stopped(HOOK_FAILED, message, retry)


def has_hooks(spec: object) -> bool:
    """Whether a spec on the wire has hooks."""
    return isinstance(spec, Mapping) and bool(spec.get("hooks"))


def unreadable_hooks(spec: object, annotations: Mapping[str, str]) -> Stopped | None:
    """Return what stops the removal of a tenant whose spec cannot be read, if that has hooks."""
    if not has_hooks(spec):
        return None
    if annotations.get(SKIP_HOOKS) == "all":
        return None
    return Stopped(
        HOOK_FAILED,
        f"The spec has hooks and cannot be read; correct it, or go on without them: annotate {SKIP_HOOKS}=all.",
    )


def check_hook(hook: Hook, home: str = "") -> list[str]:
    """Return what is wrong with the manifest of a hook, one sentence each. `home`: the namespace of its tenant, where it is known."""
    try:
        gvk = GroupVersionKind.of(hook.spec)
    except ValueError as error:
        return [str(error)]
    found = [] if gvk == JOB else [f"a hook is a batch/v1 Job, not a {gvk.api_version} {gvk.kind}"]
    metadata, spec = hook.spec.get("metadata") or {}, hook.spec.get("spec") or {}
    if isinstance(metadata, Mapping) and (metadata.get("namespace") or home) != home:
        found.append("metadata.namespace: a hook runs in the namespace of its tenant")
    ttl = spec.get("ttlSecondsAfterFinished") if isinstance(spec, Mapping) else None
    if ttl is not None and not (isinstance(ttl, int) and ttl >= SHORTEST_TTL):
        found.append(
            f"spec.ttlSecondsAfterFinished: at least {SHORTEST_TTL}, so that its end is seen"
        )
    return found
