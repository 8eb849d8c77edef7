"""The Pods of a set as the cache of nodes sees them. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache import Entry, Event, UpdateEvent
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.comet.address import Address, address_of
from internal.cosmos.labels import is_beside_node

MIN_READY = timedelta(seconds=5)
"""How long a Pod has to be ready before its node counts as one that stays."""
TERMINATING = "Its Pod is being deleted."
"""What is said of a node that is about to end, whatever it answers."""
WITHOUT_ADDRESS = "Its Pod has no address: it has not begun to run, or has ended."
"""The state of a node that cannot be polled."""


@dataclass(frozen=True, slots=True)
class Target:
    """One node to ask."""

    uid: str
    """UID of its Pod."""
    pod: str
    """Name of its Pod."""
    address: Address
    folder: str = ""
    """The folder whose disk is asked about; empty: the disk is not asked about."""
    chain_id: str = ""
    """The chain whose node is expected to answer; empty: any."""


def is_main(entry: Entry) -> bool:
    """Whether it is the Pod of a node, and not one beside it."""
    return not is_beside_node(entry.labels)


def is_terminating(entry: Entry) -> bool:
    """Whether it is on its way out."""
    return entry.deletion_timestamp is not None


def by_ordinal(entry: Entry) -> tuple[int, str]:
    """Sort key."""
    return ordinal_of(entry), entry.name


def target_of(entry: Entry, folder: str = "", chain_id: str = "") -> Target | None:
    """Whom to ask; None for a Pod without an address, one on its way out and one that has ended."""
    if is_terminating(entry):
        return None
    status = entry.field("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    address = address_of(entry.field("spec") or {}, status)
    return Target(entry.uid, entry.name, address, folder, chain_id) if address.host else None


def is_settled(entry: Entry, now: datetime) -> bool:
    """Whether the Pod has been ready for the minimum time."""
    conditions = (entry.field("status") or {}).get("conditions") or ()
    for condition in conditions:
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            since = time_or_none(condition.get("lastTransitionTime"))
            return since is not None and now - since >= MIN_READY
    return False


def matters(event: Event) -> bool:
    """Predicate: a Pod came, went, changed its owner, is on its way out, or can be reached in another way."""
    if not isinstance(event, UpdateEvent):
        return True
    return _reported(event.old) != _reported(event.new)


def _reported(entry: Entry) -> tuple[object, ...]:
    place = target_of(entry), ordinal_of(entry), is_main(entry)
    return entry.uid, entry.owners, is_terminating(entry), *place
