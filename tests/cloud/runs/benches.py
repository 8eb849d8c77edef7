"""What the contract is tested on: one bench for each provider."""

from __future__ import annotations

import base64
import shutil
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from apis.cloud import TaskOperation
from apis.references import SecretKeyRef
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.fence import Fence
from ctrlruntime.envtest import Environment
from ctrlruntime.outbound_addresses import allowed_environment
from internal.cloud.labels import RUN_ID
from internal.cloud.runs import RunInput, RunOwner, RunProvider, RunRequest
from internal.cloud.runs.cloudrun import CloudRunOptions, CloudRunRuns
from internal.cloud.runs.cloudrun.job import execution_id, job_id
from internal.cloud.runs.files import SecretReader
from internal.cloud.runs.jobs import JobOptions, JobRuns
from internal.cloud.runs.jobs.manifest import JOB, POD, SECRET
from internal.cloud.runs.local import LocalOptions, LocalRuns
from tests.cloud.servers.cloudrun import CloudServer

COMMAND = (sys.executable, "-m", "tests.cloud.runs.program")
GRACE = 5
"""Seconds that a cancelled run has."""


class Bench(Protocol):
    """A provider's surroundings. `settings` let another process make the same provider."""

    @property
    def settings(self) -> dict[str, Any]: ...

    def provider(self, grace: int = GRACE) -> RunProvider:
        """A new one, as a restarted manager has. Of Cloud Run no provider gives the seconds of grace."""
        ...

    async def owner(self, name: str = "shop") -> RunOwner:
        """An object that drives runs."""
        ...

    async def put_secret(self, name: str, data: Mapping[str, str]) -> None: ...

    async def take_away(self, owner: RunOwner, run_id: str) -> None:
        """Delete a run behind the provider's back."""
        ...

    async def places_of(self, value: str) -> list[str]:
        """Where the value of a Secret can be read that runs were given, but for the Secret itself."""
        ...


def files_with(folder: Path, value: str) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return [str(path) for path in files if value.encode() in path.read_bytes()]


class LocalBench:
    """Runs as processes, in a folder of the test's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._secrets: dict[str, dict[str, bytes]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {"folder": str(self._folder)}

    def provider(self, grace: int = GRACE) -> RunProvider:
        options = LocalOptions(folder=self._folder, command=COMMAND, grace=grace)
        return LocalRuns(options, self._read)

    async def _read(self, _namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self._secrets.get(name)

    async def owner(self, name: str = "shop") -> RunOwner:
        return owner_of(name, str(uuid.uuid4()))

    async def put_secret(self, name: str, data: Mapping[str, str]) -> None:
        self._secrets[name] = {key: value.encode() for key, value in data.items()}

    async def take_away(self, owner: RunOwner, run_id: str) -> None:
        shutil.rmtree(self._folder / owner.uid / run_id)

    async def places_of(self, value: str) -> list[str]:
        return files_with(self._folder, value)


class JobBench:
    """Runs as Jobs, whose Pods simulated nodes run as processes."""

    def __init__(self, environment: Environment, namespace: str, cache: Cache) -> None:
        self.client = environment.client("envtest")
        """Of people. The provider's own is that of the user `manager`."""
        self.namespace = namespace
        self._environment = environment
        self._cache = cache

    @property
    def settings(self) -> dict[str, Any]:
        return {"kubeconfig": str(self._environment.kubeconfig("manager"))}

    def provider(self, grace: int = GRACE) -> RunProvider:
        options = replace(JOBS, grace=grace)
        return JobRuns(self._environment.client("manager"), options, self._cache)

    async def owner(self, name: str = "shop") -> RunOwner:
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace},
        }
        made: dict[str, Any] = await self.client.create(body)
        owner = owner_of(name, made["metadata"]["uid"], self.namespace)
        return replace(owner, api_version="v1", kind="ConfigMap")

    async def put_secret(self, name: str, data: Mapping[str, str]) -> None:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": self.namespace},
            "stringData": dict(data),
        }
        await self.client.create(secret)

    async def take_away(self, owner: RunOwner, run_id: str) -> None:
        await self.client.delete(JOB, run_id, namespace=owner.namespace, propagation="Background")

    async def places_of(self, value: str) -> list[str]:
        encoded = base64.b64encode(value.encode()).decode()
        texts = [
            str(each)
            for kind in (JOB, POD, SECRET)
            for each in await self.client.list(kind, self.namespace)
        ]
        return [text for text in texts if value in text or (encoded in text and RUN_ID in text)]


class CloudRunBench:
    """Runs as Cloud Run jobs of a contract server."""

    def __init__(self, server: CloudServer) -> None:
        self.server = server
        self._secrets: dict[str, dict[str, bytes]] = {}

    @property
    def settings(self) -> dict[str, Any]:
        return {"url": self.server.url, "token": self.server.token}

    def provider(self, grace: int = GRACE) -> RunProvider:
        return cloud_run(self.server.url, self.server.token, self._read)

    async def _read(self, _namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self._secrets.get(name)

    async def owner(self, name: str = "shop") -> RunOwner:
        return owner_of(name, str(uuid.uuid4()))

    async def put_secret(self, name: str, data: Mapping[str, str]) -> None:
        self._secrets[name] = {key: value.encode() for key, value in data.items()}

    async def take_away(self, owner: RunOwner, run_id: str) -> None:
        url = f"{self.server.url}/v2/projects/shops/locations/here/jobs/{job_id(owner.uid)}"
        url += f"/executions/{execution_id(owner.uid, run_id)}"
        headers = {"Authorization": f"Bearer {self.server.token}"}
        async with aiohttp.ClientSession() as session, session.delete(url, headers=headers) as said:
            said.raise_for_status()

    async def places_of(self, value: str) -> list[str]:
        return files_with(self.server.storage.bucket("runs-of-shops"), value)


def cloud_run(
    url: str, token: str, secrets: SecretReader | None = None, fence: Fence = lambda: None
) -> CloudRunRuns:
    async def give() -> str:
        return token

    options = CloudRunOptions(
        project="shops",
        location="here",
        bucket="runs-of-shops",
        image="local",
        command=COMMAND,
        arguments=(),
        environment={"PYTHONPATH": str(Path(__file__).parents[3]), **allowed_environment()},
        run_url=url,
        storage_url=url,
    )
    return CloudRunRuns(options, give, secrets, fence=fence)


JOBS = JobOptions(
    image="local",
    command=COMMAND,
    arguments=(),
    environment={"PYTHONPATH": str(Path(__file__).parents[3]), **allowed_environment()},
    annotations={"ctrlruntime.dev/run-local": "true"},
    grace=GRACE,
)


@asynccontextmanager
async def provider_of(settings: Mapping[str, Any]) -> AsyncIterator[RunProvider]:
    """The provider of a bench in another process."""
    if "folder" in settings:
        local = LocalBench(Path(settings["folder"])).provider()
        yield local
        await local.aclose()
        return
    if "url" in settings:
        provider = cloud_run(settings["url"], settings["token"])
        yield provider
        await provider.aclose()
        return
    config = await Config.load(Path(settings["kubeconfig"]))
    async with Client.connect(config) as client:
        yield JobRuns(client, JOBS)


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
    attempt: int = 1,
    annotations: Mapping[str, str] | None = None,
) -> RunRequest:
    given = RunInput(
        task="work",
        run_id=run_id,
        inputs_version="4-6ed660a4008186bfdeea20b29ecc01904d04bf7b",
        attempt=attempt,
        slot="",
        operation=TaskOperation.APPLY,
        owner=owner,
        instance=owner.name,
        spec={"steps": list(steps)},
        annotations=annotations or {},
    )
    return RunRequest(run_id=run_id, input=given, timeout=timeout, secrets=secrets)
