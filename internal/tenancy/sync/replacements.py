"""Which tenants take the place of one that goes, and which of them it waits for: make before break.

A row whose uid changes, or a template that is applied under another name, makes another Tenant. The
old one stays until the new one is ready. Pure: everything is derived from objects and rows, so that a
manager that starts anew decides the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain

from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template

MOST_PAIRED = 50
"""Tenants that one tenant is paired with at most by equal values: the nearest in the order of uids."""

FORMER_UID = "formerUid"
"""A mapped column of this name holds the uid that a row had before."""
OF_THE_ROW = frozenset({"uid", "activate", FORMER_UID})
"""Variables that differ, or may differ, between a row and the same row under another uid."""

HOST = "hostOrUrl"
_UID = "\0"
"""Stands for a row's own uid within its values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A tenant that would be deleted. `row_gone`: its uid is in no row, so its row may be a renamed one."""

    tenant: ExistingTenant
    row_gone: bool
    template_gone: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A tenant that stays or is to be made. `tenant` is None until it exists."""

    name: str
    uid: str
    template: Template
    variables: Mapping[str, str]
    tenant: ExistingTenant | None = None
    doubtful: bool = False
    """Whether its row is in doubt: it is waited for, and makes no other row less certain."""

    @property
    def state(self) -> TenantState | None:
        """None while it does not exist."""
        return None if self.tenant is None else self.tenant.state


@dataclass(frozen=True, slots=True)
class Awaited:
    """A tenant that another waits for. `state` is None while it does not exist."""

    name: str
    state: TenantState | None
    template_gone: bool = False


def may_succeed(template: Template, tenant: ExistingTenant, *, made: bool) -> bool:
    """Whether a template may be the tenant's own template under another name.

    It is if it has the same content, if it is younger than the tenant, or if it has not made its tenant of
    that row yet. One that was there before the tenant is another template.
    """
    if template.name == tenant.template:
        return False
    same = bool(template.version) and template.version == tenant.version
    return same or not made or template.created >= tenant.created


def pairs(leavers: Sequence[Leaver], candidates: Sequence[Candidate]) -> dict[str, tuple[str, ...]]:
    """Return the tenants that may take the place of each leaver, by name, sorted.

    What a leaver records counts as long as the recorded tenant is there or on its way. Besides: the same
    uid under a template that may be the former one; rows that name the leaver's uid as their former one; the one row
    that has the same host; and, when the row is found missing for the first time, new tenants with the same values, or
    with the same host where several have it.
    """
    return _Pairing(leavers, candidates).made()


def heirs(
    leavers: Sequence[Leaver],
    candidates: Sequence[Candidate],
    paired: Mapping[str, Sequence[str]],
) -> dict[str, tuple[str, ...]]:
    """Return which of its pairs each leaver's objects and drawn values pass to, by name, sorted.

    That takes an identity: the same uid, or a record, a `formerUid` or a host that leads from one former uid to one new
    uid. A resemblance of values passes nothing.
    """
    return _Heirs(leavers, candidates, paired).made()


def waiting(
    paired: Mapping[str, Sequence[str]],
    states: Mapping[str, TenantState | None],
    staying: Set[str],
) -> dict[str, tuple[Awaited, ...]]:
    """Return what each leaver waits for: paired tenants that are not ready and that stay or wait themselves.

    A leaver that nothing holds is not in the result, so that two leavers do not wait for each other.
    """
    found: dict[str, tuple[str, ...]] = {}
    changed = True
    while changed:
        changed = False
        for name, others in paired.items():
            held = tuple(
                other
                for other in others
                if states.get(other) is not TenantState.READY
                and (other in staying or other in found)
            )
            if held and held != found.get(name):
                found[name], changed = held, True
    return {
        name: tuple(Awaited(other, states.get(other)) for other in others)
        for name, others in found.items()
    }


@dataclass(slots=True)
class _Pairing:
    leavers: Sequence[Leaver]
    candidates: Sequence[Candidate]
    _by_uid: dict[str, list[Candidate]] = field(default_factory=dict)
    _by_host: dict[str, list[Candidate]] = field(default_factory=dict)
    _by_former: dict[str, list[Candidate]] = field(default_factory=dict)
    _by_values: dict[tuple[object, ...], list[Candidate]] = field(default_factory=dict)
    _rank: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where a leaver of a lost row stands among those of its template, in the order of uids."""

    def made(self) -> dict[str, tuple[str, ...]]:
        self._index()
        recorded = self._recorded()
        found = {
            leaver.tenant.name: recorded[leaver.tenant.name] | self._found(leaver)
            for leaver in self.leavers
        }
        return {name: tuple(sorted(names - {name})) for name, names in found.items() if names}

    def _index(self) -> None:
        rows_are_gone = any(leaver.row_gone for leaver in self.leavers)
        for item in self.candidates:
            self._by_uid.setdefault(item.uid, []).append(item)
            if not rows_are_gone:
                continue
            if former := item.variables.get(FORMER_UID):
                self._by_former.setdefault(former, []).append(item)
                continue  # it names whom it replaces, and so is not compared with others
            if host := item.variables.get(HOST):
                self._by_host.setdefault(host, []).append(item)
            if item.state in {None, TenantState.PENDING}:
                for key in _keys(item.uid, item.variables):
                    self._by_values.setdefault(key, []).append(item)
        by_template: dict[str, list[str]] = {}
        for leaver in sorted(self.leavers, key=lambda each: each.tenant.uid):
            if leaver.row_gone:
                by_template.setdefault(leaver.tenant.template, []).append(leaver.tenant.name)
        for names in by_template.values():
            self._rank |= {name: (number, len(names)) for number, name in enumerate(names)}

    def _recorded(self) -> dict[str, set[str]]:
        """Return what leavers record, and the other way round where a replacement is itself replaced."""
        known = {item.name for item in self.candidates}
        known |= {leaver.tenant.name for leaver in self.leavers}
        found = {
            each.tenant.name: each.tenant.inherited_by & known or each.tenant.replaced_by & known
            for each in self.leavers
        }
        result = {name: set(names) for name, names in found.items()}
        for item in self.candidates:
            if item.tenant is not None:
                for name in item.tenant.replaced_by & result.keys():
                    result[name].add(item.name)
        return result

    def _found(self, leaver: Leaver) -> set[str]:
        tenant = leaver.tenant
        if not leaver.row_gone:
            same_row = self._by_uid.get(tenant.uid, ())
            return {item.name for item in same_row if _of_template(item, leaver)}
        if former := self._by_former.get(tenant.uid):
            return {item.name for item in former if _of_template(item, leaver)}
        host = [
            item
            for item in self._by_host.get(tenant.variables.get(HOST, ""), ())
            if item.uid != tenant.uid
        ]
        certain = [item for item in host if not item.doubtful] or host
        if len({item.uid for item in certain}) == 1:
            return {item.name for item in host if _of_template(item, leaver)}
        return set() if tenant.replaced_by else self._alike(leaver, host)

    def _alike(self, leaver: Leaver, host: Sequence[Candidate]) -> set[str]:
        """Return new tenants with the same values, and of several rows with the same host those that are new."""
        tenant = leaver.tenant
        values = (self._by_values.get(key, ()) for key in _keys(tenant.uid, tenant.variables))
        new = (item for item in host if item.state in {None, TenantState.PENDING})
        found = {
            item.name: item
            for item in chain(new, *values)
            if item.uid != tenant.uid
            and (item.tenant is None or item.tenant.created >= tenant.created)
            and _of_template(item, leaver)
        }
        nearest = self._nearest(tenant.name, sorted(found, key=lambda name: found[name].uid))
        return set(nearest)

    def _nearest(self, leaver: str, names: Sequence[str]) -> Sequence[str]:
        if len(names) <= MOST_PAIRED:
            return names
        place, of = self._rank[leaver]
        first = place * len(names) // of - MOST_PAIRED // 2
        first = min(max(0, first), len(names) - MOST_PAIRED)
        return names[first : first + MOST_PAIRED]


@dataclass(frozen=True, slots=True)
class _Heirs:
    leavers: Sequence[Leaver]
    candidates: Sequence[Candidate]
    paired: Mapping[str, Sequence[str]]

    def made(self) -> dict[str, tuple[str, ...]]:
        uids = {item.name: item.uid for item in self.candidates}
        claims = self._claims(uids)
        claimed: dict[str, set[str]] = {}
        for former, successors in claims.items():
            for uid in successors:
                claimed.setdefault(uid, set()).add(former)
        chained, leaving = self._chained(), {item.tenant.name for item in self.leavers}
        found: dict[str, tuple[str, ...]] = {}
        for leaver in self.leavers:
            tenant = leaver.tenant
            certain = {tenant.uid} if not leaver.row_gone else claims[tenant.uid]
            if leaver.row_gone and (
                len(certain) != 1 or _several(claimed[next(iter(certain))], chained)
            ):
                certain = set()
            names = {name for name in self.paired.get(tenant.name, ()) if uids.get(name) in certain}
            if names and leaver.row_gone:
                names |= tenant.inherited_by & leaving
            found[tenant.name] = tuple(sorted(names - {tenant.name}))
        return found

    def _claims(self, uids: Mapping[str, str]) -> dict[str, set[str]]:
        """Return the uids that each former uid may have now, by the strongest evidence that there is."""
        by_host: dict[str, set[str]] = {}
        by_former: dict[str, set[str]] = {}
        for item in self.candidates:
            if former := item.variables.get(FORMER_UID):
                by_former.setdefault(former, set()).add(item.uid)
            elif host := item.variables.get(HOST):
                by_host.setdefault(host, set()).add(item.uid)
        found: dict[str, set[str]] = {}
        for leaver in self.leavers:
            tenant = leaver.tenant
            if leaver.row_gone:
                recorded = {uids[name] for name in tenant.inherited_by if name in uids}
                same_host = by_host.get(tenant.variables.get(HOST, ""), set())
                claim = recorded or by_former.get(tenant.uid) or same_host
                found.setdefault(tenant.uid, set()).update(claim - {tenant.uid})
        return found

    def _chained(self) -> Mapping[str, set[str]]:
        """Return the uids of leavers that others record as their heirs, by the uid of the former."""
        uids = {leaver.tenant.name: leaver.tenant.uid for leaver in self.leavers}
        found: dict[str, set[str]] = {}
        for leaver in self.leavers:
            others = {uids[name] for name in leaver.tenant.inherited_by if name in uids}
            found.setdefault(leaver.tenant.uid, set()).update(others - {leaver.tenant.uid})
        return found


def _several(formers: Set[str], chained: Mapping[str, Set[str]]) -> bool:
    """Whether the former uids are of more than one row: each but one has to lead to another of them."""
    return sum(chained.get(uid, frozenset()).isdisjoint(formers) for uid in formers) != 1


def _of_template(item: Candidate, leaver: Leaver) -> bool:
    if not leaver.template_gone:
        return item.template.name == leaver.tenant.template
    return may_succeed(item.template, leaver.tenant, made=item.tenant is not None)


def _keys(uid: str, variables: Mapping[str, str]) -> Iterable[tuple[object, ...]]:
    """Yield the values of a row but for its uid: as they are, and with the uid taken out of each."""
    values = sorted((name, text) for name, text in variables.items() if name not in OF_THE_ROW)
    yield (False, *values)
    yield (True, *((name, text.replace(uid, _UID)) for name, text in values))
