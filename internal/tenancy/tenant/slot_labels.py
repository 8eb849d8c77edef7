"""The label of its slot on what has none: on a fleet from before it was divided, and where a person took it off.

Caches of a divided fleet select objects by that label. A tenant whose objects are out of sight would be made anew, or
let go and leave them behind. So a tenant gets its own label last, when all that it has carries it, and is not
reconciled before. One object is written at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from pydantic import ValidationError
from structlog.typing import FilteringBoundLogger

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.backoff import exponential
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.store import Store
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import (
    APIError,
    Conflict,
    Forbidden,
    NoKindMatch,
    NotFound,
    TransportError,
)
from ctrlruntime.client.fence import SlotNotHeld
from ctrlruntime.queue import Request
from ctrlruntime.sharding import SLOT_LABEL, current_slot, slot_of
from internal.tenancy.objects.target_clusters import TargetCluster, TargetClusters
from internal.tenancy.objects.values import SECRET, generated_name, secret_name
from internal.tenancy.shared.labels import (
    FIELD_MANAGER,
    FINALIZER,
    KINDS,
    kinds_of,
    manifests_of,
    parse_kinds,
)
from internal.tenancy.shared.missing_permissions import impersonated
from internal.tenancy.shared.privileges import Privileges
from internal.tenancy.tenant.child_events import owning_tenant
from internal.tenancy.tenant.removal_view import applied_kinds
from internal.tenancy.tenant.slots import TenantSlots, is_labelled, slot_labels

FIRST_RETRY, LAST_RETRY = 1.0, 30.0
"""Seconds until what was refused, or not answered, is tried again."""
WHY: Final = "its objects carry the label of its slot"
Tenants = Mapping[Request, Entry]


@dataclass(slots=True)
class SlotLabels:
    """Labels what the tenants of this process have, and then the tenants."""

    tenants: Store
    targets: TargetClusters
    privileges: Privileges
    slots: TenantSlots
    wake: Callable[[Request, str], None]
    """Receives a tenant that may be reconciled now, and why."""
    logger: FilteringBoundLogger
    values: Store
    """The Secrets with values, of all tenants."""
    needs_leader_election: bool = False
    _looked: frozenset[int] = frozenset()
    """Slots whose objects were looked for since they came to this process."""
    _behind: dict[Request, str] = field(default_factory=dict)
    """Tenants that wait, and the refusal that they wait for; they are tried again."""
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)
    _failures: int = 0

    def covers(self, tenant: Entry) -> bool:
        """Whether the caches have all that a tenant has; else it is labelled, and woken after that."""
        request = Request(tenant.name, namespace=tenant.namespace)
        if request in self._behind:
            return False
        if slot_of(tenant.name, namespace=tenant.namespace) in self._looked and self._is_complete(
            tenant
        ):
            return True
        self._wanted.set()
        return False

    def _is_complete(self, tenant: Entry) -> bool:
        return is_labelled(tenant) and not self._unlabelled_values(tenant)

    def _unlabelled_values(self, tenant: Entry) -> list[Entry]:
        """Return the Secrets with values of a tenant that have not got its label."""
        wanted = slot_labels(tenant.namespace, tenant.name).items()
        names = secret_name(tenant.name), generated_name(tenant.name)
        found = (self.values.get(name, namespace=tenant.namespace) for name in names)
        return [each for each in found if each is not None and not wanted <= each.labels.items()]

    def begin(self, slots: frozenset[int]) -> None:
        """Look for objects without a label in slots that have come to this process, and wake their tenants."""
        self._looked -= slots
        self._wanted.set()

    async def start(self) -> None:
        """Label until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self._round()
            if not self._behind:
                self._failures = 0
                continue
            why = next(iter(self._behind.values()))
            self.logger.warning("Tenants wait for labels", tenants=len(self._behind), error=why)
            self._wanted.set()
            await asyncio.sleep(exponential(FIRST_RETRY, LAST_RETRY, self._failures))
            self._failures += 1

    async def _round(self) -> None:
        """Label the objects of new slots, and of tenants without a label; then the tenants. Note which have to wait."""
        held = self.slots.ownership.held
        own: Tenants = {
            Request(each.name, namespace=each.namespace): each
            for each in self.tenants.list()
            if slot_of(each.name, namespace=each.namespace) in held
        }
        new = held - self._looked
        concerned = {
            request: entry
            for request, entry in own.items()
            if slot_of(request.name, namespace=request.namespace) in new
            or request in self._behind
            or not self._is_complete(entry)
        }
        kinds = {request: self._kinds(request, concerned[request], new) for request in concerned}
        behind: dict[Request, str] = {}
        for target in self.targets:
            there = {each: self._in(target, own[each], named) for each, named in kinds.items()}
            for kind in sorted(frozenset[GroupVersionKind]().union(*there.values())):
                try:
                    await self._label_kind(target, kind, own, behind)
                except (APIError, TransportError) as error:
                    waiting = (request for request, named in there.items() if kind in named)
                    behind.update(dict.fromkeys(waiting, f"{kind.kind}: {error}"))
        self._behind, self._looked = behind, (self._looked | new) & self.slots.ownership.held
        for request, entry in concerned.items():
            if request not in behind:
                await self._finish(request, entry)

    async def _finish(self, tenant: Request, entry: Entry) -> None:
        """Label a tenant, whose objects are labelled, and wake it."""
        local = self.targets.local
        try:
            for secret in self._unlabelled_values(entry):
                await self._label(local, SECRET, secret, tenant)
            if not is_labelled(entry):
                await self._label(local, Tenant.mapping(), entry, tenant)
        except (APIError, TransportError) as error:
            self._behind[tenant] = f"Tenant {tenant.namespace}/{tenant.name}: {error}"
        else:
            self.wake(tenant, WHY)

    def _kinds(
        self, tenant: Request, entry: Entry, new: frozenset[int]
    ) -> frozenset[GroupVersionKind]:
        """Return the kinds of which a tenant may have objects without a label; none for one that only its values lack it."""
        if FINALIZER not in entry.finalizers:
            return frozenset()  # nothing was made for it yet
        if is_labelled(entry) and not (
            tenant in self._behind or slot_of(tenant.name, namespace=tenant.namespace) in new
        ):
            return frozenset()
        return _kinds_of(entry)

    def _in(
        self, target: TargetCluster, entry: Entry, kinds: frozenset[GroupVersionKind]
    ) -> frozenset[GroupVersionKind]:
        """Return those of the kinds of a tenant that may be in a cluster: while a hub does not answer, what is elsewhere goes on."""
        tenant = _typed(entry) if kinds and self.targets.placement is not None else None
        if tenant is None:
            return kinds
        possible = self.targets.possible({each.group_kind for each in kinds}, manifests_of(tenant))
        applied = applied_kinds(tenant.status, target.name)
        return frozenset(
            each
            for each in kinds
            if each.group_kind in applied or target.name in possible[each.group_kind]
        )

    async def _label_kind(
        self,
        target: TargetCluster,
        kind: GroupVersionKind,
        own: Tenants,
        behind: dict[Request, str],
    ) -> None:
        """Label the objects of one kind. A kind that cannot be read has none in the caches either: its tenants report that."""
        try:
            mapping = await target.kinds.resolve(kind)
            found = await _unlabelled(target, mapping)
        except (Forbidden, NoKindMatch, NotFound):
            return
        decoder = EntryDecoder(kind, metadata_only=True)
        for manifest in found:
            entry = decoder.decode_manifest(manifest)
            tenant = owning_tenant(entry)
            if tenant is None or tenant not in own:
                continue
            user = _user(own[tenant], self.privileges)
            try:
                await self._label(target.impersonating(user), mapping, entry, tenant)
            except APIError as error:
                behind[tenant] = f"{kind.kind} {entry.namespace}/{entry.name}: {error.message}"

    @staticmethod
    async def _label(
        target: TargetCluster, mapping: RESTMapping, entry: Entry, tenant: Request
    ) -> None:
        """Label one object, if it is there still, and its slot here. Raises the client's errors."""
        patch = {
            "metadata": {"uid": entry.uid, "labels": slot_labels(tenant.namespace, tenant.name)}
        }
        slot = current_slot.set(slot_of(tenant.name, namespace=tenant.namespace))
        try:
            await target.patcher.client.patch(
                mapping,
                entry.name,
                patch,
                namespace=entry.namespace or None,
                type=PatchType.MERGE,
                field_manager=FIELD_MANAGER,
                metadata_only=True,
            )
        except (Conflict, NotFound, SlotNotHeld):
            return  # it is gone, or another process's now
        finally:
            current_slot.reset(slot)


async def _unlabelled(target: TargetCluster, mapping: RESTMapping) -> list[Manifest]:
    """Return the metadata of the objects of a kind without a slot, of everybody's."""
    cache = target.kinds.cache
    selected = [f"{name}={value}" for name, value in target.labels.items()]
    labels = ",".join([*selected, f"!{SLOT_LABEL}"])
    namespaces = cache.options.namespaces if mapping.namespaced else None
    found: list[Manifest] = []
    for namespace in namespaces or (None,):
        found += await cache.live_client.list(mapping, namespace, labels=labels, metadata_only=True)
    return found


def _kinds_of(entry: Entry) -> frozenset[GroupVersionKind]:
    """Return the kinds that a tenant may have objects of."""
    if KINDS in entry.annotations:
        return _parsed(entry.annotations[KINDS])
    tenant = _typed(entry)
    return frozenset() if tenant is None else kinds_of(tenant)


_parsed = lru_cache(parse_kinds)
"""Tenants of one template share the text."""


def _typed(entry: Entry) -> Tenant | None:
    try:
        return entry.typed(Tenant)
    except ValidationError:
        return None


def _user(entry: Entry, privileges: Privileges) -> str | None:
    """Return the account that a tenant's objects are written by; None: the manager's own."""
    tenant = _typed(entry)
    return None if tenant is None else impersonated(tenant, privileges)
