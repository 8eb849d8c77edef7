"""The task `kubernetes` against an API server: applied, pruned, waited for, and never what is not ours."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import TaskOperation
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from internal.cloud.keys import instance_key
from internal.cloud.tasks import TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.kubernetes import KubernetesTask
from internal.cloud.tasks.kubernetes.applying import PRUNE, UPGRADES
from internal.cloud.tasks.kubernetes.inventory import (
    FIELD_MANAGER,
    INVENTORY,
    OWNER,
    inventory_name,
)
from tests.backends import SharedServer
from tests.cloud.tasks.kubeconfigs import inline
from tests.cloud.tasks.workbench import Workbench

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CLAIM = GroupVersionKind("", "v1", "PersistentVolumeClaim")
NAMESPACE = GroupVersionKind("", "v1", "Namespace")

Run = Callable[..., Awaitable[TaskResult]]


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def environment(request: pytest.FixtureRequest) -> AsyncIterator[Environment]:
    """A cluster that is reached by kubeconfig, as an instance's is."""
    if request.param == "embedded":
        async with Environment(tls=True, users=("admin",)) as environment:
            yield environment
        return
    server: SharedServer = request.getfixturevalue("real_server")
    async with server.environment(users=("admin",)) as environment:
        yield environment


@pytest.fixture
def namespace() -> str:
    return f"bundle-{secrets.token_hex(4)}"


@pytest.fixture
async def client(environment: Environment, namespace: str) -> AsyncIterator[Client]:
    client = environment.client("admin")
    yield client
    for name in (namespace, f"{namespace}-2"):
        try:
            await client.delete(NAMESPACE, name)
        except NotFound:
            continue


@pytest.fixture
def bench(environment: Environment, tmp_path: Path) -> Workbench:
    return Workbench(
        tmp_path,
        secrets={("cluster", "kubeconfig"): inline(Path(environment.kubeconfig("admin")))},
    )


@pytest.fixture
def run(bench: Workbench, namespace: str) -> Run:
    async def run(
        *manifests: Manifest,
        operation: TaskOperation = TaskOperation.APPLY,
        instance: str = "",
        of: str = "prod",
        cluster: dict[str, Any] | None = None,
        **spec: object,
    ) -> TaskResult:
        whole = {
            "version": "5.2.0",
            "cluster": {
                "kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"},
                "namespace": namespace,
                "readyTimeoutSeconds": 10,
                "bundle": {"manifests": list(manifests)},
                **(cluster or {}),
            },
            **spec,
        }
        context = bench.context(
            "kubernetes",
            whole,
            instance=instance or namespace,
            namespace=of,
            operation=operation,
        )
        return await KubernetesTask(poll=0.05).run(context)

    return run


def config_map(name: str, annotations: dict[str, str] | None = None, **data: str) -> Manifest:
    metadata = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def names(client: Client, namespace: str) -> set[str]:
    found = await client.list(CONFIG_MAP, namespace)
    own = {each["metadata"]["name"] for each in found}
    return {name for name in own if not name.endswith("-inventory")} - {"kube-root-ca.crt"}


async def test_a_bundle_is_applied_and_its_places_are_filled(
    run: Run, client: Client, namespace: str
) -> None:
    shell = config_map(
        "web", version="${version}", host="${domain}", db="${outputs.db}", sh="echo ${HOME}"
    )
    result = await run(shell, domain="acme.example.com", outputs={"db": "10.0.0.5"})
    found = await client.get(CONFIG_MAP, "web", namespace=namespace)
    assert found["data"] == {
        "version": "5.2.0",
        "host": "acme.example.com",
        "db": "10.0.0.5",
        "sh": "echo ${HOME}",
    }
    assert found["metadata"]["annotations"][OWNER] == f"prod/{namespace}"
    managers = {entry["manager"] for entry in found["metadata"]["managedFields"]}
    assert managers == {FIELD_MANAGER}
    assert result.message == "1 objects are ready; 1 changed, 0 deleted."


async def test_the_same_bundle_again_changes_nothing(
    run: Run, client: Client, namespace: str
) -> None:
    await run(config_map("a", k="1"), config_map("b", k="1"))
    before = await client.get(CONFIG_MAP, "a", namespace=namespace)
    result = await run(config_map("a", k="1"), config_map("b", k="1"))
    assert result.message == "2 objects are ready; 0 changed, 0 deleted."
    assert await client.get(CONFIG_MAP, "a", namespace=namespace) == before


async def test_what_leaves_the_bundle_is_pruned(run: Run, client: Client, namespace: str) -> None:
    await run(config_map("a"), config_map("b"), config_map("c"))
    result = await run(config_map("b"))
    assert await names(client, namespace) == {"b"}
    assert result.message == "1 objects are ready; 0 changed, 2 deleted."


async def test_an_apply_in_a_later_second_counts_no_change(
    run: Run, client: Client, namespace: str
) -> None:
    """The time of an apply has whole seconds; servers that compare it write again (kubernetes/kubernetes#121404)."""
    await run(config_map("a"))
    before = await client.get(CONFIG_MAP, "a", namespace=namespace)
    (entry,) = before["metadata"]["managedFields"]
    written = datetime.fromisoformat(entry["time"]).timestamp()
    await asyncio.sleep(max(0.0, written + 1.05 - time.time()))
    result = await run(config_map("a"))
    assert result.message == "1 objects are ready; 0 changed, 0 deleted."


async def test_what_was_changed_by_hand_is_corrected(
    run: Run, client: Client, namespace: str
) -> None:
    await run(config_map("a", k="ours"))
    await client.patch(CONFIG_MAP, "a", {"data": {"k": "theirs", "own": "x"}}, namespace=namespace)
    await run(config_map("a", k="ours"))
    assert (await client.get(CONFIG_MAP, "a", namespace=namespace))["data"] == {
        "k": "ours",
        "own": "x",
    }


async def test_a_field_that_leaves_the_bundle_leaves_the_object(
    run: Run, client: Client, namespace: str
) -> None:
    await run(config_map("a", k="1", gone="2"))
    await run(config_map("a", k="1"))
    assert (await client.get(CONFIG_MAP, "a", namespace=namespace))["data"] == {"k": "1"}


class TestWhatIsNotOurs:
    async def test_an_object_that_is_there_is_left_alone(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("first"))
        theirs = config_map("a", k="theirs")
        theirs["metadata"]["namespace"] = namespace
        await client.create(theirs)
        with pytest.raises(TaskRejected, match="was not made by this control plane"):
            await run(config_map("first"), config_map("a", k="ours"))
        assert (await client.get(CONFIG_MAP, "a", namespace=namespace))["data"] == {"k": "theirs"}

    async def test_it_can_be_handed_over(self, run: Run, client: Client, namespace: str) -> None:
        await run(config_map("first"))
        theirs = config_map("a", {OWNER: f"prod/{namespace}"}, k="theirs")
        theirs["metadata"]["namespace"] = namespace
        await client.create(theirs)
        await run(config_map("first"), config_map("a", k="ours"))
        assert (await client.get(CONFIG_MAP, "a", namespace=namespace))["data"] == {"k": "ours"}

    async def test_another_instance_keeps_what_it_has(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a", k="1"))
        with pytest.raises(TaskRejected, match=f"belongs to instance prod/{namespace}"):
            await run(config_map("a", k="2"), instance=f"{namespace}-2")
        await run(operation=TaskOperation.TEARDOWN, instance=f"{namespace}-2")
        assert (await client.get(CONFIG_MAP, "a", namespace=namespace))["data"] == {"k": "1"}

    async def test_pruning_passes_by_what_was_replaced_by_others(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a"), config_map("b"))
        await client.delete(CONFIG_MAP, "a", namespace=namespace)
        theirs = config_map("a", k="theirs")
        theirs["metadata"]["namespace"] = namespace
        await client.create(theirs)
        result = await run(config_map("b"))
        assert await names(client, namespace) == {"a", "b"}
        assert result.message.endswith(f"ConfigMap {namespace}/a kept.")

    async def test_pruning_passes_by_a_copy_by_others_with_the_annotations_of_what_was_applied(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        """Also of what a run that died had recorded and never applied."""
        await run(config_map("a"), config_map("b"))
        found = await client.get(CONFIG_MAP, "a", namespace=namespace)
        await client.delete(CONFIG_MAP, "a", namespace=namespace)
        kept = {key: found["metadata"][key] for key in ("name", "labels", "annotations")}
        await client.create({**found, "metadata": {**kept, "namespace": namespace}})
        result = await run(config_map("b"))
        assert await names(client, namespace) == {"a", "b"}
        assert result.message.endswith(f"ConfigMap {namespace}/a kept.")


def claim(annotations: dict[str, str] | None = None) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "annotations": annotations or {}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "none",
        },
    }


@pytest.mark.criterion("H-B1")
class TestInstancesOfOneName:
    """Two namespaces of the control plane, each with an Instance of the same name, one cluster."""

    async def test_h_b1_each_keeps_its_inventory_and_prunes_its_own(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a"), config_map("b"), of="prod")
        await run(config_map("c"), config_map("d"), of="dev")
        assert "1 deleted" in (await run(config_map("a"), of="prod")).message
        assert await names(client, namespace) == {"a", "c", "d"}
        assert "1 deleted" in (await run(config_map("c"), of="dev")).message
        assert await names(client, namespace) == {"a", "c"}

    async def test_h_b1_in_namespaces_of_their_own_neither_loses_its_inventory(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a"), config_map("b"), of="prod", instance="acme")
        other = {"namespace": f"{namespace}-2"}
        await run(config_map("c"), of="dev", instance="acme", cluster=other)
        await run(config_map("a"), of="prod", instance="acme")
        assert await names(client, namespace) == {"a"}
        assert await names(client, f"{namespace}-2") == {"c"}
        key = instance_key("dev", "acme")
        assert await client.get(CONFIG_MAP, inventory_name(key), namespace=f"{namespace}-2")

    async def test_h_b1_a_teardown_leaves_jobs_and_objects_of_the_other(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        for of in ("prod", "dev"):
            await run(config_map(f"of-{of}"), of=of)
            left = config_map(f"left-by-{of}")
            labels = {UPGRADES: instance_key(of, namespace)}
            left["metadata"] |= {"namespace": namespace, "labels": labels}
            await client.create(left)
        await run(of="prod", operation=TaskOperation.TEARDOWN)
        assert await names(client, namespace) == {"of-dev", "left-by-dev"}
        result = await run(of="dev", operation=TaskOperation.TEARDOWN)
        assert result.message == "1 objects deleted."
        assert await names(client, namespace) == set()

    async def test_h_b1_an_inventory_of_the_former_name_is_read_and_left(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        """What was applied before the names were scoped is pruned still; what is another's is not."""
        await run(config_map("first"), instance="other")
        for name, of in (("ours", "prod"), ("theirs", "dev")):
            item = config_map(name, {OWNER: f"{of}/{namespace}"})
            item["metadata"]["namespace"] = namespace
            await client.create(item, field_manager=FIELD_MANAGER)
        rows = [["", "ConfigMap", namespace, name] for name in ("ours", "theirs", "gone")]
        former = config_map(f"{namespace}-inventory")
        former["data"] = {"objects.json": json.dumps(rows)}
        former["metadata"] |= {"namespace": namespace, "labels": {INVENTORY: namespace}}
        await client.create(former)

        assert "1 deleted" in (await run(config_map("a"), of="prod")).message
        assert await names(client, namespace) == {"theirs", "a", "first"}
        assert await client.get(CONFIG_MAP, f"{namespace}-inventory", namespace=namespace)


class TestWhatHoldsData:
    async def test_it_stays_when_it_leaves_the_bundle(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(claim(), config_map("a"))
        result = await run(config_map("a"))
        assert await client.get(CLAIM, "data", namespace=namespace)
        assert result.message.endswith(f"PersistentVolumeClaim {namespace}/data kept.")

    async def test_it_goes_when_it_is_announced(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(claim({PRUNE: "true"}), config_map("a"))
        result = await run(config_map("a"))
        assert "1 deleted" in result.message

    async def test_anything_can_be_marked_as_retained(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a", {PRUNE: "false"}), config_map("b"))
        await run(config_map("b"))
        assert await names(client, namespace) == {"a", "b"}

    async def test_a_bundle_that_is_suddenly_empty_deletes_nothing(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a"))
        with pytest.raises(TaskRejected, match="no objects any more"):
            await run()
        assert await names(client, namespace) == {"a"}


class TestTeardown:
    async def test_all_that_was_applied_goes(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        await run(config_map("a"), config_map("b"))
        result = await run(operation=TaskOperation.TEARDOWN)
        assert result.message == "2 objects deleted."
        assert await names(client, namespace) == set()
        with pytest.raises(NotFound):
            await client.get(
                CONFIG_MAP, inventory_name(instance_key("prod", namespace)), namespace=namespace
            )

    async def test_without_a_cluster_nothing_has_to_go(
        self, run: Run, client: Client, namespace: str
    ) -> None:
        none = {"kubeconfigFrom": None}
        result = await run(operation=TaskOperation.TEARDOWN, cluster=none)
        assert result.message == "There was never a cluster, so nothing has to go."
        with pytest.raises(TaskRejected, match="no kubeconfig"):
            await run(config_map("a"), cluster=none)

    async def test_twice_is_once(self, run: Run, namespace: str) -> None:
        await run(config_map("a"))
        await run(operation=TaskOperation.TEARDOWN)
        result = await run(operation=TaskOperation.TEARDOWN)
        assert result.message == "0 objects deleted."


async def test_the_inventory_moves_with_the_namespace(
    run: Run, client: Client, namespace: str
) -> None:
    await run(config_map("a"))
    await run(config_map("a"), cluster={"namespace": f"{namespace}-2"})
    assert await names(client, f"{namespace}-2") == {"a"}
    assert await names(client, namespace) == set()
    with pytest.raises(NotFound):
        await client.get(
            CONFIG_MAP, inventory_name(instance_key("prod", namespace)), namespace=namespace
        )


async def test_a_kind_and_its_objects_come_in_one_bundle(
    run: Run, client: Client, namespace: str
) -> None:
    group = f"g{secrets.token_hex(3)}.example.com"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"sizes.{group}", "annotations": {PRUNE: "true"}},
        "spec": {
            "group": group,
            "names": {
                "kind": "Size",
                "plural": "sizes",
                "singular": "size",
                "listKind": "SizeList",
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    size = {
        "apiVersion": f"{group}/v1",
        "kind": "Size",
        "metadata": {"name": "big"},
        "spec": {"n": 1},
    }
    await run(size, definition)
    found = await client.get(GroupVersionKind(group, "v1", "Size"), "big", namespace=namespace)
    assert found["spec"] == {"n": 1}
    result = await run(operation=TaskOperation.TEARDOWN)
    assert result.message == "2 objects deleted."


async def test_what_is_not_ready_in_time_is_said(run: Run, namespace: str) -> None:
    with pytest.raises(
        TaskError, match=r"not ready within 1 s: Deployment.apps .*/web: "
    ) as caught:
        await run(deployment("web"), cluster={"readyTimeoutSeconds": 1})
    assert not isinstance(caught.value, TaskRejected)


def deployment(name: str) -> Manifest:
    labels = {"app": name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "example.com/web:${version}"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }


async def test_a_crash_in_between_forgets_nothing(run: Run, client: Client, namespace: str) -> None:
    """What a run that died had applied already is pruned when the next bundle does not have it."""
    broken = {**config_map("z"), "data": "no mapping"}
    with pytest.raises(TaskError):
        await run(config_map("a"), config_map("b"), broken)
    assert await names(client, namespace) == {"a", "b"}
    await run(config_map("b"))
    assert await names(client, namespace) == {"b"}


async def test_two_documents_of_one_object_are_refused(run: Run) -> None:
    with pytest.raises(TaskRejected, match="is there twice: "):
        await run(config_map("a", k="1"), config_map("a", k="2"))


async def test_a_kind_that_the_cluster_lacks_may_come_later(run: Run) -> None:
    foreign = {"apiVersion": "none.example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}
    with pytest.raises(TaskError, match="serves no Nothing") as caught:
        await run(foreign)
    assert not isinstance(caught.value, TaskRejected)
