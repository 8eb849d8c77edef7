"""What the charts are of: the values of their lines at a moment. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from apis.health import Health
from ctrlruntime.cache.entry import Entry
from ctrlruntime.manager.queue_states import QueueState
from manager.console.history import Chart
from manager.console.index import KindIndex
from manager.console.rollout_view import ROLLOUTS, progress_of, rollout_key, waves_of

Sample = tuple[tuple[Chart, str], float]
MOST_PLACES: Final = 20
"""Namespaces of a kind with a chart of their own, those with most objects first."""
MOST_MEMBERS: Final = 8
"""Nodes of a set with a line."""
CHAINS: Final = "CosmosFullNode"


def of_all(
    indexes: Iterable[KindIndex], queues: Iterable[QueueState]
) -> dict[tuple[Chart, str], float]:
    """Return the values of all lines."""
    found: dict[tuple[Chart, str], float] = {}
    for index in indexes:
        found.update(_fleet(index))
        if index.kind in ROLLOUTS:
            found.update(sample for entry in index.entries() for sample in _rollout(entry))
        if index.kind == CHAINS:
            found.update(sample for entry in index.entries() for sample in _heights(entry))
    for queue in queues:
        found[("queue", queue.name), "items"] = (
            found.get((("queue", queue.name), "items"), 0.0)
            + queue.depth
            + queue.waiting
            + queue.processing
        )
    return found


def fleet_chart(kind: str, namespace: str) -> Chart:
    """Return the key of the chart of a kind in a namespace, or all."""
    return ("fleet", kind, namespace)


def rollout_chart(key: str) -> Chart:
    """Return the key of the chart of a rollout."""
    return ("rollout", key)


def heights_chart(namespace: str, name: str) -> Chart:
    """Return the key of the chart of a set of nodes."""
    return ("heights", namespace, name)


def _fleet(index: KindIndex) -> Iterator[Sample]:
    by_place: dict[str, Counter[Health]] = {}
    everywhere: Counter[Health] = Counter()
    for (place, _, _, _, health), count in index.counts.items():
        everywhere[health] += count
        by_place.setdefault(place, Counter())[health] += count
    largest = sorted(by_place, key=lambda place: (-by_place[place].total(), place))[:MOST_PLACES]
    counts = {"": everywhere, **{place: by_place[place] for place in largest if place}}
    for place, states in counts.items():
        if states:
            for health in Health:
                yield (fleet_chart(index.kind, place), health.value), float(states[health])


def _rollout(entry: Entry) -> Iterator[Sample]:
    progress = progress_of(entry)
    if progress is None:
        return
    chart = rollout_chart(rollout_key(entry))
    _, updated, total = progress
    yield (chart, "all"), float(total)
    yield (chart, "updated"), float(updated)
    for wave in waves_of(entry)[:MOST_MEMBERS]:
        yield (chart, f"wave {wave.get('name')}"), float(wave.get("updated") or 0)


def _heights(entry: Entry) -> Iterator[Sample]:
    heights = (entry.field("status") or {}).get("height") or {}
    for name in sorted(heights)[:MOST_MEMBERS]:
        yield (heights_chart(entry.namespace, entry.name), str(name)), float(heights[name])
