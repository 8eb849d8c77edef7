"""Everything around one instance: a cluster of its own, HCP Terraform, a web site, the manager."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from apis.cloud import Instance
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_gone
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.outbound_addresses import allowed_environment
from internal.cloud.runs.jobs import JobOptions, JobRuns
from internal.named_secrets import Purpose
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions
from tests.backends import SharedServer
from tests.cloud.lifecycle.watch_recorder import Chronicle
from tests.cloud.rbac import SUITE
from tests.cloud.servers.hcp import Clock, FakeState, HCPServer, Run
from tests.cloud.servers.hcp.server import TOKEN
from tests.cloud.servers.site import Asked, Say, Site
from tests.cloud.tasks.kubeconfigs import inline
from tests.envtest.kubectl.binaries import provisioned
from tests.envtest.kubectl.runner import Kubectl
from tests.limits import CRD_SECONDS
from tests.rbac import audited
from tests.support.manager_harness import make_manager
from tests.tenancy.shared_server import InstalledServer

KINDS = find_kinds(load(("apis.cloud",)))
NAME = "src-1"
CUSTOMER = "customer"
"""Who the kubeconfig of the instance's cluster belongs to."""
ROOT = Path(__file__).parents[3]
CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
JOB = GroupVersionKind("batch", "v1", "Job")
EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")
SECRET = GroupVersionKind("", "v1", "Secret")
RUNS = JobOptions(
    image="local",
    command=(sys.executable, "-m", "manager"),
    environment={"PYTHONPATH": str(ROOT), **allowed_environment()},
    annotations={"ctrlruntime.dev/run-local": "true"},
    grace=5,
)
"""Jobs as any cluster gets them, but for the program, which simulated nodes start."""


class PassingClock(Clock):
    """The time of day, for tasks in processes of their own."""

    def __init__(self) -> None:
        super().__init__()
        self._began = time.monotonic()

    @property
    def passed(self) -> float:
        return time.monotonic() - self._began

    @passed.setter
    def passed(self, _value: float) -> None:
        """It passes by itself."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class SwiftState(FakeState):
    """Runs get as far as they can by themselves each time they are asked for."""

    def advance(self, run: Run) -> None:
        before = ""
        while run.status != before and not run.confirmable:
            before = run.status
            super().advance(run)


@dataclass(slots=True)
class Application:
    """What the instance's people use: a web site that keeps its settings, and has a database."""

    site: Site
    environment: Environment
    settings: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    """That of the workload that is available."""
    story: list[tuple[str, float]] = field(default_factory=list)
    """What was asked, and when."""

    def open(self) -> None:
        say = {
            "GET /healthz": lambda _asked: Say(json={"up": True}),
            "GET /settings": lambda _asked: Say(json=self.settings),
            "PUT /settings": self._put,
            "DELETE /settings": self._delete,
            "POST /backup": lambda _asked: Say(status=202),
            "POST /migrate": lambda _asked: Say(status=202),
            "GET /version": lambda _asked: Say(json={"version": self.version}),
        }
        for name, answer in say.items():
            self.site.answers[name] = self._recorded(answer)

    def _recorded(self, answer: Callable[[Asked], Say]) -> Callable[[Asked], Say]:
        def answer_of(asked: Asked) -> Say:
            self.story.append((f"{asked.method} {asked.path}", time.time()))
            said: Say = answer(asked)
            return said

        return answer_of

    def _put(self, asked: Asked) -> Say:
        self.settings = asked.body
        return Say(json=asked.body)

    def _delete(self, _asked: Asked) -> Say:
        self.settings = {}
        return Say(status=204)

    async def follow(self, client: Client, namespace: str, since: str) -> None:
        """The site is of the version that is available."""
        events = client.watch(DEPLOYMENT, namespace, resource_version=since, timeout=1800)
        async for _change, found in events:
            status = found.get("status") or {}
            current = status.get("observedGeneration") == found["metadata"]["generation"]
            if current and status.get("updatedReplicas") == status.get("availableReplicas") == 1:
                self.version = image_of(found).rpartition(":")[2]

    def rolled_at(self, since: float) -> list[float]:
        """When the customer's workload was written to, from a moment on."""
        return [
            entry.at
            for entry in self.environment.proxy.log.entries()
            if entry.user == CUSTOMER
            and entry.verb not in ("get", "list", "watch")
            and entry.resource.startswith("deployments")
            and entry.at >= since
        ]


def image_of(deployment: Manifest) -> str:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


@dataclass(slots=True)
class Scenery:
    """What runs, and what is seen of it."""

    environment: Environment
    hcp: HCPServer
    application: Application
    kubectl: Kubectl
    chronicle: Chronicle
    namespace: str
    cluster: str
    """Namespace of the workload in the instance's cluster."""

    @classmethod
    @asynccontextmanager
    async def set_up(cls, server: SharedServer, folder: Path) -> AsyncIterator[Scenery]:
        """A namespace on the real server with all around it; nothing of it stays."""
        namespace = f"lifecycle-{secrets.token_hex(4)}"
        managers = await InstalledServer(server).users(["manager"])
        environment = server.environment(
            users=("people", CUSTOMER, *managers),
            tls=True,
            proxy=True,
            nodes=True,
            run_local=True,
            folder=folder,
        )
        hcp = HCPServer(PassingClock())
        hcp.fake_state = SwiftState(hcp.clock)
        hcp.fake_state.upload_looks = hcp.fake_state.output_looks = 0
        async with environment, hcp, Site() as site, _place(environment, namespace) as since:
            hcp.fake_state.values["kubeconfig"] = inline(environment.kubeconfig(CUSTOMER))
            application = Application(site, environment)
            application.open()
            client = environment.client("envtest")
            kinds = [JOB, *(kind.gvk() for kind in KINDS)]
            async with (
                _running(application.follow(client, f"{namespace}-app", since)),
                Chronicle.of(client, kinds, namespace, since) as chronicle,
                _audited(environment),
                _manager(environment, namespace, folder),
            ):
                kubectl = Kubectl(
                    provisioned(), environment.kubeconfig("people"), folder, namespace
                )
                yield cls(
                    environment, hcp, application, kubectl, chronicle, namespace, f"{namespace}-app"
                )

    @property
    def client(self) -> Client:
        return self.environment.client("envtest")

    async def do(self, *arguments: str, stdin: str | None = None) -> str:
        """kubectl, while everything else goes on."""
        return await asyncio.to_thread(lambda: self.kubectl(*arguments, stdin=stdin))

    async def apply(self, manifest: Mapping[str, Any]) -> None:
        """`kubectl apply`."""
        text = orjson.dumps(manifest).decode()
        await self.do("apply", "-f", "-", stdin=text)

    async def steps(self) -> list[tuple[str, str]]:
        """The driver's events in the order in which they were recorded: kind of object, state."""
        found = await self.client.list(EVENT, self.namespace)
        told = [each for each in found if each["reason"] == "taskdriver.Ensure"]
        told.sort(key=lambda each: str(each["eventTime"]))
        again = [each["note"] for each in told if each.get("series")]
        assert not again, f"a step was told twice: {again}"
        return [(each["regarding"]["kind"], each["action"]) for each in told]

    def instance(self, *, version: str, machine: str, protected: bool = True) -> dict[str, Any]:
        """The manifest that people keep in their repository."""
        return {
            "apiVersion": Instance.gvk().api_version,
            "kind": "Instance",
            "metadata": {"name": NAME, "labels": {"instance-type": "trial"}},
            "spec": {
                "version": version,
                "domain": f"{self.namespace}.example.com",
                "infrastructure": {
                    "gcp": {"zone": "us-central1-f", "gke": {"blue": {"machineType": machine}}},
                    "terraform": {
                        "organization": "acme",
                        "address": self.hcp.url,
                        "tokenFrom": {"name": "hcp", "key": "token"},
                        "module": {
                            "source": "app.terraform.io/acme/instance/google",
                            "version": "~> 2.0",
                            "outputs": ["project_id"],
                            "sensitiveOutputs": ["kubeconfig"],
                        },
                    },
                },
                "cluster": {
                    "namespace": self.cluster,
                    "bundle": {"manifests": [frontend()]},
                },
                "invariants": [self._settings()],
                "upgrade": self._upgrade(),
                "debug": {"enableDeletionProtection": protected},
            },
        }

    def _settings(self) -> dict[str, Any]:
        url = f"{self.application.site.url}/settings"
        body = {"externalURL": "https://${domain}", "project": "${outputs.project_id}"}
        return {
            "name": "external-url",
            "check": {
                "url": url,
                "expect": [{"path": "$.externalURL", "equals": "https://${domain}"}],
            },
            "ensure": [{"url": url, "method": "PUT", "body": body}],
            "onDelete": [{"url": url, "method": "DELETE", "statusCodes": [204]}],
        }

    def _upgrade(self) -> dict[str, Any]:
        url = self.application.site.url

        def post(path: str) -> dict[str, Any]:
            return {"http": {"url": f"{url}{path}", "method": "POST", "statusCodes": [202]}}

        version = {"path": "$.version", "equals": "${version}"}
        return {
            "healthCheck": {"url": f"{url}/healthz"},
            "backup": post("/backup"),
            "migrate": post("/migrate"),
            "verify": {"url": f"{url}/version", "expect": [version]},
        }


def frontend() -> dict[str, Any]:
    """The workload."""
    labels = {"app": "frontend"}
    container = {"name": "frontend", "image": "registry.example.com/frontend:${version}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "frontend"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


@asynccontextmanager
async def _place(environment: Environment, namespace: str) -> AsyncIterator[str]:
    """Our kinds, two namespaces and a token; yields the resource version before anything happens."""
    client = environment.client("envtest")
    await environment.install_crds(*KINDS)
    try:
        for name in (namespace, f"{namespace}-app"):
            made = await client.create(_namespace(name))
        token = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "hcp",
                "namespace": namespace,
                "labels": {Purpose.TERRAFORM.value: "true"},
            },
            "stringData": {"token": TOKEN},
        }
        await client.create(token)
        yield str(made["metadata"]["resourceVersion"])
    finally:
        await _clear(client, namespace)
        await environment.uninstall_crds(*KINDS)
        for kind in KINDS:
            mapping = kind.mapping()
            name = f"{mapping.plural}.{mapping.gvk.group}"
            await eventually_gone(client, CRD, name, timeout=CRD_SECONDS)


async def _clear(client: Client, namespace: str) -> None:
    """What a failed test left behind goes with its namespaces."""
    for kind in KINDS:
        for found in await client.list(kind.gvk(), namespace, metadata_only=True):
            patch = {"metadata": {"finalizers": None}}
            with suppress(NotFound):
                await client.patch(kind, found["metadata"]["name"], patch, namespace=namespace)
    for name in (namespace, f"{namespace}-app"):
        with suppress(NotFound):
            await client.delete(NAMESPACE, name)


def _namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


@asynccontextmanager
async def _audited(environment: Environment) -> AsyncIterator[None]:
    """The manager is its ServiceAccount, with the roles that are shipped."""
    with audited(environment, ["manager"], SUITE):
        yield


@asynccontextmanager
async def _manager(environment: Environment, namespace: str, folder: Path) -> AsyncIterator[None]:
    with (folder / "manager.log").open("a") as log:
        manager = make_manager(
            environment.config("manager"),
            logger=make_logger(format="console", stream=log),
            name="manager",
            namespaces=(namespace,),
        )
        runs = JobRuns(manager.live_client, RUNS, cache=manager.cache)
        add_cloud(manager, CloudOptions(), provider=runs)
        async with manager.running():
            yield
        await runs.aclose()


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """In the background; its failure is the test's."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        yield
        task.cancel()
