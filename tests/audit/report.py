"""From what was asked in a run to what is wrong with the roles. No I/O, no pytest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.audit.request_recorder import Asked, Lacking, Line
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
    unaudited: frozenset[str] = frozenset()
    """Systems without such a suite: what they declare is asked of nobody."""


class Scene(NamedTuple):
    """A suite on a sort of server."""

    suite: str
    server: str

    def __str__(self) -> str:
        return f"{self.suite} on {self.server}"


@dataclass(slots=True)
class Verdict:
    """What came out. Empty where nothing is wrong."""

    forbidden: list[tuple[str, str]] = field(default_factory=list)
    """Test, and what was refused in it."""
    unused: list[tuple[Scene, Right]] = field(default_factory=list)
    """Where, and the right that was left unused."""
    unjudged: list[tuple[Scene, Right]] = field(default_factory=list)
    """The same of what the server does not serve."""
    used: int = 0
    """Rights that were used, added up over suites and servers."""

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
    """Refusals of all suites, and what the suites that ran as a whole have left unused on a server.

    `exempt`: rights that no request takes.
    """
    verdict = Verdict()
    asked, lacking = _by_scene(lines)
    for requests in asked.values():
        verdict.forbidden += [(each.test, str(each)) for each in requests if each.refused]
    for share in whole:
        told = sorted(scene for scene in asked if scene.suite == share.suite)
        for scene in told or [Scene(share.suite, "no server")]:
            missed = _unused(share.rights - frozenset(exempt), asked.get(scene, []))
            absent = {right for right in missed if right.plural in lacking.get(scene, ())}
            verdict.unused += [(scene, right) for right in sorted(missed - absent)]
            verdict.unjudged += [(scene, right) for right in sorted(absent)]
            verdict.used += len(share.rights - frozenset(exempt)) - len(missed)
    return verdict


def _unused(rights: frozenset[Right], asked: Iterable[Asked]) -> set[Right]:
    places: dict[tuple[str, str], set[str]] = {}
    for right in (right for each in asked for right in each.rights()):
        places.setdefault(right[:2], set()).add(right.namespace)

    def is_used(right: Right) -> bool:
        found = places.get(right[:2])
        return found is not None and right.namespace in ("", *found)

    return {right for right in rights if not is_used(right)}


def _by_scene(lines: Iterable[Line]) -> tuple[dict[Scene, list[Asked]], dict[Scene, set[str]]]:
    asked: dict[Scene, list[Asked]] = {}
    lacking: dict[Scene, set[str]] = {}
    for line in lines:
        scene = Scene(line.suite, line.server)
        if isinstance(line, Lacking):
            lacking.setdefault(scene, set()).add(line.resource)
        else:
            asked.setdefault(scene, []).append(line)
    return asked, lacking
