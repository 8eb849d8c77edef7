"""Task `resize`: claims of an instance grow as they fill, and it is reported which cannot."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Any, Final

from apis.cloud import GROUP, InstanceKubernetesPVCSpec, TaskOperation
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, Quantity, format_time
from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.client import Client, Conflict, Invalid, NotFound
from ctrlruntime.clock import utc_now
from internal.cloud.subresources.pvc import FULLEST
from internal.cloud.tasks.kubernetes.access import cluster, kubeconfig_ref
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.requests import Requests
from internal.cloud.tasks.task import TaskContext, TaskError, TaskRejected, TaskResult

COOLDOWN: Final = timedelta(hours=6)
"""Between two steps of one claim, by default."""
_MEBI: Final = 1 << 20
CLAIM: Final = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
STORAGE_CLASS: Final = BUILTIN[GroupVersionKind("storage.k8s.io", "v1", "StorageClass")]
RESIZED_AT: Final = f"{GROUP}/resized-at"
"""Annotation of a claim: when it last grew through this control plane."""
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim as it is. Sizes in bytes."""

    name: str
    requested: int
    """What it requests."""
    capacity: int
    """What its volume has, as of its status."""
    used: int | None
    """What is used; None: unknown."""
    expandable: bool
    """Whether its storage class can expand volumes."""
    resized_at: datetime | None = None
    """When it last grew through us."""

    @property
    def percent(self) -> int:
        """How full it is, rounded up."""
        if self.used is None or self.capacity <= 0:
            return 0
        return -(-self.used * 100 // self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When claims grow, and how far. Sizes in bytes."""

    threshold: int
    increase: int
    """Per cent of the present size."""
    ceiling: int
    cooldown: timedelta = COOLDOWN


class Verdict(StrEnum):
    """What becomes of a claim."""

    FINE = "Fine"
    GROWS = "Grows"
    RESIZING = "Resizing"
    """An earlier step is not finished."""
    COOLING = "Cooling"
    """It is too full, and grew not long ago."""
    CEILING = "Ceiling"
    """It is too full, and as large as it may be."""
    CANNOT_EXPAND = "CannotExpand"
    """It is too full, and its storage class cannot expand."""
    UNKNOWN = "Unknown"
    """Its usage is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one claim."""

    claim: Claim
    verdict: Verdict
    size: int = 0
    """New size in bytes, if it grows: whole mebibytes."""


def decide(claim: Claim, policy: Policy, now: datetime) -> Decision:
    """Return what becomes of a claim. A claim never shrinks, and never grows beyond the ceiling."""

    def so(verdict: Verdict, size: int = 0) -> Decision:
        return Decision(claim=claim, verdict=verdict, size=size)

    if claim.used is None:
        return so(Verdict.UNKNOWN)
    if claim.percent <= policy.threshold:
        return so(Verdict.FINE)
    if claim.requested > claim.capacity:
        return so(Verdict.RESIZING)
    size = min(policy.ceiling, _larger(claim.requested, policy.increase))
    if size <= claim.requested:
        return so(Verdict.CEILING)
    if not claim.expandable:
        return so(Verdict.CANNOT_EXPAND)
    if claim.resized_at is not None and now < claim.resized_at + policy.cooldown:
        return so(Verdict.COOLING)
    return so(Verdict.GROWS, size)


def _larger(size: int, percent: int) -> int:
    grown = Decimal(size) * (100 + percent) / 100
    return int((grown / _MEBI).to_integral_value(ROUND_CEILING)) * _MEBI


def written(size: int) -> str:
    """Return a size as quantity: in Gi where that is exact, otherwise in Mi or bytes."""
    for unit, name in ((1 << 30, "Gi"), (_MEBI, "Mi")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


class ResizeTask:
    """Makes the claims of an instance grow as they fill."""

    name = "resize"

    def __init__(self, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock

    async def run(self, context: TaskContext) -> TaskResult:
        """See :class:`internal.cloud.tasks.task.Task`."""
        if context.input.operation is TaskOperation.TEARDOWN:
            return TaskResult(message="Claims stay as they are.")
        spec = InstanceKubernetesPVCSpec.model_validate(context.input.spec)
        usage = await self._usage(context, spec)
        ref = kubeconfig_ref(spec.kubeconfig_from, spec.outputs_secret_name)
        async with cluster(context, ref) as client:
            claims = await _claims(client, spec, usage)
            now = self._clock()
            decisions = [decide(claim, _policy(spec), now) for claim in claims]
            for decision in decisions:
                if decision.verdict is Verdict.GROWS:
                    context.progress(f"{decision.claim.name} grows to {written(decision.size)}")
                    await _grow(client, spec.namespace, decision, now)
        return _result(decisions, spec)

    async def _usage(self, context: TaskContext, spec: InstanceKubernetesPVCSpec) -> dict[str, int]:
        places = Places(values={"instance": context.input.instance})
        async with Requests(places, context.secret) as requests:
            answer = await requests.send(spec.disks.usage)
        if not answer.good:
            raise TaskError(f"how full the claims are is not known: {answer.text}")
        try:
            rows = answer.json()["claims"]
            return {str(row["name"]): int(row["usedBytes"]) for row in rows}
        except (ValueError, KeyError, TypeError) as error:
            raise TaskRejected(
                'spec.cluster.disks.usage has to answer {"claims": [{"name": …, "usedBytes": …}]};'
                " it answers something else"
            ) from error


def _policy(spec: InstanceKubernetesPVCSpec) -> Policy:
    disks = spec.disks
    return Policy(
        threshold=disks.usage_threshold_percent,
        increase=disks.increase_percent,
        ceiling=int(disks.max_size.value),
        cooldown=disks.cooldown if disks.cooldown is not None else COOLDOWN,
    )


async def _claims(
    client: Client, spec: InstanceKubernetesPVCSpec, usage: Mapping[str, int]
) -> list[Claim]:
    labels = dict(spec.disks.claim_selector) or None
    found = await client.list(CLAIM, spec.namespace, labels=labels)
    bound = [each for each in found if (each.get("status") or {}).get("phase") == "Bound"]
    classes = {each["metadata"]["name"]: each for each in await client.list(STORAGE_CLASS)}
    return [_claim(each, classes, usage) for each in bound]


def _claim(live: Manifest, classes: Mapping[str, Manifest], usage: Mapping[str, int]) -> Claim:
    name = live["metadata"]["name"]
    requested = _bytes(live["spec"]["resources"]["requests"]["storage"])
    capacity = (live["status"].get("capacity") or {}).get("storage")
    annotations = live["metadata"].get("annotations") or {}
    return Claim(
        name=name,
        requested=requested,
        capacity=_bytes(capacity) if capacity is not None else requested,
        used=usage.get(name),
        expandable=_expandable(live, classes),
        resized_at=time_or_none(annotations.get(RESIZED_AT)),
    )


def _expandable(live: Manifest, classes: Mapping[str, Manifest]) -> bool:
    name = live["spec"].get("storageClassName")
    found = classes.get(name) if name is not None else _default(list(classes.values()))
    return found is not None and bool(found.get("allowVolumeExpansion"))


def _default(classes: Sequence[Manifest]) -> Manifest | None:
    def is_default(each: Manifest) -> bool:
        annotations: Mapping[str, Any] = each["metadata"].get("annotations") or {}
        return annotations.get(DEFAULT_CLASS) == "true"

    return next(filter(is_default, classes), None)


def _bytes(quantity: object) -> int:
    return int(Quantity(quantity).value)


async def _grow(client: Client, namespace: str, decision: Decision, now: datetime) -> None:
    patch = {
        "metadata": {"annotations": {RESIZED_AT: format_time(now)}},
        "spec": {"resources": {"requests": {"storage": written(decision.size)}}},
    }
    try:
        await client.patch(CLAIM, decision.claim.name, patch, namespace=namespace)
    except NotFound:
        return
    except (Invalid, Conflict) as error:
        raise TaskError(f"{decision.claim.name} cannot grow: {error}") from error


def _result(decisions: Sequence[Decision], spec: InstanceKubernetesPVCSpec) -> TaskResult:
    """Raise TaskRejected for claims that are too full and cannot grow."""
    grown = [each for each in decisions if each.verdict is Verdict.GROWS]
    sizes = ", ".join(f"{each.claim.name} to {written(each.size)}" for each in grown)
    stuck = [complaint for each in decisions if (complaint := _complaint(each, spec)) is not None]
    if stuck:
        done = f"Grown: {sizes}. " if grown else ""
        raise TaskRejected(f"{done}{'; '.join(stuck)}")
    outputs = {f"size.{each.claim.name}": written(each.size) for each in grown}
    if all(each.claim.used is not None for each in decisions):
        outputs[FULLEST] = str(max((each.claim.percent for each in decisions), default=0))
    message = f"{len(decisions)} claims, {len(grown)} grown{f': {sizes}' if grown else ''}."
    return TaskResult(message=message, outputs=outputs)


def _complaint(decision: Decision, spec: InstanceKubernetesPVCSpec) -> str | None:
    claim = decision.claim
    full = f"claim {claim.name} is {claim.percent} % full"
    match decision.verdict:
        case Verdict.CEILING:
            return f"{full} and at its ceiling: raise spec.cluster.disks.maxSize ({spec.disks.max_size})"
        case Verdict.CANNOT_EXPAND:
            return f"{full}, and its storage class does not allow volume expansion: move its data"
        case _:
            return None
