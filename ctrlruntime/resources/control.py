"""A control brings desired objects about: it looks, decides and writes, after checking ownership."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Final, Self

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache, CachedClient
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.errors import UndeclaredKind
from ctrlruntime.cache.informer import Informer
from ctrlruntime.cache.versions import number, version
from ctrlruntime.client.client import Propagation
from ctrlruntime.client.errors import AlreadyExists, APIError, Conflict, NotFound
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.gate import STATE, Cause, Evidence, Gate, Hold, Permit, Removal, StateTable, Victim
from ctrlruntime.resources.contention import Contention
from ctrlruntime.resources.desired import Desired, Manifest, ObjectKey, reference_manifest
from ctrlruntime.resources.diff import (
    Diff,
    Reason,
    Settled,
    diff,
    difference,
    is_builder_change,
    settle,
)
from ctrlruntime.resources.object_writer import FieldDispute, ObjectWriter
from ctrlruntime.resources.outcome import BELONGS, Action, Outcome
from ctrlruntime.resources.ownership import (
    OWNER_UID,
    Owner,
    Ownership,
    OwnershipResult,
    check_ownership,
    is_handed_over,
    is_referenced,
)
from ctrlruntime.resources.revision import REVISION

ATTEMPTS: Final = 4
"""How often an object that changes meanwhile is read and written again."""


DEFAULT_GATE: Final = Gate()
"""Requires evidence of ownership, and nothing else."""
_PROBE: Final = "-probe"
_LONGEST_BEFORE_PROBE: Final = 50
"""Characters of a name that are kept, so that names of any kind stay valid."""


class UntrackedKind(ValueError):
    """No informer of a kind tracks the field manager of the control that writes it."""


class Control:
    """Writes desired objects for owners, reading only from the cache.

    One field manager per controller. Every kind it is used with has to be declared to the cache
    with `track_manager` set to that field manager, so that drift can be seen.
    """

    def __init__(
        self,
        cache: Cache | Cluster,
        *,
        field_manager: str,
        alive: Callable[[str], bool] = lambda _uid: False,
        remembered: int = 500_000,
        gate: Gate = DEFAULT_GATE,
        state: StateTable = STATE,
    ) -> None:
        """`cache`, or the Cluster whose cache it is: objects are written there, and events recorded of contended ones.

        `gate` decides on removals; the default requires evidence that the object is the owner's. `state`
        tells it which objects hold state.

        `alive(uid)` returns whether a known owner has that UID; `remembered` bounds the memory of
        what the server made of our own last writes (oldest forgotten first, at worst one extra
        write that changes nothing).
        """
        if gate.budget is not None:
            raise TypeError(
                "a gate with a budget stores its record: pass it as SetPolicy(decide=...)"
            )
        recorder = cache.recorder if isinstance(cache, Cluster) else None
        if isinstance(cache, Cluster):
            cache = cache.cache
        self._cache = cache
        self._contention = Contention(cache, field_manager, recorder)
        self._client: CachedClient = cache.client()
        self._field_manager = field_manager
        self._writer = ObjectWriter(cache, self._client, field_manager)
        cache.field_managers.add(field_manager)
        self._alive = alive
        self._gate = gate
        self._state = state
        self._settled: OrderedDict[ObjectKey, Settled] = OrderedDict()
        self._remembered = remembered

    def impersonating(self, user: str) -> Self:
        """Return the same control, memory included, whose writes are made as another user.

        Reads stay those of the cache: what exists is known whoever writes it.
        """
        other = copy.copy(self)
        other._client = self._client.impersonating(user)
        other._writer = self._writer.through(other._client)
        return other

    def recorded(self, owner: Owner) -> Owner:
        """Return the owner as this control records it on objects."""
        return owner

    def look(self, desired: Desired) -> Entry | None:
        """Return the object of that name as the cache has it."""
        return self._find(desired.mapping, desired.name, desired.namespace)

    def mapping_of(self, entry: Entry) -> RESTMapping:
        """Return the kind of an object as it was declared to the cache. Raises UndeclaredKind."""
        return self._cache.informer(entry.gvk, tracked=self._field_manager).mapping

    def exists(self, mapping: RESTMapping, entry: Entry) -> bool:
        """Whether exactly this object, by UID, still exists in the cache."""
        found = self._find(mapping, entry.name, entry.namespace)
        return found is not None and found.uid == entry.uid

    def _find(self, mapping: RESTMapping, name: str, namespace: str) -> Entry | None:
        """Return the entry in which this control's own fields are known."""
        return self._cache.entry(
            mapping, name, namespace=namespace or None, tracked=self._field_manager
        )

    def holds(self, entry: Entry, owner: Owner) -> bool:
        """Whether `entry` is the owner's, adoptable ones included."""
        return self.judge(entry, owner).standing is not Ownership.FOREIGN

    def judge(self, entry: Entry, owner: Owner) -> OwnershipResult:
        """Whose `entry` is; see :func:`ctrlruntime.resources.ownership.check_ownership`."""
        return check_ownership(entry, owner, alive=self._alive)

    def _judge(
        self, desired: Desired, entry: Entry, owner: Owner, *, wrote: bool
    ) -> OwnershipResult:
        known = self._settled.get(desired.key)
        same = known is not None and (known.owner, known.uid) == (owner.uid, entry.uid)
        return check_ownership(entry, owner, alive=self._alive, wrote=wrote, same=same)

    def compare(self, current: Iterable[Entry], desired: Iterable[Desired], owner: Owner) -> Diff:
        """Return what separates `current`, entries of any kinds, from `desired`; see :func:`diff`. No request is made."""
        found = {
            ObjectKey(each.gvk.group_kind, each.name, namespace=each.namespace): each
            for each in current
        }
        wanted = list(desired)
        made = diff(found, wanted, owner, alive=self._alive, settled=self._settled.get)
        told = {each.desired.key for each in (*made.updates, *made.held)}
        told |= {each.desired.key for each in made.conflicts}
        for item in wanted:
            entry = found.get(item.key)
            if entry is not None and entry.deletion_timestamp is None and item.key not in told:
                self._looked_at(item, entry, owner)
        return made

    def pending(
        self, desired: Desired, owner: Owner, *, wrote: bool = False, current: bool = False
    ) -> bool:
        """Whether `ensure` would write or report anything but `unchanged`. No request is made."""
        entry = self.look(desired)
        if entry is None or entry.deletion_timestamp is not None:
            return True
        verdict = self._judge(desired, entry, owner, wrote=wrote)
        if verdict.standing is Ownership.FOREIGN:
            return True
        return self._difference(desired, entry, owner, verdict, current=current) is not None

    async def ensure(
        self,
        desired: Desired,
        owner: Owner,
        *,
        wrote: bool = False,
        current: bool = False,
        over: str = "",
    ) -> Outcome:
        """Create or update one object, if it is not as desired.

        `wrote`: the caller has its own record of having written it (see `check_ownership`), `current`
        that what it wrote last was this very revision; `over`: the resourceVersion that the caller judged, which is
        updated and no newer one: Conflict is raised instead. Raises the client's errors other than
        conflicts; a conflict is an outcome. Raises UntrackedKind where drift cannot be seen, OwnerNotAllowed before any
        request for an owner reference to another namespace, and NamespaceProtected.
        """
        desired.check_reference(owner)
        self._check_namespace(desired.mapping, desired.name, desired.namespace)
        if self._cache.unconfirmed(
            desired.mapping, desired.name, namespace=desired.namespace or None
        ):
            await self._refresh(desired)
        done: Outcome | None = None
        for _ in range(ATTEMPTS - 1):
            entry = self.look(desired)
            try:
                outcome = await self._attempt(
                    desired, entry, owner, wrote=wrote, current=current, over=over
                )
            except (AlreadyExists, Conflict, NotFound):
                if over:
                    raise
                # Not what we saw: another object, or a newer version of it. Look, and judge again.
                await self._refresh(desired)
                found = self.look(desired)
                if found is None and entry is None:
                    unselected = await self.reclaim(desired, owner)
                    if unselected is None:
                        raise
                    return unselected
                if found is entry:
                    raise
                continue
            over = ""  # what follows is over our own write
            if done is not None and outcome.action is Action.UNCHANGED:
                return replace(done, entry=outcome.entry, superseded_by_watch=False)
            if not outcome.superseded_by_watch:
                return outcome
            done = outcome
        return await self._attempt(desired, self.look(desired), owner, wrote=wrote, current=current)

    async def reclaim(self, desired: Desired, owner: Owner) -> Outcome | None:
        """Put the labels back that the cache selects by, on an object of the owner that has lost them.

        Makes one live list, of that name. Returns None if there is no such object outside of the cache's
        selection. An object of another owner is a conflict, and is not written. What else differs is drift,
        found once the cache has the object again.
        """
        self._check_namespace(desired.mapping, desired.name, desired.namespace)
        entry = await self._unselected(desired)
        if entry is None:
            return None
        if entry.deletion_timestamp is not None:
            return Outcome(Action.TERMINATING, entry)
        verdict = self._judge(desired, entry, owner, wrote=False)
        if verdict.standing is Ownership.FOREIGN:
            return Outcome(Action.CONFLICT, entry, None, f"{BELONGS}{verdict.holder}")
        if is_handed_over(entry, owner):
            # With the record of its new owner: without its label it is gone for its former one, which goes then.
            return await self._update(desired, entry, owner, Reason.ADOPTION)
        labels = {**(desired.manifest["metadata"].get("labels") or {}), **desired.labels}
        selected = self._selecting_labels(desired.mapping)
        patch = {
            "metadata": {
                "uid": entry.uid,
                "resourceVersion": entry.resource_version,
                "labels": {key: labels[key] for key in selected if key in labels},
            }
        }
        await self._writer.merge(desired.mapping, desired.name, patch, namespace=desired.namespace)
        return Outcome(Action.UPDATED, entry, Reason.TRACKING)

    async def refuses_new(self, desired: Desired, owner: Owner) -> APIError | None:
        """Return why the server would not take the content as a new object; None: it would.

        Asked by a dry run under another name, so that an object which is there does not stand in the way.
        """
        body = desired.body(owner)
        name = f"{desired.name[:_LONGEST_BEFORE_PROBE].rstrip('-.')}{_PROBE}"
        body = {**body, "metadata": {**body["metadata"], "name": name}}
        try:
            await self._client.create(
                body, kind=desired.mapping, field_manager=self._field_manager, dry_run=True
            )
        except APIError as error:
            return error
        return None

    def removal(
        self, entry: Entry, owner: Owner, cause: Cause, *, wrote: bool = False, member: str = ""
    ) -> Removal:
        """Return what a gate decides on. `wrote`: the caller's own record names the object. No request is made.

        It is certain that an object is the owner's where it has the owner reference or an entry of this field
        manager: a copy that a person made has the annotations too.
        """
        verdict = self.judge(entry, owner)
        certain = wrote or is_referenced(entry, self.recorded(owner)) or self._wrote(entry)
        return Removal(
            victim=Victim(entry.gvk.group_kind, entry.namespace, entry.name),
            uid=entry.uid,
            holds_state=self._state.holds_state(entry),
            cause=cause,
            evidence=Evidence.CERTAIN if certain else Evidence.INFERRED,
            parent=self.recorded(owner).key,
            member=member,
            holder=verdict.holder if verdict.standing is Ownership.FOREIGN else "",
        )

    def permit(
        self, entry: Entry, owner: Owner, cause: Cause, *, wrote: bool = False
    ) -> Permit | Hold:
        """Return the answer of this control's gate on one object; see `removal`. No request is made."""
        return self._gate.removal(self.removal(entry, owner, cause, wrote=wrote))

    async def remove(
        self,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        cause: Cause,
        *,
        wrote: bool = False,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete an object if the gate permits it; see `removal` and `delete`. Returns False for one that it holds."""
        permit = self.permit(entry, owner, cause, wrote=wrote)
        if isinstance(permit, Hold):
            return False
        return await self.delete(mapping, entry, owner, permit, propagation=propagation)

    def _wrote(self, entry: Entry) -> bool:
        """Whether this exact object has an entry of this control's field manager."""
        if entry.owned is not None:
            return True
        try:
            found = self._cache.entry(
                entry.gvk,
                entry.name,
                namespace=entry.namespace or None,
                tracked=self._field_manager,
            )
        except UndeclaredKind:
            return False
        return found is not None and found.uid == entry.uid and found.owned is not None

    async def delete(
        self,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        permit: Permit,
        *,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete an own object. Returns False, and does nothing, for any other.

        Guarded by the object's UID, so a foreign object of the same name that took its place in
        the meantime is not touched. `propagation`: what becomes of what it owns. Raises ValueError
        for the permit of another object, and NamespaceProtected.
        """
        check_permit(permit, entry)
        if self.judge(entry, owner).standing is Ownership.FOREIGN:
            return False
        self._check_namespace(mapping, entry.name, entry.namespace)
        self._settled.pop(
            ObjectKey(mapping.gvk.group_kind, entry.name, namespace=entry.namespace), None
        )
        try:
            await self._client.delete(
                mapping,
                entry.name,
                namespace=entry.namespace or None,
                uid=permit.removal.uid,
                propagation=propagation,
            )
        except (NotFound, Conflict):
            return False
        return True

    async def release(
        self,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        permit: Permit,
        *,
        labels: dict[str, Any],
        annotations: dict[str, Any],
    ) -> bool:
        """Release an own object without deleting it.

        It takes a permit as a deletion does: the server deletes an object whose other owners are all gone.
        Our owner reference and the recorded UID are taken off; the owner's key stays, so that the
        same owner finds it again. `labels` and `annotations` are merged in (None removes).
        Returns False, and does nothing, for any other object. Raises ValueError for the permit of another, and
        NamespaceProtected.
        """
        check_permit(permit, entry)
        if self.judge(entry, owner).standing is Ownership.FOREIGN:
            return False
        self._check_namespace(mapping, entry.name, entry.namespace)
        kept = [reference_manifest(ref) for ref in entry.owners if ref.uid != owner.uid]
        patch = {
            "metadata": {
                "uid": entry.uid,
                "resourceVersion": entry.resource_version,
                "labels": labels,
                "annotations": {OWNER_UID: None, **annotations},
                "ownerReferences": kept or None,
            }
        }
        try:
            await self._writer.merge(mapping, entry.name, patch, namespace=entry.namespace)
        except NotFound:
            return False
        return True

    # -- writing ---------------------------------------------------------------------------

    def _check_namespace(self, mapping: RESTMapping, name: str, namespace: str) -> None:
        """Raise NamespaceProtected: whoever may write the owner there may not write all that it makes."""
        self._cache.protected.check(mapping.gvk.group_kind, name, namespace=namespace)

    async def _unselected(self, desired: Desired) -> Entry | None:
        """Return the object of that name if it has not the labels that the cache selects by."""
        if not self._selecting_labels(desired.mapping):
            return None
        informer = self._informer(desired.mapping)
        found = await self._cache.live_client.list(
            desired.mapping,
            desired.namespace or None,
            fields=f"metadata.name={desired.name}",
            metadata_only=informer.metadata_only,
        )
        decoder = EntryDecoder(
            desired.mapping.gvk,
            metadata_only=informer.metadata_only,
            track_manager=self._field_manager,
        )
        return next((decoder.decode_manifest(item) for item in found), None)

    def _selecting_labels(self, mapping: RESTMapping) -> frozenset[str]:
        """Return the keys of the labels that informers of this control select by; none if one has every object."""
        tracked = [
            each.selection.label_keys
            for each in self._cache.informers_of(mapping.gvk.group_kind)
            if each.gvk == mapping.gvk and each.track_manager == self._field_manager
        ] or [self._informer(mapping).selection.label_keys]
        return frozenset[str]().union(*tracked) if all(tracked) else frozenset()

    def _check_tracked(self, mapping: RESTMapping) -> None:
        """Raise UntrackedKind: where own fields are not kept, each reconcile finds drift and writes."""
        wanted = self._field_manager
        tracked = self._informer(mapping).track_manager
        if tracked == wanted:
            return
        declared = "without track_manager" if tracked is None else f"with track_manager={tracked!r}"
        raise UntrackedKind(
            f"{mapping.gvk} is declared {declared}, so that each reconcile would write its objects: "
            f"pass track_manager={wanted!r}, the field_manager of the Control, to owns(), watches() or declare()"
        )

    def _informer(self, mapping: RESTMapping) -> Informer:
        """Return the informer in which this control looks first."""
        return self._cache.informer(mapping, tracked=self._field_manager)

    async def _refresh(self, desired: Desired) -> Entry | None:
        return await self._cache.refresh(
            desired.mapping, desired.name, namespace=desired.namespace or None
        )

    async def _attempt(
        self,
        desired: Desired,
        entry: Entry | None,
        owner: Owner,
        *,
        wrote: bool,
        current: bool,
        over: str = "",
    ) -> Outcome:
        if entry is None:
            if over:
                raise Conflict(f"{desired.key} is gone since it was read")
            return await self._create(desired, owner)
        if entry.deletion_timestamp is not None:
            return Outcome(Action.TERMINATING, entry)
        verdict = self._judge(desired, entry, owner, wrote=wrote)
        if verdict.standing is Ownership.FOREIGN:
            if not desired.force or self._owned_elsewhere(entry, owner):
                return Outcome(Action.CONFLICT, entry, None, f"{BELONGS}{verdict.holder}")
            return await self._update(desired, entry, owner, Reason.ADOPTION, over)
        reason = self._difference(desired, entry, owner, verdict, current=current)
        if reason is None:
            return Outcome(Action.UNCHANGED, entry)
        if reason is Reason.DRIFT and entry.owned is None:
            self._check_tracked(desired.mapping)
        if reason is Reason.BUILDER:
            return Outcome(Action.HELD, entry, reason)
        return await self._update(desired, entry, owner, reason, over)

    def _difference(
        self,
        desired: Desired,
        entry: Entry,
        owner: Owner,
        verdict: OwnershipResult,
        *,
        current: bool,
    ) -> Reason | None:
        known = self._settled.get(desired.key)
        reason = difference(desired, entry, owner, verdict, known, current=current)
        if reason is None:
            self._looked_at(desired, entry, owner)
        return reason

    def _looked_at(self, desired: Desired, entry: Entry, owner: Owner) -> None:
        """`entry` is as desired: it is looked at in full only once."""
        known = self._settled.get(desired.key)
        if not desired.once and (known is None or known.owned != entry.owned):
            self._settle(desired.key, settle(desired, entry, owner))

    def _settle(self, key: ObjectKey, settled: Settled) -> None:
        self._settled[key] = settled
        self._settled.move_to_end(key)
        if len(self._settled) > self._remembered:
            self._settled.popitem(last=False)

    def _owned_elsewhere(self, entry: Entry, owner: Owner) -> bool:
        """Whether a living owner of this controller holds it: two owners must not fight, not even by force."""
        uid = entry.annotations.get(OWNER_UID)
        return uid is not None and uid != owner.uid and self._alive(uid)

    async def _create(self, desired: Desired, owner: Owner) -> Outcome:
        answer = await self._writer.create(desired, owner)
        return self._written(desired, owner, answer, Action.CREATED, None)

    async def _update(
        self, desired: Desired, entry: Entry, owner: Owner, reason: Reason, over: str = ""
    ) -> Outcome:
        if reason is Reason.ADOPTION and is_builder_change(desired, entry):
            # Ours again, and held back as before: what it was made from is left on record.
            desired = replace(desired, once=True, revision=entry.annotations[REVISION])
        known = self._settled.get(desired.key)
        again = reason is Reason.DRIFT or (known is not None and known.revision == desired.revision)
        counted = self._contention.correcting(desired, entry, owner) if again else nullcontext()
        try:
            async with counted:
                answer = await self._writer.update(desired, entry, owner, reason, over)
        except FieldDispute as error:
            return Outcome(Action.CONFLICT, entry, reason, str(error))
        if not desired.once:
            answer = await self._record_fields(desired, owner, answer)
        return self._written(desired, owner, answer, Action.UPDATED, reason)

    async def _record_fields(self, desired: Desired, owner: Owner, answer: Manifest) -> Manifest:
        return await self._writer.record_fields(desired, owner, answer, self.look(desired))

    def _written(
        self,
        desired: Desired,
        owner: Owner,
        answer: Manifest,
        action: Action,
        reason: Reason | None,
    ) -> Outcome:
        """Record the server's answer to our write, unless another client has written since."""
        entry = self.look(desired)
        answered = answer["metadata"]["resourceVersion"]
        if entry is not None and entry.resource_version == answered:
            self._settle(desired.key, settle(desired, entry, owner))
            return Outcome(action, entry, reason)
        self._settled.pop(desired.key, None)
        return Outcome(action, entry, reason, superseded_by_watch=version(entry) > number(answered))


def check_permit(permit: Permit, entry: Entry) -> None:
    """Raise ValueError if the permit is not for this object, by UID."""
    if permit.removal.uid != entry.uid:
        raise ValueError(f"{permit!r} is not for {entry!r}")
