"""The task `resize` against an API server and a page that says how full the claims are."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apis.cloud import TaskOperation
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.json import Json
from internal.cloud.tasks import TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.resize import RESIZED_AT, ResizeTask
from tests.cloud.servers.site import Say, Site
from tests.cloud.tasks.kubeconfigs import inline
from tests.cloud.tasks.workbench import Workbench

CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
GI = 1 << 30
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

Run = Callable[..., Awaitable[TaskResult]]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        yield site


@pytest.fixture
async def environment() -> AsyncIterator[Environment]:
    async with Environment(tls=True, users=("admin",)) as environment:
        yield environment


@pytest.fixture
async def client(environment: Environment) -> Client:
    client = environment.client("admin")
    for name, expands in (("fast", True), ("fixed", False)):
        await client.create(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "example.com/disk",
                "allowVolumeExpansion": expands,
            }
        )
    return client


@pytest.fixture
def run(environment: Environment, site: Site, tmp_path: Path) -> Run:
    kubeconfig = inline(Path(environment.kubeconfig("admin")))
    bench = Workbench(tmp_path, secrets={("outputs", "kubeconfig"): kubeconfig})

    async def run(now: datetime = NOW, **fields: Json) -> TaskResult:
        spec = {
            "outputsSecretName": "outputs",
            "disks": {
                "maxSize": "20Gi",
                "usage": {"url": f"{site.url}/usage"},
                "claimSelector": {"app": "acme"},
            },
        }
        return await ResizeTask(clock=lambda: now).run(bench.context("resize", spec, **fields))

    return run


async def make(
    client: Client, name: str, size: str = "10Gi", cls: str = "fast", app: str = "acme"
) -> None:
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": cls,
            "volumeName": f"pv-{name}",
        },
    }
    await client.create(claim)
    await settle(client, name, size)


async def settle(client: Client, name: str, size: str) -> None:
    """What the storage system does: the claim is bound and has this capacity."""
    status = {"status": {"phase": "Bound", "capacity": {"storage": size}}}
    await client.patch_status(CLAIM, name, status, namespace="default")


def full(**percent: int) -> Say:
    rows = [{"name": name, "usedBytes": value * GI // 10} for name, value in percent.items()]
    return Say(json={"claims": rows})


async def size(client: Client, name: str) -> str:
    claim = await client.get(CLAIM, name, namespace="default")
    return str(claim["spec"]["resources"]["requests"]["storage"])


async def test_full_claims_grow_and_others_do_not(run: Run, client: Client, site: Site) -> None:
    for name in ("a", "b", "c"):
        await make(client, name)
    await make(client, "other", app="other")
    site.answers["GET /usage"] = full(a=95, b=50, other=99)
    result = await run()
    assert [await size(client, name) for name in ("a", "b", "c", "other")] == [
        "12Gi",
        "10Gi",
        "10Gi",
        "10Gi",
    ]
    assert result.message == "3 claims, 1 grown: a to 12Gi."
    assert result.outputs == {"size.a": "12Gi"}  # nobody knows how full the fullest is
    claim = await client.get(CLAIM, "a", namespace="default")
    assert claim["metadata"]["annotations"][RESIZED_AT] == "2026-01-02T03:04:05Z"


async def test_a_second_run_in_the_cooldown_changes_nothing(
    run: Run, client: Client, site: Site
) -> None:
    await make(client, "a")
    site.answers["GET /usage"] = full(a=99)
    await run()
    await run()
    assert await size(client, "a") == "12Gi"
    await settle(client, "a", "12Gi")
    site.answers["GET /usage"] = full(a=118)
    cooling = await run(NOW + timedelta(hours=5))
    assert cooling.outputs == {"fullest": "99"}
    assert await size(client, "a") == "12Gi"
    await run(NOW + timedelta(hours=6))
    assert await size(client, "a") == "14746Mi"


async def test_what_cannot_grow_is_reported_after_the_rest_has_grown(
    run: Run, client: Client, site: Site
) -> None:
    await make(client, "a")
    await make(client, "fixed", cls="fixed")
    await make(client, "large", size="20Gi")
    site.answers["GET /usage"] = full(a=95, fixed=95, large=195)
    with pytest.raises(TaskRejected) as caught:
        await run()
    said = str(caught.value)
    assert said.startswith("Grown: a to 12Gi. ")
    assert "claim fixed is 95 % full, and its storage class does not allow volume expansion" in said
    assert (
        "claim large is 98 % full and at its ceiling: raise spec.cluster.disks.maxSize (20Gi)"
        in said
    )
    assert await size(client, "a") == "12Gi"


@pytest.mark.parametrize("answer", [{"claims": [{"name": "a"}]}, {"rows": []}, [], "text"])
async def test_a_page_with_another_content(
    run: Run, client: Client, site: Site, answer: object
) -> None:
    await make(client, "a")
    site.answers["GET /usage"] = Say(json=answer)
    with pytest.raises(TaskRejected, match=r"spec\.cluster\.disks\.usage has to answer"):
        await run()


async def test_a_page_that_does_not_answer_well(run: Run, client: Client, site: Site) -> None:
    site.answers["GET /usage"] = Say(status=404)
    with pytest.raises(TaskError, match="how full the claims are is not known") as caught:
        await run()
    assert not isinstance(caught.value, TaskRejected)


async def test_teardown_leaves_the_claims(run: Run, client: Client, site: Site) -> None:
    await make(client, "a")
    await run(operation=TaskOperation.TEARDOWN)
    assert await size(client, "a") == "10Gi"
    assert site.asked == []
