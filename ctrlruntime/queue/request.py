"""The key of a reconcile: which object of which cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """Names one object. ``cluster`` is empty for the manager's own cluster."""

    namespace: str
    name: str
    cluster: str = ""

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}:{key}" if self.cluster else key
