"""From rows to tenants' variables: which rows are active, which are inactive, and which are in doubt.

A row that is neither clearly active nor clearly inactive is held: its tenants stay exactly as they
are, and it is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from apis.tenancy import TenantRegistrySpec
from internal.tenancy.rendering.functions.texts import to_host
from internal.tenancy.shared.naming import IllegalName, check_uid
from internal.tenancy.shared.slices import SLICE, Slices, at_once, sort_slices

TRUTHY = frozenset({"1", "true", "TRUE", "True", "yes", "YES", "Yes"})
"""The values of the activation column that make a row active: these and no others."""

FALSY = frozenset({"0", "false", "FALSE", "False", "no", "NO", "No", ""})
"""The values that make a row inactive, NULL being the empty text. Any other value holds the row."""

RESERVED = frozenset({"uid", "activate", "registryId", "hubId", "templateRef"})
"""Variables that extra mappings cannot take over."""

LARGEST_VALUE = 256 * 1024
"""Longest value of a row, in bytes of UTF-8: what is longer fits no Kubernetes object."""

LARGEST_ROW = 512 * 1024
LONGEST_SHOWN = 40
MOST_NAMED = 10
"""Rows of each problem that a sentence may name."""
LONGEST_IDENTITY = 2048
"""Bytes of a value by which a row that is too large may be found as a renamed one."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row as text by column; NULL is None."""

    values: Mapping[str, str | None] = field(repr=False)


class RowProblem(StrEnum):
    """Why a row can be used neither to make a tenant nor to remove one."""

    MISSING_UID = "MissingUid"
    ILLEGAL_UID = "IllegalUid"
    DUPLICATE_UID = "DuplicateUid"
    UNKNOWN_ACTIVATION = "UnknownActivation"
    VALUE_TOO_LARGE = "ValueTooLarge"


REMEDIES: Mapping[RowProblem, str] = MappingProxyType(
    {
        RowProblem.MISSING_UID: "write a uid or delete the row",
        RowProblem.ILLEGAL_UID: "use at most 63 lower-case letters, digits, '-' and '.'",
        RowProblem.DUPLICATE_UID: "keep one row for each uid",
        RowProblem.UNKNOWN_ACTIVATION: "write 1, true or yes, or else 0, false or no",
        RowProblem.VALUE_TOO_LARGE: (
            f"a value may have {LARGEST_VALUE} bytes and a row {LARGEST_ROW}"
        ),
    }
)


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """Rows that cannot be used. `subject` names them, empty if nothing does."""

    problem: RowProblem
    subject: str = ""
    rows: int = 1


@dataclass(slots=True)
class ProblemTally:
    """How many rows have a problem, and what names them: `subjects` are the first of `named`."""

    rows: int = 0
    named: int = 0
    subjects: list[str] = field(default_factory=list)

    def count(self, item: InvalidRow) -> None:
        """Count one more."""
        self.rows += item.rows
        if item.subject:
            self.named += 1
            if len(self.subjects) < MOST_NAMED:
                self.subjects.append(item.subject)


@dataclass(frozen=True, slots=True)
class ActiveRow:
    """An active row: its uid, its variables, and those that must stay secret."""

    uid: str
    variables: Mapping[str, str]
    sensitive: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of a successful query. Each uid is in one of `active`, `inactive` and `held`, or absent.

    `held` are the uids whose rows are in doubt: their tenants are neither changed nor removed.
    """

    active: tuple[ActiveRow, ...] = ()
    total: int = 0
    inactive: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()
    doubtful: tuple[ActiveRow, ...] = ()
    """What can be read of rows in `held`: by it one is found that was renamed before it came into doubt."""
    invalid: tuple[InvalidRow, ...] = ()
    unidentified: int = 0
    """Rows without a usable uid that are not clearly inactive: each may belong to any absent uid."""
    tallies: dict[RowProblem, ProblemTally] = field(default_factory=dict, compare=False, repr=False)
    """Of `invalid`: counted once, as a status is written more often than rows are read."""

    def __post_init__(self) -> None:
        if not self.tallies:
            at_once(tally_slices(self.invalid, self.tallies))

    @property
    def invalid_rows(self) -> int:
        """Rows that cannot be used."""
        return sum(item.rows for item in self.tallies.values())

    def problems(self, named: int) -> list[str]:
        """One sentence for each kind of problem, with `named` rows, at most ten, and what to do about it."""
        return [_sentence(each, self.tallies[each], named) for each in sorted(self.tallies)]


def tally_slices(
    invalid: Sequence[InvalidRow], tallies: dict[RowProblem, ProblemTally]
) -> Slices[None]:
    """Count what cannot be used by its problem, in slices."""
    for place, item in enumerate(invalid):
        if place % SLICE == SLICE - 1:
            yield
        tallies.setdefault(item.problem, ProblemTally()).count(item)


def _sentence(problem: RowProblem, found: ProblemTally, named: int) -> str:
    shown = found.subjects[:named]
    if shown and found.named > named:
        shown.append(f"{found.named - named} more")
    listed = f" ({', '.join(shown)})" if shown else ""
    rows = found.rows
    return f"{rows} {'row' if rows == 1 else 'rows'} with {problem}{listed}: {REMEDIES[problem]}"


def columns(spec: TenantRegistrySpec) -> tuple[str, ...]:
    """Return the mapped columns, each once: what a query selects, uid first."""
    mappings = spec.value_mappings
    named = [mappings.uid, mappings.activate]
    if mappings.host_or_url:
        named.append(mappings.host_or_url)
    named.extend(mapping.column for _, mapping in sorted(spec.extra_columns().items()))
    return tuple(dict.fromkeys(named))


def mapping_problems(spec: TenantRegistrySpec) -> list[str]:
    """Return what is wrong with the registry's extra mappings, one sentence each."""
    taken = [
        f"extraValueMappings: {name!r} is a variable of the registry itself"
        for name in sorted(spec.extra_value_mappings)
        if name in RESERVED
    ]
    seen = {spec.value_mappings.uid, spec.value_mappings.activate}
    unusable = [
        f"extraValueMappings: {name!r} cannot be named in a template; use letters, digits and '_' "
        "only, and no digit at the start"
        for name in sorted(spec.extra_value_mappings)
        if not name.isidentifier()
    ]
    seen_everywhere = [
        f"extraValueMappings: {name!r} cannot be sensitive, as uid and activate are seen everywhere"
        for name, item in sorted(spec.extra_columns().items())
        if item.sensitive and item.column in seen
    ]
    return taken + unusable + seen_everywhere


def read(rows: Iterable[Row], spec: TenantRegistrySpec) -> Reading:
    """Sort rows into active, inactive and held, in the order of uids."""
    reader = RowReader(spec)
    for row in rows:
        reader.take(row)
    return reader.reading()


class RowReader:
    """Sorts rows page by page; `reading` returns the result. The order of rows does not matter."""

    def __init__(self, spec: TenantRegistrySpec) -> None:
        self._mappings = spec.value_mappings
        self._extra = {
            name: item for name, item in spec.extra_columns().items() if name not in RESERVED
        }
        self._secret_columns = {item.column for item in self._extra.values() if item.sensitive}
        self._by_uid: dict[str, ActiveRow | InvalidRow | None] = {}
        """None stands for an inactive row."""
        self._doubtful: list[ActiveRow] = []
        self._repeated: dict[str, int] = {}
        self._illegal: dict[RowProblem, list[str]] = {}
        """What names the rows without a usable uid."""
        self._unidentified = self._total = 0

    def take(self, row: Row) -> None:
        """Sort in one row."""
        self._total += 1
        uid = row.values.get(self._mappings.uid)
        activate = row.values.get(self._mappings.activate) or ""
        if (illegal := self._uid_problem(uid)) is not None:
            self._illegal.setdefault(illegal.problem, []).append(illegal.subject)
            self._unidentified += activate not in FALSY
        elif uid is not None and uid in self._by_uid:
            self._repeated[uid] = self._repeated.get(uid, 1) + 1
            if isinstance(found := self._read(uid, activate, row), ActiveRow):
                self._doubtful.append(found)
        elif uid is not None:
            self._by_uid[uid] = self._read(uid, activate, row)

    def reading(self) -> Reading:
        """Return the reading of all rows taken so far."""
        return at_once(self.slices())

    def slices(self) -> Slices[Reading]:
        """Return the same in slices; rows are not taken meanwhile."""
        active: list[ActiveRow] = []
        inactive: set[str] = set()
        held: dict[str, InvalidRow] = {}
        doubtful = list(self._doubtful)
        uids = yield from sort_slices(self._by_uid)
        for place, uid in enumerate(uids):
            if place % SLICE == SLICE - 1:
                yield
            found = self._by_uid[uid]
            if (rows := self._repeated.get(uid)) is not None:
                subject = f"{self._shown(uid)} in {rows} rows"
                held[uid] = InvalidRow(RowProblem.DUPLICATE_UID, subject, rows)
                if isinstance(found, ActiveRow):
                    doubtful.append(found)
            elif found is None:
                inactive.add(uid)
            elif isinstance(found, InvalidRow):
                held[uid] = found
            else:
                active.append(found)
        invalid = list(held.values())
        for problem in sorted(self._illegal):
            subjects = yield from sort_slices(self._illegal[problem])
            for start in range(0, len(subjects), SLICE):
                if start:
                    yield
                invalid += (InvalidRow(problem, each) for each in subjects[start : start + SLICE])
        tallies: dict[RowProblem, ProblemTally] = {}
        yield from tally_slices(invalid, tallies)
        if self._total > SLICE:
            yield
        return Reading(
            active=tuple(active),
            total=self._total,
            inactive=frozenset(inactive),
            held=frozenset(held),
            doubtful=tuple((yield from _ordered(doubtful))),
            invalid=tuple(invalid),
            unidentified=self._unidentified,
            tallies=tallies,
        )

    def _uid_problem(self, uid: str | None) -> InvalidRow | None:
        if not uid:
            return InvalidRow(RowProblem.MISSING_UID)
        try:
            check_uid(uid)
        except IllegalName:
            return InvalidRow(RowProblem.ILLEGAL_UID, self._shown(uid))
        return None

    def _read(self, uid: str, activate: str, row: Row) -> ActiveRow | InvalidRow | None:
        if activate in TRUTHY:
            return self._activate(uid, activate, row)
        if activate in FALSY:
            return None
        known = self._activate(uid, activate, row)
        if isinstance(known, InvalidRow):
            return known
        self._doubtful.append(known)
        value = "" if self._mappings.activate in self._secret_columns else f" {_short(activate)}"
        return InvalidRow(RowProblem.UNKNOWN_ACTIVATION, f"{self._shown(uid)}{value}")

    def _activate(self, uid: str, activate: str, row: Row) -> ActiveRow | InvalidRow:
        variables = {"uid": uid, "activate": activate}
        sensitive: dict[str, str] = {}
        host = self._mappings.host_or_url
        if host and (url := row.values.get(host)):
            hidden = host in self._secret_columns
            (sensitive if hidden else variables).update(hostOrUrl=url, host=_host(url))
        for name, mapping in self._extra.items():
            value = row.values.get(mapping.column) or ""
            hidden = mapping.column in self._secret_columns
            (sensitive if hidden else variables)[name] = value
        sizes = [len(value.encode()) for value in (*variables.values(), *sensitive.values())]
        if max(sizes) > LARGEST_VALUE or sum(sizes) > LARGEST_ROW:
            subject = f"{self._shown(uid)} {sum(sizes)} bytes"
            # Of a row that is too large that is kept which shows whose it was, unless that is what is too large.
            small = {
                name: value for name, value in variables.items() if len(value) <= LONGEST_IDENTITY
            }
            self._doubtful.append(ActiveRow(uid, small))
            return InvalidRow(RowProblem.VALUE_TOO_LARGE, subject)
        return ActiveRow(uid, variables, sensitive)

    def _shown(self, uid: str) -> str:
        return "a uid" if self._mappings.uid in self._secret_columns else f"uid {_short(uid)}"


def _ordered(doubtful: Sequence[ActiveRow]) -> Slices[list[ActiveRow]]:
    """Return rows in the order of their uids, and of their variables where several have one uid."""
    by_uid: dict[str, list[ActiveRow]] = {}
    for place, row in enumerate(doubtful):
        if place % SLICE == SLICE - 1:
            yield
        by_uid.setdefault(row.uid, []).append(row)
    uids = yield from sort_slices(by_uid)
    found: list[ActiveRow] = []
    for place, uid in enumerate(uids):
        if place % SLICE == SLICE - 1:
            yield
        rows = by_uid[uid]
        if len(rows) > 1:
            rows.sort(key=lambda row: sorted(row.variables.items()))
        found += rows
    return found


def _short(value: str) -> str:
    """Return the value in quotes, ended by an ellipsis where it is long."""
    cut = value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}…"
    return repr(cut)


def _host(url: str) -> str:
    try:
        return to_host(url)
    except Exception:  # noqa: BLE001 - whatever a row holds, it has at worst no host
        return ""
