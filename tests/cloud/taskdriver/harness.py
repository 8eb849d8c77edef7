"""A cluster over HTTP, a place outside where runs execute, and managers that come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict, TypeVar, Unpack, overload

from prometheus_client import CollectorRegistry

from apis.cloud import (
    Instance,
    InstanceTerraform,
    TaskCondition,
    TaskPriority,
    TaskRun,
    TaskStatus,
    TerraformRuns,
    UpgradeInstanceTask,
)
from ctrlruntime.api import Resource
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.events import EventRecorder
from ctrlruntime.rollout import Waiting
from ctrlruntime.tracing import Tracing
from internal.cloud.concurrency import ConcurrencyLimiter
from internal.cloud.labels import FIELD_MANAGER, RUNS_FINALIZER
from internal.cloud.runs import RunOwner, RunState
from internal.cloud.taskdriver import EnsureOptions, Progress, TaskMetrics, Tools, ensure
from internal.cloud.taskdriver.context import Hold, Leaving
from internal.cloud.taskdriver.drift_checks import DriftCheck
from internal.cloud.tasks.task import Retries, TaskDefinition
from internal.named_secrets import NamedKey
from tests.cloud.rbac import embedded
from tests.cloud.taskdriver.fake_provider import Outside

R = TypeVar("R", bound=Resource[Any, Any])

NAMESPACE = "default"
KINDS = (Instance, InstanceTerraform, UpgradeInstanceTask)
AT_ONCE = 1.0
"""A pass that is due within this time is made by :meth:`Life.drive`."""
PLAIN = TaskDefinition(
    name="terraform", timeout=600.0, retries=Retries(limit=3, base=30.0), history=3
)


@dataclass
class Clock:
    """Time that moves when it is told to."""

    now: datetime = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class TaskDriverHarness:
    """What outlives a manager."""

    env: Environment
    clock: Clock
    outside: Outside
    refused: str = ""
    """Why the leader's fence refuses effects; empty: it does not."""

    @classmethod
    @asynccontextmanager
    async def start(cls) -> AsyncIterator[TaskDriverHarness]:
        clock = Clock()
        async with embedded("manager", "recorder") as env:
            await env.install_crds(*KINDS)
            yield cls(env, clock, Outside(clock))

    @property
    def admin(self) -> Client:
        return self.env.client("admin")

    async def make(
        self,
        name: str = "acme",
        *,
        kind: type[Any] = InstanceTerraform,
        spec: Mapping[str, Any] | None = None,
        finalizers: tuple[str, ...] = (RUNS_FINALIZER,),
        **metadata: object,
    ) -> Resource[Any, Any]:
        """Create an object, with the finalizer of the driver."""
        given = {"name": name, "namespace": NAMESPACE, "finalizers": list(finalizers), **metadata}
        return await self.admin.create(
            kind.from_manifest({"metadata": given, "spec": dict(spec or {})})
        )

    async def change(self, name: str = "acme", **spec: object) -> None:
        """Change the spec."""
        await self.admin.patch(InstanceTerraform, name, {"spec": spec}, namespace=NAMESPACE)

    async def annotate(self, name: str = "acme", **annotations: object) -> None:
        """Set annotations, by keys with `_` for `/`; None takes one away."""
        await self.annotate_all(name, {k.replace("_", "/"): v for k, v in annotations.items()})

    async def annotate_all(self, name: str, annotations: Mapping[str, Any]) -> None:
        patch = {"metadata": {"annotations": dict(annotations)}}
        await self.admin.patch(InstanceTerraform, name, patch, namespace=NAMESPACE)

    async def forge(self, status: object, name: str = "acme") -> None:
        """Write a status as anybody may: a merge patch, None for nothing at all."""
        await self.admin.patch_status(
            InstanceTerraform, name, {"status": status}, namespace=NAMESPACE
        )

    @overload
    async def read(self, name: str = ...) -> InstanceTerraform: ...
    @overload
    async def read(self, name: str, kind: type[R]) -> R: ...
    async def read(
        self, name: str = "acme", kind: type[Resource[Any, Any]] = InstanceTerraform
    ) -> Resource[Any, Any]:
        """The object as the server has it."""
        return await self.admin.get(kind, name, namespace=NAMESPACE)

    def fence(self) -> None:
        if self.refused:
            raise RuntimeError(self.refused)

    @asynccontextmanager
    async def life(self, **options: object) -> AsyncIterator[Life]:
        """One life of a manager: nothing is remembered from the one before."""
        recording = Client.connect(self.env.config("recorder"))
        async with Client.connect(self.env.config("manager")) as client, recording:
            cache = Cache(client)
            for kind in KINDS:
                cache.declare(kind)
            await cache.start()
            await cache.wait_synced(60.0)
            recorder = EventRecorder(recording, "taskdriver-test", now=self.clock)
            woken: list[RunOwner] = []
            registry = CollectorRegistry()
            settings: dict[str, Any] = {
                "client": cache.client(),
                "patcher": ObjectPatcher(cache.client(), FIELD_MANAGER),
                "open_runs": self.outside.opening,
                "limiter": ConcurrencyLimiter(self.clock, woken.append),
                "recorder": recorder,
                "metrics": TaskMetrics(registry),
                "fence": self.fence,
                "tracing": Tracing(),
                "clock": self.clock,
                **options,
            }
            try:
                yield Life(self, cache, Tools(**settings), registry, woken)
            finally:
                await recorder.stop(60.0)
                await cache.stop()


class StepOptions(TypedDict, total=False):
    """The object, and fields of `EnsureOptions`."""

    kind: type[Resource[Any, Any]]
    resource: Resource[Any, Any] | None
    definition: TaskDefinition
    instance: str
    period: float | None
    paused_by: str
    priority: TaskPriority
    secrets: Sequence[NamedKey]
    leaving: Leaving
    held: Hold | None
    version_hold: Callable[[], Hold | None]
    hold: Waiting | None
    drift_check: DriftCheck | None
    bad_schedule: str
    drift: str
    terraform_runs: TerraformRuns | None
    deployed: bool


@dataclass
class Life:
    """One manager."""

    harness: TaskDriverHarness
    cache: Cache
    tools: Tools
    registry: CollectorRegistry
    woken: list[RunOwner] = field(default_factory=list)

    @overload
    async def seen(self, name: str = ...) -> InstanceTerraform: ...
    @overload
    async def seen(self, name: str, kind: type[R]) -> R: ...
    async def seen(
        self, name: str = "acme", kind: type[Resource[Any, Any]] = InstanceTerraform
    ) -> Resource[Any, Any]:
        """The object from the cache, once that is as new as the server."""
        newest = await self.harness.read(name, kind)
        version = newest.metadata.resource_version

        def current() -> bool:
            entry = self.cache.entry(kind, name, namespace=NAMESPACE)
            return entry is not None and entry.resource_version == version

        await eventually_holds(current, timeout=60.0)
        found = self.cache.get(kind, name, namespace=NAMESPACE)
        assert found is not None
        return found

    async def step(
        self,
        name: str = "acme",
        **options: Unpack[StepOptions],
    ) -> Progress:
        """One pass."""
        kind = options.pop("kind", InstanceTerraform)
        resource = options.pop("resource", None) or await self.seen(name, kind)
        given: dict[str, Any] = {"definition": PLAIN, "instance": name, **options}
        return await ensure(self.tools, EnsureOptions(resource=resource, **given))

    async def drive(self, name: str = "acme", **options: Unpack[StepOptions]) -> Progress:
        """Pass until nothing is due at once."""
        for _ in range(30):
            progress = await self.step(name, **options)
            due = progress.requeue_after
            if progress.gone or due is None or due >= AT_ONCE:
                return progress
            self.harness.clock.advance(due)
        raise AssertionError("the driver never comes to rest")

    async def finish(
        self,
        state: RunState = RunState.SUCCEEDED,
        name: str = "acme",
        *,
        definition: TaskDefinition = PLAIN,
        period: float | None = None,
        **changes: object,
    ) -> Progress:
        """The run under way ends; drive on."""
        run = run_of((await self.harness.read(name)).status)
        self.harness.outside.move(run.run_id, RunState.RUNNING)
        self.harness.outside.move(run.run_id, state, **changes)
        return await self.drive(name, definition=definition, period=period)


def run_of(status: TaskStatus) -> TaskRun:
    """The recorded run."""
    assert status.run is not None
    return status.run


def states(conditions: list[TaskCondition]) -> list[str]:
    """The recorded steps, oldest first."""
    return [item.type.value for item in reversed(conditions)]
