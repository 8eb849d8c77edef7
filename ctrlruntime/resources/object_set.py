"""A set of objects of one owner: all that is desired is there, and nothing besides."""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Propagation
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.gate import Cause, Decision, Hold, Permit, Removal
from ctrlruntime.resources.control import Control
from ctrlruntime.resources.desired import Desired, ObjectKey
from ctrlruntime.resources.diff import Reason
from ctrlruntime.resources.ordinal import ordinal_of
from ctrlruntime.resources.outcome import Action, Outcome
from ctrlruntime.resources.ownership import Owner


async def _at_once() -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPolicy:
    """What `reconcile_set` does besides creating and updating what is desired."""

    delete: Callable[[Entry], bool] = lambda _entry: True
    """Whether an object that is no longer desired is deleted; the others are `kept`."""
    deletes_first: bool = False
    """Delete before anything is written, as for rights that are taken away."""
    only_when_complete: bool = False
    """Delete nothing while a desired object could not be written."""
    propagation: Propagation = "Background"
    """What becomes of what a deleted object owns."""
    cause: Cause = Cause.SPEC_CHANGED
    """Why what is no longer desired goes."""
    decide: Callable[[Sequence[Removal]], Awaitable[Decision]] | None = None
    """A gate with a budget, such as `partial(decide, gate, store=store, clock=clock)`: it decides on all that is to be
    deleted at once. None: the gate of the control, for each object."""
    pause: Callable[[], Awaitable[None]] = _at_once
    """Awaited before each object, so that a large set leaves the loop to others."""


DEFAULT: Final = SetPolicy()


@dataclass(slots=True)
class SetResult:
    """What became of each object of a set."""

    outcomes: dict[ObjectKey, Outcome] = field(default_factory=dict)
    """Of every desired object that did not fail."""
    conflicts: list[tuple[Desired, Outcome]] = field(default_factory=list)
    """Those not written, since another owner has the object or another manager a field."""
    errors: dict[ObjectKey, APIError | TransportError] = field(default_factory=dict)
    """What failed, deletions included; all else was done nevertheless."""
    deleted: list[Entry] = field(default_factory=list)
    kept: list[Entry] = field(default_factory=list)
    """The owner's, no longer desired, and left by the policy."""
    held: list[tuple[Entry, Hold]] = field(default_factory=list)
    """No longer desired, and left since the gate holds them: by their records they are the owner's."""

    @property
    def wrote(self) -> bool:
        """Whether anything was created, updated or deleted."""
        written = {Action.CREATED, Action.UPDATED}
        return bool(self.deleted) or any(each.action in written for each in self.outcomes.values())

    @property
    def is_complete(self) -> bool:
        """Whether every desired object that can be written is as desired."""
        return not self.errors and not self.conflicts

    def raise_first(self) -> None:
        """Raise the first of the errors, if there is one."""
        for error in self.errors.values():
            raise error


async def reconcile_set(
    control: Control,
    current: Iterable[Entry],
    desired: Iterable[Desired],
    owner: Owner,
    policy: SetPolicy = DEFAULT,
) -> SetResult:
    """Make `desired` all that the owner has of `current`, objects of any kinds that the cache has.

    Creates and updates go up by ordinal and key, deletions go down. An object of `current` that is not the
    owner's is never deleted, nor is one that is being deleted already, nor one without a permit of the gate. One that fails keeps no other from
    its turn: the client's errors are in the result. Objects that are as desired cost no request.
    """
    wanted = sorted(desired, key=lambda each: (each.ordinal, each.instance or 0, each.key))
    surplus = _surplus(control, current, {item.key for item in wanted}, owner)
    result = SetResult()
    if policy.deletes_first:
        await _delete(control, surplus, owner, policy, result)
    for item in wanted:
        await policy.pause()
        await _ensure(control, item, owner, result)
    if not policy.deletes_first and (result.is_complete or not policy.only_when_complete):
        await _delete(control, surplus, owner, policy, result)
    return result


def _surplus(
    control: Control, current: Iterable[Entry], wanted: set[ObjectKey], owner: Owner
) -> list[Entry]:
    found = [
        entry
        for entry in current
        if entry.deletion_timestamp is None
        and _key(entry) not in wanted
        and control.holds(entry, owner)
    ]
    return sorted(found, key=lambda entry: (ordinal_of(entry), _key(entry)), reverse=True)


async def _ensure(control: Control, item: Desired, owner: Owner, result: SetResult) -> None:
    unseen = control.look(item) is None
    try:
        outcome = await control.ensure(item, owner)
        if unseen and outcome.reason is Reason.TRACKING:
            # It was there without the labels that the cache selects by: only now all of it is compared.
            again = await control.ensure(item, owner)
            unchanged = again.action is Action.UNCHANGED
            outcome = replace(again, action=outcome.action) if unchanged else again
    except (APIError, TransportError) as error:
        result.errors[item.key] = error
        return
    result.outcomes[item.key] = outcome
    if outcome.action is Action.CONFLICT:
        result.conflicts.append((item, outcome))


async def _delete(
    control: Control, surplus: list[Entry], owner: Owner, policy: SetPolicy, result: SetResult
) -> None:
    chosen: list[Entry] = []
    for entry in surplus:
        (chosen if policy.delete(entry) else result.kept).append(entry)
    answers = await _answers(control, chosen, owner, policy)
    for entry in chosen:
        answer = answers[entry.uid]
        if isinstance(answer, Hold):
            result.held.append((entry, answer))
            continue
        await policy.pause()
        mapping = control.mapping_of(entry)
        try:
            if await control.delete(mapping, entry, owner, answer, propagation=policy.propagation):
                result.deleted.append(entry)
        except (APIError, TransportError) as error:
            result.errors[_key(entry)] = error


async def _answers(
    control: Control, chosen: list[Entry], owner: Owner, policy: SetPolicy
) -> dict[str, Permit | Hold]:
    """Return the gate's answer for each object, by UID. Only what the control's gate permits gets to `decide`."""
    answers = {entry.uid: control.permit(entry, owner, policy.cause) for entry in chosen}
    permitted = {uid: each for uid, each in answers.items() if isinstance(each, Permit)}
    if policy.decide is None or not permitted:
        return answers
    decision = await policy.decide([each.removal for each in permitted.values()])
    left = {
        uid: decision.hold or Hold.of([each.removal], "no permit was given")
        for uid, each in permitted.items()
    }
    return {**answers, **left, **{each.removal.uid: each for each in decision.permits}}


def _key(entry: Entry) -> ObjectKey:
    return ObjectKey(entry.gvk.group_kind, entry.name, namespace=entry.namespace)
