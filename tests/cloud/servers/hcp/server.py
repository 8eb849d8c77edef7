"""The HTTP side: routes, rules and faults."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from .clock import Clock
from .fake_service import FakeState, Run, Version, Workspace
from .faults import Faults
from .manifests import holders_of, output_of, phases_of, run_of, version_of, workspace_of

JSON_API = "application/vnd.api+json"
TOKEN = "user-token-9f8e"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refusal(Exception):
    """An error object and its code."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class HCPServer:
    """Two addresses on loopback: the API, and the store of archives and logs."""

    def __init__(self, clock: Clock | None = None, token: str = TOKEN) -> None:
        self.clock = clock or Clock()
        self.fake_state = FakeState(self.clock)
        self.faults = Faults()
        self.token = token
        self.requests: list[str] = []
        self.leaks: list[str] = []
        """Requests to the store that carried a token."""
        self.limited = 0
        """How many requests were answered with 429."""
        self.wait_header = ("X-RateLimit-Reset", "0.5")
        self.budget = 30
        """Requests of a second; page `index`, Rate limits."""
        self.after_delete: Callable[[str], None] = lambda _name: None
        """Called with the name of a workspace that was deleted."""
        self.url = ""
        self.archive = ""
        self._times: deque[float] = deque()
        self._lists: deque[float] = deque()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> HCPServer:
        app = web.Application(middlewares=[self._middleware], client_max_size=1 << 26)
        app.add_routes(self._routes())
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        for _ in range(2):
            await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url, self.archive = (
            f"http://127.0.0.1:{address[1]}" for address in self._runner.addresses
        )
        return self

    def crowd(self) -> None:
        """Others with the same user have just used up what there is."""
        self._times.extend([self.clock.passed] * 30)
        self._lists.extend([self.clock.passed] * 30)

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        api, get, post = "/api/v2", web.get, web.post
        named = f"{api}/organizations/{{org}}/workspaces"
        return [
            post(named, self._create_workspace),
            get(f"{named}/{{name}}", self._show_workspace),
            web.patch(f"{api}/workspaces/{{ws}}", self._update_workspace),
            web.delete(f"{api}/workspaces/{{ws}}", self._delete_workspace),
            post(f"{api}/workspaces/{{ws}}/actions/safe-delete", self._safe_delete),
            post(f"{api}/workspaces/{{ws}}/configuration-versions", self._create_version),
            get(f"{api}/configuration-versions/{{cv}}", self._show_version),
            get(f"{api}/workspaces/{{ws}}/runs", self._list_runs),
            post(f"{api}/runs", self._create_run),
            get(f"{api}/runs/{{run}}", self._show_run),
            post(f"{api}/runs/{{run}}/actions/{{action}}", self._act),
            get(f"{api}/runs/{{run}}/policy-checks", self._policy_checks),
            get(f"{api}/runs/{{run}}/task-stages", self._task_stages),
            get(f"{api}/workspaces/{{ws}}/current-state-version-outputs", self._outputs),
            get(f"{api}/state-version-outputs/{{out}}", self._output),
            web.put("/v1/object/{cv}", self._upload),
            get("/logs/{run}", self._log),
        ]

    # -- what holds for every request ------------------------------------------------------

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        faults = self.faults
        number = faults.arrive(f"{request.method} {request.path}")
        response: web.StreamResponse = web.Response(status=500)
        if faults.processed:
            self.requests.append(f"{request.method} {request.path}")
            response = await self._answer(request, handler)
        if number == faults.lose_reply_of or 0 < faults.gone_from <= number:
            assert request.transport is not None
            request.transport.abort()
        if number == faults.broken_at:
            return web.Response(status=502, text="bad gateway")
        return response

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            if request.path.startswith("/api/"):
                self._authenticate(request)
                self._limit(request)
                await self._check_body(request)
            elif "Authorization" in request.headers:
                self.leaks.append(request.path)
            return await handler(request)
        except Refusal as refusal:
            error = {"status": str(refusal.status), "detail": str(refusal)}
            headers = dict([self.wait_header]) if refusal.status == 429 else {}
            text = json.dumps({"errors": [error]})
            return web.Response(
                status=refusal.status, text=text, content_type=JSON_API, headers=headers
            )
        except web.HTTPNotFound:
            return web.Response(status=404, text='{"errors":[{"status":"404"}]}')

    def _authenticate(self, request: web.Request) -> None:
        """Page `index`, Authentication: absent or invalid tokens are 401."""
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise Refusal(401, "unauthorized")

    def _limit(self, request: web.Request) -> None:
        """Page `index`, Rate limits: so many a second; page `run`: lists of runs 30 a minute."""
        listing = request.method == "GET" and request.path.endswith("/runs")
        now = self.clock.passed
        for times, window, most in ((self._times, 1.0, self.budget), (self._lists, 60.0, 30)):
            if times is self._lists and not listing:
                continue
            while times and times[0] <= now - window:
                times.popleft()
            if len(times) >= most:
                self.limited += 1
                raise Refusal(429, "You have exceeded the API's rate limit.")
            times.append(now)

    async def _check_body(self, request: web.Request) -> None:
        """Page `index`, JSON API formatting: content type, and `data.type` in every document."""
        if request.method not in ("POST", "PATCH"):
            return
        if request.content_type != JSON_API:
            raise Refusal(415, f"unsupported media type {request.content_type}")
        body = await request.read()
        if "/actions/" in request.path and not body:
            return
        try:
            document = json.loads(body)
            kind = document["data"]["type"]
        except (ValueError, KeyError, TypeError):
            raise Refusal(422, "data.type is missing") from None
        expected = request.path.rstrip("/").split("/")[-1 if request.method == "POST" else -2]
        if kind != expected:
            raise Refusal(422, f"data.type is {kind}, not {expected}")

    # -- workspaces ------------------------------------------------------------------------

    async def _create_workspace(self, request: web.Request) -> web.Response:
        """Page `workspaces`, Create: the name is unique, of letters, digits, - and _."""
        self._check_organization(request)
        data = (await request.json())["data"]
        attributes = dict(data.get("attributes", {}))
        name = attributes.pop("name", "")
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
            raise Refusal(422, "Name is invalid: letters, numbers, - and _ only")
        if self.fake_state.named(name) is not None:
            raise Refusal(422, "Name has already been taken")
        defaults = {"terraform-version": "1.9.4", "auto-apply": False, "execution-mode": "remote"}
        workspace = Workspace(
            identity=self.fake_state.new_id("ws"),
            name=name,
            attributes={**defaults, **attributes},
            project=_project(data) or "prj-default",
        )
        self.fake_state.workspaces[workspace.identity] = workspace
        return _document(workspace_of(workspace), status=201)

    async def _show_workspace(self, request: web.Request) -> web.Response:
        """Page `workspaces`, Show workspace."""
        self._check_organization(request)
        workspace = self.fake_state.named(request.match_info["name"])
        if workspace is None:
            raise Refusal(404, "not found")
        included = holders_of(workspace) if "locked_by" in request.query.get("include", "") else []
        return _document(workspace_of(workspace), included=included)

    async def _update_workspace(self, request: web.Request) -> web.Response:
        """Page `workspaces`, Update a Workspace."""
        workspace = self._workspace(request)
        data = (await request.json())["data"]
        workspace.attributes |= data.get("attributes", {})
        workspace.project = _project(data) or workspace.project
        return _document(workspace_of(workspace))

    async def _safe_delete(self, request: web.Request) -> web.Response:
        """Page `workspaces`, Safe Delete: 409 while it manages resources."""
        workspace = self._workspace(request)
        if workspace.resources:
            raise Refusal(409, "Workspace is not safe to delete because it is managing resources")
        return self._remove(workspace)

    async def _delete_workspace(self, request: web.Request) -> web.Response:
        """Page `workspaces`, Force Delete."""
        return self._remove(self._workspace(request))

    def _remove(self, workspace: Workspace) -> web.Response:
        del self.fake_state.workspaces[workspace.identity]
        self.fake_state.deleted.append(workspace.name)
        self.after_delete(workspace.name)
        return web.Response(status=204)

    # -- configuration versions ------------------------------------------------------------

    async def _create_version(self, request: web.Request) -> web.Response:
        """Page `configuration-versions`, Create: the upload address is shown here alone."""
        workspace = self._workspace(request)
        attributes = (await request.json())["data"].get("attributes", {})
        version = Version(
            identity=self.fake_state.new_id("cv"),
            workspace=workspace.identity,
            auto_queue=attributes.get("auto-queue-runs", True),
        )
        self.fake_state.versions[version.identity] = version
        shape = version_of(version)
        shape["attributes"]["upload-url"] = (
            f"{self.archive}/v1/object/{version.identity}?signature=a%2Bb%41"
        )
        return _document(shape, status=201)

    async def _show_version(self, request: web.Request) -> web.Response:
        """Page `configuration-versions`, Show. Processing an upload takes some looks."""
        version = self._version(request.match_info["cv"])
        if version.status == "pending" and version.content:
            if version.looks <= 0:
                version.status = "uploaded"
            version.looks -= 1
        return _document(version_of(version))

    async def _upload(self, request: web.Request) -> web.Response:
        """Page `configuration-versions`, Upload: octet-stream; auto-queue-runs queues a run."""
        version = self._version(request.match_info["cv"])
        if not request.raw_path.endswith("?signature=a%2Bb%41"):
            raise Refusal(403, "the signature does not match")
        if version.content:
            raise Refusal(409, "uploaded already")
        if request.content_type != "application/octet-stream":
            raise Refusal(415, "octet-stream is wanted")
        version.content = await request.read()
        version.looks = self.fake_state.upload_looks
        version.document()
        if version.auto_queue:
            workspace = self.fake_state.workspaces[version.workspace]
            self.fake_state.add_run(workspace, version, "Queued by an upload")
        return web.Response()

    # -- runs ------------------------------------------------------------------------------

    async def _create_run(self, request: web.Request) -> web.Response:
        """Page `run`, Create a Run; `configuration-versions`: only uploaded ones can be used."""
        data = (await request.json())["data"]
        pointers = data.get("relationships", {})
        workspace = self.fake_state.workspaces.get(_pointed(pointers, "workspace"))
        if workspace is None:
            raise Refusal(404, "workspace not found")
        version = self._version(_pointed(pointers, "configuration-version"))
        if version.status != "uploaded":
            raise Refusal(422, "Configuration version is not uploaded")
        if workspace.locked_by is not None and self.fake_state.lock_refuses_runs:
            raise Refusal(409, "Workspace is locked")
        attributes = data.get("attributes", {})
        run = self.fake_state.add_run(
            workspace,
            version,
            attributes.get("message", "Queued manually via the Terraform Enterprise API"),
            destroy=attributes.get("is-destroy", False),
            plan_only=attributes.get("plan-only", False),
        )
        return _document(run_of(run), status=201)

    async def _list_runs(self, request: web.Request) -> web.Response:
        """Page `run`, List Runs in a Workspace: newest first, in pages, without plan-only runs."""
        workspace = self._workspace(request)
        runs = [run for run in self.fake_state.of_workspace(workspace) if not run.plan_only]
        if runs and self.fake_state.late_lists > 0:
            self.fake_state.late_lists -= 1
            del runs[0]
        size = min(int(request.query.get("page[size]", "20")), 100)
        number = int(request.query.get("page[number]", "1"))
        page = runs[(number - 1) * size : number * size]
        following = number + 1 if number * size < len(runs) else None
        meta = {"pagination": {"current-page": number, "next-page": following}}
        return _answer({"data": [run_of(run) for run in page], "meta": meta})

    async def _show_run(self, request: web.Request) -> web.Response:
        """Page `run`, Get run details; plans and applies can be included."""
        run = self._run(request)
        self.fake_state.advance(run)
        included = phases_of(run, self.archive) if "include" in request.query else []
        shape = run_of(run, may_apply=self.fake_state.may_apply)
        return _document(shape, included=included)

    async def _act(self, request: web.Request) -> web.Response:
        """Page `run`: apply, discard and cancel are 409 where the state does not allow them."""
        run, action = self._run(request), request.match_info["action"]
        allowed = {
            "apply": run.confirmable,
            "discard": run.discardable,
            "cancel": run.cancelable,
        }
        if action not in allowed:
            raise Refusal(404, "no such action")
        if not self.fake_state.may_apply:
            raise Refusal(404, "not found, or not allowed")
        if not allowed[action]:
            raise Refusal(409, f"transition not allowed: {action} of a run that is {run.status}")
        if action == "apply":
            self.fake_state.confirm(run)
        else:
            run.status = {"discard": "discarded", "cancel": "canceled"}[action]
        return web.Response(status=202)

    async def _policy_checks(self, request: web.Request) -> web.Response:
        """Page `policy-checks`, List."""
        self._run(request)
        failed = self.fake_state.fail == "policy"
        shape = {"id": "polchk-1", "type": "policy-checks", "attributes": {"status": "hard_failed"}}
        return _answer({"data": [shape] if failed else []})

    async def _task_stages(self, request: web.Request) -> web.Response:
        """Page `run-tasks/run-task-stages-and-results`, List."""
        self._run(request)
        attributes = {"status": "failed", "stage": "post_plan"}
        shape = {"id": "ts-1", "type": "task-stages", "attributes": attributes}
        return _answer({"data": [shape] if self.fake_state.fail == "policy" else []})

    # -- outputs and logs ------------------------------------------------------------------

    async def _outputs(self, request: web.Request) -> web.Response:
        """Page `state-version-outputs`: 503 while they are being processed; 404 without a state."""
        workspace = self._workspace(request)
        if workspace.outputs is None:
            raise Refusal(404, "no state version outputs")
        if workspace.processing > 0:
            workspace.processing -= 1
            raise Refusal(503, "State version outputs are being processed and are not ready")
        found = [
            output_of(workspace, name, *pair, shown=False)
            for name, pair in workspace.outputs.items()
        ]
        return _answer({"data": found})

    async def _output(self, request: web.Request) -> web.Response:
        """Page `state-version-outputs`, Show: the value of a sensitive one too."""
        identity, _, name = request.match_info["out"].removeprefix("wsout-").partition(".")
        workspace = self.fake_state.workspaces.get(identity)
        if workspace is None or name not in (workspace.outputs or {}):
            raise Refusal(404, "not found")
        assert workspace.outputs is not None
        return _document(output_of(workspace, name, *workspace.outputs[name], shown=True))

    async def _log(self, request: web.Request) -> web.Response:
        """Pages `plans` and `applies`: `log-read-url`."""
        return web.Response(
            body=self.fake_state.logs.get(request.match_info["run"], self.fake_state.plan_log)
        )

    # -- finding things --------------------------------------------------------------------

    def _check_organization(self, request: web.Request) -> None:
        if request.match_info["org"] != self.fake_state.organization:
            raise Refusal(404, "organization not found")

    def _workspace(self, request: web.Request) -> Workspace:
        workspace = self.fake_state.workspaces.get(request.match_info["ws"])
        if workspace is None:
            raise Refusal(404, "workspace not found")
        return workspace

    def _version(self, identity: str) -> Version:
        version = self.fake_state.versions.get(identity)
        if version is None:
            raise Refusal(404, "configuration version not found")
        return version

    def _run(self, request: web.Request) -> Run:
        run = self.fake_state.runs.get(request.match_info["run"])
        if run is None or run.workspace.identity not in self.fake_state.workspaces:
            raise Refusal(404, "run not found")
        return run


def _document(
    data: dict[str, Any], *, status: int = 200, included: list[dict[str, Any]] | None = None
) -> web.Response:
    content = {"data": data} if not included else {"data": data, "included": included}
    return _answer(content, status=status)


def _answer(content: dict[str, Any], *, status: int = 200) -> web.Response:
    return web.Response(status=status, text=json.dumps(content), content_type=JSON_API)


def _pointed(pointers: dict[str, Any], name: str) -> str:
    try:
        return str(pointers[name]["data"]["id"])
    except (KeyError, TypeError):
        return ""


def _project(data: dict[str, Any]) -> str:
    return _pointed(data.get("relationships", {}), "project")
