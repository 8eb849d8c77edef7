"""What a set of nodes has of one kind: found in the cache, brought about by a control."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import AlreadyExists, APIError, Conflict, TransportError
from ctrlruntime.controller.failures import UnrecoverableError
from ctrlruntime.resources import Action, Control, Desired, ObjectKey, Outcome, Owner
from internal.cosmos.fullnode.findings import Findings
from internal.cosmos.fullnode.metrics import NodeSetMetrics

OF_OWNER: Final = "controller"
"""Index: `<kind>/<namespace>/<name>` of an object's controller."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects of one kind that sets of nodes control."""

    cache: Cache
    control: Control
    mapping: RESTMapping
    metrics: NodeSetMetrics

    def of(self, owner: Owner) -> Mapping[ObjectKey, Entry]:
        """What the cache has of an owner, what is being deleted included."""
        value = f"{owner.gvk.kind}/{owner.namespace}/{owner.name}"
        found = self.cache.entries(self.mapping, index={OF_OWNER: value})
        kind = self.mapping.gvk.group_kind
        return {ObjectKey(kind, entry.namespace, entry.name): entry for entry in found}

    async def bring_about(
        self, desired: Iterable[Desired], owner: Owner, findings: Findings
    ) -> dict[str, Outcome]:
        """Make each object what it should be; one that fails keeps no other from it.

        Returns what became of those that did not fail, by name.
        """
        done: dict[str, Outcome] = {}
        for item in sorted(desired, key=lambda each: (each.ordinal, each.key)):
            try:
                outcome = await self.control.ensure(item, owner)
            except (APIError, TransportError) as error:
                findings.append(explained(error))
                continue
            if outcome.action is Action.CONFLICT:
                findings.append(UnrecoverableError(conflict(item, outcome.conflict)))
            if outcome.action is Action.HELD:
                findings.held.append(f"{item.mapping.gvk.kind} {item.name}")
            self.metrics.wrote(self.mapping.gvk.kind, outcome.action)
            done[item.name] = outcome
        return done

    async def remove_others(
        self, desired: Iterable[Desired], owner: Owner, findings: Findings
    ) -> None:
        """Delete what the owner has and no longer wants, the last made first."""
        wanted = {item.key for item in desired}
        for key, entry in sorted(self.of(owner).items(), reverse=True):
            if key in wanted or entry.deletion_timestamp is not None:
                continue
            try:
                if await self.control.delete(self.mapping, entry, owner):
                    self.metrics.counted(self.mapping.gvk.kind, "delete", 1)
            except (APIError, TransportError) as error:
                findings.append(error)


def explained(error: Exception) -> Exception:
    """The error, or what a conflict that does not go away means.

    What has none of our labels is not in the cache: of such an object we know only that its name is taken.
    """
    taken = isinstance(error, AlreadyExists | Conflict)
    if not taken or (isinstance(error, Conflict) and error.is_field_conflict):
        return error
    return UnrecoverableError(
        f"{error}; an object that is not ours has that name: rename or delete it"
    )


def conflict(desired: Desired, why: str) -> str:
    """What to do about an object that was not written, since somebody else has it or a part of it."""
    return f"{desired.key} is left as it is: {why}; rename or delete what is in the way, or let go of the fields"
