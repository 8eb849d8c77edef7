"""In which order the subresources of an instance go. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ctrlruntime.cache.entry import Entry
from internal.cloud.instance.order import kind_of
from internal.cloud.subresource import Subresource


def next_to_go(
    subresources: Sequence[Subresource[Any]], present: Mapping[str, Sequence[Entry]]
) -> tuple[Subresource[Any], Sequence[Entry]] | None:
    """Return the last kind that is still there, with its objects; None once nothing is left.

    Each kind is fully gone before the one before it is touched: alerts and invariants go before
    the workload, the workload before what it runs on.
    """
    for subresource in reversed(subresources):
        entries = present.get(kind_of(subresource), ())
        if entries:
            return subresource, entries
    return None


def is_protected(entry: Entry) -> bool:
    """Whether an instance is protected from deletion: by default it is.

    Read from the object as it stands, which may not be readable as its kind.
    """
    debug = (entry.field("spec") or {}).get("debug") or {}
    return debug.get("enableDeletionProtection") is not False


PROTECTED = (
    "Deletion is held back, since spec.debug.enableDeletionProtection is on: set it to false to tear "
    "everything down. Nothing of the instance was touched."
)


def progress(kind: str, said: str) -> str:
    """One sentence on a teardown under way."""
    told = f": {said.rstrip('.')}" if said else ""
    return f"{kind} is being torn down, and what it runs on after it{told}."
