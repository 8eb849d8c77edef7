"""Cloud Run jobs of runs: what is asked of Google, and what becomes of refusals and lost replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from apis.references import SecretKeyRef
from ctrlruntime.json import Json
from ctrlruntime.manager.leadership import LeaderElectionLost
from internal.cloud.runs import RunOwner, RunRefused, RunState
from internal.cloud.runs.cloudrun import (
    CloudError,
    CloudRunOptions,
    CloudRunRuns,
    metadata_token,
)
from internal.cloud.runs.cloudrun.api import BucketFiles, CloudAPI
from internal.cloud.runs.cloudrun.job import Seen, job_id, job_of, run_of
from tests.cloud.runs.benches import CloudRunBench, cloud_run, owner_of, request_of
from tests.cloud.runs.test_contract import RUN, carried_out, ended, gone
from tests.cloud.servers.cloudrun import CloudServer
from tests.cloud.servers.cloudrun.rules import Refused, check_job

OWNER = owner_of("shop", "1-2-3")
OPTIONS = CloudRunOptions(project="shops", location="here", bucket="runs-of-shops", image="i:1")


@pytest.fixture
async def server(cloud_run_bench: CloudRunBench) -> CloudServer:
    return cloud_run_bench.server


@pytest.fixture
async def provider(cloud_run_bench: CloudRunBench) -> AsyncIterator[CloudRunRuns]:
    made = cloud_run_bench.provider()
    assert isinstance(made, CloudRunRuns)
    yield made
    await made.aclose()


@pytest.fixture
async def owner(cloud_run_bench: CloudRunBench) -> RunOwner:
    return await cloud_run_bench.owner()


class TestShape:
    """The job."""

    def test_its_one_execution_is_made_with_it_and_tried_once(self) -> None:
        job = job_of(request_of(OWNER, timeout=90.5), OPTIONS)
        assert job["startExecutionToken"] == RUN
        task = job["template"]["template"]
        assert (task["maxRetries"], task["timeout"]) == (0, "91s")
        check_job(job_id(OWNER.uid), job)

    def test_nothing_of_the_input_is_in_the_job(self) -> None:
        job = job_of(request_of(OWNER, {"note": "needle"}), OPTIONS)
        assert "needle" not in str(job)

    @pytest.mark.parametrize(
        "change",
        [
            {"run_id": "x" * 42},
            {"run_id": "1-begins-with-a-digit"},
            {"run_id": ""},
            {"timeout": 8 * 86400},
        ],
    )
    async def test_what_cloud_run_cannot_do_is_refused(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner, change: dict[str, Any]
    ) -> None:
        with pytest.raises(RunRefused):
            await provider.start(request_of(owner, **change))
        assert server.requests == []

    @pytest.mark.parametrize(
        "spoil",
        [
            lambda job: job.update(surprise=1),
            lambda job: job["labels"].update({"cloud.ctrlruntime.dev/task": "t"}),
            lambda job: job["annotations"].update({"run.googleapis.com/x": "y"}),
            lambda job: job.update(startExecutionToken="t" * 60),
            lambda job: job.update(runExecutionToken="too"),
            lambda job: job["template"]["template"].update(timeout=60),
            lambda job: job["template"]["template"]["containers"][0].pop("image"),
            lambda job: job["template"]["template"].update(volumes=[]),
        ],
    )
    def test_the_server_of_these_tests_refuses_what_google_refuses(
        self, spoil: Callable[[Json], object]
    ) -> None:
        job = job_of(request_of(OWNER), OPTIONS)
        spoil(job)
        with pytest.raises(Refused):
            check_job(job_id(OWNER.uid), job)


class TestFaults:
    """Refusals, lost replies, what is not ours."""

    async def test_a_lost_reply_is_no_second_run(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        server.lose_reply_to = "PATCH /v2/"
        with pytest.raises(CloudError):
            await provider.start(request_of(owner))
        await provider.start(request_of(owner))
        assert (await ended(provider, owner)).state is RunState.SUCCEEDED
        assert sum(said.startswith("PATCH /v2/") for said in server.requests) == 1

    async def test_half_made_files_are_completed_with_the_same_key(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        server.lose_reply_to = "POST /upload/"
        with pytest.raises(CloudError):
            await provider.start(request_of(owner))
        steps = {"result": {"secret_outputs": {"password": "hush"}}}
        run = await carried_out(provider, request_of(owner, steps))
        assert run.state is RunState.SUCCEEDED

    async def test_files_that_are_there_stay_as_they_are(self, provider: CloudRunRuns) -> None:
        """A task may have sealed with the key already, when another manager makes its own."""
        for key in (b"first", b"second"):
            await provider._files.make(RUN, {"seal-key": key})
        assert await provider._files.read(RUN, "seal-key") == b"first"

    async def test_a_job_of_another_is_refused(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        await provider.start(request_of(owner))
        (job,) = server._jobs.values()
        job["labels"] = {"ctrlruntime-owner-uid": "another"}
        with pytest.raises(RunRefused, match="that no run of InstanceTerraform 'shop' made"):
            await provider.start(request_of(owner, run_id="work-2"))
        assert list(await provider.list(owner)) == []

    @pytest.mark.criterion("C-11")
    async def test_c_11_all_runs_of_an_object_are_executions_of_one_job(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        ids = [f"work-{number}" for number in range(4)]
        for run_id in ids:
            result = {"result": {"outputs": {"id": run_id}}}
            run = await carried_out(provider, request_of(owner, result, run_id=run_id))
            assert run.outputs == {"id": run_id}
        other = replace(owner, uid="another")
        await carried_out(provider, request_of(other))
        assert len(server.jobs) == 2
        assert [run.run_id for run in await provider.list(owner)] == ids
        for run_id in ids:
            assert len(server.jobs) == 2
            await provider.delete(owner, run_id)
        assert [each.rpartition("/")[2] for each in server.jobs] == [job_id("another")]

    @pytest.mark.criterion("C-11")
    @pytest.mark.parametrize("trouble", ["lead lost", "executed by hand"])
    async def test_c_11_no_job_is_left_of_an_object_that_goes(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner, trouble: str
    ) -> None:
        await carried_out(provider, request_of(owner))
        if trouble == "lead lost":

            def fence() -> None:
                if any(said.startswith("DELETE /v2/") for said in server.requests):
                    raise LeaderElectionLost

            former = cloud_run(server.url, server.token, fence=fence)
            with suppress(LeaderElectionLost):
                await former.delete(owner, RUN)
            await former.aclose()
        else:
            (job,) = server._jobs.values()
            await server._execute(job, f"{job['name']}/executions/{job_id(owner.uid)}-x7k2p")
        await provider.delete(owner, RUN)
        assert (server.jobs, list(await provider.list(owner))) == ([], [])

    @pytest.mark.criterion("C-11")
    async def test_c_11_a_run_that_is_being_made_keeps_the_job(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        await carried_out(provider, request_of(owner))
        server.hold.clear()
        await provider.start(request_of(owner, run_id="work-2"))
        await provider.delete(owner, RUN)
        server.hold.set()
        assert [run.run_id for run in await provider.list(owner)] == ["work-2"]

    @pytest.mark.criterion("C-11")
    async def test_c_11_the_last_run_of_a_job_that_goes_on_can_be_made_again(
        self, provider: CloudRunRuns, owner: RunOwner, tmp_path: Path
    ) -> None:
        marks = tmp_path / "marks"
        await carried_out(provider, request_of(owner, run_id="work-1"))
        for _ in range(2):
            await carried_out(provider, request_of(owner, {"mark": str(marks)}))
            await provider.delete(owner, RUN)
            await gone(provider, owner)
        assert len(marks.read_text().splitlines()) == 2
        assert [run.run_id for run in await provider.list(owner)] == ["work-1"]

    @pytest.mark.criterion("C-3", "C-11")
    async def test_c_11_a_region_that_is_full_refuses_new_objects_alone(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        server.most_jobs = 1
        await carried_out(provider, request_of(owner))
        other = replace(owner, uid="another")
        with pytest.raises(CloudError, match="429 RESOURCE_EXHAUSTED"):
            await provider.start(request_of(other))
        assert await provider.get(other, RUN) is None
        await carried_out(provider, request_of(owner, run_id="work-2"))
        server.most_jobs = 2
        await carried_out(provider, request_of(other))

    @pytest.mark.criterion("C-10")
    async def test_c_10_what_google_refuses_is_refused_and_leaves_nothing(
        self, server: CloudServer, owner: RunOwner
    ) -> None:
        provider = cloud_run(server.url, server.token)
        provider._options = replace(provider._options, environment={"NO-NAME": "x"})
        try:
            with pytest.raises(RunRefused, match="C identifier"):
                await provider.start(request_of(owner))
            assert files_in(server.storage.bucket("runs-of-shops")) == []
        finally:
            await provider.aclose()

    @pytest.mark.criterion("C-10")
    @pytest.mark.parametrize("code", [403, 429])
    async def test_c_10_what_is_refused_for_now_leaves_no_secret_until_it_is_tried_again(
        self,
        cloud_run_bench: CloudRunBench,
        provider: CloudRunRuns,
        server: CloudServer,
        owner: RunOwner,
        code: int,
    ) -> None:
        await cloud_run_bench.put_secret("cloud", {"token": "to-ken-of-one-run"})
        ref = SecretKeyRef(name="cloud", key="token")
        request = request_of(owner, {"reveal": ref.to_wire()}, secrets=[ref])
        server.refuse["PATCH /v2/"] = code
        for _ in range(2):
            with pytest.raises(CloudError, match=f"{code} FOR_NOW"):
                await provider.start(request)
            assert await cloud_run_bench.places_of("to-ken-of-one-run") == []
        server.refuse.clear()
        assert (await carried_out(provider, request)).secret_outputs == {
            "seen": "to-ken-of-one-run"
        }

    async def test_a_wrong_token_is_no_refusal_of_the_run(
        self, server: CloudServer, owner: RunOwner
    ) -> None:
        provider = cloud_run(server.url, "expired")
        try:
            with pytest.raises(CloudError, match="401 UNAUTHENTICATED"):
                await provider.start(request_of(owner))
        finally:
            await provider.aclose()

    async def test_cancelling_before_there_is_an_execution_is_to_be_repeated(
        self, provider: CloudRunRuns, server: CloudServer, owner: RunOwner
    ) -> None:
        server.hold.clear()
        await provider.start(request_of(owner, {"wait_for": "/never"}))
        with pytest.raises(CloudError, match="cancel it again"):
            await provider.cancel(owner, RUN)
        server.hold.set()

    async def test_it_reports_that_it_sends_nothing(self, provider: CloudRunRuns) -> None:
        assert provider.subscribe(lambda _owner: None) is False

    async def test_nothing_is_left_of_what_was_deleted(
        self,
        cloud_run_bench: CloudRunBench,
        provider: CloudRunRuns,
        server: CloudServer,
        owner: RunOwner,
    ) -> None:
        await cloud_run_bench.put_secret("cloud", {"token": "hush"})
        ref = SecretKeyRef(name="cloud", key="token")
        await carried_out(provider, request_of(owner, {"reveal": ref.to_wire()}, secrets=[ref]))
        bucket = server.storage.bucket("runs-of-shops")
        kept = sorted(str(p.relative_to(bucket / RUN)) for p in files_in(bucket))
        assert kept == ["input.json", "result", "seal-key"]
        await provider.delete(owner, RUN)
        await gone(provider, owner)
        assert files_in(bucket) == []


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


class TestStatus:
    """Endings that the server of these tests does not act out."""

    def test_a_job_that_cannot_start_is_a_failure(self) -> None:
        failed = {"state": "CONDITION_FAILED", "message": "Image 'i:1' not found."}
        seen = Seen(job={"terminalCondition": failed}, execution=None)
        ahead = replace(seen, job={**seen.job, "reconciling": True})
        assert run_of(RUN, ahead, lambda _text: {}).state is RunState.CREATED  # of the run before
        run = run_of(RUN, seen, lambda _text: {})
        assert run.state is RunState.FAILED
        assert run.message == "Cloud Run could not start it: Image 'i:1' not found."

    def test_an_attempt_without_an_exit_code_reports_why(self) -> None:
        execution = {
            "startTime": "2026-01-01T00:00:00Z",
            "completionTime": "2026-01-01T00:00:09Z",
            "failedCount": 1,
            "template": {"timeout": "60s"},
        }
        attempt = {"status": {"code": 8, "message": "Out of memory."}}
        words = b'{"state": "Running", "message": "sowing"}'
        seen = Seen(execution=execution, attempt=attempt, last_words=words)
        run = run_of(RUN, seen, lambda _text: {})
        assert (run.state, run.retryable) == (RunState.FAILED, True)
        assert run.message == "ended by Cloud Run while it was at: sowing: Out of memory."


async def test_a_token_of_the_metadata_server_is_kept_until_shortly_before_its_end() -> None:
    asked: list[str] = []

    async def give(request: web.Request) -> web.Response:
        asked.append(request.headers["Metadata-Flavor"])
        return web.json_response({"access_token": f"t{len(asked)}", "expires_in": 3600})

    app = web.Application()
    app.router.add_get("/computeMetadata/v1/instance/service-accounts/default/token", give)
    now = [0.0]
    async with TestServer(app) as metadata:
        token = metadata_token(lambda: now[0], str(metadata.make_url("")).rstrip("/"))
        assert [await token(), await token()] == ["t1", "t1"]
        now[0] = 3540
        assert await token() == "t2"
    assert asked == ["Google", "Google"]


@pytest.mark.criterion("C-3")
@pytest.mark.parametrize("body", ["<html>busy</html>", "[1]", "7"])
async def test_c_3_an_answer_that_is_none_is_an_error_of_the_provider(body: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=body)

    async def token() -> str:
        return "t"

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        api = CloudAPI(token)
        with pytest.raises(CloudError, match="no JSON object: "):
            await api.json("GET", str(server.make_url("/")))
        await api.close()


@pytest.mark.criterion("S-H1")
async def test_an_answer_without_end_is_refused_and_of_a_file_its_beginning_is_read() -> None:
    sent = 0

    async def pour(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        answer = web.StreamResponse()
        await answer.prepare(request)
        with suppress(ConnectionError):
            while True:
                await answer.write(bytes(2**20))
                sent += 1
        return answer

    async def token() -> str:
        return "t"

    app = web.Application()
    app.router.add_get("/{path:.*}", pour)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/")
        api = CloudAPI(token)
        files = BucketFiles(api, replace(OPTIONS, storage_url=url))
        assert await files.read(RUN, "result", 1000) == bytes(1000)
        assert sent < 16
        with pytest.raises(CloudError, match="more than 64 MiB"):
            await api.json("GET", url)
        await api.close()


async def test_without_a_metadata_server_the_error_reports_it() -> None:
    async with TestServer(web.Application()) as metadata:
        token = metadata_token(lambda: 0, str(metadata.make_url("")).rstrip("/"))
        with pytest.raises(CloudError, match="which only Google's machines have"):
            await token()


async def test_a_lead_that_is_lost_on_the_way_starts_nothing(
    server: CloudServer, owner: RunOwner
) -> None:
    """Files go first: the leader's fence is asked about every request, as it leaves."""

    def fence() -> None:
        if any("/upload/" in said for said in server.requests):
            raise LeaderElectionLost

    provider = cloud_run(server.url, server.token, fence=fence)
    with pytest.raises(LeaderElectionLost):
        await provider.start(request_of(owner))
    assert server.jobs == []
    assert await provider.get(owner, RUN) is None  # reads pass
    await provider.aclose()
