"""Semantic versions and their constraints, as Masterminds/semver reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from internal.tenancy.rendering.errors import TemplateError

LONGEST = 256
"""Longest version or constraint, in characters."""

_TAIL = (
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"  # pre-release
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"  # build metadata
)
_VERSION = re.compile(r"v?(\d{1,19})(?:\.(\d{1,19}))?(?:\.(\d{1,19}))?" + _TAIL, re.ASCII)
_PART = r"(\d{1,19}|[xX*])"
_PARTIAL = rf"v?{_PART}(?:\.{_PART})?(?:\.{_PART})?{_TAIL}"
_CONSTRAINT = re.compile(rf"(!=|>=|=>|<=|=<|~>|=|>|<|~|\^|)\s*({_PARTIAL})", re.ASCII)
_RANGE = re.compile(r"\s*(\S+)\s+-\s+([^\s,|]+)\s*")
_ALIASES = {"=>": ">=", "=<": "<=", "~>": "~", "": "="}
_FIELDS = frozenset({"Major", "Minor", "Patch", "Prerelease", "Metadata", "Original"})


@dataclass(frozen=True, slots=True)
class Version:
    """One semantic version. Templates read its fields: `(semver .v).Major`."""

    Major: int
    Minor: int
    Patch: int
    Prerelease: str
    Metadata: str
    Original: str

    def __getitem__(self, name: str) -> object:
        """Return a field. Raises KeyError for any other name."""
        if name not in _FIELDS:
            raise KeyError(name)
        return getattr(self, name)

    def __str__(self) -> str:
        text = f"{self.Major}.{self.Minor}.{self.Patch}"
        text += f"-{self.Prerelease}" if self.Prerelease else ""
        return text + (f"+{self.Metadata}" if self.Metadata else "")

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Return major, minor and patch."""
        return self.Major, self.Minor, self.Patch

    def precedence(self) -> tuple[Any, ...]:
        """Return what versions are ordered by; build metadata does not count."""
        parts = self.Prerelease.split(".") if self.Prerelease else []
        ranks = tuple((0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts)
        return self.numbers, not parts, ranks


@lru_cache(maxsize=256)
def parse(text: str) -> Version:
    """Return the version; `1` and `1.2` are completed by zeros. Raises TemplateError."""
    found = _VERSION.fullmatch(text) if len(text) <= LONGEST else None
    if found is None:
        raise TemplateError("semver: the value is not a semantic version such as 1.2.3")
    major, minor, patch, prerelease, metadata = found.groups()
    if any(p.isdecimal() and p[0] == "0" and len(p) > 1 for p in (prerelease or "").split(".")):
        raise TemplateError("semver: a number in a pre-release starts with 0")
    return Version(
        int(major), int(minor or 0), int(patch or 0), prerelease or "", metadata or "", text
    )


def compare(version: Version, other: Version) -> int:
    """Return -1, 0 or 1, as the version is older than, equal to or newer than the other."""
    left, right = version.precedence(), other.precedence()
    return (left > right) - (left < right)


@dataclass(frozen=True, slots=True)
class _Constraint:
    operator: str
    limit: Version
    given: int
    """How many of major, minor and patch were given as numbers."""

    def allows(self, version: Version) -> bool:
        if version.Prerelease and not self.limit.Prerelease:
            # A release is asked for; only `!=` of a whole version lets others through.
            return self.operator == "!=" and self.given == 3
        order = compare(version, self.limit)
        same = version.numbers[: self.given] == self.limit.numbers[: self.given]
        match self.operator:
            case "=":
                return order == 0 if self.given == 3 else self._tilde(version, order)
            case "!=":
                return order != 0 if self.given == 3 else not same
            case ">":
                return order > 0 if self.given == 3 else order > 0 and not same
            case "<":
                return order < 0
            case ">=":
                return order >= 0
            case "<=":
                return order <= 0 or (self.given < 3 and same)
            case "~":
                return self._tilde(version, order)
        return self._caret(version, order)

    def _tilde(self, version: Version, order: int) -> bool:
        if order < 0:
            return False
        if self.given == 0 or (self.given == 3 and self.limit.numbers == (0, 0, 0)):
            return True
        fixed = min(self.given, 2)
        return version.numbers[:fixed] == self.limit.numbers[:fixed]

    def _caret(self, version: Version, order: int) -> bool:
        if order < 0:
            return False
        fixed = next((i for i, n in enumerate(self.limit.numbers) if n), 2) + 1
        fixed = min(fixed, max(self.given, 1)) if self.given else 0
        return version.numbers[:fixed] == self.limit.numbers[:fixed]


def satisfies(constraint: str, version: Version) -> bool:
    """Return whether the version is within the constraint, `>=1.2 <2 || ^3`. Raises TemplateError."""
    return any(all(c.allows(version) for c in group) for group in _constraints(constraint))


@lru_cache(maxsize=256)
def _constraints(text: str) -> list[list[_Constraint]]:
    if len(text) > LONGEST:
        raise TemplateError(f"semverCompare: a constraint is longer than {LONGEST} characters")
    return [_all_of(part) for part in _RANGE.sub(r" >= \1, <= \2 ", text).split("||")]


def _all_of(text: str) -> list[_Constraint]:
    found: list[_Constraint] = []
    place = 0
    rest = text.strip()
    while place < len(rest):
        match = _CONSTRAINT.match(rest, place)
        if match is None:
            raise TemplateError("semverCompare: the constraint is not one such as >=1.2, <2")
        found.append(_constraint(match))
        place = match.end()
        gap = re.compile(r"\s*,\s*|\s+|$").match(rest, place)
        if gap is None:
            raise TemplateError("semverCompare: constraints are separated by blanks or commas")
        place = gap.end()
    if not found:
        raise TemplateError("semverCompare: the constraint is empty")
    return found


def _constraint(match: re.Match[str]) -> _Constraint:
    operator, _, *parts, prerelease, metadata = match.groups()
    numbers: list[int] = []
    for part in parts:
        if part is None or part in "xX*":
            break
        numbers.append(int(part))
    given = len(numbers)
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    limit = Version(major, minor, patch, prerelease or "", metadata or "", match[2])
    return _Constraint(_ALIASES.get(operator, operator), limit, given)
