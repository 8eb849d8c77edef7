"""What this process saw happen lately: changes of state, and the events that it recorded. Bounded, in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from apis.health import Health
from manager.commands.summaries import Summary

MOST: Final = 1000
"""Changes of state, and events, that are kept, each."""
LONGEST: Final = 300
"""Characters of a text that is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A change of state, or an event."""

    at: str
    """When it was seen last, in RFC 3339."""
    kind: str
    namespace: str
    name: str
    what: str
    text: str
    health: Health
    is_event: bool = False
    count: int = 1


class Journal:
    """Keeps the latest; of equal ones only the last, with their number. `now`: the time in RFC 3339."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        self._changes: OrderedDict[tuple[str, ...], Happening] = OrderedDict()
        self._events: OrderedDict[tuple[str, ...], Happening] = OrderedDict()

    def changed(self, old: Summary, new: Summary) -> None:
        """Record what became of an object, if that is another state than before."""
        if old.state == new.state:
            return
        happening = Happening(
            at=self._now(),
            kind=new.kind,
            namespace=new.namespace,
            name=new.name,
            what=f"{old.state} → {new.state}",
            text=new.message[:LONGEST],
            health=new.health,
        )
        self._put(self._changes, happening)

    def recorded(self, regarding: Mapping[str, str], type_: str, reason: str, note: str) -> None:
        """Record an event."""
        happening = Happening(
            at=self._now(),
            kind=str(regarding.get("kind", "")),
            namespace=str(regarding.get("namespace", "")),
            name=str(regarding.get("name", "")),
            what=reason,
            text=note[:LONGEST],
            health=Health.FAILING if type_ == "Warning" else Health.GOOD,
            is_event=True,
        )
        self._put(self._events, happening)

    def all(self) -> Iterator[Happening]:
        """Yield all, in no order."""
        yield from self._changes.values()
        yield from self._events.values()

    def of(self, kind: str, namespace: str, name: str) -> Iterator[Happening]:
        """Yield those of one object."""
        wanted = (kind, namespace, name)
        return (each for each in self.all() if (each.kind, each.namespace, each.name) == wanted)

    def _put(self, kept: OrderedDict[tuple[str, ...], Happening], new: Happening) -> None:
        key = (new.kind, new.namespace, new.name, new.what, new.text)
        before = kept.pop(key, None)
        kept[key] = new if before is None else replace(new, count=before.count + 1)
        while len(kept) > MOST:
            kept.popitem(last=False)
