"""What separates the objects that exist from those that are desired. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ctrlruntime.cache.entry import Entry
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.resources.applied_fields import FIELDS, owns_record
from ctrlruntime.resources.builder_changes import INPUTS
from ctrlruntime.resources.desired import INHERITED, Desired, ObjectKey, PatchStrategy
from ctrlruntime.resources.drift import missing_locations, not_ignored
from ctrlruntime.resources.ordinal import ordinal_of
from ctrlruntime.resources.ownership import (
    OWNER,
    OWNER_UID,
    Owner,
    Ownership,
    OwnershipResult,
    check_ownership,
    is_controlled,
)
from ctrlruntime.resources.revision import REVISION


class Reason(StrEnum):
    """Why an existing object has to be written."""

    REVISION = "revision"
    """The desired content is another one than the one last applied."""
    DRIFT = "drift"
    """Another manager changed or removed an own field."""
    TRACKING = "tracking"
    """The record of owner or policy on the object is not the desired one."""
    ADOPTION = "adoption"
    """Our key under a UID that no longer lives."""
    BUILDER = "builder"
    """Another revision of the same inputs: only the builder is a new one. Held back."""


@fast_dataclass(frozen=True, slots=True)
class Settled:
    """What is remembered of our own last write to an object, and what the server made of it."""

    owner: str
    """The UID of the owner it was written for."""
    uid: str
    """The object's own."""
    revision: str
    owned: bytes | None
    """Our entry in its managed fields."""
    version: str = ""
    """Its resourceVersion, kept where `owned` cannot show whether another client wrote since."""


@dataclass(frozen=True, slots=True)
class Update:
    """An object to write, and why."""

    desired: Desired
    entry: Entry
    reason: Reason


@dataclass(frozen=True, slots=True)
class Foreign:
    """A desired object whose name is taken by an object of another owner."""

    desired: Desired
    entry: Entry
    holder: str


@dataclass(slots=True)
class Diff:
    """Disjoint, each in a stable order: by ordinal, instance and key; deletes go down from the highest instance."""

    creates: list[Desired] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    deletes: list[Entry] = field(default_factory=list)
    conflicts: list[Foreign] = field(default_factory=list)
    held: list[Update] = field(default_factory=list)
    """Left as they are: only a new builder would make them in another way."""

    def __bool__(self) -> bool:
        """Whether there is anything to do or to report; what is held back is neither."""
        return bool(self.creates or self.updates or self.deletes or self.conflicts)


def difference(
    desired: Desired,
    entry: Entry,
    owner: Owner,
    verdict: OwnershipResult,
    settled: Settled | None = None,
    *,
    current: bool = False,
) -> Reason | None:
    """Why `entry`, which is not foreign, has to be written; None when it is as desired.

    `settled`: with it nothing has changed since our own last write, even where the server dropped a
    field we sent. `current` is the caller's own record that this very revision was in place.
    """
    if verdict.standing is Ownership.ADOPTABLE:
        return Reason.ADOPTION
    if desired.once:
        tracked = _tracked(desired, entry, owner) and _keeps_revision(entry)
        return None if tracked else Reason.TRACKING
    if entry.annotations.get(REVISION) != desired.revision:
        was_current = current or (settled is not None and settled.revision == desired.revision)
        if was_current and not _owns_revision(entry):
            return Reason.DRIFT
        return Reason.BUILDER if is_builder_change(desired, entry) else Reason.REVISION
    if not _tracked(desired, entry, owner):
        return Reason.TRACKING
    if settled is not None and _is_untouched(entry, settled):
        return None
    before = None if settled is None or settled.uid != entry.uid else settled.owned
    if desired.records_fields and _lost_record(entry, before):
        return Reason.DRIFT
    return None if is_recorded(desired, entry, owner, before) else Reason.DRIFT


def is_builder_change(desired: Desired, entry: Entry) -> bool:
    """Whether only the builder makes `desired` differ from `entry`, and no roll-out of its changes is requested."""
    if not desired.inputs or desired.roll_on_builder_change or REVISION not in entry.annotations:
        return False
    same = entry.annotations.get(INPUTS) == desired.inputs
    return same and entry.annotations[REVISION] != desired.revision


def is_recorded(desired: Desired, entry: Entry, owner: Owner, before: bytes | None = None) -> bool:
    """Whether managed fields show every field of the desired object as owned by us; see `missing_leaves`."""
    missing = missing_locations(desired.body(owner), entry.owned, before)
    return not missing or next(not_ignored(missing, desired.ignored), None) is None


def settle(desired: Desired, entry: Entry, owner: Owner) -> Settled:
    """Return what to remember of `entry`, which is as our own last write left it.

    An apply owns all it sent, but for what the server dropped: its entry shows every later change.
    A merge or an update owns only what it changed, and nothing at all where managed fields were
    wiped: then any later write may have changed own fields.
    """
    version = ""
    if desired.strategy is not PatchStrategy.APPLY and not desired.once:
        version = "" if is_recorded(desired, entry, owner) else entry.resource_version
    return Settled(owner.uid, entry.uid, desired.revision, entry.owned, version)


def _is_untouched(entry: Entry, settled: Settled) -> bool:
    if settled.uid != entry.uid:
        return False
    if settled.version:
        return entry.resource_version == settled.version
    return entry.owned is not None and entry.owned == settled.owned


def _lost_record(entry: Entry, before: bytes | None) -> bool:
    """Whether another manager changed or removed the record of fields; not for an object that has none yet."""
    return not owns_record(entry.owned) and (FIELDS in entry.annotations or owns_record(before))


def _keeps_revision(entry: Entry) -> bool:
    """Whether the revision that we recorded is still there; where nothing is tracked, any one is."""
    return REVISION in entry.annotations and (not entry.owned or _owns_revision(entry))


def _owns_revision(entry: Entry) -> bool:
    """Whether the recorded revision was written by this manager, not by another one."""
    return entry.owned is not None and f'"f:{REVISION}"'.encode() in entry.owned


def diff(
    current: Mapping[ObjectKey, Entry],
    desired: Iterable[Desired],
    owner: Owner,
    *,
    alive: Callable[[str], bool] = lambda _uid: False,
    settled: Callable[[ObjectKey], Settled | None] = lambda _key: None,
) -> Diff:
    """Compare `current` with `desired` for one owner.

    An object of `current` that is foreign is never among the deletes, and one that is already
    being deleted is neither updated nor deleted again.
    """
    wanted = {item.key: item for item in desired}
    result = Diff()
    for key, item in sorted(wanted.items(), key=_upwards):
        entry = current.get(key)
        if entry is None:
            result.creates.append(item)
            continue
        known = settled(key)
        same = known is not None and (known.owner, known.uid) == (owner.uid, entry.uid)
        verdict = check_ownership(entry, owner, alive=alive, same=same)
        if verdict.standing is Ownership.FOREIGN:
            result.conflicts.append(Foreign(item, entry, verdict.holder))
        elif entry.deletion_timestamp is None:
            reason = difference(item, entry, owner, verdict, known)
            if reason is not None:
                place = result.held if reason is Reason.BUILDER else result.updates
                place.append(Update(item, entry, reason))
    surplus = set(current) - set(wanted)
    for key in sorted(surplus, key=lambda key: (ordinal_of(current[key]), key), reverse=True):
        entry = current[key]
        ours = check_ownership(entry, owner, alive=alive).standing is not Ownership.FOREIGN
        if ours and entry.deletion_timestamp is None:
            result.deletes.append(entry)
    return result


def _upwards(pair: tuple[ObjectKey, Desired]) -> tuple[int, int, ObjectKey]:
    key, item = pair
    return item.ordinal, item.instance or 0, key


def _tracked(desired: Desired, entry: Entry, owner: Owner) -> bool:
    annotations = {OWNER: owner.key, OWNER_UID: owner.uid, **desired.records}
    if not _includes(entry.annotations, annotations):
        return False
    if not _includes(entry.labels, {**desired.inherited, **desired.labels}):
        return False
    if entry.annotations.get(INHERITED, "") != desired.inherited_names:
        return False
    if desired.reference:
        return is_controlled(entry, owner)
    return all(ref.uid != owner.uid for ref in entry.owners)


def _includes(values: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Return a loop, no generator: it runs for every object that is looked at."""
    for name, value in wanted.items():  # noqa: SIM110 - see above
        if values.get(name) != value:
            return False
    return True
