"""Reconciles one Instance: its subresources in order, and what they come to, in its status."""

from dataclasses import dataclass, replace
from typing import Final, Protocol

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.lifecycle.remote import ClusterTrouble
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from internal.cloud.hub_instances import HubInstances
from internal.cloud.instance.children import requested_retry
from internal.cloud.instance.lease_end import LeaseEnds
from internal.cloud.instance.reading import Preconditions, read
from internal.cloud.instance.status import Facts, hub_hindrance
from internal.cloud.instance.teardown import Teardown
from internal.cloud.instance.walk import Walk
from internal.cloud.instance.writer import InstanceWriter
from internal.cloud.labels import is_extracted, is_paused

UNREAD: Final = 1.0
"""Seconds until an instance is looked at again while it is not known yet what the hub has."""


class Instances(Protocol):
    """The instances as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True)
class InstanceReconciler:
    """Reconciles an instance's subresources with its spec, one after another.

    Everything is read from the cache; an instance that is as it should be costs no request.
    """

    instances: Instances
    preconditions: Preconditions
    walk: Walk
    lease_ends: LeaseEnds
    teardown: Teardown
    writer: InstanceWriter
    hub: HubInstances | None = None
    """Where runs are, if the instances are on a data plane."""

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.instances.get(request.name, namespace=request.namespace)
        if entry is None:
            self.forget(request)
            return None
        if is_extracted(entry.annotations):
            return None
        if self.hub is not None and self.hub.is_unknown():
            return Result(requeue_after=UNREAD)
        owner, deleting = Owner.of(entry), entry.deletion_timestamp is not None
        paused = is_paused(entry.annotations)
        if not (deleting or paused) and await self.writer.protect(entry):
            return None  # the answer is in the cache and brings us back
        instance, flaw = read(entry)
        if deleting:
            wait = await self.teardown.step(instance, entry, owner)
            return None if wait is None else Result(requeue_after=wait)
        if flaw is not None:
            version = self.walk.running(instance, owner)
            facts = replace(_as_before(instance, entry), version=version, hindrance=flaw)
            await self.writer.record(instance, entry, facts)
            return None
        if await self.writer.restore_assignment(entry):
            return None  # the answer is in the cache and brings us back
        return await self._reconcile_object(instance, entry, owner)

    def forget(self, request: Request) -> None:
        """Forget what is kept in memory of an instance that is gone, or another manager's."""
        self.writer.forget(request)
        self.lease_ends.forget(request)

    async def _reconcile_object(
        self, instance: Instance, entry: Entry, owner: Owner
    ) -> Result | None:
        lease = await self.lease_ends.enforce(instance, entry)
        if lease.delete:
            return None
        paused = is_paused(entry.annotations)
        runs = self.walk.running(instance, owner)
        hindrance, revision = self.preconditions.check(instance, entry, runs)
        act = not paused and hindrance is None
        trouble: ClusterTrouble | None = None
        hub_wait = 0.0
        on_hub = self.hub is not None and hindrance is None
        if self.hub is not None and hindrance is None:
            trouble = await self.hub.hold_name(entry)
            act = act and (trouble is None or self.hub.holds_name(entry))
            if trouble is not None:
                hindrance, hub_wait = hub_hindrance(trouble), self.hub.period
        at = self.walk.prepare(instance, owner, act=act, bundle_revision=revision)
        children = await self.walk.through(at)
        facts = replace(
            _as_before(instance, entry),
            version=at.deployed,
            shared_inputs="" if hindrance is not None else at.shared_inputs,
            children=children,
            begun=at.begun,
            next_version=instance.spec.wanted_version,
            hindrance=hindrance,
            paused=paused,
            lease=lease.message,
            on_hub=on_hub,
            hub_trouble=trouble,
        )
        if act:
            found = ((each.subresource, each.object) for each in children)
            await self.walk.children.pass_on_retry(instance, found)
            facts = replace(facts, handled_retry=requested_retry(instance))
        wait = await self.writer.record(instance, entry, facts)
        times = [time for time in (wait, lease.look_again, hub_wait) if time]
        return Result(requeue_after=min(times)) if times else None


def _as_before(instance: Instance, entry: Entry) -> Facts:
    """Return the facts of a pass that found out nothing."""
    return Facts(
        generation=entry.generation,
        place=f"{entry.name} -n {entry.namespace}",
        version=instance.status.version,
        handled_retry=instance.status.last_handled_retry,
    )
