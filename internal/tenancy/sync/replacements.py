"""Which tenants take the place of one that goes, and which of them it waits for: make before break.

A row whose uid changes, or a template that is applied under another name, makes another Tenant. The
old one stays until the new one is ready. Pure: everything is derived from objects and rows, so that a
manager that starts anew decides the same.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain, islice

from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template

MOST_PAIRED = 50
"""Tenants that one tenant is paired with at most by equal values: the nearest in the order of uids."""

FORMER_UID = "formerUid"
"""A mapped column of this name holds the uid that a row had before."""
OF_THE_ROW = frozenset({"uid", "activate", FORMER_UID})
"""Variables that differ, or may differ, between a row and the same row under another uid."""

HOST = "hostOrUrl"
_Known = tuple[str, str]
"""The uid and the name of a candidate."""
_CERTAIN, _DOUBTFUL, _NEW = "certain", "doubtful", "new"
_EVER = "~"
"""Later than every time of creation."""
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
    row_known: bool = False
    """Whether the registry has a tenant of its row, be it of another template or one that is being deleted."""

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
    uid. A resemblance of values passes nothing, and nothing passes to a tenant that was there before the leaver was made.
    By a host alone nothing passes to a row that had a tenant before the leaver's row was missing: they were two rows at once.
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
    unready = {
        name: [other for other in others if states.get(other) is not TenantState.READY]
        for name, others in paired.items()
    }
    holding = leading_to(staying, unready)
    found = {
        name: tuple(Awaited(other, states.get(other)) for other in others if other in holding)
        for name, others in unready.items()
    }
    return {name: awaited for name, awaited in found.items() if awaited}


def leading_to(ends: Iterable[str], paired: Mapping[str, Iterable[str]]) -> set[str]:
    """Return `ends`, and the names that are paired with one of them or with another that leads there."""
    sources: dict[str, list[str]] = {}
    for name, others in paired.items():
        for other in others:
            sources.setdefault(other, []).append(name)
    found, fresh = set(ends), [*ends]
    while fresh:
        more = [name for name in sources.get(fresh.pop(), ()) if name not in found]
        found.update(more)
        fresh += more
    return found


@dataclass(slots=True)
class _Pool:
    """Candidates that leavers, from the youngest to the oldest, may be paired with; the nearest of them in the order of uids."""

    later: list[tuple[str, str, str]]
    """For which leavers one counts that does not yet: those made no later than this; its uid and its name. In order."""
    open: list[_Known] = field(default_factory=list)
    """The uids and names of those that count, in order."""

    def nearest(self, created: str, rank: tuple[int, int]) -> Sequence[_Known]:
        while self.later and self.later[-1][0] >= created:
            insort(self.open, self.later.pop()[1:])
        return _nearest(self.open, rank)


@dataclass(slots=True)
class _Pairing:
    """Each leaver costs what it is paired with at most, however many candidates look like it: whoever writes rows decides how many do."""

    leavers: Sequence[Leaver]
    candidates: Sequence[Candidate]
    _by_uid: dict[str, list[Candidate]] = field(default_factory=dict)
    _by_former: dict[str, list[Candidate]] = field(default_factory=dict)
    _uids: dict[tuple[object, ...], set[str]] = field(default_factory=dict)
    """Of the candidates with a host, certain ones and doubtful ones apart."""
    _like: dict[tuple[object, ...], list[Candidate]] = field(default_factory=dict)
    """Candidates by what a leaver may have in common with them."""
    _pools: dict[tuple[object, ...], _Pool] = field(default_factory=dict)
    _rank: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where a leaver of a lost row stands among those of its template, in the order of uids."""
    _versions: frozenset[str] = frozenset()

    def made(self) -> dict[str, tuple[str, ...]]:
        self._index()
        found = self._recorded()
        for leaver in sorted(self.leavers, key=lambda each: each.tenant.created, reverse=True):
            found[leaver.tenant.name] |= self._found(leaver)
        return {name: tuple(sorted(names - {name})) for name, names in found.items() if names}

    def _index(self) -> None:
        rows_are_gone = any(leaver.row_gone for leaver in self.leavers)
        self._versions = frozenset(item.template.version for item in self.candidates)
        for item in self.candidates:
            self._by_uid.setdefault(item.uid, []).append(item)
            if not rows_are_gone:
                continue
            if former := item.variables.get(FORMER_UID):
                self._by_former.setdefault(former, []).append(item)
                continue  # it names whom it replaces, and so is not compared with others
            keys: list[tuple[object, ...]] = []
            if host := item.variables.get(HOST):
                keys = [(_DOUBTFUL if item.doubtful else _CERTAIN, host)]
                self._uids.setdefault(keys[0], set()).add(item.uid)
            if item.state in {None, TenantState.PENDING}:
                keys += [(_NEW, host)] if host else []
                keys += _keys(item.uid, item.variables)
            for key in keys:
                self._like.setdefault(key, []).append(item)
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
        host = tenant.variables.get(HOST, "")
        if self._is_only(tenant.uid, (_CERTAIN, host), (_DOUBTFUL, host)):
            return self._nearest(leaver, (_CERTAIN, host)) | self._nearest(
                leaver, (_DOUBTFUL, host)
            )
        if tenant.replaced_by:
            return set()
        return self._nearest(leaver, (_NEW, host), *_keys(tenant.uid, tenant.variables))

    def _is_only(self, uid: str, *keys: tuple[object, ...]) -> bool:
        """Whether candidates of one other uid have the first of these in common with a leaver that any has."""
        others = (len(uids) - (uid in uids) for key in keys if (uids := self._uids.get(key)))
        return next((number for number in others if number), 0) == 1

    def _nearest(self, leaver: Leaver, *keys: tuple[object, ...]) -> set[str]:
        """Return candidates that have one of these in common with the leaver."""
        tenant = leaver.tenant
        rank = self._rank[tenant.name]
        found = {
            each for key in keys for each in self._pool(leaver, key).nearest(tenant.created, rank)
        }
        return {name for uid, name in _nearest(sorted(found), rank) if uid != tenant.uid}

    def _pool(self, leaver: Leaver, key: tuple[object, ...]) -> _Pool:
        """Return the candidates of a key for all leavers that the same candidates may succeed, but for their age."""
        tenant = leaver.tenant
        version = tenant.version if tenant.version in self._versions else ""
        scope = (key, tenant.template, leaver.template_gone and version, leaver.template_gone)
        found = self._pools.get(scope)
        if found is None:
            new = key[0] not in {_CERTAIN, _DOUBTFUL}
            bounds = ((_latest(item, leaver, new=new), item) for item in self._like.get(key, ()))
            of_key = sorted(
                (bound, item.uid, item.name) for bound, item in bounds if bound is not None
            )
            found = self._pools[scope] = _Pool(of_key)
        return found


@dataclass(frozen=True, slots=True)
class _Heirs:
    leavers: Sequence[Leaver]
    candidates: Sequence[Candidate]
    paired: Mapping[str, Sequence[str]]
    _known: dict[str, Candidate] = field(default_factory=dict)
    """The candidates, by name."""
    _recorded: dict[str, set[str]] = field(default_factory=dict)
    """The uids of recorded heirs, by the uid of the leaver: one of its templates counts for all."""

    def made(self) -> dict[str, tuple[str, ...]]:
        uids = {item.name: item.uid for item in self.candidates}
        self._known.update((item.name, item) for item in self.candidates)
        for tenant in (leaver.tenant for leaver in self.leavers):
            heirs_of_row = (uids[name] for name in tenant.inherited_by if name in uids)
            self._recorded.setdefault(tenant.uid, set()).update(heirs_of_row)
        claims = _Claims(self.leavers, self.candidates, uids)
        chained, leaving = self._chained(), {item.tenant.name for item in self.leavers}
        found: dict[str, tuple[str, ...]] = {}
        for leaver in self.leavers:
            tenant = leaver.tenant
            certain = {tenant.uid} if not leaver.row_gone else claims.of[tenant.uid]
            if leaver.row_gone and (
                len(certain) != 1 or claims.of_several(next(iter(certain)), chained)
            ):
                certain = set()
            names = {name for name in self.paired.get(tenant.name, ()) if uids.get(name) in certain}
            if leaver.row_gone:
                names -= self._others(tenant)
            if names and leaver.row_gone:
                names |= tenant.inherited_by & leaving
            found[tenant.name] = tuple(sorted(names - {tenant.name}))
        return found

    def _others(self, tenant: ExistingTenant) -> set[str]:
        """Return the pairs that are tenants of other rows, unless a record joins the two."""
        pairs = (self._known.get(name) for name in self.paired.get(tenant.name, ()))
        return {item.name for item in pairs if item is not None and self._is_other(item, tenant)}

    def _is_other(self, item: Candidate, tenant: ExistingTenant) -> bool:
        other = item.tenant
        if other is not None and tenant.name in other.inherited_by:
            return False
        if item.uid in self._recorded[tenant.uid]:
            return False
        if item.variables.get(FORMER_UID) != tenant.uid:
            # What a renamed row makes is made after its record.
            return item.row_known
        return other is not None and other.created <= tenant.created

    def _chained(self) -> Mapping[str, set[str]]:
        """Return the uids of leavers that others record as their heirs, by the uid of the former."""
        uids = {leaver.tenant.name: leaver.tenant.uid for leaver in self.leavers}
        found: dict[str, set[str]] = {}
        for leaver in self.leavers:
            others = {uids[name] for name in leaver.tenant.inherited_by if name in uids}
            found.setdefault(leaver.tenant.uid, set()).update(others - {leaver.tenant.uid})
        return found


class _Claims:
    """Which uids each former uid may have now, by the strongest evidence that there is."""

    def __init__(
        self, leavers: Sequence[Leaver], candidates: Sequence[Candidate], uids: Mapping[str, str]
    ) -> None:
        self.of: dict[str, set[str]] = {}
        """By the former uid; of more than one, some two."""
        self._by: dict[str, set[str]] = {}
        """The former uids by the uid that a record or a `formerUid` leads to."""
        self._of_host: dict[str, set[str]] = {}
        """The former uids by the host that leads from them."""
        self._hosts: dict[str, set[str]] = {}
        """The hosts of each uid that one may lead to."""
        self._several: dict[str, bool] = {}
        by_host: dict[str, set[str]] = {}
        by_former: dict[str, set[str]] = {}
        for item in candidates:
            if former := item.variables.get(FORMER_UID):
                by_former.setdefault(former, set()).add(item.uid)
            elif host := item.variables.get(HOST):
                by_host.setdefault(host, set()).add(item.uid)
                self._hosts.setdefault(item.uid, set()).add(host)
        for tenant in (leaver.tenant for leaver in leavers if leaver.row_gone):
            known = self.of.setdefault(tenant.uid, set())
            recorded = {uids[name] for name in tenant.inherited_by if name in uids}
            if claim := recorded or by_former.get(tenant.uid):
                known |= claim - {tenant.uid}
                for uid in claim:
                    self._by.setdefault(uid, set()).add(tenant.uid)
                continue
            host = tenant.variables.get(HOST, "")
            self._of_host.setdefault(host, set()).add(tenant.uid)
            known.update(islice((uid for uid in by_host.get(host, ()) if uid != tenant.uid), 2))

    def of_several(self, uid: str, chained: Mapping[str, Set[str]]) -> bool:
        """Whether more than one row had a uid before: of its former uids each but one has to lead to another of them."""
        found = self._several.get(uid)
        if found is None:
            hosts = self._hosts.get(uid, ())
            groups = [self._by.get(uid, set()), *(self._of_host.get(host, set()) for host in hosts)]
            ends = set()
            for former in chain(*groups):
                others = chained.get(former, frozenset()) - {uid}
                if former != uid and all(others.isdisjoint(group) for group in groups):
                    ends.add(former)
                if len(ends) > 1:
                    break
            found = self._several[uid] = len(ends) != 1
        return found


def _nearest(found: Sequence[_Known], rank: tuple[int, int]) -> Sequence[_Known]:
    """Return so many in a row, around the place that a leaver has among its like."""
    place, of = rank
    first = place * len(found) // of - MOST_PAIRED // 2
    first = max(0, min(first, len(found) - MOST_PAIRED))
    return found[first : first + MOST_PAIRED]


def _latest(item: Candidate, leaver: Leaver, *, new: bool) -> str | None:
    """Return when a leaver may have been made at the latest so that the candidate may succeed it; None: at no time.

    `new`: one that is there was not made before the leaver.
    """
    tenant, made = leaver.tenant, item.tenant
    same = bool(item.template.version) and item.template.version == tenant.version
    if (item.template.name == tenant.template) is leaver.template_gone:
        return None
    bounds = [made.created] if made is not None and new else []
    if made is not None and leaver.template_gone and not same:
        bounds.append(item.template.created)
    return min(bounds, default=_EVER)


def _of_template(item: Candidate, leaver: Leaver) -> bool:
    latest = _latest(item, leaver, new=False)
    return latest is not None and latest >= leaver.tenant.created


def _keys(uid: str, variables: Mapping[str, str]) -> Iterable[tuple[object, ...]]:
    """Yield the values of a row but for its uid: as they are, and with the uid taken out of each."""
    values = sorted((name, text) for name, text in variables.items() if name not in OF_THE_ROW)
    yield (False, *values)
    yield (True, *((name, text.replace(uid, _UID)) for name, text in values))
