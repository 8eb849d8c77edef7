"""Which tests `make test` leaves to `make test TESTS=all`. No I/O but the plan's file, no pytest."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

PLAN = Path(__file__).parent / "plan.toml"


class Collected(NamedTuple):
    """A collected test. `on_server`: it runs on a real API server."""

    id: str
    on_server: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Tests that prove one thing many times over, or on a second server.

    `tests` are prefixes of test IDs; with `on_server` only those on a real API server. Every `one_in`-th
    test is in the sample, the first one included; with `each_file` the count starts again in each file.
    """

    name: str
    tests: tuple[str, ...]
    one_in: int
    on_server: bool = False
    each_file: bool = True

    def includes(self, test: Collected) -> bool:
        """Return whether a test belongs to this proof."""
        return test.id.startswith(self.tests) and (test.on_server or not self.on_server)


@dataclass(frozen=True, slots=True)
class Sample:
    """What a sample runs, and by the name of its proof how many tests it leaves out."""

    kept: frozenset[str]
    left_out: Mapping[str, int]
    totals: Mapping[str, int]


@cache
def proofs() -> tuple[Proof, ...]:
    """Return the plan, in the order of its file: a test belongs to the first proof that includes it."""
    entries = tomllib.loads(PLAN.read_text())["proof"]
    return tuple(Proof(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)


def sample(tests: Iterable[Collected], plan: Iterable[Proof]) -> Sample:
    """Choose from tests, which are in the order of collection."""
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
        if seen[place] % proof.one_in == 0:
            kept.add(test.id)
        else:
            left_out[proof.name] += 1
        seen[place] += 1
    return Sample(frozenset(kept), left_out, totals)


def report(left_out: Mapping[str, int], totals: Mapping[str, int]) -> list[str]:
    """Return the lines that say what a sample left out and how to run it."""
    commands = {proof.name: " ".join(proof.tests) for proof in proofs()}
    lines = [
        f"{count} of {totals[name]} tests left out: {name} ({commands.get(name, name)})"
        for name, count in left_out.items()
    ]
    lines.append(
        "also fewer examples: differential requests, rules over every kind (make faults: in full)"
    )
    lines.append("run everything: make test TESTS=all; one part: .venv/bin/pytest PATH")
    return lines
