"""What a task is given, for tests that run one in their own process."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from apis.cloud import TaskOperation
from apis.references import SecretKeyRef
from internal.cloud.runs import RunInput, RunOwner
from internal.cloud.tasks import TaskContext, TaskRejected


@dataclass(slots=True)
class Workbench:
    """Secrets, ConfigMaps and a folder; keeps what the task says."""

    folder: Path
    secrets: dict[tuple[str, str], str] = field(default_factory=dict)
    config_maps: dict[str, dict[str, str]] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    def context(
        self,
        task: str,
        spec: Mapping[str, Any],
        *,
        instance: str = "acme",
        namespace: str = "prod",
        kind: str = "InstanceKubernetes",
        uid: str = "0c6e7f3a",
        attempt: int = 1,
        operation: TaskOperation = TaskOperation.APPLY,
        instance_uid: str = "5a1b9d3e",
        protected: bool | None = None,
    ) -> TaskContext:
        """The context of one run; every run has a folder of its own. Only a teardown has an instance
        that is not protected, unless it is given."""
        owner = RunOwner(
            api_version="cloud.ctrlruntime.dev/v1",
            kind=kind,
            namespace=namespace,
            name=instance,
            uid=uid,
        )
        given = RunInput(
            task=task,
            run_id=f"{task}-{attempt:012x}",
            inputs_version=f"{1}-{'0' * 40}",
            attempt=attempt,
            slot="",
            operation=operation,
            owner=owner,
            instance=instance,
            instance_uid=instance_uid,
            protected=operation is TaskOperation.APPLY if protected is None else protected,
            spec=spec,
        )
        return TaskContext(
            input=given,
            secret=self._secret,
            config_map=self._config_map,
            folder=Path(tempfile.mkdtemp(dir=self.folder)),
            log=structlog.get_logger(),
            progress=self.said.append,
            keep=self.kept.__setitem__,
        )

    def _secret(self, ref: SecretKeyRef) -> str:
        try:
            return self.secrets[ref.name, ref.key]
        except KeyError:
            raise TaskRejected(f"no Secret {ref.name} with {ref.key}") from None

    def _config_map(self, name: str) -> Mapping[str, str]:
        try:
            return self.config_maps[name]
        except KeyError:
            raise TaskRejected(f"no ConfigMap {name}") from None
