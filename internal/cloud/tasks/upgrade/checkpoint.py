"""Which steps of a change of version are done: kept in the instance's cluster, so that any attempt finds it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from ctrlruntime.api.scalars import format_time, time_or_none
from ctrlruntime.client import Client, NotFound
from internal.cloud.tasks.kubernetes.changes import (
    BACKUP,
    HEALTH_CHECK,
    INPUTS,
    MIGRATE,
    MIGRATE_BEGUN,
    MIGRATE_FAILED,
    MIGRATED,
    ROLL,
    UPGRADE_UID,
    ChangeRecord,
    Closed,
    continued,
    hold_message,
    lost_message,
    manifest_of,
    record_name,
    record_of,
)
from internal.cloud.tasks.kubernetes.inventory import FIELD_MANAGER
from internal.cloud.tasks.kubernetes.rollout import CONFIG_MAP
from internal.cloud.tasks.task import TaskHeld

ROUND: Final = "round"
"""Key beside those of the steps: how often the precautions were begun."""


class Checkpoint:
    """The steps of one change that are done. Of an earlier change only what its migration did counts."""

    def __init__(self, client: Client, *, key: str, namespace: str, begun: ChangeRecord) -> None:
        """`begun`: the change, as it is where nothing is recorded."""
        self._client = client
        self._key = key
        self._namespace = namespace
        self._record = begun
        self._done: dict[str, str] = {}

    async def load(self, instance: str, owner_namespace: str, migration: str = "") -> None:
        """Read what is recorded. `migration`: the change whose migration was begun, by the record of a run.

        Raises TaskHeld if the data were migrated to a newer version than is wanted, or such a change is recorded no more.
        """
        begun = self._record
        try:
            found = await self._client.get(
                CONFIG_MAP, record_name(self._key), namespace=self._namespace
            )
        except NotFound:
            if migration:
                message = lost_message(
                    migration, record_name(self._key), self._namespace, instance, owner_namespace
                )
                raise TaskHeld(message, MIGRATED) from None
            return
        record = record_of(found) or _of_earlier_release(found, begun)
        then = continued(record, begun.from_version, begun.to_version, begun.uid)
        if then is None and record is not None:
            message = hold_message(record, begun.to_version, instance, owner_namespace)
            raise TaskHeld(message, MIGRATED)
        self._record = then or begun
        self._done = dict(self._record.steps)

    @property
    def change(self) -> str:
        """Identifies the change in the keys of requests and Jobs."""
        return self._record.change

    def done(self, step: str) -> bool:
        """Whether the step is recorded as done."""
        return step in self._done

    @property
    def round(self) -> int:
        """How often the precautions were begun: 1, and one more each time that they are repeated."""
        found = self._done.get(ROUND, "1")
        return int(found) if found.isdecimal() else 1

    async def record(self, step: str, now: datetime, inputs: str = "") -> None:
        """Record the step as done; until it is repeated, no attempt carries it out again.

        `inputs`: digest of what a precaution was carried out with.
        """
        self._done[step] = format_time(now)
        if inputs:
            self._done[step + INPUTS] = inputs
        if step == MIGRATE:
            self._done = {
                k: v for k, v in self._done.items() if k not in (MIGRATE_BEGUN, MIGRATE_FAILED)
            }
        await self._write()

    async def begin_migration(self, now: datetime) -> None:
        """Record that the migration begins: until its result is recorded, it may have changed something."""
        self._done[MIGRATE_BEGUN] = format_time(now)
        await self._write()

    async def record_failed_migration(self, now: datetime) -> None:
        """Record that the migration failed, so that it may have changed something."""
        self._done.pop(MIGRATE_BEGUN, None)
        self._done[MIGRATE_FAILED] = format_time(
            now
        )  # until it succeeds: it may have changed something
        await self._write()

    async def close(self) -> None:
        """Record that the change has succeeded: the next one begins anew."""
        if not self._record.closed:
            self._record = replace(self._record, closed=Closed.SUCCEEDED)
            await self._write()

    async def reopen(
        self, now: datetime, max_age: timedelta, inputs: Mapping[str, str]
    ) -> tuple[str, ...]:
        """Forget the precautions that no longer hold, before any of them is begun again.

        Returns their names. What is begun then has names and keys of its own, by the round. `inputs`: digests of
        what each precaution would be carried out with now.
        """
        if self._record.migrated_to:
            return ()  # the backup from before the first migration stays the last one
        steps = steps_to_repeat(self._done, now=now, max_age=max_age, inputs=inputs)
        if steps:
            gone = {*steps, ROUND}
            self._done = {key: self._done[key] for key in self._done if key not in gone} | {
                ROUND: str(self.round + 1)
            }
            await self._write()
        return steps

    async def _write(self) -> None:
        self._record = replace(self._record, steps=dict(self._done))
        manifest = manifest_of(self._record, self._key, self._namespace)
        await self._client.apply(manifest, field_manager=FIELD_MANAGER, force=True)


def _of_earlier_release(found: Mapping[str, object], begun: ChangeRecord) -> ChangeRecord | None:
    """Return a record that names no versions, if this very UpgradeInstanceTask wrote it."""
    metadata, data = found["metadata"], found.get("data")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if (annotations or {}).get(UPGRADE_UID) != begun.uid:
        return None
    return replace(begun, steps=dict(data) if isinstance(data, dict) else {})


PRECAUTIONS: Final = (HEALTH_CHECK, BACKUP)
"""Steps that say how things were before anything was changed."""


def steps_to_repeat(
    done: Mapping[str, str],
    *,
    now: datetime,
    max_age: timedelta,
    inputs: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Return the precautions that no longer hold. `done`: when each step was recorded, by step.

    Those that are older than `max_age`, or were carried out with other inputs. Once a migration was begun, however it
    ended, it may have changed something: no backup follows, since it would take the place of the one from before, and
    after one that failed the health is checked again. Once the data are migrated, or the workload is rolled out, nothing
    is repeated.
    """
    if MIGRATE in done or ROLL in done:
        return ()
    failed = MIGRATE_FAILED in done
    begun = failed or MIGRATE_BEGUN in done
    known = [step for step in PRECAUTIONS if step in done and not (begun and step == BACKUP)]
    given = {} if begun else inputs or {}
    return tuple(
        step
        for step in known
        if failed or _is_older(done[step], now, max_age) or _is_other(done, step, given)
    )


def _is_other(done: Mapping[str, str], step: str, inputs: Mapping[str, str]) -> bool:
    recorded = done.get(step + INPUTS, "")
    return bool(recorded) and inputs.get(step, recorded) != recorded


def _is_older(recorded: str, now: datetime, max_age: timedelta) -> bool:
    at = time_or_none(recorded)
    return at is None or now - at > max_age
