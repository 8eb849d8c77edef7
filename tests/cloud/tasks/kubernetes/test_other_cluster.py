"""A kubeconfig that opens another cluster than the one where the workload is."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from apis.cloud import TaskOperation, TaskStatus
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client import Client
from ctrlruntime.envtest import Environment
from internal.cloud.labels import DATABASE_RESTORED, FORMER_CLUSTER
from internal.cloud.taskdriver.record import record_reported
from internal.cloud.tasks import TaskRejected, TaskResult
from internal.cloud.tasks.kubernetes import KubernetesTask
from internal.cloud.tasks.kubernetes.changes import MIGRATE, ChangeRecord, manifest_of
from internal.cloud.tasks.upgrade import UpgradeTask
from tests.cloud.tasks.kubeconfigs import inline
from tests.cloud.tasks.workbench import Workbench

pytestmark = pytest.mark.criterion("G-C6")

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
TEARDOWN = TaskOperation.TEARDOWN


@dataclass
class Clusters:
    """Two clusters, each with a Secret that opens it."""

    bench: Workbench
    first: Environment
    second: Environment
    kept: dict[str, str] = field(default_factory=dict)
    """What the last run reported while it was under way."""

    async def run(
        self,
        secret: str,
        given: Mapping[str, Any],
        operation: TaskOperation = TaskOperation.APPLY,
    ) -> TaskResult:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
        cluster = {"kubeconfigFrom": {"name": secret, "key": "kubeconfig"}}
        bundle = {"namespace": "web", "bundle": {"manifests": [manifest]}}
        spec = {"version": "5.2.0", "cluster": {**cluster, **bundle}}
        context = self.bench.context("kubernetes", spec, operation=operation)
        context = replace(context, keep=self.kept.__setitem__)
        return await KubernetesTask(poll=0.05).run(
            replace(context, input=replace(context.input, **given))
        )

    async def upgrade(self, secret: str, given: Mapping[str, Any]) -> TaskResult:
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
        cluster = {"kubeconfigFrom": {"name": secret, "key": "kubeconfig"}, "namespace": "web"}
        versions = {"instanceName": "acme", "fromVersion": "5.2.0", "toVersion": "5.3.0"}
        spec = {**versions, "cluster": {**cluster, "bundle": {"manifests": [manifest]}}}
        context = self.bench.context("upgrade", spec, kind="UpgradeInstanceTask")
        return await UpgradeTask(poll=0.05).run(
            replace(context, input=replace(context.input, **given))
        )

    def open(self, secret: str, environment: Environment) -> None:
        text = inline(Path(environment.kubeconfig("admin")))
        self.bench.secrets[secret, "kubeconfig"] = text

    async def places(self) -> list[bool]:
        """Whether the workload is in the first and in the second cluster."""
        clients = [each.client("admin") for each in (self.first, self.second)]
        found = [await each.list(CONFIG_MAP, namespace="web") for each in clients]
        return [any(item["metadata"]["name"] == "web" for item in items) for items in found]


@pytest.fixture
async def clusters(tmp_path: Path) -> AsyncIterator[Clusters]:
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(Environment(tls=True, users=("admin",)))
            for _ in range(2)
        ]
        found = Clusters(Workbench(tmp_path), both[0], both[1])
        found.open("a", found.first)
        found.open("b", found.second)
        yield found


async def applied(clusters: Clusters) -> dict[str, Any]:
    result = await clusters.run("a", {})
    return {"built": True, "record": result.record}


async def refused(
    clusters: Clusters,
    secret: str,
    given: Mapping[str, Any],
    operation: TaskOperation = TaskOperation.APPLY,
) -> dict[str, Any]:
    """Return the input with the answer of the message."""
    with pytest.raises(TaskRejected, match="the workload is in cluster") as caught:
        await clusters.run(secret, given, operation)
    answer = re.search(rf"{FORMER_CLUSTER}=(\S+?)`", str(caught.value))
    assert answer is not None
    return {**given, "annotations": {FORMER_CLUSTER: answer.group(1)}}


async def test_g_c6_nothing_is_applied_to_another_cluster(clusters: Clusters) -> None:
    given = await applied(clusters)
    answered = await refused(clusters, "b", given)
    assert await clusters.places() == [True, False]
    moved = await clusters.run("b", answered)
    assert await clusters.places() == [True, True]
    # The answer was for the cluster that was left, and counts for no other.
    await refused(clusters, "a", {**answered, "record": moved.record})


async def test_g_c6_a_teardown_goes_where_the_workload_is(clusters: Clusters) -> None:
    given = await applied(clusters)
    await clusters.run("b", given, TEARDOWN)
    assert await clusters.places() == [False, False]


async def test_g_c6_a_teardown_is_held_where_nothing_opens_the_cluster(clusters: Clusters) -> None:
    """The Secret of the same name opens another cluster now."""
    given = await applied(clusters)
    clusters.open("a", clusters.second)
    answered = await refused(clusters, "a", given, TEARDOWN)
    assert await clusters.places() == [True, False]
    await clusters.run("a", answered, TEARDOWN)
    assert await clusters.places() == [True, False]
    clusters.open("a", clusters.first)
    await clusters.run("a", given, TEARDOWN)
    assert await clusters.places() == [False, False]


async def test_g_c6_a_workload_without_a_kubeconfig_is_no_workload_that_never_was(
    clusters: Clusters,
) -> None:
    spec: dict[str, Any] = {"version": "5.2.0", "cluster": {"namespace": "web"}}
    context = clusters.bench.context("kubernetes", spec, operation=TEARDOWN)
    given = replace(context.input, built=True)
    with pytest.raises(TaskRejected, match="there is no kubeconfig now"):
        await KubernetesTask().run(replace(context, input=given))


async def test_g_c6_an_upgrade_takes_no_workload_to_another_cluster(clusters: Clusters) -> None:
    """Version and cluster are changed at once; whatever a person decided on the former cluster."""
    given = await applied(clusters)
    answered = {**given, "annotations": {FORMER_CLUSTER: f"leave-{given['record']['cluster']}"}}
    for each in (given, answered):
        with pytest.raises(TaskRejected, match=r"set spec\.version to 5\.2\.0"):
            await clusters.upgrade("b", each)
    assert await clusters.places() == [True, False]
    await clusters.upgrade("a", given)
    assert await clusters.places() == [True, False]


async def test_g_c6_a_migration_is_known_in_the_cluster_that_a_workload_moves_to(
    clusters: Clusters,
) -> None:
    """The switch comes in the midst of an upgrade: the old version is not rolled out on migrated data there."""
    given = await applied(clusters)
    begun = ChangeRecord(
        change="u-1", uid="u-1", from_version="5.2.0", to_version="5.3.0", steps={MIGRATE: "now"}
    )
    key = clusters.bench.context("kubernetes", {}).input.key
    await clusters.first.client("admin").create(manifest_of(begun, key, "web"))
    answered = await refused(clusters, "b", given)
    with pytest.raises(TaskRejected, match=r"the migration from 5\.2\.0 to 5\.3\.0 has succeeded"):
        await clusters.run("b", answered)
    assert await clusters.places() == [True, False]
    restored = {DATABASE_RESTORED: begun.digest, **answered["annotations"]}
    await clusters.run("b", {**answered, "annotations": restored})
    assert await clusters.places() == [True, True]


async def test_g_c6_a_first_run_that_is_killed_leaves_its_cluster_on_record(
    clusters: Clusters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before each of its writes: once anything is in the first cluster, another one is held."""
    write, left = Client.apply, 0

    async def killed(self: Client, obj: Manifest, **more: object) -> Manifest:
        nonlocal left
        if not left:
            raise asyncio.CancelledError
        left -= 1
        return await write(self, obj, **cast("dict[str, Any]", more))

    for writes in range(3):
        clusters.kept.clear()
        with monkeypatch.context() as patch:
            left = writes
            patch.setattr(Client, "apply", killed)
            with pytest.raises(asyncio.CancelledError):
                await clusters.run("a", {})
        status = TaskStatus()
        record_reported(status, clusters.kept)
        await refused(clusters, "b", {"record": status.record})
        assert not (await clusters.places())[1]
