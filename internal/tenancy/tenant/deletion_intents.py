"""What becomes of the objects of tenants that are being deleted."""

from __future__ import annotations

from dataclasses import dataclass, field

from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions
from internal.tenancy.shared.policies import APPROVE_DELETION
from internal.tenancy.tenant.removal_decisions import Intent


@dataclass(slots=True)
class DeletionIntents:
    """Decides once for each tenant."""

    orphan_requests: OrphanRequests
    definitions: Definitions
    _intents: VersionMemo[Key, Intent] = field(default_factory=VersionMemo)

    async def of(self, entry: Entry) -> Intent:
        """Return what becomes of a tenant's objects."""
        if self.orphan_requests.has(entry):
            return Intent.ORPHAN
        known = self._intents.get(entry.key, entry.uid)
        if known is not None:
            return known
        definition = await self.definitions.of(Tenant.mapping())
        removed = definition.removes(APPROVE_DELETION)
        intent = Intent.UNINSTALL if removed else Intent.DELETE
        return self._intents.put(entry.key, entry.uid, intent)

    def forget(self, request: Request) -> None:
        """Forget a tenant that is gone."""
        self._intents.forget((request.namespace, request.name))
