"""A plan for many tenants: equal changes in groups with a count, what is held, and which rows fail. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.resources import Reason
from ctrlruntime.resources.dry_run import PlannedWrite
from internal.tenancy.naming import LOCAL
from internal.tenancy.plan_diff import FieldChange, general, masked
from internal.tenancy.removal_decisions import Place


class Verb(StrEnum):
    """What becomes of an object."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    """Another object takes its place: it goes once that is ready."""
    DELETE = "delete"
    RELEASE = "release"
    """It is kept, without its tie to the tenant."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """An object, and the tenant whose it is."""

    tenant: str
    namespace: str
    name: str


@dataclass(slots=True, kw_only=True)
class Group:
    """Objects that share one change. `changes` are those of `example`.

    `refusal` is why the server refuses that one. `confirmed`: a dry run of it was accepted.
    """

    verb: Verb
    kind: GroupKind
    template: str
    resource: str
    reason: str
    changes: tuple[FieldChange, ...] = ()
    members: list[Member] = field(default_factory=list)
    example: PlannedWrite | None = field(default=None, repr=False)
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)
    confirmed: bool = False
    refusal: str = ""


@dataclass(slots=True, kw_only=True)
class Affected:
    """Tenants that are held, or whose rows fail, for one reason. `uids` are those of their rows."""

    template: str
    resource: str
    message: str
    uids: list[str] = field(default_factory=list)
    """Empty where the message alone names the rows."""
    count: int = 0


@dataclass(slots=True, kw_only=True)
class FleetPlan:
    """What would be done for the tenants of a registry."""

    registry: str
    namespace: str
    rows: int = 0
    groups: list[Group] = field(default_factory=list)
    held: list[Affected] = field(default_factory=list)
    failures: list[Affected] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def count(self, verb: Verb) -> int:
        """Return how many objects share the verb."""
        return sum(len(group.members) for group in self.groups if group.verb is verb)

    @property
    def writes(self) -> int:
        """How many objects are written; statuses and events are not counted."""
        return sum(len(group.members) for group in self.groups)

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be changed, is held or fails."""
        return not (self.groups or self.held or self.failures)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Of which tenant a change is, and the values of its row. `hidden` are the sensitive ones."""

    tenant: str
    template: str
    values: Mapping[str, str] = field(repr=False)
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Grouping:
    """Collects changes, so that equal ones are one group."""

    adopted: set[Place] = field(default_factory=set)
    """Objects that a tenant takes over from another."""
    _groups: dict[object, Group] = field(default_factory=dict)
    _held: dict[tuple[str, str, str], Affected] = field(default_factory=dict)
    _failures: dict[tuple[str, str, str], Affected] = field(default_factory=dict)

    def add(
        self,
        context: Context,
        verb: Verb,
        write: PlannedWrite,
        changes: Sequence[FieldChange],
        *,
        resource: str = "",
        reason: str = "",
    ) -> None:
        """Take a change into its group. Creates of one resource are one group, whatever their content."""
        kind = write.mapping.gvk.group_kind
        if write.reason is Reason.ADOPTION:
            self.adopted.add((kind, write.namespace, write.name, LOCAL))
        common = () if verb is Verb.CREATE else general(changes, context.values)
        key = (verb, kind, context.template, resource, reason, common)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(
                verb=verb,
                kind=kind,
                template=context.template,
                resource=resource,
                reason=reason,
                changes=masked(changes, kind, context.hidden),
                example=write,
                hidden=context.hidden,
            )
        group.members.append(Member(context.tenant, write.namespace, write.name))

    def hold(self, context: Context, resource: str, message: str) -> None:
        """Record something of a tenant that waits."""
        _take(self._held, context, resource, message)

    def fail(self, context: Context, resource: str, message: str) -> None:
        """Record something of a tenant that cannot be done."""
        _take(self._failures, context, resource, message)

    def hold_all(self, message: str, count: int) -> None:
        """Record that something is held for several rows or tenants at once."""
        self._held["", "", message] = Affected(
            template="", resource="", message=message, count=count
        )

    def into(self, plan: FleetPlan) -> None:
        """Put what was collected into a plan, in a stable order."""
        order = {verb: place for place, verb in enumerate(Verb)}
        for group in self._groups.values():
            group.members.sort()
        plan.groups = sorted(
            self._groups.values(),
            key=lambda g: (order[g.verb], g.template, str(g.kind), g.resource, g.members[0]),
        )
        plan.held = [self._held[key] for key in sorted(self._held)]
        plan.failures = [self._failures[key] for key in sorted(self._failures)]


def _take(
    found: dict[tuple[str, str, str], Affected], context: Context, resource: str, message: str
) -> None:
    key = (context.template, resource, message)
    item = found.get(key)
    if item is None:
        item = found[key] = Affected(template=context.template, resource=resource, message=message)
    item.uids.append(context.values["uid"])
    item.count += 1
