"""The inputs of a removal decision, taken from a Tenant, its template and its status; and back into it."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from apis.tenancy import (
    DeletionPolicy,
    PendingRemoval,
    Tenant,
    TenantSpec,
    TenantStatus,
    resource_lists,
)
from ctrlruntime.api import GroupKind, parse_time
from ctrlruntime.cache.entry import Entry
from internal.tenancy.objects.builder import Build
from internal.tenancy.shared.labels import hands_over
from internal.tenancy.shared.naming import LOCAL, ResourceKey, entry_id
from internal.tenancy.shared.outcome import Outcome
from internal.tenancy.tenant.removal_decisions import (
    Action,
    Decision,
    Intent,
    Place,
    Reason,
    SpecResource,
    Wanted,
    pending,
    place_of,
)


def wanted_by_living(
    tenant: Tenant,
    template: Entry | None,
    made: Build,
    outcomes: Sequence[Outcome],
    prune_hold: str,
) -> Wanted:
    """Return the wishes of a tenant that stays, after a pass over its resources.

    `prune_hold`: why nothing may be pruned now; empty if it may.
    """
    found = {outcome.id: outcome for outcome in outcomes}
    resources = tuple(
        SpecResource(
            id=item.resource.id,
            key=item.key if item.desired is not None else None,
            further=item.further,
            state=found[item.resource.id].state if item.resource.id in found else None,
            message=found[item.resource.id].message if item.resource.id in found else "",
            depends_on=tuple(item.resource.depend_ids),
        )
        for item in made.resources
    )
    return Wanted(
        intent=Intent.KEEP,
        resources=resources,
        retained=_retained(tenant, None, template),
        prune=bool(tenant.spec.prune) and not hands_over(tenant.metadata.annotations or {}),
        prune_hold=prune_hold,
    )


def places_of(made: Build) -> frozenset[Place]:
    """Return the objects that the resources of a tenant want."""
    return frozenset(
        place_of(key)
        for item in made.resources
        if item.desired is not None and item.key is not None
        for key in (item.key, *item.further)
    )


def retained_of_before(tenant: Tenant) -> set[str]:
    """Return the ids to retain that the status remembers and the spec has no more."""
    remembered = set(tenant.status.retained_resource_ids)
    return remembered and remembered - {item.id for _, item in resource_lists(tenant.spec)}


def wanted_by_deleted(
    tenant: Tenant, entry: Entry, template: Entry | None, intent: Intent
) -> Wanted:
    """Return the wishes of a tenant that goes: those of its last known spec, whatever was applied of it.

    `entry` is read besides, since a spec that cannot be read as a Tenant still has wishes.
    """
    resources = tuple(
        SpecResource(id=item.id, depends_on=tuple(item.depend_ids))
        for _, item in resource_lists(tenant.spec)
    )
    return Wanted(intent=intent, resources=resources, retained=_retained(tenant, entry, template))


def _retained(tenant: Tenant, entry: Entry | None, template: Entry | None) -> frozenset[str]:
    """Ids to retain: by the spec, by the template, and by the last spec that had the others."""
    remembered = retained_of_before(tenant)
    sources = [each.field("spec") for each in (entry, template) if each is not None]
    return frozenset(_retained_in(tenant.spec).union(remembered, *map(retained_by, sources)))


def _retained_in(spec: TenantSpec) -> set[str]:
    """Ids of the entries with Retain."""
    return {
        item.id for _, item in resource_lists(spec) if item.deletion_policy is DeletionPolicy.RETAIN
    }


def retained_by(spec: object) -> set[str]:
    """Ids of the entries with Retain in a spec on the wire, read without validation."""
    lists = spec.values() if isinstance(spec, Mapping) else ()
    return {
        str(item["id"])
        for entries in lists
        if isinstance(entries, list)
        for item in entries
        if isinstance(item, Mapping)
        and "id" in item
        and item.get("deletionPolicy") == DeletionPolicy.RETAIN.value
    }


def applied_keys(status: TenantStatus) -> list[ResourceKey]:
    """Return what the status lists as applied; what cannot be parsed is left out."""
    found: list[ResourceKey] = []
    for text in status.applied_resources:
        try:
            found.append(ResourceKey.parse(text))
        except ValueError:
            continue
    return found


def applied_kinds(status: TenantStatus, cluster: str = LOCAL) -> frozenset[GroupKind]:
    """Return the kinds of what the status lists as applied in a cluster."""
    return frozenset(key.kind for key in applied_keys(status) if key.cluster == cluster)


def still_there(decisions: Iterable[Decision]) -> set[str]:
    """Keys of objects that the status has to go on listing, besides those of its resources.

    A stray that a freeze keeps is not among them: it would count as written for its resource then.
    """
    return {
        str(item.key)
        for item in decisions
        if item.reason is not Reason.FROZEN
        and (item.action in {Action.DELETE, Action.WAIT} or item.reason is Reason.NOT_RENDERED)
    }


def remembered_ids(tenant: Tenant, decisions: Sequence[Decision]) -> list[str]:
    """Ids to retain, for when they have left the spec: all of it, and others while objects are left."""
    there = {
        entry_id(item.key.id) for item in decisions if item.reason is not Reason.ALREADY_RELEASED
    }
    left = retained_of_before(tenant) & there
    return sorted(_retained_in(tenant.spec) | left)


def pending_removals(
    previous: TenantStatus, decisions: Iterable[Decision], now: datetime
) -> list[PendingRemoval]:
    """Return what is still to be removed, as the status lists it."""
    known = {(item.resource, item.reason): item.since for item in previous.pending_removals}
    found: dict[str, PendingRemoval] = {}
    for item in pending(decisions):
        key, reason = str(item.key), _pending_reason(item)
        since = parse_time(item.since) if item.since else known.get((key, reason))
        found[key] = PendingRemoval(
            resource=key,
            reason=reason.value,
            message=item.message or "its deletion is under way",
            since=since or now.replace(microsecond=0),
            finalizers=sorted(item.finalizers),
        )
    return [found[key] for key in sorted(found)]


def _pending_reason(item: Decision) -> Reason:
    return item.reason if item.action is Action.WAIT else Reason.FINALIZERS_REMAIN
