"""From what was asked in a run to what is wrong with the roles. No I/O, no pytest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.audit.ledger import Asked, Lacking, Line
from tests.audit.rights import Right


@dataclass(frozen=True, slots=True)
class Share:
    """What one suite has to use: the rights that its controllers declare.

    `common`: this suite also uses what every manager has, whatever controllers it runs.
    """

    suite: str
    rights: frozenset[Right]
    common: bool = False


@dataclass(frozen=True, slots=True)
class Audit:
    """Where the audited suites are, and what is expected of those that run as a whole."""

    folders: Mapping[str, Path]
    shares: Callable[[], Collection[Share]]
    exempt: frozenset[Right] = frozenset()
    """Rights that no request takes."""


@dataclass(slots=True)
class Verdict:
    """What came out. Empty where nothing is wrong."""

    forbidden: list[tuple[str, str]] = field(default_factory=list)
    """Test, and what was refused in it."""
    unused: list[tuple[str, Right]] = field(default_factory=list)
    """Suite, and the right it left unused."""
    unjudged: list[Right] = field(default_factory=list)
    """Granted and not used, as no server of the run serves the resource."""
    used: int = 0

    @property
    def acceptable(self) -> bool:
        return not self.forbidden and not self.unused


def shares(
    granted: Iterable[Right],
    declared: Mapping[str, Iterable[Right]],
    common: Collection[str],
) -> list[Share]:
    """Who has to use which granted right: the suites whose controllers declare it, and of the rest
    those named `common`."""
    rights = frozenset(granted)
    own = {suite: rights & frozenset(some) for suite, some in declared.items()}
    rest = rights.difference(*own.values())
    return [
        Share(suite, some | rest if suite in common else some, common=suite in common)
        for suite, some in own.items()
    ]


def judge(lines: Iterable[Line], whole: Iterable[Share], exempt: Collection[Right] = ()) -> Verdict:
    """Refusals of all suites, and what the suites that ran as a whole have left unused.

    `exempt`: rights that no request takes.
    """
    verdict = Verdict()
    asked, lacking = _by_suite(lines)
    for suite in asked.values():
        verdict.forbidden += [(each.test, str(each)) for each in suite if each.refused]
    for share in whole:
        used = _places(right for each in asked.get(share.suite, ()) for right in each.rights())
        for right in sorted(share.rights - frozenset(exempt)):
            places = used.get(right[:2], set())
            if places and right.namespace in ("", *places):
                verdict.used += 1
            elif _plural(right) in lacking.get(share.suite, ()):
                verdict.unjudged.append(right)
            else:
                verdict.unused.append((share.suite, right))
    return verdict


def _places(rights: Iterable[Right]) -> dict[tuple[str, str], set[str]]:
    """Where each verb was used on each resource."""
    found: dict[tuple[str, str], set[str]] = {}
    for right in rights:
        found.setdefault(right[:2], set()).add(right.namespace)
    return found


def _plural(right: Right) -> str:
    return right.resource.partition("/")[0]


def _by_suite(lines: Iterable[Line]) -> tuple[dict[str, list[Asked]], dict[str, set[str]]]:
    asked: dict[str, list[Asked]] = {}
    lacking: dict[str, set[str]] = {}
    for line in lines:
        if isinstance(line, Lacking):
            lacking.setdefault(line.suite, set()).add(line.resource)
        else:
            asked.setdefault(line.suite, []).append(line)
    return asked, lacking
