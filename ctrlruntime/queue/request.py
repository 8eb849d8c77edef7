"""The key of a reconcile: which object of which cluster."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from typing_extensions import TypeVar


class ObjectKey(str):
    """``namespace/name`` as the value of a log field, which is never redacted.

    Such a field may have the name of a kind, like ``Secret`` or ``Token``.
    """

    __slots__ = ()


RequestT = TypeVar("RequestT", bound=Hashable, default="Request")
"""The type of a controller's requests: any hashable one, by default :class:`Request`."""


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """Names one object. ``cluster`` is empty for the manager's own cluster."""

    namespace: str = field(default="", kw_only=True)
    """Empty for an object of a cluster-scoped kind."""
    name: str
    cluster: str = field(default="", kw_only=True)

    def log_key(self) -> ObjectKey:
        """Return the text of this request for a log field."""
        return ObjectKey(self)

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}:{key}" if self.cluster else key
