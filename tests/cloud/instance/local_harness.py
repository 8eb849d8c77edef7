"""The whole cloud system on an embedded API server, with runs as processes of this machine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from ctrlruntime.clock import utc_now
from ctrlruntime.manager import Manager
from internal.cloud.pace import Pace
from internal.cloud.subresource import Subresource
from internal.cloud.subresources import SUBRESOURCES
from internal.named_secrets import Purpose
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness
from tests.cloud.run_processes import end_runs

STAND_IN = Path(__file__).parents[1] / "tasks" / "terraform" / "stand_in.py"


@dataclass(slots=True)
class LocalHarness(InstanceHarness):
    """The whole system, with runs as processes of this machine."""

    options: CloudOptions = field(default_factory=CloudOptions)
    subresources: Sequence[Subresource[Any]] = SUBRESOURCES

    async def add_controllers(self, manager: Manager) -> None:
        add_cloud(manager, self.options, self.subresources)

    async def give_secret(self, name: str, **data: str) -> None:
        manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": dict.fromkeys(map(str, Purpose), "true"),
            },
            "stringData": data,
        }
        await self.client.create(manifest)


@asynccontextmanager
async def local_harness(
    folder: Path,
    *,
    environment: Mapping[str, str],
    pace: Pace | None = None,
    clock: Callable[[], datetime] = utc_now,
    runs: Mapping[str, Any] | None = None,
    subresources: Sequence[Subresource[Any]] = SUBRESOURCES,
    terraform_types_file: Path | None = None,
) -> AsyncIterator[LocalHarness]:
    """A harness whose runs find a stand-in for terraform; `environment`: more of their variables.

    Runs that the manager leaves behind are cancelled at the end.
    """
    binaries = folder / "bin"
    binaries.mkdir()
    script = f'#!/bin/sh\nexec {sys.executable} -I -S {STAND_IN} "$@"\n'
    (binaries / "terraform").write_text(script)
    (binaries / "terraform").chmod(0o755)
    options = RunsOptions(
        folder=folder / "runs",
        environment={
            "PATH": f"{binaries}:/usr/bin:/bin",
            "TERRAFORM_STATE_DIR": str(folder / "states"),
            "STAND_IN_MARK": str(folder / "mark"),
            **environment,
        },
        **(runs or {}),
    )
    try:
        async with LocalHarness.start(
            folder,
            options=CloudOptions(
                runs=options,
                pace=pace or Pace(),
                clock=clock,
                terraform_types_file=terraform_types_file,
            ),
            subresources=subresources,
        ) as harness:
            yield harness
    finally:
        await asyncio.to_thread(end_runs, folder / "runs")
