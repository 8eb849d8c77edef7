"""Binds the rights of stacks on the hub, and takes them away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctrlruntime.cache import Cache, Entry
from ctrlruntime.client import APIError, Client, Forbidden, NotFound, TransportError
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Control, Owner, SetPolicy, reconcile_set
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
    restrict_secrets: bool = True
    """Let stacks read Secrets in their parallel namespaces and their own alone."""
    narrowed: Callable[[str], None] = lambda _target: None
    """Called with a target namespace whose stack could read all Secrets until now."""

    async def ensure(self, target: str, owner: Owner) -> bool:
        """Bind what is missing, and delete what is bound in namespaces that lost the label.

        Return whether anything was written. Raises TargetError for conflicts, and the client's errors.
        """
        places = sorted(each.name for each in self.parallel_of(target) if is_staying(each))
        desired = build_bindings(target, places, restrict_secrets=self.restrict_secrets)
        policy = SetPolicy(deletes_first=True, pause=self.pace.maybe_yield)
        result = await reconcile_set(self.control, self._bound(target), desired, owner, policy)
        if any(is_wide(entry, target) for entry in result.deleted):
            self.narrowed(target)
        for error in result.errors.values():
            if not is_refused_by_namespace(error):  # a namespace is going: the watch shows that too
                raise error
        if result.conflicts:
            raise conflict_error(
                [
                    left_message(item, each.conflict, item.namespace)
                    for item, each in result.conflicts
                ]
            )
        return result.wrote

    async def delete_known(self, target: str, owner: Owner) -> None:
        """Delete the bindings of a namespace that has no stack, if the cache has any."""
        policy = SetPolicy(cause=Cause.PARENT_DELETED)
        result = await reconcile_set(self.control, self._bound(target), (), owner, policy)
        result.raise_first()

    async def delete_all(self, target: str, owner: Owner) -> int:
        """Delete the bindings that the server has, labelled or not. Return how many there were."""
        count = 0
        for name in binding_names(target):
            found = await read_inventory(self.live_client, self.control, owner, BINDINGS, name=name)
            count += await delete_inventory(self.control, owner, found)
        return count

    def _bound(self, target: str) -> list[Entry]:
        """Return the bindings of a target namespace. One of another name is another target's, with its label edited."""
        names = binding_names(target)
        found = (self.cache.entries(each, index={BY_STACK: target}) for each in BINDINGS)
        return [entry for entries in found for entry in entries if entry.name in names]


def is_wide(entry: Entry, target: str) -> bool:
    """Return whether a binding lets a stack read the Secrets of all namespaces."""
    _, secrets, _ = binding_names(target)
    return entry.name == secrets and not entry.namespace


def is_staying(entry: Entry) -> bool:
    """Return whether a namespace takes new objects."""
    return entry.deletion_timestamp is None


def is_refused_by_namespace(error: APIError | TransportError) -> bool:
    """Return whether an object was refused because its namespace is gone, or going."""
    if isinstance(error, NotFound):
        return error.details.get("kind") == "namespaces"
    return isinstance(error, Forbidden) and error.has_cause("NamespaceTerminating")
