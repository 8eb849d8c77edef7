"""Reconciles one Instance: its subresources in order, and what they come to, in its status."""

from dataclasses import dataclass, replace
from typing import Protocol

from apis.cloud import Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from internal.cloud.instance.children import requested_retry
from internal.cloud.instance.lease_end import LeaseEnds
from internal.cloud.instance.reading import Preconditions, read
from internal.cloud.instance.status import Facts
from internal.cloud.instance.teardown import Teardown
from internal.cloud.instance.walk import Walk
from internal.cloud.instance.writer import InstanceWriter
from internal.cloud.labels import is_extracted, is_paused


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

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.instances.get(request.name, namespace=request.namespace)
        if entry is None:
            self.writer.forget(request)
            self.lease_ends.forget(request)
            return None
        if is_extracted(entry.annotations):
            return None
        owner, deleting = Owner.of(entry), entry.deletion_timestamp is not None
        if not deleting and await self.writer.protect(entry):
            return None  # the answer is in the cache and brings us back
        instance, flaw = read(entry)
        if deleting:
            await self.teardown.step(instance, entry, owner)
            return None
        if flaw is not None:
            facts = replace(_as_before(instance, entry), hindrance=flaw)
            await self.writer.record(instance, entry, facts)
            return None
        if await self.writer.restore_assignment(entry):
            return None  # the answer is in the cache and brings us back
        return await self._reconcile_object(instance, entry, owner)

    async def _reconcile_object(
        self, instance: Instance, entry: Entry, owner: Owner
    ) -> Result | None:
        lease = await self.lease_ends.enforce(instance, entry)
        if lease.delete:
            return None
        paused = is_paused(entry.annotations)
        hindrance, revision = self.preconditions.check(instance, entry)
        act = not paused and hindrance is None
        at = self.walk.prepare(instance, owner, act=act, bundle_revision=revision)
        children = await self.walk.through(at)
        facts = replace(
            _as_before(instance, entry),
            version=at.deployed,
            children=children,
            hindrance=hindrance,
            paused=paused,
            lease=lease.message,
        )
        if act:
            found = ((each.subresource, each.object) for each in children)
            await self.walk.children.pass_on_retry(instance, found)
            facts = replace(facts, handled_retry=requested_retry(instance))
        wait = await self.writer.record(instance, entry, facts)
        times = [time for time in (wait, lease.look_again) if time]
        return Result(requeue_after=min(times)) if times else None


def _as_before(instance: Instance, entry: Entry) -> Facts:
    """Return the facts of a pass that found out nothing."""
    return Facts(
        generation=entry.generation,
        version=instance.status.version,
        handled_retry=instance.status.last_handled_retry,
    )
