"""Which steps of an upgrade are done: kept in the instance's cluster, so that any attempt finds it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from apis.cloud import GROUP
from ctrlruntime.api.scalars import format_time, parse_time
from ctrlruntime.client import Client
from ctrlruntime.client.errors import NotFound
from internal.cloud.tasks.kubernetes.applying import UPGRADES
from internal.cloud.tasks.kubernetes.inventory import FIELD_MANAGER
from internal.cloud.tasks.kubernetes.rollout import CONFIG_MAP

UPGRADE_UID: Final = f"{GROUP}/upgrade-uid"
"""Annotation of the ConfigMap: the upgrade whose steps it tells of."""
ROUND: Final = "round"
"""Key beside those of the steps: how often the precautions were begun."""
MIGRATE_FAILED: Final = "migrate-failed"
"""Key beside those of the steps: when the migration failed."""


class Checkpoint:
    """The steps of one upgrade that are done. Of an earlier upgrade nothing counts."""

    def __init__(self, client: Client, *, key: str, namespace: str, uid: str) -> None:
        self._client = client
        self._name = f"{key}-upgrade"
        self._labels = {UPGRADES: key}
        self._namespace = namespace
        self._uid = uid
        self._done: dict[str, str] = {}

    async def load(self) -> None:
        """Read what is recorded."""
        try:
            found = await self._client.get(CONFIG_MAP, self._name, namespace=self._namespace)
        except NotFound:
            return
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(UPGRADE_UID) == self._uid:
            self._done = dict(found.get("data") or {})

    def done(self, step: str) -> bool:
        """Whether the step is recorded as done."""
        return step in self._done

    @property
    def round(self) -> int:
        """How often the precautions were begun: 1, and one more each time that they are repeated."""
        found = self._done.get(ROUND, "1")
        return int(found) if found.isdecimal() else 1

    async def record(self, step: str, now: datetime) -> None:
        """Record the step as done; until it is repeated, no attempt carries it out again."""
        self._done[step] = format_time(now)
        await self._write()

    async def record_failed_migration(self, now: datetime) -> None:
        """Record that the migration failed, so that it may have changed something."""
        self._done[MIGRATE_FAILED] = format_time(now)
        await self._write()

    async def reopen(self, now: datetime, max_age: timedelta) -> tuple[str, ...]:
        """Forget the precautions that no longer hold, before any of them is begun again.

        Returns their names. What is begun then has names and keys of its own, by the round.
        """
        failed = MIGRATE_FAILED in self._done
        steps = steps_to_repeat(self._done, migrate_failed=failed, now=now, max_age=max_age)
        if steps:
            gone = {*steps, MIGRATE_FAILED, ROUND}
            self._done = {key: self._done[key] for key in self._done if key not in gone} | {
                ROUND: str(self.round + 1)
            }
            await self._write()
        return steps

    async def _write(self) -> None:
        await self._client.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": self._name,
                    "namespace": self._namespace,
                    "labels": self._labels,
                    "annotations": {UPGRADE_UID: self._uid},
                },
                "data": self._done,
            },
            field_manager=FIELD_MANAGER,
            force=True,
        )


HEALTH_CHECK: Final = "health-check"
BACKUP: Final = "backup"
MIGRATE: Final = "migrate"
ROLL: Final = "roll"
PRECAUTIONS: Final = (HEALTH_CHECK, BACKUP)
"""Steps that say how things were before anything was changed."""


def steps_to_repeat(
    done: Mapping[str, str], *, migrate_failed: bool, now: datetime, max_age: timedelta
) -> tuple[str, ...]:
    """Return the precautions that no longer hold. `done`: when each step was recorded, by step.

    After a migration that failed all of them are repeated, since it may have changed something;
    otherwise those that are older than `max_age`. Once the data are migrated, or the workload is
    rolled out, none is: a backup of what was changed would take the place of the one from before.
    """
    if MIGRATE in done or ROLL in done:
        return ()
    known = [step for step in PRECAUTIONS if step in done]
    if migrate_failed:
        return tuple(known)
    return tuple(step for step in known if _is_older(done[step], now, max_age))


def _is_older(recorded: str, now: datetime, max_age: timedelta) -> bool:
    try:
        return now - parse_time(recorded) > max_age
    except ValueError:
        return True
