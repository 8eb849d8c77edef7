"""Which tests `make test` and `make test TESTS=ci` leave to `make test TESTS=all`. No I/O but the plan's files, no pytest."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Literal, NamedTuple

from tests.samples.commit import FIFTHS, Commit

PLAN = Path(__file__).parent / "plan.toml"
REAL_SERVER = Path(__file__).parent / "real_server.toml"


class Collected(NamedTuple):
    """A collected test. `on_server`: it runs on a real API server."""

    id: str
    on_server: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Tests that prove one thing many times over, or on a second server.

    `tests` are prefixes of test IDs; with `on_server` only those on a real API server. Every `one_in`-th test
    is in the sample, the first one included (0: none); with `each_file` the count starts again in each file. `ci`: what
    TESTS=ci runs of it, a `fifth` in rotation, `all`, or with `chosen` the scenarios of real_server.toml, which
    the sample is taken of as well. Every `ci_one_in`-th runs there too (0: none). With `of_systems` it runs besides those whose ID names a system that
    changed. It runs all where the path of a file that changed begins like one of `changed`.
    """

    name: str
    tests: tuple[str, ...]
    one_in: int
    on_server: bool = False
    each_file: bool = True
    ci: Literal["fifth", "all", "chosen"] = "fifth"
    ci_one_in: int = 0
    of_systems: bool = False
    changed: tuple[str, ...] = ()

    def includes(self, test: Collected) -> bool:
        """Return whether a test belongs to this proof."""
        return test.id.startswith(self.tests) and (test.on_server or not self.on_server)


class Scenario(NamedTuple):
    """A scenario of a system that could differ on a real API server. `test`: a prefix of its ID."""

    test: str
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What a run takes of the proofs: the sample alone, or in CI more. `commit`: what CI goes by."""

    commit: Commit = field(default_factory=Commit)
    ci: bool = False
    chosen: tuple[str, ...] = ()
    """Prefixes of the scenarios of real_server.toml."""
    wanted: frozenset[str] = frozenset()
    """Tests that run whatever the plan says."""

    def takes(self, proof: Proof, test: Collected, place: int) -> bool:
        """Return whether a test runs, the `place`-th of its proof."""
        if test.id in self.wanted:
            return True
        if proof.ci == "chosen" and not test.id.startswith(self.chosen):
            return self.ci and test.id.partition("::")[0] in self.commit.changed
        if proof.one_in and place % proof.one_in == 0:
            return True
        if not self.ci:
            return False
        if proof.ci_one_in and place % proof.ci_one_in == 0:
            return True
        if proof.ci != "fifth" or test.id.partition("::")[0] in self.commit.changed:
            return True
        if any(path.startswith(proof.changed) for path in self.commit.changed):
            return True
        if proof.of_systems and any(system in test.id for system in self.commit.systems):
            return True
        return fifth_of(test.id) == self.commit.fifth


@dataclass(frozen=True, slots=True)
class Selection:
    """What a run takes, and by the name of its proof how many tests it leaves out."""

    kept: frozenset[str]
    left_out: Mapping[str, int]
    totals: Mapping[str, int]


@cache
def proofs() -> tuple[Proof, ...]:
    """Return the plan, in the order of its file: a test belongs to the first proof that includes it."""
    entries = tomllib.loads(PLAN.read_text())["proof"]
    lists = ("tests", "changed")
    return tuple(
        Proof(**{**entry, **{name: tuple(entry.get(name, ())) for name in lists}})
        for entry in entries
    )


@cache
def scenarios() -> tuple[Scenario, ...]:
    """Return the scenarios of the systems that run on a real API server in every run of CI."""
    return tuple(Scenario(**entry) for entry in tomllib.loads(REAL_SERVER.read_text())["scenario"])


def fifth_of(test: str) -> int:
    """Return in which fifth a test is, the same on every machine."""
    return int.from_bytes(blake2b(test.encode(), digest_size=4).digest()) % FIFTHS


def select(tests: Iterable[Collected], plan: Iterable[Proof], choice: Choice) -> Selection:
    """Choose from tests, which are in the order of collection. What is in no proof always runs."""
    plan = tuple(plan)
    kept: set[str] = set()
    seen: Counter[tuple[str, str]] = Counter()
    left_out: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    for test in tests:
        proof = next((each for each in plan if each.includes(test)), None)
        if proof is None:
            kept.add(test.id)
            continue
        place = proof.name, test.id.partition("::")[0] if proof.each_file else ""
        totals[proof.name] += 1
        if choice.takes(proof, test, seen[place]):
            kept.add(test.id)
        else:
            left_out[proof.name] += 1
        if proof.ci != "chosen" or test.id.startswith(choice.chosen):
            seen[place] += 1
    return Selection(frozenset(kept), left_out, totals)


def report(left_out: Mapping[str, int], totals: Mapping[str, int], choice: Choice) -> list[str]:
    """Return the lines that say what a run left out and how to run it."""
    commands = {proof.name: " ".join(proof.tests) for proof in proofs()}
    lines = [
        f"{count} of {totals[name]} tests left out: {name} ({commands.get(name, name)})"
        for name, count in left_out.items()
    ]
    lines.append("also fewer examples of differential requests and rules (make faults: in full)")
    since = choice.commit.since or "unknown: a shallow clone?"
    if choice.ci:
        of = f"commit {choice.commit.id[:12]}" if choice.commit.id else "no repository"
        lines.append(f"fifth {choice.commit.fifth} of 0 to 4, by {of}; what changed since {since}")
    else:
        lines.append(f"not left out: seeded defects of files that changed since {since}")
    lines.append("run everything: make test TESTS=all; one part: .venv/bin/pytest PATH")
    return lines
