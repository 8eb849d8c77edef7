"""Which steps of an upgrade are done: kept in the instance's cluster, so that any attempt finds it."""

from datetime import datetime
from typing import Final

from apis.cloud import GROUP
from ctrlruntime.api.scalars import format_time
from ctrlruntime.client import Client
from ctrlruntime.client.errors import NotFound
from internal.cloud.tasks.kubernetes.applying import FIELD_MANAGER
from internal.cloud.tasks.kubernetes.inventory import UPGRADES, label_value
from internal.cloud.tasks.kubernetes.rollout import CONFIG_MAP

UPGRADE_UID: Final = f"{GROUP}/upgrade-uid"
"""Annotation of the ConfigMap: the upgrade whose steps it tells of."""


class Checkpoint:
    """The steps of one upgrade that are done. Of an earlier upgrade nothing counts."""

    def __init__(self, client: Client, *, instance: str, namespace: str, uid: str) -> None:
        self._client = client
        self._name = f"{label_value(instance)}-upgrade"
        self._labels = {UPGRADES: label_value(instance)}
        self._namespace = namespace
        self._uid = uid
        self._done: dict[str, str] = {}

    async def load(self) -> None:
        """Read what is recorded."""
        try:
            found = await self._client.get(CONFIG_MAP, self._name, self._namespace)
        except NotFound:
            return
        annotations = found["metadata"].get("annotations") or {}
        if annotations.get(UPGRADE_UID) == self._uid:
            self._done = dict(found.get("data") or {})

    def done(self, step: str) -> bool:
        """Whether the step is recorded as done."""
        return step in self._done

    async def record(self, step: str, now: datetime) -> None:
        """The step is done, and will not be done again for this upgrade."""
        self._done[step] = format_time(now)
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
