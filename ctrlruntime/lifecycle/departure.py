"""How objects of the hub go, or stay, with an owner on a data plane: no garbage collector has it there."""

from collections.abc import Iterable

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import Cause, Hold, Permit
from ctrlruntime.resources import OWNER_UID, Control, Owner


async def delete_owned(
    control: Control, mapping: RESTMapping, entries: Iterable[Entry], owner: Owner
) -> int:
    """Delete the owner's objects of one kind, and return how many are left. Raises the client's errors.

    Those that the gate holds, such as copies with its annotations, are not counted.
    """
    answers = [(each, control.permit(each, owner, Cause.PARENT_DELETED)) for each in entries]
    owned = [(entry, permit) for entry, permit in answers if isinstance(permit, Permit)]
    for entry, permit in owned:
        if entry.deletion_timestamp is None:
            await control.delete(mapping, entry, owner, permit)
    return len(owned)


async def release_owned(
    control: Control, mapping: RESTMapping, entries: Iterable[Entry], owner: Owner
) -> None:
    """Take what records the owner's UID off its objects, so that they outlive it. Raises the client's errors.

    A released object can be adopted by an owner of that name.
    """
    for entry in entries:
        recorded = entry.annotations.get(OWNER_UID) == owner.uid
        if recorded or any(reference.uid == owner.uid for reference in entry.owners):
            permit = control.permit(entry, owner, Cause.ORPHANED)
            if isinstance(permit, Hold):
                continue
            await control.release(mapping, entry, owner, permit, labels={}, annotations={})
