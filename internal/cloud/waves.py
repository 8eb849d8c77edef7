"""Bulk upgrades: which instances get a version at which stage. Pure.

The stages are those of a monthly release that was once made by hand: internal instances first, then a
share of trials and customers, then more, then all. Which instances are in a share follows from a hash
of their names, so that it is the same at every call, every stage has the ones before in it, and no
instance is always the first.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from apis.cloud import Instance, ReleaseChannel
from internal.cloud.instance.extraction import is_extracted
from internal.cloud.marks import INSTANCE_TYPE

INTERNAL: Final = "internal"
TRIAL: Final = "trial"
PRODUCTION: Final = "production"
TYPES: Final = (INTERNAL, TRIAL, PRODUCTION)


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


def plan(instances: Iterable[Instance], to: str, percent: Mapping[str, int]) -> Wave:
    """Choose the instances that are to have the version `to`.

    Those of the release channels `insiders` and `pause` are passed by, and so are those that were
    taken out of management or have no type that a stage knows. Those that have it count as chosen.
    """
    passed: list[Passed] = []
    groups: dict[str, list[Instance]] = {kind: [] for kind in percent}
    for instance in sorted(instances, key=_place):
        reason = _why_not(instance, to, percent)
        if reason:
            passed.append(Passed(_place(instance), reason))
        else:
            groups[type_of(instance)].append(instance)
    upgrade: list[Instance] = []
    counts: dict[str, tuple[int, int]] = {}
    for kind, members in groups.items():
        chosen = _chosen(members, percent[kind])
        upgrade += [item for item in chosen if item.spec.sourcegraph_version != to]
        late = [item for item in members if item not in chosen]
        there = [item for item in late if item.spec.sourcegraph_version == to]
        counts[kind] = (len(chosen) + len(there), len(members))
        passed += [Passed(_place(item), "its turn comes at a later stage") for item in late]
    return Wave(
        to=to,
        upgrade=sorted(upgrade, key=_place),
        passed=sorted(passed, key=lambda item: item.name),
        counts=counts,
    )


def type_of(instance: Instance) -> str:
    """internal, trial or production; empty if it does not say."""
    return (instance.metadata.labels or {}).get(INSTANCE_TYPE, "")


def _why_not(instance: Instance, to: str, percent: Mapping[str, int]) -> str:
    channel = instance.spec.release_channel
    if channel is not ReleaseChannel.STABLE:
        return f"its release channel is {channel.value}"
    if is_extracted(instance.metadata.annotations or {}):
        return "it was taken out of management"
    if instance.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if is_newer(instance.spec.sourcegraph_version, to):
        return f"it has {instance.spec.sourcegraph_version}, which is newer"
    if type_of(instance) not in percent:
        return f"its label {INSTANCE_TYPE} is none of {', '.join(percent)}"
    return ""


def is_newer(version: str, than: str) -> bool:
    """Whether a version of numbers and dots comes after another; what is neither is never newer."""
    try:
        one, other = ([int(part) for part in text.split(".")] for text in (version, than))
    except ValueError:
        return False
    return one > other


def _chosen(members: Sequence[Instance], percent: int) -> list[Instance]:
    """The first of them in the order of their hashes; any percentage above 0 reaches one at least."""
    count = -(-len(members) * percent // 100)
    return sorted(members, key=_lot)[:count]


def _lot(instance: Instance) -> str:
    return hashlib.sha256(_place(instance).encode()).hexdigest()


def _place(instance: Instance) -> str:
    return f"{instance.metadata.namespace}/{instance.metadata.name}"
