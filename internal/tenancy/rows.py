"""From rows to tenants' variables: which rows count, which are inactive, which are wrong and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from apis.tenancy import TenantRegistrySpec
from internal.tenancy.naming import IllegalName, check_uid
from internal.tenancy.rendering.functions.texts import to_host

TRUTHY = frozenset({"1", "true", "TRUE", "True", "yes", "YES", "Yes"})
"""The values of the activation column that make a row active: these and no others."""

FALSY = frozenset({"0", "false", "FALSE", "False", "no", "NO", "No", ""})
"""Values that are meant to say no. Any other makes the row inactive as well, and is reported."""

RESERVED = frozenset({"uid", "activate", "registryId", "hubId", "templateRef"})
"""Variables that extra mappings cannot take over."""

LARGEST_VALUE = 256 * 1024
"""Longest value of a row, in bytes of UTF-8: what is longer fits no Kubernetes object."""

LARGEST_ROW = 512 * 1024
MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One row as text by column; NULL is None."""

    values: Mapping[str, str | None] = field(repr=False)


class RowProblem(StrEnum):
    """Why a row cannot become a tenant."""

    MISSING_UID = "MissingUid"
    ILLEGAL_UID = "IllegalUid"
    DUPLICATE_UID = "DuplicateUid"
    VALUE_TOO_LARGE = "ValueTooLarge"


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A row that was left out. `place` is its number in the result, from 1."""

    place: int
    problem: RowProblem
    message: str


@dataclass(frozen=True, slots=True)
class ActiveRow:
    """An active row: its uid, its variables, and those that must stay secret."""

    uid: str
    variables: Mapping[str, str]
    sensitive: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a successful query says. `held` are uids whose row is there but wrong: their tenants stay."""

    active: tuple[ActiveRow, ...]
    total: int
    inactive: int
    invalid: tuple[InvalidRow, ...] = ()
    unknown_activate: Mapping[str, int] = field(default_factory=dict)
    held: frozenset[str] = frozenset()

    def problems(self) -> list[str]:
        """One sentence for each kind of trouble, fit for a condition."""
        said: list[str] = []
        for problem, count in sorted(Counter(row.problem for row in self.invalid).items()):
            first = next(row for row in self.invalid if row.problem is problem)
            said.append(f"{count} rows with {problem}, the first: {first.message}")
        if self.unknown_activate:
            listed = sorted(self.unknown_activate)[:MOST_LISTED]
            values = ", ".join(repr(value[:40]) for value in listed)
            count = sum(self.unknown_activate.values())
            said.append(f"{count} rows are inactive by an unknown activation value: {values}")
        return said


def columns(spec: TenantRegistrySpec) -> tuple[str, ...]:
    """The mapped columns, each once: what a query selects, uid first."""
    mappings = spec.value_mappings
    named = [mappings.uid, mappings.activate]
    if mappings.host_or_url:
        named.append(mappings.host_or_url)
    named.extend(mapping.column for _, mapping in sorted(spec.extra_columns().items()))
    return tuple(dict.fromkeys(named))


def mapping_problems(spec: TenantRegistrySpec) -> list[str]:
    """What is wrong with the registry's extra mappings, one sentence each."""
    taken = [
        f"extraValueMappings: {name!r} is a variable of the registry itself"
        for name in sorted(spec.extra_value_mappings)
        if name in RESERVED
    ]
    seen = {spec.value_mappings.uid, spec.value_mappings.activate}
    return taken + [
        f"extraValueMappings: {name!r} cannot be sensitive, as uid and activate are seen everywhere"
        for name, item in sorted(spec.extra_columns().items())
        if item.sensitive and item.column in seen
    ]


def read(rows: Iterable[Row], spec: TenantRegistrySpec) -> Reading:
    """Sorts rows into active, inactive and invalid. Of rows with one uid the first counts."""
    reader = RowReader(spec)
    for row in rows:
        reader.take(row)
    return reader.reading()


class RowReader:
    """Sorts rows in as their pages come; `reading` ends it. A page takes milliseconds, no more."""

    def __init__(self, spec: TenantRegistrySpec) -> None:
        self._mappings = spec.value_mappings
        self._extra = {
            name: item for name, item in spec.extra_columns().items() if name not in RESERVED
        }
        self._secret_columns = {item.column for item in self._extra.values() if item.sensitive}
        self._active: list[ActiveRow] = []
        self._seen: dict[str, int] = {}
        self._invalid: list[InvalidRow] = []
        self._unknown: Counter[str] = Counter()
        self._held: set[str] = set()
        self._inactive = self._total = 0

    def take(self, row: Row) -> None:
        """Sorts in one row."""
        self._total += 1
        uid = row.values.get(self._mappings.uid)
        if not uid:
            self._refuse(RowProblem.MISSING_UID, f"row {self._total} has no uid")
            return
        try:
            check_uid(uid)
        except IllegalName as error:
            self._refuse(
                RowProblem.ILLEGAL_UID, f"{self._shown(uid)} in row {self._total}: {error}"
            )
            return
        if uid in self._seen:
            message = f"{self._shown(uid)} in row {self._total} is already in row {self._seen[uid]}"
            self._refuse(RowProblem.DUPLICATE_UID, message)
            return
        self._seen[uid] = self._total
        activate = row.values.get(self._mappings.activate) or ""
        if activate not in TRUTHY:
            self._inactive += 1
            if activate not in FALSY and self._mappings.activate not in self._secret_columns:
                self._unknown[activate[:64]] += 1
            return
        self._activate(uid, activate, row)

    def reading(self) -> Reading:
        """Everything taken so far."""
        return Reading(
            tuple(self._active),
            self._total,
            self._inactive,
            tuple(self._invalid),
            dict(self._unknown),
            frozenset(self._held),
        )

    def _activate(self, uid: str, activate: str, row: Row) -> None:
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
            self._held.add(uid)
            message = (
                f"the row of {self._shown(uid)} has {sum(sizes)} bytes; a value may have "
                f"{LARGEST_VALUE} and a row {LARGEST_ROW}"
            )
            self._refuse(RowProblem.VALUE_TOO_LARGE, message)
            return
        self._active.append(ActiveRow(uid, variables, sensitive))

    def _refuse(self, problem: RowProblem, message: str) -> None:
        self._invalid.append(InvalidRow(self._total, problem, message))

    def _shown(self, uid: str) -> str:
        if self._mappings.uid in self._secret_columns:
            return "a uid"
        return f"uid {uid[:64]!r}"


def _host(url: str) -> str:
    try:
        return to_host(url)
    except Exception:  # noqa: BLE001 - whatever a row holds, it has at worst no host
        return ""
