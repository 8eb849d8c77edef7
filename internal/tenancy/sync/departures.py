"""Which tenants go, which wait for their replacements, and which the guard holds: one pure decision.

The plan, the status and the events use its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum

from apis.fleet.labels import ROW_GONE, ROW_PRESENT
from ctrlruntime.gate import Cause
from internal.tenancy.rows.row import Reading
from internal.tenancy.shared.naming import IllegalName, tenant_name
from internal.tenancy.sync.deletion_guard import Guard, GuardReason, Held, guarded, removals_of
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant, Template
from internal.tenancy.sync.replacements import (
    Awaited,
    Candidate,
    Leaver,
    heirs,
    leading_to,
    may_succeed,
    pairs,
    waiting,
)


class DeleteReason(StrEnum):
    """Why a tenant goes."""

    ROW_GONE = "RowGoneOrInactive"
    TEMPLATE_GONE = "TemplateGone"


@dataclass(frozen=True, slots=True)
class Delete:
    """A tenant to delete, and why. `uid` is set if its row counts for the guard's window."""

    name: str
    reason: DeleteReason
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """A tenant that goes once the tenants that take its place are ready.

    `by` are all that it is paired with, `heirs` those of them that its objects and drawn values pass to, both to be
    recorded on it, and `awaited` those that it waits for. With `held` the guard holds its deletion: it is paired and releases nothing. `uid` is set if its row
    counts for the guard's window.
    """

    tenant: str
    reason: DeleteReason
    by: tuple[str, ...]
    heirs: tuple[str, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    held: bool = False
    uid: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A tenant that moves to another data plane: it stays, whatever becomes of its row, until the move ends.

    `row` is what is to be recorded of its row, `recorded` what is. `to` is empty once the move was given up.
    """

    tenant: str
    to: str
    row: str
    recorded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elsewhere:
    """What other registries of the namespace have to do with this one.

    `templates` and `tenants` are those of registries that read the same table. `moved` are templates that
    name another registry now: their tenants are for that one to take over.
    """

    templates: Sequence[Template] = ()
    tenants: Sequence[ExistingTenant] = ()
    moved: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Departures:
    """The decision. `unpaired` are tenants that stay and still record a replacement.

    `moves` are tenants that move to other data planes, those whose rows are gone among them.
    """

    deletes: tuple[Delete, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    unpaired: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    without_template: tuple[str, ...] = ()
    """Tenants that stay although their template was deleted."""
    held: Held | None = None
    override_used: bool = False


def is_same_pair(desired: DesiredTenant | None, tenant: ExistingTenant) -> bool:
    """Whether the tenant is the one its name now stands for; another must go before that comes."""
    if desired is None:
        return False
    return (tenant.uid, tenant.template) == (desired.row.uid, desired.template.name)


def decide_departures(
    reading: Reading,
    desired: Mapping[str, DesiredTenant],
    templates: Sequence[Template],
    existing: Sequence[ExistingTenant],
    guard: Guard,
    elsewhere: Elsewhere,
) -> Departures:
    """Decide for every tenant that is not wanted any more.

    The guard is for what goes because of its row; a template that is taken away is an act in the cluster.
    """
    return _Decision(reading, desired, templates, existing, guard, elsewhere).made()


@dataclass(frozen=True, slots=True)
class _Leaving:
    leaver: Leaver
    guarded: bool
    waits: bool
    """Whether anything may take its place: not of a row that is inactive."""

    @property
    def name(self) -> str:
        return self.leaver.tenant.name


@dataclass(slots=True)
class _Decision:
    reading: Reading
    desired: Mapping[str, DesiredTenant]
    templates: Sequence[Template]
    existing: Sequence[ExistingTenant]
    guard: Guard
    elsewhere: Elsewhere
    living: list[ExistingTenant] = field(init=False)
    names: frozenset[str] = field(init=False)
    active: frozenset[str] = field(init=False)
    known: frozenset[str] = field(init=False)
    """The uids that are in rows, usable or not."""
    pairs_made: frozenset[tuple[str, str]] = field(init=False)
    uids: frozenset[str] = field(init=False)
    """Of the rows that have a tenant, be it one that is being deleted."""

    def __post_init__(self) -> None:
        self.living = [tenant for tenant in self.existing if not tenant.deleting]
        self.names = frozenset(template.name for template in self.templates)
        self.active = frozenset(row.uid for row in self.reading.active)
        self.known = self.active | self.reading.inactive | self.reading.held
        known = (*self.living, *self.elsewhere.tenants)
        self.pairs_made = frozenset((item.uid, item.template) for item in known)
        self.uids = frozenset(item.uid for item in self.existing)

    def made(self) -> Departures:
        going = [found for item in self.living if (found := self._leaving(item)) is not None]
        leaving = [item for item in going if not item.leaver.tenant.moving_to]
        moves = self._moves({item.name for item in going})
        staying = {item.tenant for item in moves if item.to and item.row == ROW_GONE}
        self.living = [item for item in self.living if item.name not in staying]
        candidates = self._candidates(leaving) if any(item.waits for item in leaving) else []
        decided = _decided(leaving, candidates)
        held, kept, approved = self._guarded(leaving, decided)
        uncounted = decided | self.guard.released | approved
        waiters = [item.leaver for item in leaving if item.waits]
        paired = pairs(waiters, candidates)
        inherits = heirs(waiters, candidates, paired)
        states = {item.name: item.state for item in candidates}
        states |= {item.name: item.leaver.tenant.state for item in leaving}
        free = {name: others for name, others in paired.items() if name not in kept}
        awaited = waiting(free, states, {item.name for item in candidates} | kept)
        gone = [item for item in leaving if item.name not in kept and item.name not in awaited]
        protected = self._of_gone_templates(gone, _succeeded(leaving, candidates, paired))
        without = self._held_for_templates(protected)
        kept_names = {item.name for item in protected}
        if without is not None and without.is_approved(self.guard):
            approved |= kept_names
            without, kept_names = None, set()
        gone = [item for item in gone if item.name not in kept_names]
        stopped = self._stopped(kept_names)
        waits = [item for item in leaving if item.name in awaited]
        waits += [item for item in leaving if item.name in kept and item.name in paired]
        return Departures(
            deletes=tuple(
                Delete(item.name, _reason(item), _counted(item, uncounted))
                for item in sorted(gone, key=lambda each: each.name)
            ),
            replacements=stopped
            + tuple(
                Replacement(
                    tenant=item.name,
                    reason=_reason(item),
                    by=paired[item.name],
                    heirs=inherits[item.name],
                    awaited=awaited.get(item.name, ()),
                    held=item.name in kept,
                    uid=_counted(item, uncounted) if item.name not in kept else "",
                )
                for item in sorted(waits, key=lambda each: each.name)
            ),
            unpaired=self._unpaired({item.name for item in (*gone, *waits)} | kept_names),
            moves=moves,
            without_template=tuple(sorted(kept_names)),
            held=held or without,
            override_used=bool(approved),
        )

    def _of_gone_templates(
        self, gone: Sequence[_Leaving], succeeded: frozenset[str]
    ) -> list[_Leaving]:
        """Return what would go for no other reason than that its template was deleted, and may not yet."""
        guard, living = self.guard, {item.name for item in self.living}
        return [
            item
            for item in gone
            if item.leaver.template_gone
            and not (item.guarded or item.name in succeeded or guard.templates_approved)
            and not self._is_released(item.leaver.tenant, living)
            and (item.leaver.tenant.protected or item.leaver.tenant.template not in guard.long_gone)
        ]

    def _is_released(self, tenant: ExistingTenant, living: Set[str]) -> bool:
        """Whether an approval let the tenant go: one to go after others are ready is none to go with their template."""
        awaited = tenant.replaced_by & living
        return tenant.name in self.guard.released and awaited <= self.guard.released

    def _stopped(self, kept: Set[str]) -> tuple[Replacement, ...]:
        """Return the tenants without a template that wait for others without one: what they record stays."""
        states = {item.name: item.state for item in self.living if item.name in kept}
        return tuple(
            Replacement(
                tenant=item.name,
                reason=DeleteReason.TEMPLATE_GONE,
                by=tuple(sorted(item.replaced_by)),
                heirs=tuple(sorted(item.inherited_by)),
                awaited=tuple(
                    Awaited(name, states[name], template_gone=True)
                    for name in sorted(item.replaced_by & states.keys())
                ),
                held=not item.handing_over,
            )
            for item in sorted(self.living, key=lambda each: each.name)
            if item.name in kept and not item.replaced_by.isdisjoint(states)
        )

    def _held_for_templates(self, protected: Sequence[_Leaving]) -> Held | None:
        if not protected:
            return None
        rows = len({item.leaver.tenant.uid for item in protected})
        names = sorted({item.leaver.tenant.template for item in protected})
        tenants = [item.leaver.tenant for item in protected]
        held = Held(
            reason=GuardReason.TEMPLATE_GONE,
            tenants=len(protected),
            of_tenants=len(self.living),
            rows=rows,
            of_rows=len({item.uid for item in self.living}),
            allowed_rows=0,
            resource="The template " + ", ".join(map(repr, names)),
        )
        removals = removals_of(tenants, Cause.TEMPLATE_GONE)
        return held.of(removals, (tenant.name for tenant in tenants), self.guard)

    def _moves(self, going: set[str]) -> tuple[Move, ...]:
        """Return the tenants that move; of a row in doubt what was recorded stays."""
        found = []
        for tenant in sorted(self.living, key=lambda each: each.name):
            if not tenant.moving_to and not tenant.row:
                continue
            row = ROW_GONE if tenant.name in going else ROW_PRESENT
            if tenant.uid in self.reading.held:
                row = tenant.row or row
            if not tenant.moving_to:
                row = ""
            found.append(
                Move(tenant=tenant.name, to=tenant.moving_to, row=row, recorded=tenant.row)
            )
        return tuple(found)

    def _leaving(self, tenant: ExistingTenant) -> _Leaving | None:
        """Return what there is to decide on a tenant; None if it is wanted, or its row is in doubt."""
        row_gone = tenant.uid not in self.known
        takes_name = tenant.name in self.desired
        if tenant.template in self.names:
            wanted = is_same_pair(self.desired.get(tenant.name), tenant)
            if wanted or tenant.uid in self.reading.held:
                return None
            leaver = Leaver(tenant=tenant, row_gone=row_gone, template_gone=False)
            return _Leaving(leaver, True, row_gone and not takes_name)
        if tenant.template in self.elsewhere.moved:
            return None
        leaver = Leaver(tenant=tenant, row_gone=row_gone, template_gone=True)
        if tenant.uid in self.active or tenant.uid in self.reading.held:
            return _Leaving(leaver, False, not takes_name)
        renamed = self._is_renamed(tenant)
        return _Leaving(leaver, renamed, renamed and row_gone and not takes_name)

    def _is_renamed(self, tenant: ExistingTenant) -> bool:
        """Whether its template may be there under another name: then it goes because of its row."""
        return any(
            may_succeed(item, tenant, made=(tenant.uid, item.name) in self.pairs_made)
            for item in (*self.templates, *self.elsewhere.templates)
        )

    def _guarded(
        self, leaving: Sequence[_Leaving], decided: frozenset[str]
    ) -> tuple[Held | None, frozenset[str], frozenset[str]]:
        """Return what the guard holds, the names of those tenants, and the names that an approval lets go."""
        asked = [
            item.leaver.tenant
            for item in leaving
            if item.guarded and item.name not in self.guard.released
        ]
        renamed = {item.name for item in leaving if item.guarded}
        counted = [
            item for item in self.living if item.template in self.names or item.name in renamed
        ]
        held, kept = guarded(self.reading, asked, counted, self.guard, decided)
        if held is None:
            return held, kept, frozenset()
        rest = [item for item in asked if item.name not in kept]
        others = guarded(self.reading, rest, counted, self.guard, decided)
        if held.is_approved(self.guard):
            return *others, kept
        return held, kept | others[1], frozenset()  # what one hold does not name, another may hold

    def _candidates(self, leaving: Sequence[_Leaving]) -> list[Candidate]:
        """Tenants that stay, that are to be made, or that are to be made once a row is corrected."""
        present = {tenant.name: tenant for tenant in self.living}
        going = {item.name for item in leaving}
        found = []
        for name, wanted in self.desired.items():
            tenant = present.get(name)
            found.append(
                Candidate(
                    name=name,
                    uid=wanted.row.uid,
                    template=wanted.template,
                    variables=wanted.row.variables,
                    tenant=tenant if tenant and is_same_pair(wanted, tenant) else None,
                    row_known=wanted.row.uid in self.uids,
                )
            )
        templates = {item.name: item for item in self.templates}
        found += [
            _of_existing(tenant, templates)
            for tenant in self.living
            if tenant.name not in going and tenant.name not in self.desired
        ]
        found += self._of_doubtful_rows()
        lost = [item.leaver.tenant for item in leaving if item.leaver.template_gone]
        if lost:
            found += self._of_rows_in_doubt(lost)
            found += self._of_other_registries()
        return found

    def _of_doubtful_rows(self) -> Iterable[Candidate]:
        """Yield what rows in doubt have not made yet: one of them may be a row that was renamed before."""
        for row in self.reading.doubtful:
            for item in self.templates:
                name = _name(row.uid, item.name)
                if name and (row.uid, item.name) not in self.pairs_made:
                    yield Candidate(
                        name=name,
                        uid=row.uid,
                        template=item,
                        variables=row.variables,
                        doubtful=True,
                        row_known=row.uid in self.uids,
                    )

    def _of_rows_in_doubt(self, lost: Iterable[ExistingTenant]) -> Iterable[Candidate]:
        for tenant in lost:
            if tenant.uid not in self.reading.held:
                continue
            for item in self.templates:
                name = _name(tenant.uid, item.name)
                if name and (tenant.uid, item.name) not in self.pairs_made:
                    yield Candidate(
                        name=name,
                        uid=tenant.uid,
                        template=item,
                        variables=tenant.variables,
                        row_known=True,
                    )

    def _of_other_registries(self) -> Iterable[Candidate]:
        there = {(item.uid, item.template): item for item in self.elsewhere.tenants}
        for item in self.elsewhere.templates:
            for row in self.reading.active:
                name = _name(row.uid, item.name)
                if name:
                    yield Candidate(
                        name=name,
                        uid=row.uid,
                        template=item,
                        variables=row.variables,
                        tenant=there.get((row.uid, item.name)),
                        row_known=row.uid in self.uids,
                    )

    def _unpaired(self, going: set[str]) -> tuple[str, ...]:
        recorded = (
            item
            for item in self.living
            if item.replaced_by or item.inherited_by or item.handing_over
        )
        return tuple(sorted(item.name for item in recorded if item.name not in going))


def _decided(leaving: Iterable[_Leaving], candidates: Iterable[Candidate]) -> frozenset[str]:
    """Tenants that the guard let pass before and whose replacements are still there or on their way."""
    known = {item.name for item in candidates}
    return frozenset(
        item.name
        for item in leaving
        if item.leaver.tenant.handing_over and not known.isdisjoint(item.leaver.tenant.replaced_by)
    )


def _succeeded(
    leaving: Iterable[_Leaving],
    candidates: Iterable[Candidate],
    paired: Mapping[str, Sequence[str]],
) -> frozenset[str]:
    """Return the tenants whose template is there under another name: of the same content, or waited for before.

    A template that is only younger and has ready tenants may be another one; one that is gone as well takes no place.
    """
    versions = {item.name: item.template.version for item in candidates}
    found: set[str] = set()
    for item in leaving:
        others = versions.keys() & paired.get(item.name, ())
        same = any(versions[name] == item.leaver.tenant.version for name in others)
        if others and (item.leaver.tenant.handing_over or same):
            found.add(item.name)
    handing = {item.name for item in leaving if item.leaver.tenant.handing_over}
    return frozenset(
        leading_to(found, {name: others for name, others in paired.items() if name in handing})
    )


def _of_existing(tenant: ExistingTenant, templates: Mapping[str, Template]) -> Candidate:
    template = templates.get(tenant.template)
    if template is None:
        template = Template(tenant.template, tenant.version, tenant.created)
    return Candidate(
        name=tenant.name,
        uid=tenant.uid,
        template=template,
        variables=tenant.variables,
        tenant=tenant,
        row_known=True,
    )


def _reason(item: _Leaving) -> DeleteReason:
    by_template = item.leaver.template_gone and not item.guarded
    return DeleteReason.TEMPLATE_GONE if by_template else DeleteReason.ROW_GONE


def _counted(item: _Leaving, uncounted: frozenset[str]) -> str:
    if not item.guarded or item.name in uncounted:
        return ""
    return item.leaver.tenant.uid


def _name(uid: str, template: str) -> str:
    try:
        return tenant_name(uid, template)
    except IllegalName:
        return ""
