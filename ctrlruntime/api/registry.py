"""The typed kinds that a program knows: an instance that is passed around, never a global."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .builtin import BUILTIN
from .kinds import GroupVersionKind, RESTMapping
from .resource import KindRef, Resource

__all__ = ["KindRegistry"]

Kind = type[Resource[Any, Any]]


class KindRegistry:
    """Typed kinds by GVK, and the REST mappings that need no discovery."""

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._kinds: dict[GroupVersionKind, Kind] = {}
        for kind in kinds:
            self.register(kind)

    def register(self, kind: Kind) -> None:
        """Add a kind; adding the same class again does nothing.

        Raises TypeError if the class has no group and version, ValueError if another class stands
        for the same GVK.
        """
        gvk = kind.gvk()
        known = self._kinds.setdefault(gvk, kind)
        if known is not kind:
            raise ValueError(
                f"{gvk} is registered as {known.__module__}.{known.__qualname__} already, "
                f"not as {kind.__module__}.{kind.__qualname__}"
            )

    def by_gvk(self, gvk: GroupVersionKind) -> Kind | None:
        """The class for a GVK, or None for kinds that are handled as plain manifests."""
        return self._kinds.get(gvk)

    def kinds(self) -> tuple[Kind, ...]:
        """All registered classes, in the order of their GVKs."""
        return tuple(self._kinds[gvk] for gvk in sorted(self._kinds))

    def mapping(self, kind: KindRef) -> RESTMapping | None:
        """The REST mapping, if the kind is registered or built in, otherwise None."""
        if isinstance(kind, RESTMapping):
            return kind
        if not isinstance(kind, GroupVersionKind):
            return kind.mapping()
        known = self._kinds.get(kind)
        return known.mapping() if known else BUILTIN.get(kind)

    def parse(self, manifest: Mapping[str, Any]) -> Resource[Any, Any] | dict[str, Any]:
        """A manifest as its registered type or, where there is none, as a plain dict."""
        known = self._kinds.get(GroupVersionKind.of(manifest))
        return known.from_manifest(manifest) if known else dict(manifest)

    def __iter__(self) -> Iterator[Kind]:
        return iter(self.kinds())

    def __len__(self) -> int:
        return len(self._kinds)

    def __contains__(self, kind: object) -> bool:
        return kind in self._kinds or kind in self._kinds.values()
