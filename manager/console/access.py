"""What a user may see: every page and stream is reviewed by the API server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from ctrlruntime.manager.authorization import Access, AccessReviews, Caller
from manager.console.changes import Topic
from manager.console.index import KindIndex

PROCESS: Final = Access(verb="get", path="/metrics")
"""What shows the process itself takes the right to read its metrics, which say the same."""


class Denied(Exception):
    """The user may see nothing of a page. The message names the right that is missing."""


LOGS: Final = "logs"
"""Name of the right to read logs of runs in a namespace."""
EVENTS: Final = "events"
"""Name of the right to read events there."""
PODS: Final = "pods"
CLAIMS: Final = "claims"
_PARTS: Final = {
    LOGS: ("", "pods", "log", "get"),
    EVENTS: ("events.k8s.io", "events", "", "list"),
    PODS: ("", "pods", "", "list"),
    CLAIMS: ("", "persistentvolumeclaims", "", "list"),
}
"""Group, plural, subresource and verb of the rights that parts of pages take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a page shows: objects of kinds, in a namespace or all, perhaps one, with parts of it; or the process."""

    kinds: tuple[KindIndex, ...] = ()
    related: tuple[KindIndex, ...] = ()
    """Kinds of objects beside the one of the page, in its namespace; without the right they are left out."""
    namespace: str = ""
    name: str = ""
    process: bool = False
    parts: tuple[str, ...] = ()
    """Parts that take a right of their own: LOGS, EVENTS, PODS, CLAIMS."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What of a scope a user may see."""

    kinds: tuple[KindIndex, ...]
    hidden: tuple[str, ...] = ()
    """Plural names of the kinds that the user may not list here."""
    process: bool = False
    related: tuple[KindIndex, ...] = ()
    parts: frozenset[str] = frozenset()
    """The parts that may be shown: of LOGS the right to get `pods/log`, wherever the logs are."""

    @property
    def logs(self) -> bool:
        """Whether logs of runs in the namespace may be shown."""
        return LOGS in self.parts

    def topics(self, scope: Scope) -> tuple[Topic, ...]:
        """Return what changes of it are published as."""
        own = frozenset(each.kind for each in self.kinds)
        beside = frozenset(each.kind for each in self.related)
        first = Topic(kinds=own, namespace=scope.namespace, name=scope.name)
        return (first, *([Topic(kinds=beside, namespace=scope.namespace)] if beside else []))


async def sight(reviews: AccessReviews, caller: Caller, scope: Scope) -> Sight:
    """Return what a user may see. Raises Denied if that is nothing, and what AccessReviews raises."""
    seen: list[KindIndex] = []
    hidden: list[str] = []
    for index in scope.kinds:
        if await reviews.allowed(caller, access_of(index, scope)):
            seen.append(index)
        else:
            hidden.append(index.mapping.plural)
    process = scope.process and await reviews.allowed(caller, PROCESS)
    if not seen and not process:
        raise Denied(_missing(caller, scope, hidden))
    beside = replace(scope, name="")
    related = [
        each for each in scope.related if await reviews.allowed(caller, access_of(each, beside))
    ]
    parts = [
        each
        for each in scope.parts
        if await reviews.allowed(caller, part_access(each, scope.namespace))
    ]
    hidden += [each.mapping.plural for each in scope.related if each not in related]
    return Sight(tuple(seen), tuple(hidden), process, tuple(related), frozenset(parts))


def part_access(part: str, namespace: str) -> Access:
    """Return the right that shows a part of a page in a namespace."""
    group, resource, subresource, verb = _PARTS[part]
    return Access(
        verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace
    )


def access_of(index: KindIndex, scope: Scope) -> Access:
    """Return the right that shows objects of a kind."""
    mapping = index.mapping
    return Access(
        verb="get" if scope.name else "list",
        group=mapping.gvk.group,
        resource=mapping.plural,
        namespace=scope.namespace if mapping.namespaced else "",
        name=scope.name,
    )


def _missing(caller: Caller, scope: Scope, hidden: Sequence[str]) -> str:
    if scope.process and not scope.kinds:
        return f"{caller.username} needs the right to get /metrics"
    place = f"in namespace {scope.namespace}" if scope.namespace else "in all namespaces"
    verb = f"get {scope.name} of" if scope.name else "list any of"
    return f"{caller.username} may not {verb} {', '.join(hidden) or 'the kinds served'} {place}"
