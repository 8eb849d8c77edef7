"""What was asked and what came of it, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.differential.custom import SCHEMAS
from tests.differential.features import touched
from tests.differential.requests import Step


@dataclass(slots=True)
class Histogram:
    """Counts of requests that both servers answered alike."""

    verbs: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    managers: Counter[str] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    fields: Counter[str] = field(default_factory=Counter)
    """What of their schemas applies of custom kinds set, once for each request."""
    total: int = 0
    rejections: int = 0

    def note(self, kind: str, step: Step, code: int, reason: str) -> None:
        self.total += 1
        self.verbs[step.verb] += 1
        self.kinds[kind] += 1
        self.codes[str(code)] += 1
        if step.verb == "apply":
            self.managers[step.manager] += 1
            if kind in SCHEMAS:
                self.fields.update(set(touched(step.body, SCHEMAS[kind])))
        if code >= 400:
            self.reasons[reason or "(none)"] += 1
        if code >= 400 and code not in (404, 409):
            self.rejections += 1

    @property
    def conflicts(self) -> int:
        """Writes that lost against another; creating what exists is none."""
        return self.reasons["Conflict"]

    def share(self, count: int) -> float:
        return count / max(1, self.total)

    def __str__(self) -> str:
        head = (
            f"{self.total} requests: {self.share(self.verbs['apply']):.0%} applies, "
            f"{self.share(self.conflicts):.0%} conflicts, {self.share(self.rejections):.0%} rejections"
        )
        rows = (
            ("verbs", self.verbs),
            ("kinds", self.kinds),
            ("appliers", self.managers),
            ("codes", self.codes),
            ("reasons", self.reasons),
            ("applied fields", self.fields),
        )
        lines = [head]
        for title, counts in rows:
            told = ", ".join(f"{key} {count}" for key, count in counts.most_common())
            lines.append(f"  {title}: {told}")
        return "\n".join(lines)
