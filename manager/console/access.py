"""What a user may see: every page and stream is reviewed by the API server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ctrlruntime.manager.authorization import Access, AccessReviews, Caller
from manager.console.changes import Topic
from manager.console.index import KindIndex

PROCESS: Final = Access(verb="get", path="/metrics")
"""What shows the process itself takes the right to read its metrics, which say the same."""


class Denied(Exception):
    """The user may see nothing of a page. The message names the right that is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a page shows: objects of kinds, in a namespace or all, perhaps one; the log of its run; or the process."""

    kinds: tuple[KindIndex, ...] = ()
    namespace: str = ""
    name: str = ""
    process: bool = False
    logs: bool = False

    @property
    def topic(self) -> Topic:
        """What changes of it are published as."""
        return Topic(
            kinds=frozenset(each.kind for each in self.kinds),
            namespace=self.namespace,
            name=self.name,
        )


@dataclass(frozen=True, slots=True)
class Sight:
    """What of a scope a user may see."""

    kinds: tuple[KindIndex, ...]
    hidden: tuple[str, ...] = ()
    """Plural names of the kinds that the user may not list here."""
    process: bool = False
    logs: bool = False
    """Whether logs of runs in the namespace may be shown: the right to get `pods/log`, wherever they are."""


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
    logs = scope.logs and await reviews.allowed(caller, logs_access(scope.namespace))
    return Sight(tuple(seen), tuple(hidden), process, logs)


def logs_access(namespace: str) -> Access:
    """Return the right that shows logs of runs in a namespace."""
    return Access(verb="get", resource="pods", subresource="log", namespace=namespace)


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
