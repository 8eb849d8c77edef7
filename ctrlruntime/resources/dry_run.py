"""A control that decides and does not write: for commands that show what a controller would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Propagation
from ctrlruntime.gate import Permit
from ctrlruntime.resources.control import Control, check_permit
from ctrlruntime.resources.desired import Desired, Manifest
from ctrlruntime.resources.diff import Reason
from ctrlruntime.resources.outcome import Action, Outcome
from ctrlruntime.resources.ownership import Owner, Ownership


class Operation(StrEnum):
    """What would be done to an object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """A write that a control would make. `desired` is None for deletes and releases.

    `entry` is the object as it exists, None for a create. `user` is who would be impersonated.
    """

    operation: Operation
    mapping: RESTMapping
    namespace: str
    name: str
    owner: Owner
    desired: Desired | None = None
    entry: Entry | None = None
    reason: Reason | None = None
    user: str = ""
    permit: Permit | None = None
    """Of a delete or a release."""


class DryRunControl(Control):
    """Makes every decision of a Control and passes the writes to `on_write` instead of the server.

    The answers of writes are unknown, so their outcomes have no entry.
    """

    def __init__(
        self,
        cache: Cache,
        *,
        field_manager: str,
        on_write: Callable[[PlannedWrite], None],
        alive: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """`on_write` receives each write in the order of the decisions."""
        super().__init__(cache, field_manager=field_manager, alive=alive)
        self._on_write = on_write
        self._user = ""

    def impersonating(self, user: str) -> DryRunControl:
        """Return a control that passes its writes on as those of another user."""
        other = super().impersonating(user)
        other._user = user
        return other

    async def confirm(self, write: PlannedWrite) -> str:
        """Send the write and return why the server refuses it, or an empty text.

        The cluster's client has to be one whose writes are dry runs. Raises the client's errors.
        """
        control = Control.impersonating(self, write.user) if write.user else self
        if write.operation is Operation.DELETE and write.entry is not None:
            if write.permit is not None:
                await Control.delete(control, write.mapping, write.entry, write.owner, write.permit)
        elif write.operation is Operation.CREATE and write.desired is not None:
            await Control._create(control, write.desired, write.owner)
        elif write.desired is not None and write.entry is not None and write.reason is not None:
            outcome = await Control._update(
                control, write.desired, write.entry, write.owner, write.reason
            )
            return outcome.conflict
        return ""

    async def delete(
        self,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        permit: Permit,
        *,
        propagation: Propagation = "Background",
    ) -> bool:
        """Pass a deletion on, if the object belongs to the owner."""
        return self._removed(Operation.DELETE, mapping, entry, owner, permit)

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
        """Pass a release on, if the object belongs to the owner."""
        return self._removed(Operation.RELEASE, mapping, entry, owner, permit)

    def _removed(
        self,
        operation: Operation,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        permit: Permit,
    ) -> bool:
        check_permit(permit, entry)
        if self.judge(entry, owner).standing is Ownership.FOREIGN:
            return False
        self._check_namespace(mapping, entry.name, entry.namespace)
        write = PlannedWrite(
            operation=operation,
            mapping=mapping,
            namespace=entry.namespace,
            name=entry.name,
            owner=owner,
            entry=entry,
            user=self._user,
            permit=permit,
        )
        self._on_write(write)
        return True

    async def _create(self, desired: Desired, owner: Owner) -> Outcome:
        self._applied(Operation.CREATE, desired, owner, None, None)
        return Outcome(Action.CREATED)

    async def _update(
        self, desired: Desired, entry: Entry, owner: Owner, reason: Reason, over: str = ""
    ) -> Outcome:
        self._applied(Operation.UPDATE, desired, owner, entry, reason)
        return Outcome(Action.UPDATED, None, reason)

    async def _record_fields(self, desired: Desired, owner: Owner, answer: Manifest) -> Manifest:
        return answer

    def _written(
        self,
        desired: Desired,
        owner: Owner,
        answer: Manifest,
        action: Action,
        reason: Reason | None,
    ) -> Outcome:
        """Record nothing: the answer to a dry run is not what the server stores."""
        return Outcome(action, None, reason)

    def _applied(
        self,
        operation: Operation,
        desired: Desired,
        owner: Owner,
        entry: Entry | None,
        reason: Reason | None,
    ) -> None:
        write = PlannedWrite(
            operation=operation,
            mapping=desired.mapping,
            namespace=desired.namespace,
            name=desired.name,
            owner=owner,
            desired=desired,
            entry=entry,
            reason=reason,
            user=self._user,
        )
        self._on_write(write)
