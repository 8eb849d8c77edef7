"""Tenants that wait for an object of another's to go: woken when anything happens to it."""

from collections.abc import Iterable

from ctrlruntime.api.kinds import GroupKind, RESTMapping
from ctrlruntime.queue import Request

Place = tuple[GroupKind, str, str]


class Claims:
    """Which requests wait for which objects. Kept in memory: every conflict is found anew."""

    def __init__(self) -> None:
        self._by_place: dict[Place, set[Request]] = {}
        self._by_request: dict[Request, frozenset[Place]] = {}

    def set(self, request: Request, conflicts: Iterable[tuple[RESTMapping, str, str]]) -> None:
        """Say what `request` waits for from now on; nothing, if `conflicts` is empty."""
        places = frozenset((m.gvk.group_kind, namespace, name) for m, namespace, name in conflicts)
        for place in self._by_request.pop(request, frozenset()) - places:
            waiting = self._by_place[place]
            waiting.discard(request)
            if not waiting:
                del self._by_place[place]
        for place in places:
            self._by_place.setdefault(place, set()).add(request)
        if places:
            self._by_request[request] = places

    def of(self, kind: GroupKind, namespace: str, name: str) -> frozenset[Request]:
        """Return the requests that wait for one object."""
        return frozenset(self._by_place.get((kind, namespace, name), ()))
