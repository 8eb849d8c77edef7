"""The three APIs on one port of loopback."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from .execution import Execution, now
from .logging import Logging
from .rules import Refused, check_job
from .storage import Storage

PARENT = "/v2/projects/{project}/locations/{location}"
_PAGE = 2
"""Items of a page at most, so that whoever reads one page alone is found out."""


class CloudServer:
    """One project and location. `requests` are all that arrived, as method and path."""

    def __init__(self, folder: Path, *, project: str, location: str, bucket: str) -> None:
        self._folder = folder
        self._parent = f"projects/{project}/locations/{location}"
        self.storage = Storage(folder / "buckets", bucket)
        self.logging = Logging(project)
        self.token = uuid.uuid4().hex
        self.requests: list[str] = []
        self.lose_reply_to: str = ""
        """The next request whose method and path begin so is carried out and not answered."""
        self.refuse: dict[str, int] = {}
        """Answers to requests whose method and path begin so, which are not carried out."""
        self.hold = asyncio.Event()
        """Executions appear once it is set."""
        self.hold.set()
        self.most_jobs = 1000
        """https://docs.cloud.google.com/run/quotas: jobs of a project in a region."""
        self._writes = 0
        self._jobs: dict[str, dict[str, Any]] = {}
        self._executions: dict[str, list[Execution]] = {}
        self._starting: set[asyncio.Task[None]] = set()
        app = web.Application(middlewares=[self._middleware])
        app.add_routes(
            [
                web.patch(f"{PARENT}/jobs/{{job}}", self._update),
                web.get(f"{PARENT}/jobs", self._list),
                web.get(f"{PARENT}/jobs/{{job}}", self._get),
                web.delete(f"{PARENT}/jobs/{{job}}", self._delete),
                web.get(f"{PARENT}/jobs/{{job}}/executions", self._list_executions),
                web.get(f"{PARENT}/jobs/{{job}}/executions/{{execution}}", self._get_execution),
                web.delete(
                    f"{PARENT}/jobs/{{job}}/executions/{{execution}}", self._delete_execution
                ),
                web.get(f"{PARENT}/jobs/{{job}}/executions/{{execution}}/tasks", self._list_tasks),
                web.post(f"{PARENT}/jobs/{{job}}/executions/{{execution}}:cancel", self._cancel),
                *self.storage.routes(),
                *self.logging.routes(),
            ]
        )
        self._server = TestServer(app)

    async def __aenter__(self) -> CloudServer:
        await self._server.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.hold.set()
        await asyncio.gather(*self._starting)
        found = [execution for some in self._executions.values() for execution in some]
        await asyncio.gather(*(execution.end() for execution in found))
        await self._server.close()

    @property
    def url(self) -> str:
        return str(self._server.make_url("")).rstrip("/")

    @property
    def jobs(self) -> list[str]:
        return list(self._jobs)

    @web.middleware
    async def _middleware(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        said = f"{request.method} {request.path}"
        self.requests.append(said)
        try:
            # https://cloud.google.com/apis/design/errors: 401 UNAUTHENTICATED without a valid token.
            if request.headers.get("Authorization") != f"Bearer {self.token}":
                raise Refused(
                    401, "UNAUTHENTICATED", "Request had invalid authentication credentials."
                )
            for start, code in self.refuse.items():
                if said.startswith(start):
                    raise Refused(code, "FOR_NOW", "not now")
            answer = await handler(request)
        except Refused as error:
            body = {"code": error.code, "status": error.status, "message": error.message}
            answer = web.json_response({"error": body}, status=error.code)
        if self.lose_reply_to and said.startswith(self.lose_reply_to):
            self.lose_reply_to = ""
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def _update(self, request: web.Request) -> web.Response:
        """projects.locations.jobs/patch: the whole job; with allowMissing one that is not there is made.

        A token that the job has already makes no other execution.
        """
        self._check_parent(request)
        job_id = request.match_info["job"]
        job = orjson.loads(await request.read())
        etag = job.pop("etag", "")
        check_job(job_id, job)
        name = f"{self._parent}/jobs/{job_id}"
        before = self._jobs.get(name)
        if before is None and request.query.get("allowMissing") != "true":
            raise Refused(404, "NOT_FOUND", f"Resource '{job_id}' of kind 'JOB' does not exist.")
        if before is not None and etag not in ("", before["etag"]):
            raise Refused(409, "ABORTED", "The etag is not that of the job.")
        if before is None and len(self._jobs) >= self.most_jobs:
            text = f"Quota exceeded: a region has at most {self.most_jobs} jobs"
            raise Refused(429, "RESOURCE_EXHAUSTED", text)
        known = before or {"name": name, "uid": str(uuid.uuid4()), "createTime": now()}
        kept = ("name", "uid", "createTime", "latestCreatedExecution")
        self._writes += 1
        made = {**{key: known[key] for key in kept if key in known}, **job}
        made |= {"updateTime": now(), "etag": f'"{self._writes}"'}
        self._jobs[name] = made
        self._executions.setdefault(name, [])
        token = job.get("startExecutionToken")
        if token and token != (before or {}).get("startExecutionToken"):
            starting = asyncio.create_task(
                self._execute(made, f"{name}/executions/{job_id}-{token}")
            )
            self._starting.add(starting)
            starting.add_done_callback(self._starting.discard)
        return self._operation(made)

    async def _execute(self, job: dict[str, Any], name: str) -> None:
        await self.hold.wait()
        log = self._folder / f"{name.rpartition('/')[2]}.log"
        if job["name"] in self._jobs:
            self._executions[job["name"]].append(Execution(name, job, self.storage, log))
            self._jobs[job["name"]]["latestCreatedExecution"] = {"name": name}

    async def _get(self, request: web.Request) -> web.Response:
        return web.json_response(self._job(request))

    async def _list(self, request: web.Request) -> web.Response:
        self._check_parent(request)
        newest_first = list(reversed(self._jobs.values()))
        return self._page(request, "jobs", newest_first)

    async def _delete(self, request: web.Request) -> web.Response:
        job = self._job(request)
        if request.query.get("etag", "") not in ("", job["etag"]):
            raise Refused(409, "ABORTED", "The etag is not that of the job.")
        del self._jobs[job["name"]]
        for execution in self._executions.pop(job["name"]):
            await execution.end()
        return self._operation(job)

    async def _list_executions(self, request: web.Request) -> web.Response:
        job = self._job(request)
        found = [execution.view() for execution in reversed(self._executions[job["name"]])]
        return self._page(request, "executions", found)

    async def _get_execution(self, request: web.Request) -> web.Response:
        return web.json_response(self._execution(request).view())

    async def _delete_execution(self, request: web.Request) -> web.Response:
        execution, job = self._execution(request), self._job(request)
        self._executions[job["name"]].remove(execution)
        await execution.end()
        return self._operation(execution.view())

    async def _list_tasks(self, request: web.Request) -> web.Response:
        return self._page(request, "tasks", [self._execution(request).task()])

    async def _cancel(self, request: web.Request) -> web.Response:
        execution = self._execution(request)
        execution.cancel()
        return self._operation(execution.view())

    def _operation(self, subject: dict[str, Any]) -> web.Response:
        name = f"{self._parent}/operations/{uuid.uuid4()}"
        return web.json_response({"name": name, "metadata": subject, "done": False})

    def _page(self, request: web.Request, field: str, found: list[dict[str, Any]]) -> web.Response:
        """https://google.aip.dev/158: empty lists are left out, and a token says that there is more."""
        first = int(request.query.get("pageToken", "0"))
        size = min(_PAGE, int(request.query.get("pageSize", "0")) or _PAGE)
        page: dict[str, Any] = {field: found[first : first + size]} if found else {}
        if first + size < len(found):
            page["nextPageToken"] = str(first + size)
        return web.json_response(page)

    def _check_parent(self, request: web.Request) -> None:
        place = request.match_info
        if f"projects/{place['project']}/locations/{place['location']}" != self._parent:
            raise Refused(
                403, "PERMISSION_DENIED", "Permission 'run.jobs.list' denied on resource."
            )

    def _job(self, request: web.Request) -> dict[str, Any]:
        self._check_parent(request)
        job = request.match_info["job"]
        found = self._jobs.get(f"{self._parent}/jobs/{job}")
        if found is None:
            raise Refused(404, "NOT_FOUND", f"Resource '{job}' of kind 'JOB' does not exist.")
        return found

    def _execution(self, request: web.Request) -> Execution:
        job = self._job(request)
        wanted = request.match_info["execution"]
        for execution in self._executions[job["name"]]:
            if execution.name.rpartition("/")[2] == wanted:
                return execution
        raise Refused(404, "NOT_FOUND", f"Resource '{wanted}' of kind 'EXECUTION' does not exist.")
