"""Bulk upgrades: which instances get a version at which stage, and the write into the spec of each.

The stages are those of a monthly release that was once made by hand: internal instances first, then a
share of trials and customers, then more, then all. Which instances are in a share follows from a hash
of their names and the target version: it is the same at every call, every stage has the ones before
in it, and no instance is the first of every release. Only healthy instances that are not paused are
drawn; those that have the version already count first.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import semver

from apis.cloud import Instance, ReleaseChannel
from ctrlruntime.api import is_condition_true
from ctrlruntime.client import APIError, Client, NotFound, TransportError, retry_on_conflict
from internal.cloud.labels import INSTANCE_TYPE, is_extracted, pausing_annotation
from internal.cloud.release_assignment import version_that_counts

INTERNAL: Final = "internal"
TRIAL: Final = "trial"
PRODUCTION: Final = "production"
TYPES: Final = (INTERNAL, TRIAL, PRODUCTION)
LATER: Final = "its turn comes at a later stage"


@dataclass(frozen=True, slots=True)
class Stage:
    """How many percent of each type of instance have the version once the stage is done."""

    days: str
    percent: Mapping[str, int]


MONTHLY: Final[Sequence[Stage]] = (
    Stage("0-2", {INTERNAL: 100, TRIAL: 0, PRODUCTION: 0}),
    Stage("3-4", {INTERNAL: 100, TRIAL: 0, PRODUCTION: 0}),
    Stage("5-6", {INTERNAL: 100, TRIAL: 30, PRODUCTION: 10}),
    Stage("7-8", {INTERNAL: 100, TRIAL: 100, PRODUCTION: 40}),
    Stage("9-10", {INTERNAL: 100, TRIAL: 100, PRODUCTION: 100}),
)
"""Stages of a release, from 1. The second changes nothing: it is for looking whether all is well."""

PATCH: Final[Sequence[Stage]] = (
    Stage("0", {INTERNAL: 100, TRIAL: 0, PRODUCTION: 0}),
    Stage("1", {INTERNAL: 100, TRIAL: 10, PRODUCTION: 10}),
    Stage("2", {INTERNAL: 100, TRIAL: 40, PRODUCTION: 40}),
    Stage("3", {INTERNAL: 100, TRIAL: 100, PRODUCTION: 100}),
)
"""Stages of a patch, from 1. A patch of a release under way restarts at whichever stage is named."""


@dataclass(frozen=True, slots=True)
class Passed:
    """An instance that is left as it is, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """What a bulk upgrade does."""

    to: str
    upgrade: Sequence[Instance] = ()
    """By namespace and name."""
    passed: Sequence[Passed] = ()
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By type: instances that have the version after the wave, and all that it may reach."""


def plan(
    instances: Iterable[Instance], to: str, percent: Mapping[str, int], *, unhealthy: bool = False
) -> Wave:
    """Choose the instances that are to have the version `to`.

    Those of the release channels `insiders` and `pause` are skipped, and so are those that were
    taken out of management or have no type that a stage names. Those that have it count as chosen.
    The percentage is of all instances of a type that a version may reach; what is paused or not
    healthy is part of it, but is not drawn; with `unhealthy`, only what is paused is not.
    """
    passed: list[Passed] = []
    groups: dict[str, list[Instance]] = {kind: [] for kind in percent}
    for instance in sorted(instances, key=place_of):
        reason = _why_never(instance, to, percent)
        if reason:
            passed.append(Passed(place_of(instance), reason))
        else:
            groups[type_of(instance)].append(instance)
    upgrade: list[Instance] = []
    counts: dict[str, tuple[int, int]] = {}
    for kind, members in groups.items():
        chosen = _chosen(members, percent[kind], to, unhealthy)
        upgrade += chosen
        there = [item for item in members if _has(item, to)]
        late = [item for item in members if item not in chosen and item not in there]
        counts[kind] = (len(chosen) + len(there), len(members))
        passed += [Passed(place_of(item), f"it has {to} already") for item in there]
        passed += [Passed(place_of(item), _not_now(item, unhealthy) or LATER) for item in late]
    return Wave(
        to=to,
        upgrade=sorted(upgrade, key=place_of),
        passed=sorted(passed, key=lambda item: item.name),
        counts=counts,
    )


def type_of(instance: Instance) -> str:
    """Return internal, trial or production; empty if nothing is recorded."""
    return (instance.metadata.labels or {}).get(INSTANCE_TYPE, "")


def why_not(instance: Instance, to: str) -> str:
    """Why an instance is not brought to the version now; empty if it may be."""
    return _never(instance, to) or ("" if _has(instance, to) else _paused(instance))


def _why_never(instance: Instance, to: str, percent: Mapping[str, int]) -> str:
    reason = _never(instance, to)
    if not reason and type_of(instance) not in percent:
        return f"its label {INSTANCE_TYPE} is none of {', '.join(percent)}"
    return reason


def _never(instance: Instance, to: str) -> str:
    """Why no stage reaches the instance, whatever its state; empty if one does."""
    channel = instance.spec.release_channel
    if channel is not ReleaseChannel.STABLE:
        return f"its release channel is {channel.value}"
    if is_extracted(instance.metadata.annotations or {}):
        return "it was taken out of management"
    if instance.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    version = version_that_counts(instance)
    if is_newer(version, to):
        return f"it has {version}, which is newer"
    return ""


def _paused(instance: Instance) -> str:
    annotation = pausing_annotation(instance.metadata.annotations or {})
    return f"it is paused by the annotation {annotation}" if annotation else ""


def _not_now(instance: Instance, unhealthy: bool) -> str:
    """Why the present state of the instance keeps it from being drawn; empty if it does not."""
    return _paused(instance) or ("" if unhealthy else _unhealthy(instance))


def _unhealthy(instance: Instance) -> str:
    status, generation = instance.status, instance.metadata.generation or 0
    ready = is_condition_true(status.conditions, "Ready")
    if not ready or status.observed_generation != generation:
        return f"it is not healthy, its phase is {status.phase.value}"
    return ""


def _has(instance: Instance, to: str) -> bool:
    return version_that_counts(instance) == to


def _chosen(members: Sequence[Instance], percent: int, to: str, unhealthy: bool) -> list[Instance]:
    """Those to upgrade: the first in the order of their hashes until the share is reached.

    Any percentage above 0 reaches one at least. What has the version already is part of the share.
    """
    count = -(-len(members) * percent // 100)
    there = sum(_has(item, to) for item in members)
    drawn = [item for item in members if not _has(item, to) and not _not_now(item, unhealthy)]
    return sorted(drawn, key=lambda item: _canary_hash(item, to))[: max(0, count - there)]


def _canary_hash(instance: Instance, to: str) -> str:
    return hashlib.sha256(f"{to}\0{place_of(instance)}".encode()).hexdigest()


def place_of(instance: Instance) -> str:
    """Namespace and name."""
    return f"{instance.metadata.namespace}/{instance.metadata.name}"


def is_newer(version: str, than: str) -> bool:
    """Whether `version` comes after `than`; False if either is no version.

    A release candidate is newer than the release before its own and older than its own. `5.2` is
    `5.2.0`, and a leading `v` does not count.
    """
    one, other = parse(version), parse(than)
    return one is not None and other is not None and one.compare(other) > 0


def parse(text: str) -> semver.Version | None:
    """Return the version, or None for a text that is none, such as the name of a branch."""
    try:
        return semver.Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        return None


class Change(StrEnum):
    """What became of one Instance."""

    UPGRADED = "upgraded"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one Instance, and why."""

    name: str
    """Namespace and name."""
    change: Change
    detail: str


async def apply_version(client: Client, instances: Sequence[Instance], to: str) -> list[Result]:
    """Write the version into each Instance, in their order, and return one result for each.

    Errors of the API server and of the connection are results; the others go on.
    """
    return [await _apply(client, item, to) for item in instances]


async def _apply(client: Client, listed: Instance, to: str) -> Result:
    name = place_of(listed)
    found: list[Instance] = [listed]

    async def attempt() -> Result:
        """Read the Instance: the first attempt takes the Instance as listed, each later one reads it again."""
        current = found.pop() if found else await _read(client, listed)
        reason = why_not(current, to)
        if reason:
            return Result(name, Change.SKIPPED, reason)
        before = version_that_counts(current)
        if before != to:
            await _write(client, current, to)
        return Result(name, Change.UPGRADED, f"{before} -> {to}")

    try:
        return await retry_on_conflict(attempt)
    except NotFound:
        return Result(name, Change.SKIPPED, "it was deleted meanwhile")
    except (APIError, TransportError) as error:
        return Result(name, Change.FAILED, f"{error}; run the command again")


async def _read(client: Client, listed: Instance) -> Instance:
    metadata = listed.metadata
    return await client.get(Instance, metadata.name or "", namespace=metadata.namespace)


async def _write(client: Client, current: Instance, to: str) -> None:
    metadata = current.metadata
    patch = {
        "metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version},
        "spec": current.spec.version_change(to),
    }
    await client.patch(Instance, metadata.name or "", patch, namespace=metadata.namespace)
