"""Claims of numbered instances: they grow, they are kept, and what cannot be changed is reported."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import orjson

from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, Quantity
from ctrlruntime.cache import Cache, Entry
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.gate import Decision, Hold, Removal
from ctrlruntime.resources.builder_changes import inputs_of
from ctrlruntime.resources.control import Control
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.diff import Foreign
from ctrlruntime.resources.object_set import SetPolicy, SetResult, reconcile_set
from ctrlruntime.resources.outcome import Action, taken
from ctrlruntime.resources.ownership import Owner
from ctrlruntime.resources.revision import revision
from internal.cosmos.workload.sizes import requested_size

__all__ = [
    "Claim",
    "ClaimControl",
    "ClaimProgress",
    "Immutable",
    "Source",
    "StorageClasses",
    "requested_size",
]

STORAGE_CLASS: Final = BUILTIN[GroupVersionKind("storage.k8s.io", "v1", "StorageClass")]
SIZE: Final = "spec.resources.requests.storage"
"""Field of a claim that grows and never shrinks."""
KEPT: Final = ("accessModes", "selector", "storageClassName", "volumeMode", "volumeName")
"""Fields that a claim has for life."""


@dataclass(frozen=True, slots=True)
class Source:
    """What a new claim is filled from."""

    reference: Manifest
    """`spec.dataSource`: apiGroup, kind and name."""
    size: str | None = None
    """The source's own size, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim as it is wanted. The manifest has the template's size and no data source."""

    desired: Desired
    scaled: str | None = None
    """A request to grow to this size."""
    max_size: str | None = None
    """What such a request may not pass."""
    source: Source | None = None
    """Looked at only when the claim is made."""
    noted: Mapping[str, str] = field(default_factory=dict)
    """Annotations that are no part of the revision, such as what the claim was made from."""
    waiting: str = ""
    """Why it cannot be made yet, in words; an existing one is kept all the same."""


class Immutable(NamedTuple):
    """A field that a claim has otherwise than wanted, and keeps."""

    claim: str
    field: str
    wanted: Any
    has: Any


@dataclass(slots=True, kw_only=True)
class ClaimProgress:
    """What one pass did. Names are those of claims."""

    requeue: bool = False
    """Something is under way: look again soon."""
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    """Those for which a larger size was requested."""
    updated: list[str] = field(default_factory=list)
    """Those otherwise changed: labels, annotations, what another manager changed."""
    retained: list[str] = field(default_factory=list)
    """Those no longer wanted that are kept, `hold` among them."""
    hold: Hold | None = None
    """What of them waits for an approval, or for the budget of deletions."""
    frozen: int = 0
    """How many of them are kept because changes are held."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Those that cannot be made yet, and why."""
    immutable: list[Immutable] = field(default_factory=list)
    """Fields that differ and cannot be changed."""
    cannot_expand: list[str] = field(default_factory=list)
    """Those that should grow, and whose StorageClass does not allow it."""
    growing: dict[str, str] = field(default_factory=dict)
    """Those whose volume is smaller than what they request, and both sizes."""
    resize_failed: dict[str, str] = field(default_factory=dict)
    """Those of them whose growth was refused or has failed, and why."""
    unbound: dict[str, str] = field(default_factory=dict)
    """Those without a volume whose StorageClass is not there, and its name."""
    conflicts: list[Foreign] = field(default_factory=list)
    """Claims of a wanted name with another owner."""
    held: list[str] = field(default_factory=list)
    """Claims that only a new builder would make in another way."""
    needs_restart: list[str] = field(default_factory=list)
    """Those whose volume has grown, and whose file system grows when their Pod starts anew."""
    errors: list[Exception] = field(default_factory=list)
    """What failed; all else was done nevertheless."""


class StorageClasses:
    """Which StorageClasses let claims grow, read from the cache. The kind has to be declared, with all its fields."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def __call__(self, name: str) -> bool | None:
        """Whether claims of the class can grow; None if there is no class of that name."""
        entry = self._cache.entry(STORAGE_CLASS, name)
        return None if entry is None else entry.field("allowVolumeExpansion") is True

    def has(self, name: str) -> bool:
        """Whether there is a class of that name."""
        return self._cache.entry(STORAGE_CLASS, name) is not None


class ClaimControl:
    """Brings the claims of numbered instances about. It keeps no state."""

    def __init__(
        self,
        control: Control,
        *,
        classes: StorageClasses | None = None,
    ) -> None:
        """`classes`: of the cluster; None where they are not known: growth is tried."""
        self._control = control
        self._classes = classes
        self._expandable: Callable[[str], bool | None] = classes or (lambda _name: None)

    async def reconcile(
        self,
        claims: Iterable[Claim],
        current: Iterable[Entry],
        owner: Owner,
        *,
        retain: bool = False,
        decide: Callable[[Sequence[Removal]], Awaitable[Decision]] | None = None,
    ) -> ClaimProgress:
        """One pass. `current`: the claims that exist, from the cache. `retain`: keep those no longer wanted.

        `decide`: the gate of all those that are not kept; None: that of the control, for each.
        """
        existing, progress = list(current), ClaimProgress()
        by_key = {(entry.namespace, entry.name): entry for entry in existing}
        wanted, growing = [], set()
        for claim in claims:
            entry = by_key.get((claim.desired.namespace, claim.desired.name))
            if entry is None and claim.waiting:
                await self._wait(claim, owner, progress)
            elif entry is None or not self._control.holds(entry, owner):
                wanted.append(fresh(claim))
            else:
                fit = fitted(claim, entry, self._expandable)
                wanted.append(fit.desired)
                growing |= {entry.name} if fit.grows else set()
                _report(progress, fit, entry)
                self._check_class(progress, entry)
        policy = SetPolicy(delete=lambda _entry: not retain, decide=decide)
        _record(
            progress,
            await reconcile_set(self._control, existing, wanted, owner, policy),
            {entry.name for entry in existing},
            growing,
        )
        progress.requeue |= bool(progress.created or progress.deleted or progress.waiting)
        return progress

    def _check_class(self, progress: ClaimProgress, entry: Entry) -> None:
        name = (entry.field("spec") or {}).get("storageClassName")
        pending = (entry.field("status") or {}).get("phase") == "Pending"
        if pending and name and self._classes is not None and not self._classes.has(name):
            progress.unbound[entry.name] = name

    async def _wait(self, claim: Claim, owner: Owner, progress: ClaimProgress) -> None:
        """Note a claim that cannot be made yet, unless it exists without the labels that the cache selects by."""
        try:
            outcome = await self._control.reclaim(claim.desired, owner)
        except (APIError, TransportError) as error:
            progress.errors.append(error)
            return
        if outcome is None:
            progress.waiting[claim.desired.name] = claim.waiting
        elif outcome.action is Action.CONFLICT and outcome.entry is not None:
            progress.conflicts.append(taken(claim.desired, outcome, outcome.entry))
        else:
            progress.requeue = True


@dataclass(frozen=True, slots=True)
class Fitted:
    """A claim as it can be had of one that exists."""

    desired: Desired
    grows: bool = False
    waits: bool = False
    """It should grow, and can only once it is bound."""
    refused: bool = False
    """It should grow, and its StorageClass does not allow it."""
    immutable: tuple[Immutable, ...] = ()


def fresh(claim: Claim) -> Desired:
    """Return the claim as it is made. Pure."""
    spec: Manifest = orjson.loads(orjson.dumps(claim.desired.manifest["spec"]))
    source = claim.source
    size = requested_size(_size(spec), source=None if source is None else source.size)
    _set_size(spec, size)
    return _finished(claim, spec, None if source is None else source.reference)


def fitted(
    claim: Claim, entry: Entry, expandable: Callable[[str], bool | None] = lambda _name: None
) -> Fitted:
    """Return the claim as it can be had of `entry`: larger at most, and with what it cannot change left as it is. Pure."""
    wanted: Manifest = orjson.loads(orjson.dumps(claim.desired.manifest["spec"]))
    has, status = entry.field("spec") or {}, entry.field("status") or {}
    immutable = _keep(wanted, has, entry.name)
    requested = requested_size(_size(has))
    bound = status.get("phase") == "Bound"
    capacity = (status.get("capacity") or {}).get("storage") if bound else None
    size = requested_size(
        _size(wanted), claim.scaled, capacity, requested=requested, max_size=claim.max_size
    )
    enough = max(Quantity(requested).value, Quantity(capacity or "0").value)
    grows = Quantity(size).value > enough
    refused = grows and expandable(has.get("storageClassName") or "") is False
    waits = grows and not bound and not refused
    grows = grows and bound and not refused
    _set_size(wanted, size if grows else requested)
    desired = _finished(claim, wanted, has.get("dataSource"))
    # Who once made it larger by hand must not keep it from growing.
    desired = replace(desired, force_own_fields=grows)
    shrunk = _shrunk(claim, entry.name, requested, has)
    return Fitted(desired, grows, waits, refused, (*immutable, *shrunk))


def _shrunk(
    claim: Claim, name: str, requested: str, has: Mapping[str, Any]
) -> tuple[Immutable, ...]:
    """Return the size, if the template requests less than what the claim has and nothing else explains that.

    Its source, whose size a new claim gets, or a request to grow would.
    """
    wanted = requested_size(_size(claim.desired.manifest["spec"]))
    grown = requested_size(wanted, claim.scaled, requested=wanted, max_size=claim.max_size)
    sourced = has.get("dataSource") or has.get("dataSourceRef")
    if sourced or Quantity(grown).value >= Quantity(requested).value:
        return ()
    return (Immutable(name, SIZE, wanted, requested),)


def _keep(wanted: Manifest, has: Mapping[str, Any], name: str) -> tuple[Immutable, ...]:
    """Put what the claim has for life in place of what is wanted, and tell of what differs."""
    differing = []
    for key in KEPT:
        if key not in wanted:
            continue
        if _plain(wanted[key]) != _plain(has.get(key)):
            differing.append(Immutable(name, f"spec.{key}", wanted[key], has.get(key)))
        if has.get(key) is None:
            del wanted[key]
        else:
            wanted[key] = has[key]
    return tuple(differing)


def _plain(value: object) -> object:
    return sorted(value) if isinstance(value, list) else value


def _size(spec: Mapping[str, Any]) -> str:
    return str(spec["resources"]["requests"]["storage"])


def _set_size(spec: Manifest, size: str) -> None:
    spec["resources"]["requests"]["storage"] = size


def _finished(claim: Claim, spec: Manifest, source: Manifest | None) -> Desired:
    """Return the desired PVC. The source is no part of its revision, so that the choice of another one changes no claim."""
    desired = claim.desired
    manifest = {**desired.manifest, "spec": spec}
    inputs = inputs_of(desired.inputs, spec) if desired.inputs else ""
    known = revision(manifest)
    if source is not None:
        manifest["spec"] = {**spec, "dataSource": source}
    if claim.noted:
        metadata = manifest["metadata"]
        annotations = {**(metadata.get("annotations") or {}), **claim.noted}
        manifest["metadata"] = {**metadata, "annotations": dict(sorted(annotations.items()))}
    return replace(desired, manifest=manifest, revision=known, inputs=inputs)


def _report(progress: ClaimProgress, fit: Fitted, entry: Entry) -> None:
    progress.immutable += fit.immutable
    progress.requeue |= fit.waits or entry.deletion_timestamp is not None
    if fit.refused:
        progress.cannot_expand.append(entry.name)
    check_resize(progress, entry)


def check_resize(progress: ClaimProgress, entry: Entry) -> None:
    """Record whether a claim has the size that it requests: what was requested is not yet there."""
    status = entry.field("status") or {}
    shown = {
        str(each.get("type")): str(each.get("message") or each.get("reason") or "")
        for each in status.get("conditions") or ()
        if each.get("status") == "True"
    }
    if "FileSystemResizePending" in shown:
        progress.needs_restart.append(entry.name)
    elif sizes := _unachieved(entry.field("spec") or {}, status):
        progress.growing[entry.name] = sizes
        if failure := _resize_failure(shown, status):
            progress.resize_failed[entry.name] = failure


def _unachieved(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Return what a bound claim has and requests, if it has less; empty if it does not."""
    has = (status.get("capacity") or {}).get("storage")
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if status.get("phase") != "Bound" or has is None or requested is None:
        return ""
    smaller = Quantity(str(has)).value < Quantity(str(requested)).value
    return f"has {has}, not {requested}" if smaller else ""


def _resize_failure(shown: Mapping[str, str], status: Mapping[str, Any]) -> str:
    """Return why a claim does not grow, in the cluster's words; empty if nothing was refused."""
    for kind, message in shown.items():
        if kind.endswith("ResizeError"):
            return message or kind
    state = str((status.get("allocatedResourceStatuses") or {}).get("storage", ""))
    return state if state.endswith(("Infeasible", "Failed")) else ""


def _record(
    progress: ClaimProgress, result: SetResult, existing: set[str], growing: set[str]
) -> None:
    """Add what became of the claims to the progress."""
    progress.errors += result.errors.values()
    progress.deleted += [entry.name for entry in result.deleted]
    progress.retained += [entry.name for entry in result.kept]
    progress.retained += [entry.name for entry, _ in result.held]
    for desired, outcome in result.conflicts:
        if outcome.entry is not None:
            progress.conflicts.append(taken(desired, outcome, outcome.entry))
    for key, outcome in result.outcomes.items():
        if outcome.action is Action.HELD:
            progress.held.append(key.name)
        elif outcome.action is Action.CREATED:
            progress.created.append(key.name)
        elif key.name in existing:
            if outcome.action is Action.UPDATED:
                (progress.resized if key.name in growing else progress.updated).append(key.name)
        elif outcome.action is not Action.CONFLICT or outcome.entry is None:
            progress.requeue = True
