"""A plan of changes for many owners: equal ones in groups with a count, what is held, and what fails. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.resources import Reason
from ctrlruntime.resources.dry_run import PlannedWrite
from ctrlruntime.resources.field_changes import FieldChange, general, masked


class PlanError(Exception):
    """There is nothing to plan: the message names the input to correct."""


class Verb(StrEnum):
    """What becomes of an object."""

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    """Another object takes its place: it goes once that is ready."""
    DELETE = "delete"
    RELEASE = "release"
    """It is kept, without its tie to its owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What a plan is of, in the words of its system."""

    subject: str
    """What is planned, such as `Registry`."""
    unit: str
    """What a member is made from, such as `row`."""
    owner: str
    """The kind of the owners, such as `tenant`."""
    key: str
    """What identifies a unit, such as `uid`."""
    failing: str
    """The heading of what fails."""


@dataclass(frozen=True, slots=True, order=True)
class Member:
    """An object, and the owner whose it is: a Tenant, an Instance."""

    owner: str
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
    """What is held, or fails, for one reason. `units` are the rows or instances."""

    template: str
    resource: str
    message: str
    units: list[str] = field(default_factory=list)
    """Empty where the message alone names them."""
    count: int = 0


@dataclass(slots=True, kw_only=True)
class ChangePlan:
    """What would be done for the members of a fleet. `total` are its units."""

    wording: Wording
    name: str
    namespace: str
    total: int = 0
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
    """Whose a change is, and the values that it was made from. `hidden` are the sensitive ones.

    `unit` is the row or instance; `template` what the object was made from, empty if there is no such thing.
    """

    owner: str
    unit: str
    template: str
    values: Mapping[str, str] = field(repr=False)
    hidden: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class Grouping:
    """Collects changes, so that equal ones are one group."""

    adopted: set[tuple[GroupKind, str, str]] = field(default_factory=set)
    """Objects that an owner takes over from another: kind, namespace and name."""
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
            self.adopted.add((kind, write.namespace, write.name))
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
        group.members.append(Member(context.owner, write.namespace, write.name))

    def hold(self, context: Context, resource: str, message: str) -> None:
        """Record something of an owner that waits."""
        _take(self._held, context, resource, message)

    def fail(self, context: Context, resource: str, message: str) -> None:
        """Record something of an owner that cannot be done."""
        _take(self._failures, context, resource, message)

    def hold_all(self, message: str, count: int) -> None:
        """Record that something is held for several units at once."""
        self._held["", "", message] = Affected(
            template="", resource="", message=message, count=count
        )

    def into(self, plan: ChangePlan) -> None:
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
    item.units.append(context.unit)
    item.count += 1
