"""What separates the objects that exist from those that are desired. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.desired import Desired, ObjectKey
from ctrlruntime.resources.drift import missing_leaves
from ctrlruntime.resources.ownership import OWNER_UID, Owner, Standing, Verdict, judge
from ctrlruntime.resources.revision import REVISION


class Reason(StrEnum):
    """Why an existing object has to be written."""

    REVISION = "revision"
    """The desired content is another one than the one last applied."""
    DRIFT = "drift"
    """Somebody changed or removed a field of ours."""
    TRACKING = "tracking"
    """The record of owner or policy on the object is not the desired one."""
    ADOPTION = "adoption"
    """Our key under a UID that no longer lives."""


@dataclass(frozen=True, slots=True)
class Update:
    """An object to write, and why."""

    desired: Desired
    entry: Entry
    reason: Reason


@dataclass(frozen=True, slots=True)
class Foreign:
    """A desired object whose name is taken by an object that is not ours."""

    desired: Desired
    entry: Entry
    holder: str


@dataclass(slots=True)
class Diff:
    """Disjoint, each in a stable order: creates and updates by ordinal and key, deletes reversed."""

    creates: list[Desired] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    deletes: list[Entry] = field(default_factory=list)
    conflicts: list[Foreign] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.creates or self.updates or self.deletes or self.conflicts)


def difference(
    desired: Desired, entry: Entry, owner: Owner, verdict: Verdict, settled: bytes | None = None
) -> Reason | None:
    """Why `entry`, which is not foreign, has to be written; None when it is as desired.

    `settled` is our managed-fields entry as the server left it after our own last write: with it
    nothing has changed since, even where the server dropped a field we sent.
    """
    if verdict.standing is Standing.ADOPTABLE:
        return Reason.ADOPTION
    if not _tracked(desired, entry, owner):
        return Reason.TRACKING
    if desired.once:
        return None
    if entry.annotations.get(REVISION) != desired.revision:
        return Reason.REVISION
    if settled is not None and entry.owned == settled:
        return None
    missing = missing_leaves(desired.body(owner), entry.owned)
    if any(not _ignored(path, desired.ignored) for path in missing):
        return Reason.DRIFT
    return None


def diff(
    current: Mapping[ObjectKey, Entry],
    desired: Iterable[Desired],
    owner: Owner,
    *,
    alive: Callable[[str], bool] = lambda _uid: False,
    settled: Callable[[ObjectKey], bytes | None] = lambda _key: None,
) -> Diff:
    """Compare `current` with `desired` for one owner.

    An object of `current` that is foreign is never among the deletes, and one that is already
    being deleted is neither updated nor deleted again.
    """
    wanted = {item.key: item for item in desired}
    result = Diff()
    for key, item in sorted(wanted.items(), key=lambda pair: (pair[1].ordinal, pair[0])):
        entry = current.get(key)
        if entry is None:
            result.creates.append(item)
            continue
        verdict = judge(entry, owner, alive=alive, wrote=settled(key) is not None)
        if verdict.standing is Standing.FOREIGN:
            result.conflicts.append(Foreign(item, entry, verdict.holder))
        elif entry.deletion_timestamp is None:
            reason = difference(item, entry, owner, verdict, settled(key))
            if reason is not None:
                result.updates.append(Update(item, entry, reason))
    for key in sorted(set(current) - set(wanted), reverse=True):
        entry = current[key]
        ours = judge(entry, owner, alive=alive).standing is not Standing.FOREIGN
        if ours and entry.deletion_timestamp is None:
            result.deletes.append(entry)
    return result


def _tracked(desired: Desired, entry: Entry, owner: Owner) -> bool:
    annotations = {OWNER_UID: owner.uid, **desired.annotations}
    if any(entry.annotations.get(name) != value for name, value in annotations.items()):
        return False
    if any(entry.labels.get(name) != value for name, value in desired.labels.items()):
        return False
    return any(ref.uid == owner.uid for ref in entry.owners) == desired.reference


def _ignored(path: str, ignored: tuple[str, ...]) -> bool:
    return any(
        path == prefix or path.startswith((f"{prefix}.", f"{prefix}[")) for prefix in ignored
    )
