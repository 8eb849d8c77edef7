"""What the contract is tested on: one bench for each provider."""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from apis.cloud import TaskOperation
from apis.references import SecretKeyRef
from internal.cloud.runs import RunInput, RunOwner, RunProvider, RunRequest
from internal.cloud.runs.local import LocalOptions, LocalRuns

COMMAND = (sys.executable, "-m", "tests.cloud.runs.work")


class Bench(Protocol):
    """A provider's surroundings. `settings` let another process make the same provider."""

    name: str

    @property
    def settings(self) -> dict[str, Any]: ...

    def provider(self) -> RunProvider:
        """A new one, as a restarted manager has."""
        ...

    async def owner(self, name: str = "shop") -> RunOwner:
        """An object that drives runs."""
        ...

    async def put_secret(self, name: str, data: Mapping[str, str]) -> None: ...

    async def take_away(self, owner: RunOwner, run_id: str) -> None:
        """Deletes a run behind the provider's back."""
        ...


class LocalBench:
    """Runs as processes, in a folder of the test's."""

    name = "local"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secrets: dict[str, dict[str, bytes]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {"bench": self.name, "folder": str(self._folder)}

    def provider(self) -> RunProvider:
        options = LocalOptions(folder=self._folder, command=COMMAND, grace=5)
        return LocalRuns(options, self._read)

    async def _read(self, _namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self._secrets.get(name)

    async def owner(self, name: str = "shop") -> RunOwner:
        return owner_of(name, str(uuid.uuid4()))

    async def put_secret(self, name: str, data: Mapping[str, str]) -> None:
        self._secrets[name] = {key: value.encode() for key, value in data.items()}

    async def take_away(self, owner: RunOwner, run_id: str) -> None:
        shutil.rmtree(self._folder / owner.uid / run_id)


@asynccontextmanager
async def provider_of(settings: Mapping[str, Any]) -> AsyncIterator[RunProvider]:
    """The provider of a bench in another process."""
    provider = LocalBench(Path(settings["folder"])).provider()
    try:
        yield provider
    finally:
        await provider.aclose()


def owner_of(name: str, uid: str, namespace: str = "default") -> RunOwner:
    return RunOwner(
        api_version="cloud.ctrlruntime.dev/v1",
        kind="InstanceTerraform",
        namespace=namespace,
        name=name,
        uid=uid,
    )


def request_of(
    owner: RunOwner,
    *steps: dict[str, Any],
    run_id: str = "work-0123456789ab",
    timeout: float = 60,
    secrets: Sequence[SecretKeyRef] = (),
    **fields: Any,
) -> RunRequest:
    given = RunInput(
        task="work",
        run_id=run_id,
        inputs_version="4-6ed660a4008186bfdeea20b29ecc01904d04bf7b",
        attempt=1,
        slot="",
        operation=TaskOperation.APPLY,
        owner=owner,
        instance=owner.name,
        spec={"steps": list(steps)},
    )
    return RunRequest(
        run_id=run_id, input=replace(given, **fields), timeout=timeout, secrets=secrets
    )
