"""The subresources of an instance as objects: found in the cache, written through a control."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from apis.cloud import Instance, Phase
from ctrlruntime.api import ApiModel
from ctrlruntime.cache.cache import Cache, CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client import Invalid, NotFound, difference
from ctrlruntime.client.client import PatchType
from ctrlruntime.gate import Cause
from ctrlruntime.memo import VersionMemo
from ctrlruntime.resources import Control, Owner, SetPolicy, SetResult, reconcile_set
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.outcome import Action
from ctrlruntime.resources.revision import REVISION, revision
from internal.cloud.instance.deletion import is_approved
from internal.cloud.instance.order import Object
from internal.cloud.labels import (
    DELETION_PROTECTION,
    FIELD_MANAGER,
    INSTANCE,
    RETRY,
    ROLLED_BACK,
    RUNS_FINALIZER,
    TEARDOWN_APPROVED,
)
from internal.cloud.subresource import Subresource
from internal.cloud.taskdriver.inputs import content, counting

Inputs = tuple[str, int, dict[str, str]] | None
"""By what the inputs of an object's task are distinguished: UID, generation, annotations."""
OF_INSTANCE = "instance"
"""Index of subresources by `namespace/name` of the instance that they are for."""
FAILING = (Phase.FAILED, Phase.RETRYING, Phase.DELETING)
"""Phases of a subresource that a retry of its instance is meant for."""


def instances_of(entry: Entry) -> list[str]:
    """Return the instance that an object is for, by owner reference or label; of an upgrade, by its spec."""
    owner = entry.controller
    named = {entry.labels.get(INSTANCE, "")}
    if owner is not None and owner.kind == "Instance":
        named.add(owner.name)
    if entry.kind == "UpgradeInstanceTask":
        named.add((entry.field("spec") or {}).get("instanceName", ""))
    return sorted(f"{entry.namespace}/{name}" for name in named if name)


@dataclass(frozen=True, slots=True)
class Kept:
    """What became of a subresource that was to be kept as it should be."""

    object: Object | None = None
    written: bool = False
    """Whether a write changed the inputs of its task; one that only restored a mark did not."""
    problem: str = ""


def desired_child(
    subresource: Subresource[Any],
    instance: Instance,
    spec: ApiModel,
    *,
    name: str = "",
    annotations: Mapping[str, str] | None = None,
    over: str = "",
) -> Desired:
    """Return the object that an instance wants. Pure.

    Its revision is that of the spec alone, so that whoever sees the object can tell whether its spec
    is still the one that was given to it. `over`: the resourceVersion that a write must find; empty: any.
    """
    mapping, wanted = subresource.kind.mapping(), content(spec)
    instance_name = instance.metadata.name or ""
    manifest = {
        "apiVersion": mapping.gvk.api_version,
        "kind": mapping.gvk.kind,
        "metadata": {
            "name": name or instance_name,
            "namespace": instance.metadata.namespace or "",
            "finalizers": [RUNS_FINALIZER],
            **({"resourceVersion": over} if over else {}),
        },
        "spec": wanted,
    }
    return Desired(
        mapping=mapping,
        manifest=manifest,
        revision=revision(wanted),
        once=subresource.definition.once,
        labels={INSTANCE: instance_name},
        annotations={**(annotations or {}), **protection_of(instance)},
    )


def protection_of(instance: Instance) -> dict[str, str]:
    """Return the annotation that records on a subresource whether its instance is protected."""
    on = instance.spec.protected
    return {DELETION_PROTECTION: "true" if on else "false"}


def requested_retry(instance: Instance) -> str:
    """Return the value of the annotation that requests another attempt; empty if there is none."""
    return (instance.metadata.annotations or {}).get(RETRY, "")


def inputs_for(
    subresource: Subresource[Any], instance: Instance, more: Mapping[str, str]
) -> dict[str, str]:
    """Return the annotations of the instance that are inputs of the subresource, and `more`."""
    given = instance.metadata.annotations or {}
    chosen = {name: given[name] for name in sorted(subresource.annotations) if name in given}
    return {**chosen, **more}


@dataclass(slots=True)
class Children:
    """Reads from the cache, writes only where something differs.

    Objects it returns are not to be changed.
    """

    cache: Cache
    client: CachedClient
    control: Control
    _readings: VersionMemo[str, Object | None] = field(
        default_factory=lambda: VersionMemo(64), init=False
    )
    """A pass reads each object several times, and decoding is most of its cost."""

    def _typed(self, entry: Entry, subresource: Subresource[Any]) -> Object | None:
        """Return the object as its kind, not to be changed; None if it cannot be read."""
        version = entry.resource_version
        return self._readings.compute(entry.uid, version, lambda: _read(entry, subresource))

    def find(self, subresource: Subresource[Any], owner: Owner) -> list[Object]:
        """Return the objects of a kind that are the instance's own; what cannot be read is left out."""
        found = (self._typed(entry, subresource) for entry in self.entries(subresource, owner))
        return [item for item in found if item is not None]

    def entries(self, subresource: Subresource[Any], owner: Owner) -> list[Entry]:
        """Return the objects of a kind that are the instance's own, whether they can be read or not."""
        store = self.cache.informer(subresource.kind).store
        entries = store.by_index(OF_INSTANCE, f"{owner.namespace}/{owner.name}")
        return [entry for entry in entries if self.control.holds(entry, owner)]

    def look(self, subresource: Subresource[Any], name: str, owner: Owner) -> Object | None:
        """One object by name, if it is the instance's own."""
        entry = self.cache.entry(subresource.kind, name, namespace=owner.namespace)
        if entry is None or not self.control.holds(entry, owner):
            return None
        return self._typed(entry, subresource)

    async def keep(self, subresource: Subresource[Any], desired: Desired, owner: Owner) -> Kept:
        """Create the object, or make it again what it should be; see `reconcile`."""
        return (await self.reconcile(subresource, [desired], owner))[desired.name]

    async def reconcile(
        self,
        subresource: Subresource[Any],
        desired: Collection[Desired],
        owner: Owner,
        *,
        drop: Collection[str] = (),
        cause: Cause = Cause.SPEC_CHANGED,
    ) -> dict[str, Kept]:
        """Make objects of a kind what they should be, and delete those of the names in `drop`. What is right is not written.

        A refusal by the API server, such as of the removal of an immutable field that was set by hand, is a
        problem of the subresource; other errors are raised. Returns what became of each, by name.
        """
        before = {item.name: _inputs(self.control.look(item)) for item in desired}
        current = [each for each in self.entries(subresource, owner) if each.name in drop]
        forced = [replace(item, force_own_fields=True) for item in desired]
        policy = SetPolicy(cause=cause)
        result = await reconcile_set(self.control, current, forced, owner, policy)
        kept: dict[str, Kept] = {}
        for item in desired:
            try:
                kept[item.name] = await self._kept(subresource, item, result, before[item.name])
            except Invalid as error:
                kept[item.name] = Kept(self._seen(subresource, item), problem=_refused(item, error))
        result.raise_first()
        return kept

    async def _kept(
        self, subresource: Subresource[Any], desired: Desired, result: SetResult, before: Inputs
    ) -> Kept:
        if error := result.errors.pop(desired.key, None):
            raise error
        outcome = result.outcomes[desired.key]
        if outcome.action is Action.CONFLICT:
            return Kept(problem=_taken(desired, outcome.conflict))
        written = outcome.action in (Action.CREATED, Action.UPDATED)
        entry = outcome.entry
        if entry is not None and not desired.once and outcome.action is not Action.TERMINATING:
            written |= await self._take_away(subresource, desired, entry)
            entry = self.control.look(desired)
        news = written and before != _inputs(entry)
        return Kept(None if entry is None else self._typed(entry, subresource), news)

    def _seen(self, subresource: Subresource[Any], desired: Desired) -> Object | None:
        entry = self.control.look(desired)
        return None if entry is None else self._typed(entry, subresource)

    async def _take_away(
        self, subresource: Subresource[Any], desired: Desired, entry: Entry
    ) -> bool:
        """Undo foreign additions: an apply restores own fields, and leaves the rest."""
        found = self._typed(entry, subresource)
        now = entry.field("spec") or {} if found is None else content(found.spec)
        patch: dict[str, Any] = {}
        if changed := difference(now, desired.manifest["spec"]):
            patch["spec"] = changed
        ours = subresource.annotations | {ROLLED_BACK}
        surplus = sorted((ours & entry.annotations.keys()) - desired.annotations.keys())
        if surplus:
            patch["metadata"] = {"annotations": dict.fromkeys(surplus)}
        return bool(patch) and await self._patch(subresource, entry, patch)

    async def mend(
        self,
        subresource: Subresource[Any],
        found: Object,
        spec: ApiModel | None,
        annotations: Mapping[str, str],
    ) -> str:
        """Give an object that is being deleted the spec and the annotations of its instance: its teardown uses them.

        `spec`: None: the object keeps its own. Returns why the server refuses that; empty if it does not.
        """
        entry = self.cache.entry(
            subresource.kind, found.metadata.name or "", namespace=found.metadata.namespace
        )
        if entry is None or entry.uid != found.metadata.uid or entry.deletion_timestamp is None:
            return ""
        surplus = (subresource.annotations & entry.annotations.keys()) - annotations.keys()
        metadata: dict[str, str | None] = {
            **{
                key: text for key, text in annotations.items() if entry.annotations.get(key) != text
            },
            **dict.fromkeys(surplus),
        }
        patch: dict[str, Any] = {}
        if spec is not None and (changed := difference(content(found.spec), content(spec))):
            patch["spec"] = changed
            metadata[REVISION] = revision(content(spec))
        if metadata:
            patch["metadata"] = {"annotations": metadata}
        try:
            if patch:
                await self._patch(subresource, entry, patch)
        except Invalid as error:
            return (
                f"The API server does not let {entry.kind} {entry.name!r} get the spec that the Instance"
                f" gives it: {error}."
            )
        return ""

    async def approve(self, owned: Iterable[tuple[Subresource[Any], Iterable[Entry]]]) -> None:
        """Record on each object that its teardown is approved, so that this outlives the approval."""
        for subresource, entries in owned:
            for entry in entries:
                if not is_approved(entry):
                    approval = {"metadata": {"annotations": {TEARDOWN_APPROVED: entry.uid}}}
                    await self._patch(subresource, entry, approval)

    async def annotate(
        self, subresource: Subresource[Any], found: Object, annotations: Mapping[str, str]
    ) -> bool:
        """Put annotations on an object that lacks them. Returns whether that took a write."""
        entry = self.cache.entry(
            subresource.kind, found.metadata.name or "", namespace=found.metadata.namespace
        )
        if entry is None or entry.uid != found.metadata.uid:
            return False
        lacking = {k: v for k, v in annotations.items() if entry.annotations.get(k) != v}
        if not lacking:
            return False
        return await self._patch(subresource, entry, {"metadata": {"annotations": lacking}})

    async def pass_on_retry(
        self, instance: Instance, found: Iterable[tuple[Subresource[Any], Object | None]]
    ) -> None:
        """Request another attempt of whatever failed in `found`, for a new value of the annotation.

        Where nothing failed, of what is under way: a run that hangs is interrupted by it.
        """
        requested = requested_retry(instance)
        if not requested or requested == instance.status.last_handled_retry:
            return
        there = [(subresource, item) for subresource, item in found if item is not None]
        failed = [pair for pair in there if pair[1].status.phase in FAILING]
        running = [pair for pair in there if pair[1].status.phase is Phase.RUNNING]
        for subresource, item in failed or running:
            await self.annotate(subresource, item, {RETRY: f"instance-{requested}"})

    async def delete(
        self,
        subresource: Subresource[Any],
        owner: Owner,
        names: Collection[str],
        cause: Cause,
    ) -> None:
        """Delete objects by name that are the instance's own and not being deleted yet."""
        await self.reconcile(subresource, (), owner, drop=names, cause=cause)

    async def _patch(
        self, subresource: Subresource[Any], entry: Entry, patch: dict[str, Any]
    ) -> bool:
        body = {**patch, "metadata": {"uid": entry.uid, **patch.get("metadata", {})}}
        try:
            await self.client.patch(
                subresource.kind.mapping(),
                entry.name,
                body,
                namespace=entry.namespace,
                type=PatchType.MERGE,
                field_manager=FIELD_MANAGER,
            )
        except NotFound:
            return False
        return True


def _read(entry: Entry, subresource: Subresource[Any]) -> Object | None:
    try:
        found: Object = entry.typed(subresource.kind)
    except ValidationError:
        return None
    return found


def _inputs(entry: Entry | None) -> Inputs:
    """Return what tells the inputs of an object's task apart."""
    if entry is None:
        return None
    return entry.uid, entry.generation, counting(entry.annotations)


def _taken(desired: Desired, conflict: str) -> str:
    kind = desired.mapping.gvk.kind
    return (
        f"There is {kind} {desired.name!r} already, and {conflict}. "
        "Delete it or rename the instance; nothing of it was changed."
    )


def _refused(desired: Desired, error: Invalid) -> str:
    kind = desired.mapping.gvk.kind
    return (
        f"The API server does not let {kind} {desired.name!r} get the spec that the Instance gives it: {error}. "
        f"Give the spec of the Instance the value that the {kind} has, or a valid one."
    )
