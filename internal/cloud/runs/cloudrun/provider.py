"""Runs as Google Cloud Run jobs (Admin API v2)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ctrlruntime.client.fence import Fence
from internal.cloud.runs.cloudrun.api import (
    BucketFiles,
    CloudAPI,
    CloudError,
    CloudRunOptions,
    TokenSource,
)
from internal.cloud.runs.cloudrun.job import (
    Seen,
    check,
    execution_id,
    is_ours,
    is_over,
    job_id,
    job_of,
    run_id_of,
    run_of,
)
from internal.cloud.runs.files import INPUT, RESULT, SEAL_KEY, SECRETS, SecretReader, files_of
from internal.cloud.runs.provider import Run, RunName, RunOwner, RunRefused, RunRequest
from internal.cloud.runs.report import LARGEST
from internal.cloud.runs.sealing import CannotOpen, open_sealed

__all__ = ["CloudRunRuns"]

_BAD_REQUEST: Final = 400
_REFUSALS: Final = frozenset({400, 401, 403, 404, 429})
"""Answers to requests that were not carried out; neither what changes at the moment, nor a server that fails."""
_NOT_FOUND: Final = 404
_FAILED_PRECONDITION: Final = "FAILED_PRECONDITION"
_LOOK: Final = 1.0

Obj = dict[str, Any]


class CloudRunRuns:
    """The runs of an object are executions of one job; each is made in the write that gives the job its template.

    A region has room for 1,000 jobs, which one for each run would fill. Cloud Run gives a task no way to hand anything
    back but its exit code. So the files of a run are in a bucket, mounted into its container: input, secrets and key go
    in, the report comes out.
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
        """Raise CloudError where the outcome is unknown, the quota is used up, or the API is busy."""
        check(request)
        owner, run_id = request.input.owner, request.run_id
        seen = await self._find(owner, run_id)
        if seen is None:
            job = await self._job(owner)
            if job is not None and not is_ours(job, owner):
                raise RunRefused(
                    f"there is a Cloud Run job {job_id(owner.uid)!r} in {self._options.parent} that no run of "
                    f"{owner.kind} {owner.name!r} made: delete it, and ask for a retry"
                )
            try:
                await self._files.make(run_id, await files_of(request, self._secrets))
                seen = await self._create(request)
            except (CloudError, RunRefused) as error:
                # They are not to wait in the bucket until it is tried again. Another manager, or a request whose
                # answer was lost, may have made the run meanwhile.
                refused = isinstance(error, RunRefused) or error.status in _REFUSALS
                with suppress(CloudError):  # the refusal is what is reported
                    if refused and await self._find(owner, run_id) is None:
                        await self._files.remove(f"{run_id}/")
                raise
        return await self._reported(run_id, seen)

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        seen = await self._find(owner, run_id)
        return None if seen is None else await self._reported(run_id, seen)

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        job = await self._job(owner)
        if job is None or not is_ours(job, owner):
            return []
        found = [
            each async for each in self._pages(f"{self._url(job['name'])}/executions", "executions")
        ]
        seen = {
            run_id: Seen(execution=each) for each in found if (run_id := run_id_of(each, owner))
        }
        last = str(job.get("startExecutionToken", ""))
        if last and last not in seen and (made := await self._being_made(owner, last, job)):
            seen[last] = made
        runs = [await self._reported(run_id, each) for run_id, each in seen.items()]
        return sorted(runs, key=lambda run: (str(run.created_at), run.run_id))

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        """Raise CloudError while the execution is being made."""
        seen = await self._find(owner, run_id)
        if seen is None:
            return
        if seen.execution is None:
            if (await self._reported(run_id, seen)).state.finished:
                return
            raise CloudError(
                0, "", f"the execution of run {run_id} is not there yet; cancel it again"
            )
        if not is_over(seen.execution):
            await self._cancel(seen.execution)

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        """Cancel and await it, delete its files, then its execution; the last one goes with the job, in one request.

        Files go also of a run that never came to be.
        """
        seen = await self._find(owner, run_id)
        if seen is not None and seen.execution is not None:
            await self._end(seen.execution)
        await self._files.remove(f"{run_id}/")
        self._emptied.discard(run_id)
        if await self._keep_job(owner, run_id) and seen is not None and seen.execution is not None:
            await self._remove(self._url(str(seen.execution["name"])))

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        """Return False: Cloud Run sends no events."""
        return False

    async def aclose(self) -> None:
        await self._api.close()

    async def _create(self, request: RunRequest) -> Seen:
        owner, run_id = request.input.owner, request.run_id
        url, body = self._job_url(owner), job_of(request, self._options)
        try:
            await self._api.json("PATCH", url, params={"allowMissing": "true"}, body=body)
        except CloudError as error:
            if error.status == _BAD_REQUEST:
                raise RunRefused(
                    f"Cloud Run refuses run {run_id}; look at the options of runs: {error}"
                ) from error
            raise
        made = await self._find(owner, run_id)
        if made is None:
            raise CloudError(0, "", f"run {run_id} was deleted while it was started")
        return made

    async def _keep_job(self, owner: RunOwner, run_id: RunName) -> bool:
        """Return whether a job is there for other runs: made so that it makes this one again if that is started again.

        Without other runs it is deleted. The etag refuses what another process started meanwhile.
        """
        job = await self._job(owner)
        if job is None or not is_ours(job, owner):
            return False
        url, etag = self._url(str(job["name"])), str(job.get("etag", ""))
        last = str(job.get("startExecutionToken", ""))
        others = last not in ("", run_id) and await self._being_made(owner, last, job) is not None
        async for each in self._pages(f"{url}/executions", "executions"):
            others = others or run_id_of(each, owner) not in ("", run_id)
        if not others:
            await self._remove(url, etag=etag)
        elif last == run_id:
            kept: Obj = {
                key: job[key] for key in ("labels", "annotations", "template") if key in job
            }
            await self._api.json("PATCH", url, body={**kept, "etag": etag})
        return others

    async def _remove(self, url: str, **params: str) -> None:
        try:
            await self._api.json("DELETE", url, params=params)
        except CloudError as error:
            if error.status != _NOT_FOUND:
                raise

    async def _read(self, url: str) -> Obj | None:
        try:
            return await self._api.json("GET", url)
        except CloudError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def _job_url(self, owner: RunOwner) -> str:
        return self._url(f"{self._options.parent}/jobs/{job_id(owner.uid)}")

    async def _job(self, owner: RunOwner) -> Obj | None:
        return await self._read(self._job_url(owner))

    async def _find(self, owner: RunOwner, run_id: RunName) -> Seen | None:
        """Return what there is of a run: its execution, or else the job that makes it."""
        name = execution_id(owner.uid, run_id)
        execution = await self._read(f"{self._job_url(owner)}/executions/{name}")
        if execution is not None:
            return Seen(execution=execution) if is_ours(execution, owner) else None
        job = await self._job(owner)
        if job is None or not is_ours(job, owner) or job.get("startExecutionToken") != run_id:
            return None
        return await self._being_made(owner, run_id, job)

    async def _being_made(self, owner: RunOwner, run_id: RunName, job: Obj) -> Seen | None:
        """Return a run without an execution; None if it had one, which was deleted, or was deleted itself."""
        last = str((job.get("latestCreatedExecution") or {}).get("name", ""))
        if last.rpartition("/")[2] == execution_id(owner.uid, run_id):
            return None
        return (
            Seen(job=job, execution=None) if await self._files.read(run_id, INPUT, most=1) else None
        )

    async def _reported(self, run_id: RunName, seen: Seen) -> Run:
        execution = seen.execution
        attempt: Mapping[str, Any] = {}
        if execution is not None and is_over(execution):
            async for task in self._pages(self._url(f"{execution['name']}/tasks"), "tasks"):
                attempt = task.get("lastAttemptResult") or {}
        words = b""
        if execution is not None:
            words = await self._files.read(run_id, RESULT, LARGEST + 1)
        key = await self._files.read(run_id, SEAL_KEY, LARGEST) if is_over(execution) else b""

        def unseal(text: str) -> Mapping[str, str]:
            if not key:
                raise CannotOpen("the key of its secret outputs is gone from the bucket")
            return open_sealed(text, key.decode(), run_id)

        run = run_of(run_id, replace(seen, attempt=attempt, last_words=words), unseal)
        if run.state.finished and run_id not in self._emptied:
            # The bucket is shared: other runs' tasks may read it as long as the record is kept.
            await self._files.remove(f"{run_id}/{SECRETS}/")
            self._emptied.add(run_id)
        return run

    async def _end(self, execution: Mapping[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._options.grace
        found: Mapping[str, Any] | None = execution
        if is_over(found):
            return
        await self._cancel(execution)
        while found is not None and not is_over(found):
            if loop.time() >= until:
                message = (
                    f"run {execution['name']} was cancelled and has not ended yet; delete it again"
                )
                raise CloudError(0, "", message)
            await asyncio.sleep(_LOOK)
            found = await self._read(self._url(str(execution["name"])))

    async def _cancel(self, execution: Mapping[str, Any]) -> None:
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
