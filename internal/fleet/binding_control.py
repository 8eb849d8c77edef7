"""Binds the rights of stacks on the hub, and takes them away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden, NotFound
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.resources import Action, Control, Desired, ObjectKey, Outcome, Owner
from internal.fleet.inventory import delete_inventory, read_inventory
from internal.fleet.stack_bindings import BINDINGS, binding_names, build_bindings
from internal.fleet.targets import conflict_error, left_message

BY_STACK = "stack"
"""Index of bindings by their target namespace, and of namespaces by those that they are parallel to."""


@dataclass(frozen=True, slots=True)
class BindingControl:
    """The bindings of stacks in the cache of the hub and on its server."""

    cache: Cache
    live_client: Client
    control: Control
    parallel_of: Callable[[str], Iterable[Entry]]
    """Returns the namespaces that are labelled as parallel ones of a target namespace."""
    pace: LoopYielder
    restrict_secrets: bool = False
    """Let stacks read Secrets in their parallel namespaces and their own alone."""

    async def ensure(self, target: str, owner: Owner) -> bool:
        """Bind what is missing, and delete what is bound in namespaces that lost the label.

        Return whether anything was written. Raises TargetError for conflicts, and the client's errors.
        """
        places = sorted(each.name for each in self.parallel_of(target) if is_staying(each))
        desired = build_bindings(target, places, restrict_secrets=self.restrict_secrets)
        wrote = await self._delete_others(target, owner, desired)
        conflicts: list[str] = []
        for item in desired:
            await self.pace.maybe_yield()
            outcome = await self._ensure(item, owner)
            if outcome.action is Action.CONFLICT:
                conflicts.append(left_message(item, outcome.conflict, item.namespace))
            wrote |= outcome.action in {Action.CREATED, Action.UPDATED}
        if conflicts:
            raise conflict_error(conflicts)
        return wrote

    async def delete_known(self, target: str, owner: Owner) -> None:
        """Delete the bindings of a namespace that has no stack, if the cache has any."""
        await self._delete_others(target, owner, [])

    async def delete_all(self, target: str, owner: Owner) -> int:
        """Delete the bindings that the server has, labelled or not. Return how many there were."""
        count = 0
        for name in binding_names(target):
            found = await read_inventory(self.live_client, self.control, owner, BINDINGS, name=name)
            count += await delete_inventory(self.control, owner, found)
        return count

    async def _ensure(self, item: Desired, owner: Owner) -> Outcome:
        try:
            return await self.control.ensure(item, owner)
        except (Forbidden, NotFound) as error:
            if is_refused_by_namespace(error):
                return Outcome(
                    Action.TERMINATING
                )  # its namespace is going: the watch shows that too
            raise

    async def _delete_others(self, target: str, owner: Owner, desired: list[Desired]) -> bool:
        """Delete what is bound besides. One of another name is another target's, with its label edited."""
        kept = {item.key for item in desired}
        wrote = False
        for mapping in BINDINGS:
            for entry in self.cache.entries(mapping, index={BY_STACK: target}):
                key = ObjectKey(mapping.gvk.group_kind, entry.name, namespace=entry.namespace)
                others = key not in kept and entry.name in binding_names(target)
                if others and entry.deletion_timestamp is None:
                    wrote |= await self.control.delete(mapping, entry, owner)
        return wrote


def is_staying(entry: Entry) -> bool:
    """Return whether a namespace takes new objects."""
    return entry.deletion_timestamp is None


def is_refused_by_namespace(error: Forbidden | NotFound) -> bool:
    """Return whether an object was refused because its namespace is gone, or going."""
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    return error.has_cause("NamespaceTerminating")
