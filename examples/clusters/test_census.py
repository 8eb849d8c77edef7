"""Two clusters in memory beside the one with the Secrets."""

from census import Census, setup

from ctrlruntime import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually


def counted(number):
    return {"status": {"namespaces": number}}


async def create_namespace(env, name):
    async with Client.connect(env.config()) as client:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


async def join(client, namespace, name, env):
    """Register a cluster: its kubeconfig, and the object for its count."""
    labels = {"cluster.ctrlruntime.dev/kubeconfig": "true"}
    head = {"metadata": {"name": name, "namespace": namespace}}
    await client.create(Census.from_manifest({**head, "spec": {}}))
    await client.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**head["metadata"], "labels": labels},
            "stringData": {"kubeconfig": env.kubeconfig("admin").read_text()},
        }
    )


async def test_each_cluster_is_counted_for_itself(run_manager, envtest_client, namespace):
    await run_manager(lambda manager: setup(manager, namespace), Census)
    async with Environment() as east, Environment() as west:
        await create_namespace(west, "shop")
        for name, env in {"east": east, "west": west}.items():
            await join(envtest_client, namespace, name, env)
        await eventually(envtest_client, Census, "east", counted(1), namespace=namespace)
        await eventually(envtest_client, Census, "west", counted(2), namespace=namespace)
        await create_namespace(east, "shop")
        await create_namespace(east, "kube-tools")
        await eventually(envtest_client, Census, "east", counted(2), namespace=namespace)
