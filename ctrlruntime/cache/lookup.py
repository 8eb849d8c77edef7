"""Which informers a read of a kind looks in, and in which order."""

from typing import Final, TypeAlias

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.api.resource import KindRef, gvk_of
from ctrlruntime.cache.errors import NotSynced, OutsideCache, UndeclaredKind
from ctrlruntime.cache.informer import Informer

REFERENCES: Final = 256
"""References to kinds whose informers are kept; beyond, all are looked up anew."""
Informers: TypeAlias = list[Informer]


class InformerLookup:
    """Informers by kind."""

    def __init__(self) -> None:
        self._by_kind: dict[GroupVersionKind, Informers] = {}
        self._by_reference: dict[int, tuple[KindRef, Informers]] = {}
        """What was found for a reference, by its identity: a hash of its kind costs ten times as much."""
        self._by_group_kind: dict[GroupKind, Informers] = {}

    def add(self, informer: Informer) -> None:
        """Add an informer; the one that watches everything comes first of its kind."""
        self._by_reference.clear()
        informers = self._by_kind.setdefault(informer.gvk, [])
        informers.append(informer)
        informers.sort(key=lambda each: not each.selection.is_everything)
        self._by_group_kind.setdefault(informer.gvk.group_kind, []).append(informer)

    def remove(self, informer: Informer) -> None:
        self._by_reference.clear()
        informers = self._by_kind[informer.gvk]
        informers.remove(informer)
        if not informers:
            del self._by_kind[informer.gvk]
        self._by_group_kind[informer.gvk.group_kind].remove(informer)

    def of(self, kind: KindRef) -> Informers:
        """Return the informers of a kind. Raises UndeclaredKind."""
        try:
            return self._by_reference[id(kind)][1]
        except KeyError:
            return self._looked_up(kind)

    def of_every_version(self, kind: GroupKind) -> Informers:
        """Return the informers of a kind in any version."""
        return self._by_group_kind.get(kind, [])

    def _looked_up(self, kind: KindRef) -> Informers:
        gvk = gvk_of(kind)
        informers = self._by_kind.get(gvk)
        if not informers:
            raise UndeclaredKind(gvk)
        if len(self._by_reference) >= REFERENCES:
            self._by_reference.clear()
        self._by_reference[id(kind)] = (kind, informers)  # which keeps it, and so its identity
        return informers


def shows(informer: Informer, namespace: str) -> bool:
    """Whether an informer that is the only one of its kind answers reads of a namespace ("" for all), by now."""
    if not informer.readable:
        return False
    watched = informer.selection.namespaces
    return (
        watched is None or not namespace or namespace in watched or not informer.mapping.namespaced
    )


def readable(
    informers: Informers,
    namespace: str | None,
    *,
    tracked: str | None = None,
    indexes: frozenset[str] = frozenset(),
) -> Informers:
    """Return those of a kind's informers to look in, in order: first those that the reader relies on.

    Raises NotSynced if one of these has no list yet; informers of other controllers do not delay it.
    """
    if len(informers) == 1 and shows(informers[0], namespace or ""):
        return informers
    if namespace is not None and informers[0].mapping.namespaced:
        covering = [informer for informer in informers if informer.covers(namespace)]
        if not covering:
            watched = sorted({n for i in informers for n in i.selection.namespaces or ()})
            raise OutsideCache(informers[0].gvk, namespace, watched)
        informers = covering
    relied_on = _relied_on(informers, tracked, indexes)
    for informer in relied_on:
        if not informer.readable and informer.missing_since is None:
            raise NotSynced(informer.gvk, informer.last_error)
    if len(relied_on) == len(informers):
        return informers
    metadata = tracked is None or all(each.metadata_only for each in relied_on)
    others = [
        each
        for each in informers
        if each not in relied_on and each.readable and (metadata or not each.metadata_only)
    ]
    return [*relied_on, *others]


def _relied_on(informers: Informers, tracked: str | None, indexes: frozenset[str]) -> Informers:
    """Return the informers of one kind that a reader relies on.

    Controllers that share a kind declare it with different selections, contents, indexes and field
    managers. A reader gets what it declared: of its field manager, with its indexes, or else whole objects.
    """
    if len(informers) == 1:
        return informers
    choices = (
        [each for each in informers if tracked and each.track_manager == tracked],
        [each for each in informers if indexes and indexes.issubset(each.store.indexes)],
        [each for each in informers if not each.metadata_only],
    )
    return next((chosen for chosen in choices if chosen), informers)
