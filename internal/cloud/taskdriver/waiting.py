"""What a status says of waiting, and how rarely. Pure.

A queue moves with every run that ends; a status is written only when that tells something new.
"""

from datetime import datetime

from apis.cloud import Waiting, WaitingReason

TOLD = 0.2
"""Share by which a position has to change to be worth a write."""


def refreshed(before: Waiting | None, now_waiting: Waiting, now: datetime, least: float) -> Waiting:
    """What to write: what stands there, or the news if they are worth it and `least` seconds passed."""
    news = now_waiting.model_copy(update={"as_of": now})
    if before is None:
        return news
    if before.as_of is not None and (now - before.as_of).total_seconds() < least:
        return before
    moved = abs(news.position - before.position) >= max(1.0, TOLD * before.position)
    changed = (news.reason, news.limit) != (before.reason, before.limit)
    return news if moved or changed else before


def next_look(waiting: Waiting, now: datetime, least: float) -> float:
    """Seconds until the status is looked at again: as long as it has waited, at least `least`."""
    return max(least, (now - waiting.since).total_seconds())


def waiting_message(task: str, waiting: Waiting) -> str:
    """What is waited for, in a sentence that does not change with the position."""
    if waiting.reason is WaitingReason.INSTANCE_BUSY:
        return f"Waiting for {waiting.holder}, which works on the same instance."
    if waiting.reason is WaitingReason.RATE:
        return f"Waiting: at most {waiting.limit} of {task} may start in a minute."
    return f"Waiting for a place: at most {waiting.limit} of {task} may run at once."
