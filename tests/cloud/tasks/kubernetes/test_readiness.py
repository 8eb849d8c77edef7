"""The task `kubernetes` waits for workloads that simulated nodes run."""

from __future__ import annotations

from pathlib import Path

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from internal.cloud.tasks.kubernetes import KubernetesTask
from tests.cloud.tasks.kubeconfigs import inline
from tests.cloud.tasks.kubernetes.test_bundle import deployment
from tests.cloud.tasks.workbench import Workbench


async def test_a_workload_is_ready_when_the_task_ends(tmp_path: Path) -> None:
    async with Environment(tls=True, nodes=True, users=("admin",)) as environment:
        kubeconfig = inline(Path(environment.kubeconfig("admin")))
        bench = Workbench(tmp_path, secrets={("cluster", "kubeconfig"): kubeconfig})
        spec = {
            "version": "5.2.0",
            "cluster": {
                "kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"},
                "namespace": "acme",
                "bundle": {"manifests": [deployment("web")]},
            },
        }
        await KubernetesTask(poll=0.05).run(bench.context("kubernetes", spec))
        client = environment.client("admin")
        found = await client.get(
            GroupVersionKind("apps", "v1", "Deployment"), "web", namespace="acme"
        )
        assert found["status"]["readyReplicas"] == 1
        [container] = found["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "example.com/web:5.2.0"
    assert any("waits for Deployment.apps acme/web" in said for said in bench.said)
