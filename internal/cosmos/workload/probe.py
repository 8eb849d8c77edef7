"""Whether an instance works, as a rollout sees it: pluggable, and apart from what Kubernetes calls ready."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ctrlruntime.cache.entry import Entry


@dataclass(frozen=True, slots=True)
class Health:
    """What is known of one instance."""

    available: bool
    """It does its work: taking it down would be felt."""
    reachable: bool
    """It answers, even if it does not do its work yet."""
    detail: str = ""
    """Why it is not available, in words."""
    known: bool = True
    """False: it was not polled yet. Then it counts as down, and is left alone."""


Probe = Callable[[Entry], Health]
"""Returns the health of the instance of a Pod. It answers from memory: nothing may be waited for."""


def pod_readiness(entry: Entry) -> Health:
    """Return the health that Kubernetes reports: available if the Pod's condition Ready is True, reachable if it runs."""
    status = entry.field("status") or {}
    conditions = status.get("conditions") or ()
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    available = ready is not None and ready.get("status") == "True"
    return Health(available, status.get("phase") == "Running", "" if available else _why(ready))


def _why(ready: Mapping[str, Any] | None) -> str:
    said = "" if ready is None else ready.get("message") or ready.get("reason") or ""
    return said or "the Pod is not ready"
