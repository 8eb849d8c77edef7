"""Reconciles one Instance: its subresources in order, and what they come to, in its status."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from apis.cloud import Instance, InstanceKubernetes, InstanceStatus, Phase
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from internal.cloud.instance.bundles import BundleMissing, Bundles
from internal.cloud.instance.children import Children
from internal.cloud.instance.domains import held
from internal.cloud.instance.extraction import is_extracted, is_paused
from internal.cloud.instance.lease import lease_of
from internal.cloud.instance.order import Child, kind_of
from internal.cloud.instance.quiet import Quiet
from internal.cloud.instance.reading import read
from internal.cloud.instance.status import Facts, Hindrance, is_news, leaving, summarize
from internal.cloud.instance.teardown import PROTECTED, is_protected, next_to_go, progress
from internal.cloud.instance.telling import tell_phase
from internal.cloud.instance.walk import Walk
from internal.cloud.marks import FINALIZER, RETRY
from internal.cloud.records import Records
from internal.cloud.subresource import Subresource

LONGEST_NAME = 63
"""An instance's name is the value of a label."""


class Instances(Protocol):
    """The instances as the cache has them."""

    def get(self, namespace: str, name: str) -> Entry | None: ...


@dataclass(slots=True)
class InstanceReconciler:
    """Makes an instance's subresources what its spec says, one after another.

    Everything is read from the cache; an instance that is as it should be costs no request.
    """

    instances: Instances
    client: CachedClient
    subresources: Sequence[Subresource[Any]]
    children: Children
    walk: Walk
    bundles: Bundles
    records: Records
    conflict: Callable[[Instance], Hindrance | None]
    """Whether another instance has a name that this one wants."""
    clock: Callable[[], datetime]
    quiet: Quiet
    recorder: EventRecorder

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.instances.get(request.namespace, request.name)
        if entry is None:
            self.quiet.forget(request)
            return None
        if is_extracted(entry.annotations):
            return None
        owner = Owner(gvk=Instance.gvk(), namespace=entry.namespace, name=entry.name, uid=entry.uid)
        if entry.deletion_timestamp is None and FINALIZER not in entry.finalizers:
            await self.records.add_finalizer(Instance.mapping(), entry, FINALIZER)
            return None  # the answer is in the cache and brings us back
        instance, flaw = read(entry)
        if entry.deletion_timestamp is not None:
            await self._tear_down(instance, entry, owner)
            return None
        if flaw is not None:
            await self._tell(instance, entry, replace(_nothing(instance, entry), hindrance=flaw))
            return None
        return await self._bring_about(instance, entry, owner)

    async def _bring_about(self, instance: Instance, entry: Entry, owner: Owner) -> Result | None:
        lease = lease_of(instance, self.clock())
        paused = is_paused(entry.annotations)
        if lease.delete and not paused:
            await self._let_go(entry)
            return None
        hindrance, revision = self._look_ahead(instance)
        act = not paused and hindrance is None
        if act:
            await self._hand_on_retry(instance, owner)
        at = self.walk.prepare(instance, owner, act=act, bundle_revision=revision)
        children = await self.walk.through(at)
        facts = replace(
            _nothing(instance, entry),
            version=at.deployed,
            children=children,
            hindrance=hindrance,
            paused=paused,
            lease=lease.message,
        )
        if act:
            facts = replace(facts, handled_retry=retry_asked(instance))
        wait = await self._tell(instance, entry, facts)
        times = [time for time in (wait, lease.look_again) if time]
        return Result(requeue_after=min(times)) if times else None

    def _look_ahead(self, instance: Instance) -> tuple[Hindrance | None, str]:
        """What keeps the instance from being worked on, and the revision of its bundle."""
        if len(instance.metadata.name or "") > LONGEST_NAME:
            message = f"The name is longer than {LONGEST_NAME} characters: make another instance."
            return Hindrance(reason="NameTooLong", message=message), ""
        conflict = self.conflict(instance)
        if conflict is not None:
            return conflict, ""
        try:
            return None, self.bundles.revision(instance)
        except BundleMissing as error:
            return Hindrance(reason="BundleMissing", message=str(error)), ""

    async def _hand_on_retry(self, instance: Instance, owner: Owner) -> None:
        """A new value of the annotation asks for another attempt of whatever failed."""
        asked = retry_asked(instance)
        if asked and asked != instance.status.last_handled_retry:
            failed = [
                (subresource, found)
                for subresource in self.subresources
                for found in self.children.find(subresource, owner)
                if found.status.phase in (Phase.FAILED, Phase.RETRYING, Phase.DELETING)
            ]
            await self.children.ask_for_retry(failed, asked)

    async def _tell(self, instance: Instance, entry: Entry, facts: Facts) -> float:
        """Write the status if it is news. Returns the seconds after which to look again, or 0."""
        before = instance.status
        after = summarize(before, facts, self.clock())
        after.domains = held(
            instance.spec,
            before,
            ready=after.phase is Phase.READY,
            refused=facts.hindrance is not None,
        )
        wait = self.quiet.left(Request(entry.namespace, entry.name), silent=_is_silent(facts))
        at_risk = before.version != after.version and any(_rolls(child) for child in walked(facts))
        if is_news(before, after, quiet=wait > 0 and not at_risk):
            await self._write(entry, before, after)
        return wait

    async def _write(self, entry: Entry, before: InstanceStatus, after: InstanceStatus) -> None:
        if await self.records.status(Instance.mapping(), entry, before, after):
            tell_phase(self.recorder, entry, before, after)

    # -- the end ---------------------------------------------------------------------------

    async def _let_go(self, entry: Entry) -> None:
        """Delete an instance whose lease has ended, unless it was extended at this very moment."""
        with contextlib.suppress(NotFound, Conflict):  # what changed brings us back
            await self.client.delete(
                Instance.mapping(),
                entry.name,
                entry.namespace,
                uid=entry.uid,
                resource_version=entry.resource_version,
            )

    async def _tear_down(self, instance: Instance, entry: Entry, owner: Owner) -> None:
        """Subresources in reverse order, each kind gone before the next; then the instance."""
        if FINALIZER not in entry.finalizers:
            return
        held_back = _held_back(entry)
        if held_back:
            await self._leave(instance, entry, held_back)
            return
        await self._hand_on_retry(instance, owner)
        present = {
            kind_of(subresource): self.children.entries(subresource, owner)
            for subresource in self.subresources
        }
        going = next_to_go(self.subresources, present)
        if going is None:
            await self.records.remove_finalizer(Instance.mapping(), entry, FINALIZER)
            return
        subresource, entries = going
        await self.children.delete(subresource, entries, owner)
        await self._leave(instance, entry, self._progress(subresource, owner))

    def _progress(self, subresource: Subresource[Any], owner: Owner) -> str:
        said = (item.status.message for item in self.children.find(subresource, owner))
        return progress(kind_of(subresource), next(filter(None, said), ""))

    async def _leave(self, instance: Instance, entry: Entry, message: str) -> None:
        status = leaving(instance.status, entry.generation, message, self.clock())
        status.last_handled_retry = retry_asked(instance)
        await self._write(entry, instance.status, status)


def _rolls(child: Child) -> bool:
    """Whether the workload has begun to change, so that it no longer tells which version runs."""
    return child.subresource.kind is InstanceKubernetes and child.written


def walked(facts: Facts) -> Sequence[Child]:
    """The subresources, if anybody looked."""
    return facts.children or ()


def _is_silent(facts: Facts) -> bool:
    gating = (child for child in walked(facts) if child.subresource.gates)
    return any(child.silent and not child.waits_for for child in gating)


def _held_back(entry: Entry) -> str:
    if is_protected(entry):
        return PROTECTED
    if is_paused(entry.annotations):
        return "Paused: it is torn down once it is resumed with `manager instance resume`."
    return ""


def retry_asked(instance: Instance) -> str:
    """The value of the annotation that asks for another attempt; empty if there is none."""
    return (instance.metadata.annotations or {}).get(RETRY, "")


def _nothing(instance: Instance, entry: Entry) -> Facts:
    """Facts of a pass that found out nothing: as before."""
    return Facts(
        generation=entry.generation,
        version=instance.status.version,
        handled_retry=instance.status.last_handled_retry,
    )
