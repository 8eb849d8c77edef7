"""Applies and deletes the objects of stacks, and reads how their workloads are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apis.fleet import Reason
from apis.fleet.labels import DATA_PLANE_ID
from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.cache import Cache, Entry
from ctrlruntime.client.client import Client
from ctrlruntime.resources import Action, Control, Desired, Owner, reconcile_set
from ctrlruntime.resources.readiness import READY, Phase, assess
from internal.fleet.inventory import delete_inventory, read_inventory
from internal.fleet.labels import CONTROLLERS, KUBECONFIG_HASH, SELECTED, WORKERS
from internal.fleet.stack_builder import SUPPORT, WORKLOADS
from internal.fleet.stack_layout import Layout, Pods, plan_layout
from internal.fleet.targets import TargetError, conflict_error, left_message

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]


@dataclass(frozen=True, slots=True)
class StackControl:
    """What stacks consist of, in the cache of the hub and on its server."""

    cache: Cache
    live_client: Client
    control: Control

    def proofs(self, namespace: str) -> set[tuple[str, str]]:
        """Return the hashes of kubeconfigs that workloads were deployed with, each with the data plane that it was proved to lead to."""
        found = set()
        for entry in self._workloads(namespace):
            template = (entry.field("spec") or {}).get("template") or {}
            annotations = (template.get("metadata") or {}).get("annotations") or {}
            found.add((annotations.get(KUBECONFIG_HASH, ""), annotations.get(DATA_PLANE_ID, "")))
        return found

    def images(self, namespace: str | None = None) -> dict[str, frozenset[str]]:
        """Return the images of workloads by namespace; of one namespace, or of all."""
        found: dict[str, set[str]] = {}
        for entry in self._workloads(namespace):
            template = (entry.field("spec") or {}).get("template") or {}
            for container in (template.get("spec") or {}).get("containers") or ():
                found.setdefault(entry.namespace, set()).add(str(container.get("image")))
        return {name: frozenset(images) for name, images in found.items()}

    def layout(self, namespace: str, shards: int | None) -> Layout:
        """Return which workloads of a stack are to have its controllers now, for so many members; None: as it is."""
        found = {each.name: Pods.of(each) for each in self._workloads(namespace)}
        return plan_layout(shards, found.get(WORKERS), found.get(CONTROLLERS))

    def is_rolled(self, namespace: str) -> bool:
        """Return whether all Pods of the workloads are of their present templates."""
        return all(_is_rolled(entry) for entry in self._workloads(namespace))

    async def ensure(self, desired: Sequence[Desired], owner: Owner) -> bool:
        """Apply what differs. Return whether anything was written. Raises TargetError for conflicts, and the client's errors."""
        result = await reconcile_set(self.control, (), desired, owner)
        result.raise_first()
        conflicts = [left_message(item, outcome.conflict) for item, outcome in result.conflicts]
        conflicts += [
            f"{key.kind.kind} {key.name} is being deleted still"
            for key, outcome in result.outcomes.items()
            if outcome.action is Action.TERMINATING
        ]
        if conflicts:
            raise conflict_error(conflicts)
        return result.wrote

    def check_available(self, namespace: str, desired: Sequence[Desired]) -> None:
        """Raise TargetError if Pods of workloads are missing, or present ones do not come up beside those of before."""
        missing: list[str] = []
        for item in desired:
            if item.mapping not in WORKLOADS:
                continue
            entry = self.control.look(item)
            wanted = int(item.manifest["spec"]["replicas"])
            there = 0 if entry is None else _available(entry)
            found = READY if entry is None else assess(entry.decode())
            if there < wanted or found.phase is Phase.FAILED:
                why = "" if found.ready else f" ({found.reason})"
                missing.append(f"{item.name} has {there} of {wanted} Pods{why}")
        if missing:
            raise TargetError(
                Reason.STACK_NOT_AVAILABLE,
                f"{', '.join(missing)}; look at its Pods (kubectl -n {namespace} describe pods)",
            )

    async def delete_workloads(self, namespace: str, owner: Owner) -> int:
        """Delete the workloads of the owner. Return how many there were."""
        return await self._delete(WORKLOADS, namespace, owner)

    async def delete_support(self, namespace: str, owner: Owner) -> int:
        """Delete all other objects of the owner. Return how many there were."""
        return await self._delete(SUPPORT, namespace, owner)

    async def count_pods(self, namespace: str) -> int:
        """Return how many Pods of the stack there are, those that are ending included."""
        found = await self.live_client.list(POD, namespace, labels=SELECTED, metadata_only=True)
        return len(found)

    async def _delete(self, mappings: Sequence[RESTMapping], namespace: str, owner: Owner) -> int:
        found = await read_inventory(
            self.live_client, self.control, owner, mappings, namespace=namespace
        )
        return await delete_inventory(self.control, owner, found)

    def _workloads(self, namespace: str | None) -> list[Entry]:
        return [
            entry
            for mapping in WORKLOADS
            for entry in self.cache.entries(mapping, namespace, labels=SELECTED)
        ]


def _is_rolled(entry: Entry) -> bool:
    status = entry.field("status") or {}
    wanted = (entry.field("spec") or {}).get("replicas", 1)
    seen = int(status.get("observedGeneration") or 0) >= entry.generation
    return seen and int(status.get("updatedReplicas") or 0) >= wanted


def _available(entry: Entry) -> int:
    status = entry.field("status") or {}
    return int(status.get("availableReplicas") or 0)
