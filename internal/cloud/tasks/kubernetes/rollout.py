"""One bundle applied in one cluster and awaited, by the rules of its kinds: for `kubernetes` and `upgrade`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.client import AlreadyExists, Client, Conflict, NotFound
from ctrlruntime.clock import monotonic
from ctrlruntime.gate import Permit, Scratch
from ctrlruntime.resources import delete_permitted
from ctrlruntime.resources.readiness import Phase, assess
from internal import scratch
from internal.cloud.tasks.kubernetes.applying import (
    AWAITED,
    UPGRADES,
    Applied,
    Located,
    Objects,
    annotations_of,
    rank,
)
from internal.cloud.tasks.kubernetes.documents import Document, ObjectRef
from internal.cloud.tasks.kubernetes.inventory import (
    FIELD_MANAGER,
    INVENTORY,
    OWNER,
    AppliedRecord,
    decode,
    encode,
    former_label,
    inventory_name,
)
from internal.cloud.tasks.task import TaskError, TaskRejected

_SHOWN = 3
CONFIG_MAP: Final = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
JOB: Final = BUILTIN[GroupVersionKind("batch", "v1", "Job")]
NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOptions:
    """How long to wait and how often to read, in seconds."""

    timeout: float
    interval: float = 2.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = monotonic


async def until_ready(
    client: Client,
    located: Iterable[Located],
    poll: PollOptions,
    progress: Callable[[str], None] = lambda _text: None,
) -> None:
    """Raise TaskError for an object that failed, and for those that are not ready in time."""
    end = poll.clock() + poll.timeout
    left = list(located)
    while True:
        waiting = []
        for each in left:
            phase, reason = await _look(client, each)
            if phase is Phase.FAILED:
                raise TaskError(f"{each.ref}: {reason}")
            if phase is Phase.NOT_READY:
                waiting.append((each, reason))
        if not waiting:
            return
        left = [each for each, _ in waiting]
        reasons = [f"{each.ref}: {reason}" for each, reason in waiting]
        more = f" (and {len(reasons) - _SHOWN} more)" if len(reasons) > _SHOWN else ""
        text = "; ".join(reasons[:_SHOWN]) + more
        if poll.clock() + poll.interval > end:
            raise TaskError(f"not ready within {poll.timeout:g} s: {text}")
        progress(f"waits for {text}")
        await poll.sleep(poll.interval)


async def until_gone(client: Client, located: Iterable[Located], poll: PollOptions) -> list[str]:
    """Return what still exists after that time; empty if all is gone."""
    end = poll.clock() + poll.timeout
    left = list(located)
    while True:
        left = [each for each in left if await _exists(client, each)]
        if not left or poll.clock() + poll.interval > end:
            return [str(each.ref) for each in left]
        await poll.sleep(poll.interval)


async def _look(client: Client, each: Located) -> tuple[Phase, str]:
    try:
        live = await client.get(each.mapping, each.ref.name, namespace=each.ref.namespace or None)
    except NotFound:
        return Phase.FAILED, "it was deleted while it was waited for"
    readiness = assess(live, binds_on_first_use=True)
    return readiness.phase, readiness.reason


async def _exists(client: Client, each: Located) -> bool:
    try:
        await client.get(
            each.mapping, each.ref.name, namespace=each.ref.namespace or None, metadata_only=True
        )
    except NotFound:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Whose objects, and where."""

    client: Client
    owner: str
    """Namespace and name of the instance, `prod/acme`."""
    key: str
    """What stands for the instance in names and labels of the cluster."""
    namespace: str
    run_id: str
    """The run that does it."""
    ready: PollOptions
    progress: Callable[[str], None] = field(default=lambda _text: None)
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of what is applied, and of the inventory."""

    def _objects(self) -> Objects:
        return Objects(
            self.client,
            owner=self.owner,
            key=self.key,
            namespace=self.namespace,
            labels=self.labels,
        )

    async def apply(self, documents: Iterable[Document]) -> Applied:
        """Apply all, prune what left the bundle, wait until all is ready.

        Every attempt may find what earlier ones left half-done. Raises TaskError.
        """
        objects = self._objects()
        await self.ensure_namespace()
        located = await objects.locate(documents)
        wanted = {each.ref for each in located}
        known = await self.known()
        if known and not wanted:
            raise TaskRejected(
                f"the bundle has no objects any more, and {len(known)} of its objects are in the"
                " cluster: none is deleted. Take the bundle back, or delete the instance"
            )
        await self._record(known | wanted)
        applied = await self._apply(objects, located)
        await objects.prune(known - wanted, applied)
        self.progress("waits until all is ready")
        await until_ready(self.client, located, self.ready, self.progress)
        await self._record(wanted, AppliedRecord.of(self.run_id, applied.written))
        return applied

    async def remove(self) -> Applied:
        """Delete all that was applied, and forget it. Raises TaskError while something is left."""
        objects = self._objects()
        applied = Applied()
        known = await self.known()
        await objects.prune(known, applied)
        left = await self._left(objects, applied.pruned)
        if left:
            raise TaskError(
                f"{len(left)} objects are being deleted still, {left[0]} among them: look at their"
                " finalizers if that lasts"
            )
        await self._forget()
        return applied

    async def known(self) -> set[ObjectRef]:
        """Return what was ever applied and not pruned."""
        inventories = await self._inventories()
        if not inventories:
            return await self._known_formerly()
        found: set[ObjectRef] = set()
        for config_map in inventories:
            found |= decode(config_map)
        return found

    async def _known_formerly(self) -> set[ObjectRef]:
        """Return what inventories of the former name list and is this instance's by its annotation.

        Read while there is no inventory of the present name; never changed or deleted, since
        instances of one name in several namespaces shared it.
        """
        objects = self._objects()
        label = former_label(self.owner.partition("/")[2])
        found: set[ObjectRef] = set()
        for config_map in await self.client.list(CONFIG_MAP, labels={INVENTORY: label}):
            for ref in decode(config_map):
                _, live = await objects.find(ref)
                if live is not None and annotations_of(live).get(OWNER) == self.owner:
                    found.add(ref)
        return found

    async def _apply(self, objects: Objects, located: list[Located]) -> Applied:
        applied = Applied()
        awaited: list[Located] = []
        for number, each in enumerate(located, start=1):
            if awaited and rank(each.ref.kind) > rank(awaited[-1].ref.kind):
                await until_ready(self.client, awaited, self.ready, self.progress)
                self.client.mapper.invalidate()
                awaited = []
            self.progress(f"applies {number} of {len(located)}: {each.ref}")
            await objects.apply(each, applied)
            if each.ref.kind in AWAITED:
                awaited.append(each)
        return applied

    async def _left(self, objects: Objects, refs: Iterable[ObjectRef]) -> list[str]:
        left: list[Located] = []
        for ref in refs:
            mapping, live = await objects.find(ref)
            if mapping is not None and live is not None:
                left.append(Located(ref, mapping, Document(live, "the inventory")))
        return await until_gone(self.client, left, self.ready)

    async def _inventories(self) -> list[Manifest]:
        return await self.client.list(CONFIG_MAP, labels={INVENTORY: self.key})

    async def _record(self, refs: set[ObjectRef], applied: AppliedRecord | None = None) -> None:
        """One inventory, in the instance's namespace; those of namespaces it had before go."""
        await self.client.apply(
            encode(self.key, self.owner, self.namespace, refs, applied, self.labels),
            field_manager=FIELD_MANAGER,
            force=True,
        )
        for each in await self._inventories():
            if each["metadata"]["namespace"] != self.namespace:
                await self._delete_inventory(each["metadata"]["namespace"])

    async def _forget(self) -> None:
        for config_map in await self._inventories():
            await self._delete_inventory(config_map["metadata"]["namespace"])
        for kind, what in ((CONFIG_MAP, scratch.UPGRADE_NOTES), (JOB, scratch.UPGRADE_STEP)):
            for left in await self.client.list(
                kind, labels={UPGRADES: self.key}, metadata_only=True
            ):
                await self._delete_left(kind, what, left["metadata"])

    async def _delete_left(self, kind: RESTMapping, what: Scratch, metadata: Manifest) -> None:
        permit = Permit.scratch(
            what, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
        )
        try:
            await delete_permitted(self.client, kind, permit, propagation="Background")
        except (NotFound, Conflict):
            return

    async def _delete_inventory(self, namespace: str) -> None:
        permit = Permit.scratch(scratch.INVENTORY, inventory_name(self.key), namespace=namespace)
        try:
            await delete_permitted(self.client, CONFIG_MAP, permit)
        except NotFound:
            return

    async def ensure_namespace(self) -> None:
        """Made if it is missing, and never deleted: what else is in it is not known."""
        try:
            await self.client.get(NAMESPACE, self.namespace, metadata_only=True)
        except NotFound:
            try:
                await self.client.create(
                    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
                )
            except AlreadyExists:
                return
