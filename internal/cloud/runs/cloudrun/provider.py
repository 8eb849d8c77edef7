"""Runs as Google Cloud Run jobs (Admin API v2)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from ctrlruntime.client.fence import Fence
from internal.cloud.runs.cloudrun.api import (
    INPUT,
    RESULT,
    SEAL_KEY,
    SECRETS,
    BucketFiles,
    CloudAPI,
    CloudError,
    CloudRunOptions,
    TokenSource,
)
from internal.cloud.runs.cloudrun.job import (
    OWNER_LABEL,
    Seen,
    check,
    is_ours,
    is_over,
    job_of,
    run_of,
)
from internal.cloud.runs.provider import Run, RunName, RunOwner, RunRefused, RunRequest
from internal.cloud.runs.sealing import CannotOpen, new_key, open_sealed
from internal.cloud.runs.secrets import SecretReader, read_keys
from internal.cloud.runs.wire import BadInput, encode_input

__all__ = ["CloudRunRuns"]

_BAD_REQUEST: Final = 400
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_FAILED_PRECONDITION: Final = "FAILED_PRECONDITION"
_LOOK: Final = 1.0

Obj = dict[str, Any]


class CloudRunRuns:
    """Each run is a job of its name, whose only execution is made in the request that makes the job.

    Cloud Run gives a task no way to hand anything back but its exit code. So the files of a run are
    in a bucket, mounted into its container: input, secrets and key go in, the report comes out.
    """

    def __init__(
        self,
        options: CloudRunOptions,
        token: TokenSource,
        secrets: SecretReader | None = None,
        *,
        fence: Fence = lambda: None,
    ) -> None:
        """Without `secrets` no task gets any. `fence`: the leader's (`Manager.fence`)."""
        self._options = options
        self._api = CloudAPI(token, fence)
        self._files = BucketFiles(self._api, options)
        self._secrets = secrets
        self._emptied: set[RunName] = set()
        """Runs that have ended and whose Secrets are gone from the bucket."""

    async def start(self, request: RunRequest) -> Run:
        """Raise CloudError where the outcome is unknown, or the API is busy."""
        check(request)
        owner, run_id = request.input.owner, request.run_id
        job = await self._find(run_id)
        if job is None:
            await self._files.make(run_id, await self._contents(request))
            job = await self._create(request)
        if not is_ours(job, owner, run_id):
            raise RunRefused(
                f"there is a Cloud Run job {run_id!r} in {self._options.parent} that no run of "
                f"{owner.kind} {owner.name!r} made: delete it, and ask for a retry"
            )
        return await self._reported(job)

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        job = await self._find(run_id)
        if job is None or not is_ours(job, owner, run_id):
            return None
        return await self._reported(job)

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        """Read all jobs of the location: the API selects none by label."""
        url = f"{self._options.run_url}/v2/{self._options.parent}/jobs"
        ours = [
            job
            async for job in self._pages(url, "jobs")
            if (job.get("labels") or {}).get(OWNER_LABEL) == owner.uid
        ]
        runs = [await self._reported(job) for job in ours]
        return sorted(runs, key=lambda run: (str(run.created_at), run.run_id))

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        """Raise CloudError while the job is there and its execution is not."""
        job = await self._find(run_id)
        if job is None or not is_ours(job, owner, run_id):
            return
        execution = await self._execution(job)
        if execution is None:
            if (await self._reported(job)).state.finished:
                return
            raise CloudError(
                0, "", f"the execution of run {run_id} is not there yet; cancel it again"
            )
        if not is_over(execution):
            await self._cancel(execution)

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        """Cancel and await it, delete its files, then its job; `get` returns it until it is gone."""
        job = await self._find(run_id)
        if job is None or not is_ours(job, owner, run_id):
            return
        await self._end(job)
        await self._files.remove(f"{run_id}/")
        self._emptied.discard(run_id)
        try:
            await self._api.json("DELETE", self._url(job["name"]))
        except CloudError as error:
            if error.status != _NOT_FOUND:
                raise

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        """Return False: Cloud Run sends no events."""
        return False

    async def aclose(self) -> None:
        await self._api.close()

    async def _create(self, request: RunRequest) -> Obj:
        url = f"{self._options.run_url}/v2/{self._options.parent}/jobs"
        body = job_of(request, self._options)
        try:
            await self._api.json("POST", url, params={"jobId": request.run_id}, body=body)
        except CloudError as error:
            if error.status == _BAD_REQUEST:
                raise RunRefused(
                    f"Cloud Run refuses run {request.run_id}; look at the options of runs: {error}"
                ) from error
            if error.status != _CONFLICT:
                raise
        made = await self._find(request.run_id)
        if made is None:
            raise CloudError(0, "", f"run {request.run_id} was deleted while it was started")
        return made

    async def _contents(self, request: RunRequest) -> dict[str, bytes]:
        try:
            files = {INPUT: encode_input(request.input), SEAL_KEY: new_key().encode()}
        except BadInput as error:
            raise RunRefused(str(error)) from error
        if self._secrets is not None:
            found = await read_keys(self._secrets, request.input.owner.namespace, request.secrets)
            files |= {f"{SECRETS}/{name}/{key}": value for (name, key), value in found.items()}
        return files

    async def _find(self, run_id: RunName) -> Obj | None:
        try:
            return await self._api.json("GET", self._url(f"{self._options.parent}/jobs/{run_id}"))
        except CloudError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    async def _execution(self, job: Obj) -> Obj | None:
        """Return the only one."""
        url = self._url(f"{job['name']}/executions")
        async for execution in self._pages(url, "executions"):
            return execution
        return None

    async def _reported(self, job: Obj) -> Run:
        run_id = str(job["name"]).rpartition("/")[2]
        execution = await self._execution(job)
        attempt: Obj = {}
        if execution is not None and is_over(execution):
            async for task in self._pages(self._url(f"{execution['name']}/tasks"), "tasks"):
                attempt = task.get("lastAttemptResult") or {}
        words = b"" if execution is None else await self._files.read(run_id, RESULT)
        key = await self._files.read(run_id, SEAL_KEY) if is_over(execution) else b""

        def unseal(text: str) -> Mapping[str, str]:
            if not key:
                raise CannotOpen("the key of its secret outputs is gone from the bucket")
            return open_sealed(text, key.decode(), run_id)

        seen = Seen(job=job, execution=execution, attempt=attempt, last_words=words)
        run = run_of(run_id, seen, unseal)
        if run.state.finished and run_id not in self._emptied:
            # The bucket is shared: other runs' tasks may read it as long as the record is kept.
            await self._files.remove(f"{run_id}/{SECRETS}/")
            self._emptied.add(run_id)
        return run

    async def _end(self, job: Obj) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._options.grace
        execution = await self._execution(job)
        if execution is None or is_over(execution):
            return
        await self._cancel(execution)
        while execution is not None and not is_over(execution):
            if loop.time() >= until:
                message = f"run {job['name']} was cancelled and has not ended yet; delete it again"
                raise CloudError(0, "", message)
            await asyncio.sleep(_LOOK)
            execution = await self._execution(job)

    async def _cancel(self, execution: Obj) -> None:
        try:
            await self._api.json("POST", f"{self._url(execution['name'])}:cancel", body={})
        except CloudError as error:
            ended = error.reason == _FAILED_PRECONDITION
            if error.status != _NOT_FOUND and not ended:
                raise

    async def _pages(self, url: str, field: str) -> AsyncIterator[Obj]:
        params = {"pageSize": "100"}
        while True:
            page = await self._api.json("GET", url, params=params)
            for item in page.get(field, []):
                yield item
            if not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    def _url(self, name: str) -> str:
        return f"{self._options.run_url}/v2/{name}"
