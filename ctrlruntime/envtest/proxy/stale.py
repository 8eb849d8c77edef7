"""Recorded answers for stale reads. No I/O."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class AnswerKey(NamedTuple):
    """Answers to the same key stand for each other."""

    user: str
    target: str
    accept: str


class Answers:
    """Whole answers, head and body as they came over the wire."""

    def __init__(self, behind: int | None, *, keep: int = 64) -> None:
        self._behind = behind
        self._keep = max(keep, behind or 0)
        self._recorded: dict[AnswerKey, deque[bytes]] = {}

    def older(self, key: AnswerKey) -> bytes | None:
        """Return the recorded answer to give now: the first, or the one `behind` requests back."""
        answers = self._recorded.get(key)
        if not answers:
            return None
        if self._behind is None:
            return answers[0]
        return answers[-self._behind] if len(answers) >= self._behind else None

    def record(self, key: AnswerKey, answer: bytes) -> None:
        answers = self._recorded.setdefault(key, deque(maxlen=self._keep))
        if self._behind is not None or not answers:
            answers.append(answer)
