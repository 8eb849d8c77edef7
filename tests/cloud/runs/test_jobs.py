"""Jobs of runs: their shape, what is not ours, and what a crash leaves."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apis.references import SecretKeyRef
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound, TransportError, WriteOutcomeUnknown
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_gone
from ctrlruntime.envtest.proxy import LoseReply, Match
from ctrlruntime.json import Json
from internal.cloud import labels as label_keys
from internal.cloud.runs import RunOwner, RunRefused, RunState
from internal.cloud.runs.jobs import JobOptions, JobRuns
from internal.cloud.runs.jobs.manifest import JOB, POD, SECRET, job_of
from manager.controllers.cloud_options import RunsOptions
from manager.controllers.runs import with_own_image
from manager.own_image import NoImage
from tests.backends import SharedServer
from tests.cloud.rbac import embedded
from tests.cloud.runs.benches import JOBS, JobBench, owner_of, request_of
from tests.cloud.runs.conftest import jobs_on
from tests.cloud.runs.test_contract import RUN, carried_out, ended, gone, runs, shows, starts
from tests.support.waiting import eventually

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
OWNER = owner_of("shop", "1-2-3")


class TestShape:
    """What is asked of the cluster."""

    def spec(self, options: JobOptions | None = None) -> Json:
        refs = [SecretKeyRef(name=n, key=k) for n, k in (("a", "x"), ("b", "z"), ("a", "y"))]
        request = request_of(OWNER, secrets=refs, timeout=90.5)
        return job_of(request, options or JobOptions(image="i:1"))["spec"]

    def test_it_runs_once_and_not_for_ever(self) -> None:
        spec = self.spec()
        assert (spec["backoffLimit"], spec["parallelism"], spec["completions"]) == (0, 1, 1)
        pod = spec["template"]["spec"]
        assert pod["restartPolicy"] == "Never"
        assert pod["activeDeadlineSeconds"] == 91
        assert spec["activeDeadlineSeconds"] == 691

    def test_it_may_do_nothing_by_default(self) -> None:
        pod = self.spec()["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["args"] == ["task", "run", "work"]
        assert "command" not in container

    def test_it_gets_the_keys_it_was_promised_and_no_others(self) -> None:
        (secrets,) = (
            v for v in self.spec()["template"]["spec"]["volumes"] if v["name"] == "secrets"
        )
        sources = [source["secret"] for source in secrets["projected"]["sources"]]
        assert [(s["name"], [i["path"] for i in s["items"]]) for s in sources] == [
            ("a", ["a/x", "a/y"]),
            ("b", ["b/z"]),
        ]

    def test_what_an_installation_sets_is_passed_on(self) -> None:
        options = JobOptions(
            image="i:1",
            service_account="tasks",
            resources={"limits": {"memory": "1Gi"}},
            node_selector={"pool": "ops"},
            tolerations=[{"key": "ops", "operator": "Exists"}],
            environment={"RATE": "$(HOME)"},
            image_pull_secrets=["registry"],
            labels={"team": "ops"},
        )
        template = self.spec(options)["template"]
        pod = template["spec"]
        assert pod["serviceAccountName"] == "tasks"
        assert pod["automountServiceAccountToken"] is True
        assert pod["nodeSelector"] == {"pool": "ops"}
        assert pod["tolerations"] == [{"key": "ops", "operator": "Exists"}]
        assert pod["imagePullSecrets"] == [{"name": "registry"}]
        assert {"name": "RATE", "value": "$$(HOME)"} in pod["containers"][0]["env"]
        assert pod["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
        assert template["metadata"]["labels"]["team"] == "ops"

    def test_an_instance_with_a_name_too_long_for_a_label_has_runs_too(self) -> None:
        long = replace(request_of(OWNER).input, instance="i" * 64)
        made = job_of(replace(request_of(OWNER), input=long), JobOptions(image="i:1"))
        assert label_keys.INSTANCE not in made["metadata"]["labels"]


@pytest.fixture
async def environment() -> AsyncIterator[Environment]:
    """Without nodes: what becomes of a Job is up to the test."""
    async with embedded("manager") as environment:
        yield environment


@pytest.fixture
def client(environment: Environment) -> Client:
    """Of people."""
    return environment.client("envtest")


@pytest.fixture
def provider(environment: Environment) -> JobRuns:
    return JobRuns(environment.client("manager"), JOBS)


@pytest.fixture
async def owner(client: Client) -> RunOwner:
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shop", "namespace": "default"},
    }
    made = await client.create(body)
    found = owner_of("shop", made["metadata"]["uid"])
    return replace(found, api_version="v1", kind="ConfigMap")


class TestOthers:
    """What we did not make is left alone."""

    async def test_a_job_of_that_name_is_refused(
        self, client: Client, provider: JobRuns, owner: RunOwner
    ) -> None:
        stranger = job_of(request_of(replace(owner, uid="another")), JOBS)
        stranger["metadata"]["ownerReferences"] = []
        await client.create(stranger)
        with pytest.raises(RunRefused, match=f"there is a Job '{RUN}' in namespace 'default'"):
            await provider.start(request_of(owner))
        assert await provider.get(owner, RUN) is None
        await provider.cancel(owner, RUN)
        await provider.delete(owner, RUN)
        found = await client.get(JOB, RUN, namespace="default")
        assert label_keys.CANCELLED not in found["metadata"]["annotations"]

    async def test_a_secret_of_that_name_is_refused(
        self, client: Client, provider: JobRuns, owner: RunOwner
    ) -> None:
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": RUN, "namespace": "default"},
            "stringData": {"a": "b"},
        }
        await client.create(body)
        with pytest.raises(RunRefused, match=f"there is a Secret '{RUN}'"):
            await provider.start(request_of(owner))
        assert (await client.get(SECRET, RUN, namespace="default"))["data"] == {"a": "Yg=="}

    async def test_what_the_server_refuses_is_refused(
        self, environment: Environment, owner: RunOwner
    ) -> None:
        provider = JobRuns(
            environment.client("manager"), replace(JOBS, resources={"limits": {"memory": "much"}})
        )
        with pytest.raises(RunRefused, match="look at the options of runs"):
            await provider.start(request_of(owner))

    @pytest.mark.parametrize("run_id", ["Work-1", "a.b", "x" * 64, ""])
    async def test_names_that_a_job_cannot_have_are_refused(
        self, provider: JobRuns, owner: RunOwner, run_id: str
    ) -> None:
        with pytest.raises(RunRefused):
            await provider.start(request_of(owner, run_id=run_id))

    async def test_an_input_that_no_secret_holds_is_refused(
        self, client: Client, provider: JobRuns, owner: RunOwner
    ) -> None:
        with pytest.raises(RunRefused, match="shorten the spec"):
            await provider.start(request_of(owner, {"large": "x" * 1_000_000}))
        assert await client.list(JOB, "default") == []


class TestCrash:
    """At every write, and when the answer is lost."""

    @pytest.mark.parametrize("resource", ["jobs.batch", "secrets"])
    async def test_a_lost_reply_is_no_second_run(
        self, environment: Environment, provider: JobRuns, owner: RunOwner, resource: str
    ) -> None:
        environment.proxy.add(LoseReply(), Match(verb="create", resource=resource), times=1)
        with pytest.raises((WriteOutcomeUnknown, TransportError)):
            await provider.start(request_of(owner))
        run = await provider.start(request_of(owner))
        assert run.state is RunState.CREATED
        client = environment.client("envtest")
        (job,) = await client.list(JOB, "default")
        (secret,) = await client.list(SECRET, "default")
        assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]

    async def test_the_input_of_an_earlier_job_is_replaced(
        self, client: Client, provider: JobRuns, owner: RunOwner
    ) -> None:
        await provider.start(request_of(owner))
        left = await client.get(SECRET, RUN, namespace="default")
        await client.delete(JOB, RUN, namespace="default", propagation="Orphan")
        await eventually_gone(client, JOB, RUN, namespace="default")
        await provider.start(request_of(owner))
        fresh = await client.get(SECRET, RUN, namespace="default")
        assert fresh["metadata"]["uid"] != left["metadata"]["uid"]
        assert fresh["data"]["seal-key"] != left["data"]["seal-key"]

    async def test_nothing_is_left_when_the_owner_goes(
        self, client: Client, provider: JobRuns, owner: RunOwner
    ) -> None:
        await provider.start(request_of(owner))
        await client.delete(GroupVersionKind("", "v1", "ConfigMap"), "shop", namespace="default")
        await eventually_gone(client, JOB, RUN, namespace="default")
        await eventually_gone(client, SECRET, RUN, namespace="default")


class TestWithNodes:
    """What the contract leaves open."""

    async def test_a_key_that_is_gone_is_no_success(self, job_bench: JobBench) -> None:
        provider, owner = job_bench.provider(), await job_bench.owner()
        await carried_out(provider, request_of(owner, {"result": {"secret_outputs": {"a": "b"}}}))
        await job_bench.client.delete(SECRET, RUN, namespace="default")
        run = await ended(provider, owner)
        assert run.state is RunState.FAILED
        assert "the key of its secret outputs is gone" in run.message

    async def test_a_deleted_pod_is_not_made_again(
        self, job_bench: JobBench, tmp_path: Path
    ) -> None:
        provider, owner = job_bench.provider(), await job_bench.owner()
        marks_file = tmp_path / "marks"
        await provider.start(request_of(owner, {"mark": str(marks_file)}, {"wait_for": "/never"}))
        await shows(lambda: starts(marks_file))
        (pod,) = await job_bench.client.list(POD, "default")
        await job_bench.client.delete(POD, pod["metadata"]["name"], namespace="default")
        run = await ended(provider, owner)
        assert (run.state, run.retryable) == (RunState.FAILED, True)
        assert "its Pod is gone" in run.message
        assert len(starts(marks_file)) == 1

    async def test_the_input_goes_with_the_run(self, job_bench: JobBench) -> None:
        provider, owner = job_bench.provider(), await job_bench.owner()
        await carried_out(provider, request_of(owner))
        await provider.delete(owner, RUN)
        await gone(provider, owner)
        with pytest.raises(NotFound):
            await job_bench.client.get(SECRET, RUN, namespace="default")


@asynccontextmanager
async def real_namespace(server: SharedServer) -> AsyncIterator[tuple[Environment, str]]:
    namespace = f"runs-{uuid.uuid4().hex[:8]}"
    async with server.environment(users=("manager",)) as environment:
        client = environment.client("manager")
        await client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        yield environment, namespace
        await client.delete(NAMESPACE, namespace)


@pytest.fixture
async def real_bench(real_server: SharedServer) -> AsyncIterator[JobBench]:
    """The same on the real kube-apiserver, in a namespace of the test's own."""
    async with (
        real_namespace(real_server) as (environment, namespace),
        jobs_on(environment, namespace) as bench,
    ):
        yield bench


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def idle_bench(request: pytest.FixtureRequest) -> AsyncIterator[JobBench]:
    """Without nodes: no Job gets a Pod."""
    async with AsyncExitStack() as stack:
        environment, namespace = await stack.enter_async_context(
            real_namespace(request.getfixturevalue("real_server"))
            if request.param == "kube-apiserver"
            else _embedded_namespace()
        )
        cache = Cache(environment.client("manager"))
        await cache.start()
        stack.push_async_callback(cache.stop)
        yield JobBench(environment, namespace, cache)


@asynccontextmanager
async def _embedded_namespace() -> AsyncIterator[tuple[Environment, str]]:
    async with embedded("manager") as environment:
        yield environment, "default"


@pytest.mark.criterion("C-3")
async def test_c_3_a_pod_that_the_cluster_refuses_is_in_the_message(idle_bench: JobBench) -> None:
    """By events of the Job controller, which change neither the Job nor a Pod."""
    provider, owner = idle_bench.provider(), await idle_bench.owner()
    changed: list[RunOwner] = []
    assert provider.subscribe(changed.append)
    run = await provider.start(request_of(owner))
    assert "has no Pod yet" in run.message
    job = await idle_bench.client.get(JOB, RUN, namespace=owner.namespace)
    await eventually(lambda: bool(changed))
    changed.clear()
    words = 'pods "work-x" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1'
    about = {"kind": "Job", "name": RUN, "namespace": owner.namespace, "apiVersion": "batch/v1"}
    now = utc_now().isoformat(timespec="seconds").replace("+00:00", "Z")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{RUN}.18a", "namespace": owner.namespace},
        "involvedObject": about | {"uid": job["metadata"]["uid"]},
        "reason": "FailedCreate",
        "type": "Warning",
        "message": f"Error creating: {words}",
        "source": {"component": "job-controller"},
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    other = {"name": f"{RUN}.18b", "namespace": owner.namespace}
    await idle_bench.client.create(
        event | {"metadata": other, "involvedObject": about | {"uid": "of-an-earlier-one"}}
    )
    await idle_bench.client.create(event)

    async def shown() -> bool:
        found = await provider.get(owner, RUN)
        return found is not None and found.message == f"its Pod cannot be created: {words}"

    await eventually(shown)
    await eventually(lambda: owner.name in [each.name for each in changed])
    await provider.aclose()


class TestOfWhichImage:
    """Runs are of the manager's own image, unless told otherwise."""

    async def test_it_is_read_from_the_managers_pod(
        self, environment: Environment, client: Client
    ) -> None:
        images = {"sidecar": "proxy:1", "manager": "registry.example.com/manager:2"}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": socket.gethostname(), "namespace": "default"},
            "spec": {"containers": [{"name": n, "image": i} for n, i in images.items()]},
        }
        await client.create(pod)
        options = RunsOptions(provider="jobs")
        found = await with_own_image(options, environment.config("manager"), "default")
        assert found.job_image == images["manager"]

    async def test_it_reports_what_to_do_if_there_is_no_such_pod(
        self, environment: Environment
    ) -> None:
        options = RunsOptions(provider="jobs")
        with pytest.raises(NoImage, match="name the image with --job-image"):
            await with_own_image(options, environment.config("manager"), "default")


class TestOnTheRealServer:
    """A selection of the contract, where Jobs and Secrets are judged by Kubernetes itself."""

    async def test_a_run_hands_over_what_it_made(self, real_bench: JobBench) -> None:
        provider, owner = real_bench.provider(), await real_bench.owner()
        await real_bench.put_secret("cloud", {"token": "hush-hush"})
        ref = SecretKeyRef(name="cloud", key="token")
        run = await carried_out(
            provider, request_of(owner, {"reveal": ref.to_wire()}, secrets=[ref])
        )
        assert run.state is RunState.SUCCEEDED, run
        assert run.secret_outputs == {"seen": "hush-hush"}

    async def test_it_is_cancelled_and_stays_so(self, real_bench: JobBench, tmp_path: Path) -> None:
        provider, owner = real_bench.provider(), await real_bench.owner()
        marks_file = tmp_path / "marks"
        request = request_of(owner, {"mark": str(marks_file)}, {"wait_for": "/never"})
        await asyncio.gather(provider.start(request), provider.start(request))
        await shows(lambda: starts(marks_file))
        await provider.cancel(owner, RUN)
        assert (await ended(provider, owner)).state is RunState.CANCELLED
        assert (await provider.start(request)).state is RunState.CANCELLED
        assert len(starts(marks_file)) == 1

    async def test_deleted_it_leaves_nothing(self, real_bench: JobBench, tmp_path: Path) -> None:
        provider, owner = real_bench.provider(), await real_bench.owner()
        marks_file = tmp_path / "marks"
        await provider.start(request_of(owner, {"mark": str(marks_file)}, {"wait_for": "/never"}))
        await shows(lambda: starts(marks_file))
        await provider.delete(owner, RUN)
        await gone(provider, owner)
        assert not runs(int(starts(marks_file)[0].split()[1]))
        await eventually_gone(real_bench.client, SECRET, RUN, namespace=owner.namespace, timeout=60)
