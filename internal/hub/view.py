"""The hub as the controllers of a data plane see it, whose objects are there."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from apis.hub_condition import ClusterTrouble
from ctrlruntime.cache.informer import Informer
from ctrlruntime.client.errors import APIError

UNREADABLE: Final = "KindUnreadable"
"""Reason: the hub answers, and does not let a kind be listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubView:
    """Whether objects of the hub are known, and what its errors mean."""

    explain: Callable[[Exception, str], ClusterTrouble | None]
    """Return what is wrong with the hub, from an error of a write in a namespace; None: the object is."""
    unreachable: Callable[[], ClusterTrouble | None]
    """Return that it has not answered for a while; None: it answers."""
    informers: Callable[[], Iterable[Informer]]
    """Those of what is read there."""

    def is_usable(self) -> bool:
        """Whether it answers, and all that is read there has been read: nothing may be decided before."""
        return self.unreachable() is None and self.is_read()

    def is_read(self) -> bool:
        """Whether all that is read there has been read once; that stays known while it does not answer."""
        return not self._unread()

    def trouble(self) -> ClusterTrouble | None:
        """Return why it cannot be used; None where it can, or where that is not known yet."""
        found = self.unreachable()
        if found is not None:
            return found
        for informer in self._unread():
            if isinstance(informer.last_error, APIError):
                return ClusterTrouble(
                    UNREADABLE, f"The hub's {informer.gvk} cannot be read: {informer.last_error}"
                )
        return None

    def _unread(self) -> list[Informer]:
        return [
            each for each in self.informers() if each.missing_since is None and not each.readable
        ]
