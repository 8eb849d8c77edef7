"""What is recorded of a change of version in the instance's cluster, and what that permits. Pure.

The record belongs to the change (instance, from, to), not to the UpgradeInstanceTask that carries it out: one that takes
the place of another goes on where that one stopped. It is closed once the change has succeeded or was undone.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from apis.cloud import GROUP
from ctrlruntime.api.kinds import Manifest
from internal.cloud.bulk import is_newer
from internal.cloud.labels import DATABASE_RESTORED
from internal.cloud.tasks.kubernetes.applying import UPGRADES

UPGRADE_UID: Final = f"{GROUP}/upgrade-uid"
"""Annotation: UID of the UpgradeInstanceTask that wrote the record last."""
CHANGE_ID: Final = f"{GROUP}/change-id"
"""Annotation: what the keys of requests and Jobs of the change begin with; the UID of the UpgradeInstanceTask that began it."""
FROM_VERSION: Final = f"{GROUP}/from-version"
TO_VERSION: Final = f"{GROUP}/to-version"
MIGRATED_TO: Final = f"{GROUP}/migrated-to"
"""Annotation: the version to which an earlier change, which was not finished, has migrated the data."""
CLOSED: Final = f"{GROUP}/closed"
"""Annotation: why the record does not count any more."""

MIGRATED: Final = "MigratedData"
"""Reason of a hold: the data may have been migrated to another version than is to be rolled out."""
HEALTH_CHECK: Final = "health-check"
BACKUP: Final = "backup"
MIGRATE: Final = "migrate"
ROLL: Final = "roll"
VERIFY: Final = "verify"
MIGRATE_BEGUN: Final = "migrate-begun"
"""Key beside those of the steps: when the migration was begun that has no result yet."""
MIGRATION: Final = "migration"
"""Of the record of a run: the change whose migration was begun; empty once it has succeeded."""
MIGRATE_FAILED: Final = "migrate-failed"
"""Key beside those of the steps: when the migration failed."""

INPUTS: Final = "-inputs"
"""End of the keys with the digests of what the precautions were carried out with."""


class Closed(StrEnum):
    """Why a record does not count any more."""

    OPEN = ""
    SUCCEEDED = "Succeeded"
    UNDONE = "Undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRecord:
    """How far a change of version has come."""

    change: str
    """Identifies the change in keys."""
    uid: str
    """UID of the UpgradeInstanceTask that works on it."""
    from_version: str
    to_version: str
    steps: Mapping[str, str] = field(default_factory=dict)
    """When each step was done, by step, and keys beside them."""
    migrated_to: str = ""
    """Version of the data before this change migrates them, if an unfinished change has migrated them."""
    closed: Closed = Closed.OPEN

    @property
    def data_version(self) -> str:
        """The version that the data may have been migrated to; empty while they are as before the change."""
        if self.closed:
            return ""
        begun = MIGRATE in self.steps or MIGRATE_BEGUN in self.steps
        return self.to_version if begun else self.migrated_to

    @property
    def digest(self) -> str:
        """What an annotation names which confirms that the data from before this change are restored."""
        identity = f"{self.change}\0{self.from_version}\0{self.data_version}"
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that hold it."""
        return {
            UPGRADE_UID: self.uid,
            CHANGE_ID: self.change,
            FROM_VERSION: self.from_version,
            TO_VERSION: self.to_version,
            MIGRATED_TO: self.migrated_to,
            CLOSED: self.closed.value,
        }


def record_name(key: str) -> str:
    """Return the name of the ConfigMap with the record of an instance."""
    return f"{key}-upgrade"


def record_of(config_map: Mapping[str, Any]) -> ChangeRecord | None:
    """Return what a ConfigMap records; None for one that names no versions, as earlier releases wrote it."""
    annotations = config_map["metadata"].get("annotations") or {}
    if TO_VERSION not in annotations:
        return None
    closed = annotations.get(CLOSED, "")
    return ChangeRecord(
        change=annotations.get(CHANGE_ID, ""),
        uid=annotations.get(UPGRADE_UID, ""),
        from_version=annotations.get(FROM_VERSION, ""),
        to_version=annotations[TO_VERSION],
        steps=dict(config_map.get("data") or {}),
        migrated_to=annotations.get(MIGRATED_TO, ""),
        closed=Closed(closed) if closed in set(Closed) else Closed.OPEN,
    )


def manifest_of(record: ChangeRecord, key: str, namespace: str) -> Manifest:
    """Return the ConfigMap that holds a record."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": record_name(key),
            "namespace": namespace,
            "labels": {UPGRADES: key},
            "annotations": record.annotations,
        },
        "data": dict(record.steps),
    }


def continued(
    record: ChangeRecord | None, from_version: str, to_version: str, uid: str
) -> ChangeRecord | None:
    """Return the record with which an UpgradeInstanceTask goes on; None if it may not begin.

    None is returned for a change to a version that is older than the migrated data, see `migrated_hold`.
    """
    new = ChangeRecord(change=uid, uid=uid, from_version=from_version, to_version=to_version)
    if record is None:
        return new
    same = (record.from_version, record.to_version) == (from_version, to_version)
    if record.closed is Closed.SUCCEEDED and same and record.uid == uid:
        return record
    if record.closed:
        # An annotation that confirmed the restored data confirms those of that change only.
        return replace(new, change=f"{record.change}/again") if record.uid == uid else new
    if same:
        kept = dict(record.steps) if record.uid == uid else _without_rollout(record.steps)
        return replace(record, uid=uid, steps=kept)
    data = record.data_version
    if not data or data == from_version:
        return replace(new, steps=_before_failure(record, from_version))
    if to_version != data and not is_newer(to_version, data):
        return None
    kept = {step: at for step, at in record.steps.items() if step != MIGRATE_FAILED}
    kept = _without_rollout({k: v for k, v in kept.items() if k not in (MIGRATE, MIGRATE_BEGUN)})
    if to_version == data and (MIGRATE in record.steps or data == record.migrated_to):
        kept[MIGRATE] = record.steps.get(MIGRATE, record.steps.get(BACKUP, ""))
    return replace(new, steps=kept, migrated_to=data)


def _before_failure(record: ChangeRecord, from_version: str) -> dict[str, str]:
    """Return what counts for another version after a migration that failed: the backup from before it."""
    if MIGRATE_FAILED not in record.steps or record.from_version != from_version:
        return {}
    kept = (BACKUP, f"{BACKUP}{INPUTS}", MIGRATE_FAILED)
    return {step: record.steps[step] for step in kept if step in record.steps}


def _without_rollout(steps: Mapping[str, str]) -> dict[str, str]:
    """Return the steps of another UpgradeInstanceTask that count: its workload may have been another one."""
    return {step: at for step, at in steps.items() if step not in (ROLL, VERIFY)}


def migrated_hold(record: ChangeRecord | None, version: str, restored: str) -> bool:
    """Whether a version may not be rolled out, since the data may have been migrated to another one.

    `restored`: the digest by which a person confirmed that the data from before the change are restored.
    """
    data = "" if record is None else record.data_version
    return record is not None and bool(data) and data != version and restored != record.digest


def undone(record: ChangeRecord | None, version: str) -> ChangeRecord | None:
    """Return the closed record once a version is rolled out from which an open change began; None: nothing is to be closed."""
    if record is None or record.closed or version != record.from_version:
        return None
    return replace(record, closed=Closed.UNDONE)


def hold_message(record: ChangeRecord, version: str, instance: str, namespace: str) -> str:
    """Return why a version is not rolled out, and what a person can do."""
    data = record.data_version
    done = MIGRATE in record.steps or data == record.migrated_to
    state = "has succeeded" if done else "was begun, and how it ended is unknown"
    return (
        f"held: the migration from {record.from_version or 'nothing'} to {data} {state}, so {version} is not rolled"
        f" out on its data. Set spec.version to {data} to finish it. Or restore the backup from"
        f" before it, set the version to {record.from_version} and run `kubectl annotate"
        f" instances.{GROUP} {instance} -n {namespace} {DATABASE_RESTORED}={record.digest} --overwrite`"
    )


def lost_message(migration: str, name: str, place: str, instance: str, owner_namespace: str) -> str:
    """Return why no step is begun where the ConfigMap with the record is gone, and what a person can do."""
    return (
        f"held: the migration of {migration} was begun, and the ConfigMap {name} in namespace {place}, which records how far"
        " that came, is gone: a backup would take the place of the one from before. Restore it from a backup of the cluster."
        f" Or restore the database from before the migration, and begin anew: `kubectl create configmap {name} -n {place}`."
        f" Then run `manager instance retry {instance} -n {owner_namespace}`"
    )
