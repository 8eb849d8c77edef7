"""What becomes of each object of a Tenant: keep, delete, release or wait, and why.

This is the one place that decides on removal. It is pure: the reconciler, the status and the events
carry out and report its answer. In doubt an object is kept: with its tie to the tenant while the
tenant lives, released from it when the tenant goes, since the garbage collector would otherwise
delete what still names the tenant as its owner.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from apis.tenancy import DeletionPolicy
from ctrlruntime.api.conditions import shorten
from ctrlruntime.api.kinds import GroupKind
from internal.tenancy.objects.graph import ancestors, digraph
from internal.tenancy.shared.naming import ResourceKey, entry_id
from internal.tenancy.shared.outcome import LONGEST_CAUSE, State

Place = tuple[GroupKind, str, str, str]
"""Kind, namespace, name and cluster: one object, whatever its id in the template."""
Unreadable = Mapping[tuple[str, GroupKind], str]
"""Kinds that cannot be read, each by the name of its cluster, with the cause."""


class Action(StrEnum):
    """What to do with an object."""

    KEEP = "keep"
    DELETE = "delete"
    RELEASE = "release"
    """Keep it, without its tie to the tenant."""
    WAIT = "wait"
    """It has to go, and cannot go yet."""


class Reason(StrEnum):
    """Why. A reason belongs to one action, `UNKNOWN_RESOURCE` to KEEP and RELEASE."""

    WANTED = "Wanted"
    FOREIGN = "Foreign"
    PROTECTED = "Protected"
    """The Namespace object of a protected namespace."""
    NOT_WRITTEN = "NotWritten"
    """A copy that carries the tenant's marks, and that was not written for it."""
    ALREADY_RELEASED = "AlreadyReleased"
    NOT_RENDERED = "NotRendered"
    """Its resource cannot be rendered: it has no name at present, this may be it."""
    UNKNOWN_RESOURCE = "UnknownResource"
    """Neither the object nor the status names its resource."""

    NOT_IN_TEMPLATE = "NotInTemplate"
    REPLACED = "Replaced"
    """Its resource has another name, and is ready under that."""
    PRUNED = "Pruned"
    """No resource wants it, and the template has `prune`."""
    TENANT_DELETED = "TenantDeleted"

    RETAINED = "Retained"
    """The template, the tenant or the object itself requests Retain."""
    NO_POLICY = "NoPolicy"
    """The object records no deletion policy."""
    REFERENCE_REMOVED = "ReferenceRemoved"
    """The owner reference that it had is gone: it was orphaned."""
    TENANT_ORPHANED = "TenantOrphaned"
    """The tenant is deleted with `--cascade=orphan`."""
    DEFINITION_REMOVED = "DefinitionRemoved"
    """The CRD of Tenants is deleted, and with it the tenant."""

    REPLACEMENT_NOT_READY = "ReplacementNotReady"
    FINALIZERS_REMAIN = "FinalizersRemain"
    """It is being deleted and is not gone."""
    DEPENDENTS_REMAIN = "DependentsRemain"
    DELETION_REFUSED = "DeletionRefused"
    FROZEN = "Frozen"
    """It would be pruned, and a freeze holds every change."""
    KIND_UNREADABLE = "KindUnreadable"
    """Its kind cannot be read, so whether it is gone is unknown."""


class Intent(StrEnum):
    """What is to become of the tenant itself."""

    KEEP = "keep"
    DELETE = "delete"
    ORPHAN = "orphan"
    """It goes and its objects stay, by request."""
    UNINSTALL = "uninstall"
    """It goes with the CRD of its kind; its objects stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveObject:
    """An object that records the tenant as its owner.

    `key` has the id that the object records, empty if it records none. `referenced`: it has its
    owner reference, or needs none. `recorded`: it carries the tenant's UID. `terminating_since` is its
    deletionTimestamp.
    """

    key: ResourceKey
    uid: str = ""
    foreign: bool = False
    protected: bool = False
    written: bool = True
    recorded: bool = True
    released: bool = False
    policy: DeletionPolicy | None = None
    referenced: bool = True
    terminating_since: str = ""
    finalizers: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Which object it is."""
        return place_of(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecResource:
    """A resource of the tenant's spec.

    `key` is None when it cannot be rendered, or was not rendered since the tenant is deleted.
    `state` and `message` are the result of this pass. `further` are the keys of the same object in
    other clusters.
    """

    id: str
    key: ResourceKey | None = None
    further: tuple[ResourceKey, ...] = ()
    state: State | None = None
    message: str = ""
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The spec's side.

    `retained` are the ids that are to be retained by the tenant's spec, its template, or the last spec that
    had them. `prune`: what carries the tenant's marks and no resource wants is deleted. `prune_hold` is why
    that waits; empty: it does not.
    """

    intent: Intent
    resources: tuple[SpecResource, ...] = ()
    retained: frozenset[str] = frozenset()
    prune: bool = False
    prune_hold: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do with one object. `message` completes "the object ..." for those that wait."""

    key: ResourceKey
    action: Action
    reason: Reason
    message: str = ""
    uid: str = ""
    since: str = ""
    finalizers: tuple[str, ...] = ()


@dataclass(slots=True)
class _View:
    """The inputs, indexed."""

    wanted: Wanted
    refused: Mapping[Place, str]
    resources: dict[str, SpecResource] = field(init=False)
    places: frozenset[Place] = field(init=False)
    applied: dict[Place, set[str]]

    def __post_init__(self) -> None:
        self.resources = {item.id: item for item in self.wanted.resources}
        self.places = frozenset(
            place_of(key)
            for item in self.wanted.resources
            if item.key is not None
            for key in (item.key, *item.further)
        )

    def resource(self, name: str) -> SpecResource | None:
        """Return the resource of an id, or the entry of the template that it came from."""
        return self.resources.get(name) or self.resources.get(entry_id(name))

    def ids(self, item: LiveObject) -> set[str]:
        """Every id that the object may have, by its own record or by the status."""
        own = {item.key.id} if item.key.id else set()
        return own | self.applied.get(item.place, set())


def place_of(key: ResourceKey) -> Place:
    """Which object a key names."""
    return key.kind, key.namespace, key.name, key.cluster


def decide(
    wanted: Wanted,
    live: Iterable[LiveObject],
    applied: Iterable[ResourceKey],
    *,
    refused: Mapping[Place, str] | None = None,
    unreadable: Unreadable | None = None,
) -> tuple[Decision, ...]:
    """Decide for every object, and for what was applied of kinds that cannot be read.

    `refused`: objects whose deletion or release was refused in this pass, with the server's message.
    `unreadable`: kinds that cannot be read, with the cause. Carry out DELETE and RELEASE, then
    decide again: what waited for an object that is gone may go then.
    """
    keys = tuple(applied)
    by_place: dict[Place, set[str]] = {}
    for key in keys:
        by_place.setdefault(place_of(key), set()).add(key.id)
    view = _View(wanted, refused or {}, applied=by_place)
    objects = sorted(live, key=lambda item: item.key)
    decisions = [_one(view, item) for item in objects]
    seen = {item.place for item in objects}
    decisions += [
        Decision(
            key=key,
            action=Action.WAIT,
            reason=Reason.KIND_UNREADABLE,
            message=unreadable[key.cluster, key.kind],
        )
        for key in sorted(set(keys))
        if unreadable and (key.cluster, key.kind) in unreadable and _is_unseen(view, key, seen)
    ]
    return _in_order(view, decisions)


def pending(decisions: Iterable[Decision]) -> list[Decision]:
    """Return what has to go and is not gone."""
    return [item for item in decisions if item.action in {Action.DELETE, Action.WAIT}]


def _is_unseen(view: _View, key: ResourceKey, seen: Collection[Place]) -> bool:
    if place_of(key) in seen or place_of(key) in view.places:
        return False
    return view.wanted.intent is not Intent.KEEP or view.resource(key.id) is None


def _one(view: _View, item: LiveObject) -> Decision:
    if item.foreign:
        return _keep(item, Reason.FOREIGN)
    if item.protected:
        return _keep(item, Reason.PROTECTED)
    if not item.written:
        return _stray(view, item, Reason.NOT_WRITTEN)
    if item.released:
        return _keep(item, Reason.ALREADY_RELEASED)
    if view.wanted.intent is Intent.KEEP:
        return _of_living(view, item)
    return _of_deleted(view, item)


def _of_living(view: _View, item: LiveObject) -> Decision:
    if item.place in view.places:
        return _keep(item, Reason.WANTED)
    ids = view.ids(item)
    if not ids:
        return _stray(view, item, Reason.UNKNOWN_RESOURCE)
    found = map(view.resource, sorted(ids))
    successors = [each for each in found if each is not None]
    if any(each.key is None for each in successors):
        return _keep(item, Reason.NOT_RENDERED)
    late = next((each for each in successors if each.state is not State.READY), None)
    if late is not None:
        return _wait(item, Reason.REPLACEMENT_NOT_READY, _replacement(late))
    cause = Reason.REPLACED if successors else Reason.NOT_IN_TEMPLATE
    return _remove(view, item, ids, cause)


def _stray(view: _View, item: LiveObject, reason: Reason) -> Decision:
    """Decide on an object that was not written for a resource: it stays for `reason`, unless it is to be pruned.

    In doubt it stays: without a policy or the tenant's UID, while a resource that it may be is not ready, while any
    resource cannot be rendered and so may be this object, and where any side has Retain.
    """
    ids = view.ids(item)
    known = [each for each in map(view.resource, sorted(ids)) if each is not None]
    doubt = (
        not view.wanted.prune
        or view.wanted.intent is not Intent.KEEP
        or not item.recorded
        or item.released
        or item.place in view.places
        or item.policy is not DeletionPolicy.DELETE
        or not view.wanted.retained.isdisjoint(map(entry_id, ids))
        or any(each.key is None for each in view.wanted.resources)
        or any(each.state is not State.READY for each in known)
    )
    if doubt:
        return _keep(item, reason)
    if view.wanted.prune_hold and not item.terminating_since:
        return _wait(item, Reason.FROZEN, f"it is not pruned yet: {view.wanted.prune_hold}")
    return _remove(view, item, ids, Reason.PRUNED)


def _of_deleted(view: _View, item: LiveObject) -> Decision:
    if view.wanted.intent is Intent.ORPHAN:
        return _release(view, item, Reason.TENANT_ORPHANED)
    if view.wanted.intent is Intent.UNINSTALL:
        return _release(view, item, Reason.DEFINITION_REMOVED)
    ids = view.ids(item)
    if not ids:
        return _release(view, item, Reason.UNKNOWN_RESOURCE)
    if not item.referenced:
        return _release(view, item, Reason.REFERENCE_REMOVED)
    return _remove(view, item, ids, Reason.TENANT_DELETED)


def _remove(view: _View, item: LiveObject, ids: Collection[str], cause: Reason) -> Decision:
    """Release it if any side has Retain; delete it only if its own record has Delete."""
    entries = {entry_id(name) for name in ids}
    if item.policy is DeletionPolicy.RETAIN or not view.wanted.retained.isdisjoint(entries):
        return _release(view, item, Reason.RETAINED)
    if item.policy is not DeletionPolicy.DELETE:
        return _release(view, item, Reason.NO_POLICY)
    if item.terminating_since:
        return _wait(item, Reason.FINALIZERS_REMAIN, terminating(item))
    refusal = view.refused.get(item.place)
    if refusal is not None:
        return _wait(
            item,
            Reason.DELETION_REFUSED,
            f"its deletion was refused: {shorten(refusal, LONGEST_CAUSE)}",
        )
    return _decision(item, Action.DELETE, cause)


def _in_order(view: _View, decisions: list[Decision]) -> tuple[Decision, ...]:
    """Hold back what something that is still there depends on."""
    remaining: set[str] = set()
    for each in pending(decisions):
        if each.reason not in {Reason.REPLACEMENT_NOT_READY, Reason.FROZEN}:
            names = view.applied.get(place_of(each.key), set()) | {each.key.id}
            remaining |= {entry_id(name) for name in names}
    if not remaining:
        return tuple(decisions)
    edges = digraph([(entry_id(item.id), item.depends_on) for item in view.resources.values()])
    blocked = ancestors(edges, remaining)
    return tuple(
        _held(each) if each.action is Action.DELETE and entry_id(each.key.id) in blocked else each
        for each in decisions
    )


def _held(decision: Decision) -> Decision:
    return Decision(
        key=decision.key,
        action=Action.WAIT,
        reason=Reason.DEPENDENTS_REMAIN,
        message="what depends on it is still there",
        uid=decision.uid,
    )


def terminating(item: LiveObject) -> str:
    """Since when an object is being deleted, and what holds it."""
    held = f"; finalizers remaining: {', '.join(item.finalizers)}" if item.finalizers else ""
    return f"it is being deleted since {item.terminating_since}{held}"


def _replacement(resource: SpecResource) -> str:
    """Why the old object stays, and the way out when both cannot exist at once."""
    state = resource.state.value if resource.state is not None else "not applied"
    why = f" ({shorten(resource.message.rstrip('.'), LONGEST_CAUSE)})" if resource.message else ""
    name = resource.key.name if resource.key is not None else ""
    return (
        f"its replacement {name!r} is {state}{why}; it stays until that is ready. If both cannot "
        "exist at once, delete it yourself"
    )


def _keep(item: LiveObject, reason: Reason) -> Decision:
    return _decision(item, Action.KEEP, reason)


def _release(view: _View, item: LiveObject, reason: Reason) -> Decision:
    refusal = view.refused.get(item.place)
    if refusal is not None:
        return _wait(
            item,
            Reason.DELETION_REFUSED,
            f"its release was refused: {shorten(refusal, LONGEST_CAUSE)}",
        )
    return _decision(item, Action.RELEASE, reason)


def _wait(item: LiveObject, reason: Reason, message: str) -> Decision:
    return _decision(item, Action.WAIT, reason, message)


def _decision(item: LiveObject, action: Action, reason: Reason, message: str = "") -> Decision:
    return Decision(
        key=item.key,
        action=action,
        reason=reason,
        message=message,
        uid=item.uid,
        since=item.terminating_since,
        finalizers=item.finalizers,
    )
