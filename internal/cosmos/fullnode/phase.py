"""What a pass comes to: the phase, a sentence, conditions, and when to look again. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apis.cosmos import CosmosFullNode, FullNodePhase, RolloutStatus, SyncInfo
from ctrlruntime.api import Condition
from ctrlruntime.api.conditions import find_condition, shorten
from ctrlruntime.lifecycle.remote import hub_condition
from internal.cosmos.fullnode.disk_removals import parent_of
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.metadata import named
from internal.cosmos.fullnode.status import CLAIMS, CRDS, HALTED, HELD, STALLED, of_pod
from internal.cosmos.times import Times
from internal.cosmos.workload.claims import SIZE, ClaimProgress, Immutable
from internal.cosmos.workload.lost_disks import LOSING, LosingDisk, condition_of
from internal.cosmos.workload.pod_trouble import OF_POD
from internal.cosmos.workload.workload import Progress
from internal.removal_holds import HELD as DELETIONS_HELD
from internal.removal_holds import held_condition

SHOWN: Final = 3
"""Objects that a sentence names."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What the steps of a pass found out; None: the step failed as a whole."""

    findings: Findings = field(default_factory=Findings)
    pods: Progress | None = None
    additional: Progress | None = None
    claims: ClaimProgress | None = None
    awaited: Sequence[str] = ()
    """Pods without the address for peers outside that they are to have."""
    paused: Sequence[str] = ()
    """Pods that are down for a snapshot."""
    stalled: Sequence[str] = ()
    """Nodes that have caught up, and whose last block is old."""
    full: Condition | None = None
    """DisksFull."""
    losing: Mapping[str, LosingDisk] = field(default_factory=dict)
    """Pods whose claim is being deleted."""
    crossing: float = 0.0
    """Seconds until a node may change its version."""
    snapshots_served: bool = True
    on_hub: bool = False
    """Whether objects are on the hub, and their set on a data plane."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is reported, and when to reconcile again (seconds; None: on a change)."""

    phase: FullNodePhase
    message: str
    requeue_after: float | None = None
    is_built: bool = False
    """Whether every object matches the spec, so that only nodes may be behind."""
    reason: str = "RolloutInProgress"
    """Of Ready, while the phase is Progressing."""


def verdict(found: Found, ready: int, wanted: int, times: Times, behind: str = "") -> Verdict:
    """Decide.

    Failures go before progress, progress before what others have to do. `behind`: which nodes have not caught
    up, in words.
    """
    findings = found.findings
    waits = [*findings.waits, *([found.crossing] if found.crossing else [])]
    waits += _settling(found)
    if found.claims is not None and found.claims.hold is not None:
        waits.append(times.failure)  # what is over the budget fits again within the hour
    if findings.any:
        transient = findings.is_transient
        return Verdict(
            FullNodePhase.TRANSIENT_ERROR if transient else FullNodePhase.ERROR,
            _sentence(findings.message),
            min(*waits, times.progress if transient else times.failure, times.failure),
        )
    progress = _progress(found)
    if progress:
        waits.append(times.progress if _is_busy(found) else times.external)
        return Verdict(FullNodePhase.PROGRESSING, _sentence(progress), min(waits))
    if found.awaited:
        message = f"No load balancer has given an address to {_names(found.awaited)} yet."
        waits.append(times.external)
        return Verdict(FullNodePhase.WAITING_FOR_P2P_SERVICES, message, min(waits))
    missing = ready < wanted
    if found.stalled and not missing:
        message = f"The chain stands still at {_names(found.stalled)}: no block for ten minutes."
        wait = min(waits, default=None)
        return Verdict(FullNodePhase.PROGRESSING, message, wait, is_built=True, reason=STALLED)
    return Verdict(
        FullNodePhase.PROGRESSING if missing else FullNodePhase.COMPLETE,
        _complete(found, ready, wanted, behind if missing else ""),
        min(waits, default=None),
        is_built=True,
    )


def nodes_behind(sync: Mapping[str, SyncInfo]) -> str:
    """Which nodes have not caught up, and what their Pods show, in words that stay as long as the nodes do.

    Heights and errors of connections are in `status.sync`.
    """
    return _names([_behind(pod, info) for pod, info in sync.items() if info.in_sync is not True])


def _behind(pod: str, info: SyncInfo) -> str:
    if info.error is None:
        return f"{pod} is catching up"
    shown = info.error.removeprefix(OF_POD).rstrip(".")
    return f"{pod} {shown}" if of_pod(info) else f"{pod} does not answer"


def rollout_of(
    progress: Progress | None, additional: Progress | None = None
) -> RolloutStatus | None:
    """`status.rollout`: that of the nodes, with failures, halts and fixes of the Pods beside them."""
    if progress is None:
        return None
    outdated, beside = progress.outdated, additional or Progress()
    return RolloutStatus(
        outdated=outdated,
        budget=progress.budget if outdated else 0,
        blocked=progress.blocked,
        failed=progress.failed + beside.failed,
        halted=progress.halted or beside.halted,
        fixes=sorted(progress.fixes | beside.fixes),
    )


def conditions(node_set: CosmosFullNode, found: Found) -> list[Condition]:
    """Those beside Ready and Progressing."""
    shown = []
    if found.claims is not None:
        shown.append(_claims(found.claims))
    if losing := condition_of(found.losing):
        shown.append(losing)
    if found.full:
        shown.append(found.full)
    if held := _held(found):
        shown.append(held)
    if deletions := _deletions(node_set, found):
        shown.append(deletions)
    if halted := _halted(node_set, found):
        shown.append(halted)
    if found.on_hub:
        shown.append(hub_condition(found.findings.troubles))
    if _wants_snapshots(node_set):
        shown.append(_crds(found.snapshots_served))
    return shown


def _is_busy(found: Found) -> bool:
    """Whether something was done just now, so that more is to do soon."""
    claims = found.claims
    for pods in (found.pods, found.additional):
        if pods and (pods.created or pods.deleted or pods.replaced or pods.repaired):
            return True
    return claims is not None and bool(claims.created or claims.deleted or claims.resized)


def _progress(found: Found) -> str:
    """Return what is under way, in words; empty if nothing is."""
    claims = found.claims or ClaimProgress()
    for pods in filter(None, (found.pods, found.additional)):
        if told := _pods(pods):
            return told
    if claims.waiting:
        name, why = next(iter(claims.waiting.items()))
        return f"Claim {name} waits: {why}"
    if found.losing:
        words = found.losing[min(found.losing)].words
        return f"{words[0].upper()}{words[1:]}: see the condition {LOSING}"
    for name, sizes in claims.growing.items():
        failure = claims.resize_failed.get(name)
        return f"Claim {name} {sizes}: {failure}" if failure else f"Claim {name} {sizes} yet"
    return "Disks come and go." if claims.requeue else ""


def _pods(pods: Progress) -> str:
    if pods.blocked and not pods.outdated:
        return f"Pods that are no longer wanted stay: {pods.blocked}"
    if pods.blocked:
        return f"{_count(pods.outdated, 'Pod is', 'Pods are')} outdated: {pods.blocked}"
    if pods.outdated:
        return f"{_count(pods.outdated, 'Pod is', 'Pods are')} outdated and made anew one by one."
    return "Pods come and go." if pods.requeue else ""


def _settling(found: Found) -> list[float]:
    """When the next Pod has worked for long enough, if a change waits for that."""
    waits = any(pods is not None and pods.blocked for pods in (found.pods, found.additional))
    return [left for left in found.findings.settling if left] if waits else []


def _complete(found: Found, ready: int, wanted: int, behind: str) -> str:
    message = f"{ready} of {wanted} nodes have caught up"
    message += f": {behind}." if behind else "."
    if found.paused:
        message += f" {_names(found.paused)} is down for a snapshot."
    return message


def _claims(progress: ClaimProgress) -> Condition:
    if progress.cannot_expand:
        names = _names(progress.cannot_expand)
        message = (
            f"{names} should grow, and its StorageClass does not allow it (allowVolumeExpansion)."
        )
        return Condition(type=CLAIMS, status="False", reason="CannotExpand", message=message)
    if shrunk := [each for each in progress.immutable if each.field == SIZE]:
        return _shrunk(shrunk)
    if progress.immutable:
        parts = [
            f"{each.claim}: {each.field} is {each.has!r}, not {each.wanted!r}"
            for each in progress.immutable[:SHOWN]
        ]
        message = (
            f"{'; '.join(parts)}. A claim keeps this for life: put the old value back, or make another set with "
            "the new value."
        )
        return Condition(
            type=CLAIMS, status="False", reason="ImmutableFieldChanged", message=message
        )
    if progress.resize_failed:
        parts = [
            f"{name} {progress.growing[name]}: {why}"
            for name, why in sorted(progress.resize_failed.items())[:SHOWN]
        ]
        message = (
            f"{'; '.join(parts)}. Correct what the storage refuses, or make another set with a size that it "
            "allows: a claim that requests more never shrinks."
        )
        return Condition(type=CLAIMS, status="False", reason="ResizeFailed", message=message)
    if progress.growing:
        parts = [f"{name} {sizes}" for name, sizes in sorted(progress.growing.items())[:SHOWN]]
        message = f"{'; '.join(parts)} yet."
        return Condition(type=CLAIMS, status="Unknown", reason="Resizing", message=message)
    if progress.needs_restart:
        message = (
            f"{_names(progress.needs_restart)} has grown, and its file system grows when its Pod starts anew: "
            "delete the Pod at a good time."
        )
        return Condition(
            type=CLAIMS, status="False", reason="FileSystemResizePending", message=message
        )
    if progress.unbound:
        parts = [
            f"{name} has no volume, and there is no StorageClass {wanted}"
            for name, wanted in sorted(progress.unbound.items())[:SHOWN]
        ]
        message = f"{'; '.join(parts)}. Make it, or volumes that name it."
        return Condition(type=CLAIMS, status="False", reason="StorageClassMissing", message=message)
    message = "Every claim matches the spec."
    return Condition(type=CLAIMS, status="True", reason="AsSpecified", message=message)


def _shrunk(shrunk: Sequence[Immutable]) -> Condition:
    parts = [f"{each.claim} has {each.has}, not {each.wanted}" for each in shrunk[:SHOWN]]
    more = f" and {len(shrunk) - SHOWN} more" if len(shrunk) > SHOWN else ""
    message = (
        f"{'; '.join(parts)}{more}. A claim never shrinks, and is left as it is: put the old size back. New claims "
        "get the size of the template."
    )
    return Condition(type=CLAIMS, status="False", reason="CannotShrink", message=message)


def _held(found: Found) -> Condition | None:
    parts = (found.pods, found.additional, found.claims)
    names = [name for part in parts if part is not None for name in part.held]
    names += found.findings.held
    if not names:
        return None
    message = (
        f"This manager would build {_names(names)} in another way. Nothing is changed until the set itself "
        "is, or strategy.builderChanges is Roll."
    )
    return Condition(type=HELD, status="True", reason="ManagerChanged", message=message)


def _halted(node_set: CosmosFullNode, found: Found) -> Condition | None:
    rollout = rollout_of(found.pods, found.additional)
    if node_set.spec.strategy.halt_on_failures is None or rollout is None:
        return None
    if not rollout.halted:
        return Condition(type=HALTED, status="False", reason="NotHalted", message="No halt.")
    message = (
        f"The rollout is halted, {rollout.halted}. The other Pods stay as they are. Correct the spec, or raise "
        "strategy.haltOnFailures."
    )
    return Condition(type=HALTED, status="True", reason="TooManyFailures", message=message)


def _deletions(node_set: CosmosFullNode, found: Found) -> Condition | None:
    """Return the condition DeletionsHeld; none before the first hold, nor where claims were not looked at."""
    hold = None if found.claims is None else found.claims.hold
    before = find_condition(node_set.status.conditions, DELETIONS_HELD)
    if found.claims is None or (hold is None and before is None):
        return None
    metadata = node_set.metadata
    parent = parent_of(named(node_set), metadata.namespace or "", metadata.annotations or {})
    return held_condition(parent, hold, metadata.generation or 0)


def _crds(served: bool) -> Condition:
    if served:
        message = "The cluster serves VolumeSnapshots."
        return Condition(type=CRDS, status="True", reason="Served", message=message)
    message = (
        "The cluster does not serve VolumeSnapshots, which disks are to be filled from: install the CRDs of "
        "snapshot.storage.k8s.io/v1. It is noticed when they are there."
    )
    return Condition(type=CRDS, status="False", reason="NotServed", message=message)


def _wants_snapshots(node_set: CosmosFullNode) -> bool:
    spec = node_set.spec
    templates = [spec.volume_claim_template]
    overrides = spec.instance_overrides.values()
    templates += [item.volume_claim_template for item in overrides if item.volume_claim_template]
    return any(
        item.auto_data_source is not None
        or (item.data_source is not None and item.data_source.kind == "VolumeSnapshot")
        for item in templates
    )


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return f"{shown} and {len(names) - SHOWN} more" if len(names) > SHOWN else shown


def _sentence(text: str) -> str:
    short = shorten(text)
    return short if short.endswith((".", "…")) else f"{short}."
