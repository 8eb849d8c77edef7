"""Changes of version: which upgrade is to be made, which counts, and which version runs. Pure."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from apis.cloud import Phase, TaskState, UpgradeInstanceTask
from ctrlruntime.api import Manifest
from internal.cloud.labels import SUPERSEDED
from internal.cloud.taskdriver.inputs import content
from internal.cloud.taskdriver.record import is_live

BUNDLE_REVISION: Final = "bundleRevision"
"""Field of the spec that upgrades made by earlier releases do not record."""
KEPT: Final = 5
"""Upgrades that are kept after they ended."""
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """One upgrade, as far as the instance is concerned."""

    name: str
    from_version: str
    to_version: str
    spec: Manifest = field(default_factory=dict)
    """All its inputs, without what equals its default."""
    succeeded: datetime | None = None
    """When it succeeded."""
    failed: bool = False
    """Nothing more is tried."""
    running: bool = False
    """A run is under way."""
    ran: bool = False
    """There was a run, so that something may have been changed."""
    superseded: bool = False
    going: bool = False
    """It is being deleted."""
    since: datetime = _BEGINNING
    """When its last run ended or, before that, was made; of one without a run, when it was made."""

    @property
    def over(self) -> bool:
        """Whether it changes nothing any more, unless a retry is requested."""
        given_up = self.failed or self.superseded or self.going
        return self.succeeded is not None or (given_up and not self.running)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do about the version."""

    current: str = ""
    """Name of the upgrade that the instance waits for; it is made if it is not there."""
    supersede: tuple[str, ...] = ()
    """Names of upgrades to a version that is not requested any more."""
    prune: tuple[str, ...] = ()
    """Names of old ones to delete."""


def upgrade_of(resource: UpgradeInstanceTask) -> Upgrade:
    """Return what there is to know of an object."""
    status, metadata, run = resource.status, resource.metadata, resource.status.run
    done = status.succeeded  # of these inputs: the spec cannot change
    times = () if run is None else (run.finished_at, run.created_at)
    return Upgrade(
        name=metadata.name or "",
        from_version=resource.spec.from_version,
        to_version=resource.spec.to_version,
        spec=content(resource.spec),
        succeeded=None if done is None else done.finished_at,
        failed=status.phase is Phase.FAILED,
        running=is_live(run),
        ran=run is not None and run.state is not TaskState.PENDING,
        superseded=(metadata.annotations or {}).get(SUPERSEDED) == "true",
        going=metadata.deletion_timestamp is not None,
        since=next(filter(None, (*times, metadata.creation_timestamp)), _BEGINNING),
    )


def deployed(recorded: str, upgrades: Iterable[Upgrade]) -> str:
    """Return the version that runs: the one recorded, or where the last successful upgrade led from there.

    The record is written after the upgrade, and may be missing by one step.
    """
    done = [(item.succeeded, item) for item in upgrades if item.succeeded is not None]
    if not done:
        return recorded
    last = max(done, key=lambda pair: pair[0])[1]
    return last.to_version if last.from_version == recorded else recorded


def left_for(version: str, recorded: str, upgrades: Sequence[Upgrade]) -> str:
    """Return the version to which an upgrade brought the data from this one; empty where they have it, as far as is known.

    `recorded`: the version on record. What was upgraded to later, or runs by the record, was not left.
    """
    left = [each for each in upgrades if each.succeeded and each.from_version == version]
    last = max(left, key=_succeeded, default=None)
    if last is None or deployed(recorded, upgrades) == version:
        return ""
    back = [each for each in upgrades if each.succeeded and each.to_version == version]
    is_back = any(_succeeded(each) > _succeeded(last) for each in back)
    return "" if is_back else last.to_version


def _succeeded(upgrade: Upgrade) -> datetime:
    return upgrade.succeeded or _BEGINNING


def is_upgraded(version: str, upgrades: Iterable[Upgrade]) -> bool:
    """Whether an upgrade led from or to a version, so that it was rolled out although no record shows it."""
    return bool(version) and any(
        version in (item.from_version, item.to_version) for item in upgrades
    )


def plan(
    instance: str,
    runs: str,
    wanted: str,
    upgrades: Sequence[Upgrade],
    spec: Manifest | None = None,
) -> Plan:
    """Return what to do for a version that `runs` and one that is `wanted`, with all inputs of `spec`.

    Without `spec` the inputs are not known yet, and only versions are compared. One at a time: what
    is under way is awaited even if it leads elsewhere by now; what has yet to begin, and what failed,
    is superseded as soon as something else is wanted. An upgrade that failed stays failed until a
    retry is requested, or any of its inputs changes: then it is replaced by another one.
    """
    open_ones = [item for item in upgrades if not item.over]
    fitting = [item for item in open_ones if _fits(item, runs, wanted, spec)]
    others = [item for item in open_ones if item not in fitting and not item.superseded]
    under_way = [item for item in open_ones if item.running and item not in fitting]
    failed = [item for item in upgrades if _has_failed(item)]
    others += [item for item in failed if not _fits(item, runs, wanted, spec)]
    supersede = tuple(sorted(item.name for item in others))
    prune = _surplus(upgrades)
    if under_way:
        return Plan(current=under_way[0].name, supersede=supersede, prune=prune)
    if runs == wanted:
        return Plan(supersede=supersede, prune=prune)
    current = fitting[0].name if fitting else _failed(runs, wanted, upgrades, spec)
    if not current:
        current = _unused_name(instance, runs, wanted, upgrades)
    return Plan(current=current, supersede=supersede, prune=tuple(set(prune) - {current}))


def _fits(item: Upgrade, runs: str, wanted: str, spec: Manifest | None) -> bool:
    """Whether an upgrade is the one that is wanted: by its versions and by all its inputs."""
    if (item.from_version, item.to_version) != (runs, wanted):
        return False
    if spec is None:
        return True
    unrecorded = BUNDLE_REVISION not in item.spec
    return item.spec == {k: v for k, v in spec.items() if not (unrecorded and k == BUNDLE_REVISION)}


def _has_failed(item: Upgrade) -> bool:
    return item.failed and not (item.superseded or item.going or item.running or item.succeeded)


def _failed(runs: str, wanted: str, upgrades: Iterable[Upgrade], spec: Manifest | None) -> str:
    """Return the newest of all that ended, if it is this change and failed."""
    newest = max(
        (item for item in upgrades if item.over and not item.going), key=_age, default=None
    )
    if newest is None or newest.succeeded is not None or newest.superseded:
        return ""
    return newest.name if _fits(newest, runs, wanted, spec) else ""


def rolled_back(runs: str, wanted: str, upgrades: Iterable[Upgrade]) -> str:
    """Return the upgrade that was given up half-way, if the version from before it is wanted again.

    What it left of the workload has to be replaced by the old version; empty if there is none.
    """
    newest = max((item for item in upgrades if item.over), key=_age, default=None)
    if newest is None or newest.succeeded is not None or not newest.ran or runs != wanted:
        return ""
    return newest.name


def name_of(instance: str, from_version: str, to_version: str, attempt: int) -> str:
    """Return the name of an upgrade: the same for the same change, so that it is made once."""
    identity = "\0".join((from_version, to_version, str(attempt)))
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return f"{instance}-{digest[:8]}"


def _unused_name(instance: str, runs: str, wanted: str, upgrades: Sequence[Upgrade]) -> str:
    taken = {item.name for item in upgrades}
    attempt = 1
    while (name := name_of(instance, runs, wanted, attempt)) in taken:
        attempt += 1
    return name


def _surplus(upgrades: Iterable[Upgrade]) -> tuple[str, ...]:
    """Those that ended long ago; the newest documents the present state and is always kept."""
    over = sorted((item for item in upgrades if item.over and not item.going), key=_age)
    return tuple(item.name for item in over[:-KEPT])


def _age(upgrade: Upgrade) -> tuple[datetime, str]:
    return (upgrade.since, upgrade.name)
