"""How many namespaces each of many clusters has: one object a cluster, counted again when a namespace comes or goes.

Clusters are Secrets with a kubeconfig; see docs/multicluster.md.
"""

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    ClusterSet,
    Config,
    Entry,
    GroupVersionKind,
    Manager,
    ManagerOptions,
    Request,
    Resource,
    enqueue_map_func,
    merge_patch,
    run,
)
from ctrlruntime.cluster import KubeconfigProvider

NAMESPACE = BUILTIN[GroupVersionKind("", "v1", "Namespace")]


class CensusSpec(ApiModel):
    """Namespaces whose name begins so are left out."""

    without_prefix: str = "kube-"


class CensusStatus(ApiModel):
    """The count."""

    namespaces: int = 0


class Census(Resource[CensusSpec, CensusStatus], group="fleet.example.com", version="v1"):
    """A cluster, by its name: that of the Secret with its kubeconfig."""


def setup(manager: Manager, home: str) -> None:
    """Add the controller, and the clusters of the namespace `home`."""
    manager.add_provider(KubeconfigProvider(manager.cluster, home))

    async def reconcile(request: Request) -> None:
        census = manager.cache.get(Census, request.cluster, namespace=home)
        if census is None:
            return
        old = census.model_copy(deep=True)
        cluster = manager.get_cluster(request.cluster)
        names = [each.name for each in cluster.cache.entries(NAMESPACE)]
        left_out = census.spec.without_prefix
        census.status.namespaces = sum(not name.startswith(left_out) for name in names)
        if patch := merge_patch(old, census):
            await manager.client.patch_status(Census, request.cluster, patch, namespace=home)

    def of_its_cluster(census: Entry[Census]) -> list[Request]:
        return [Request("default", cluster=census.name)]  # any namespace: all are counted

    (
        Builder(manager)
        .named("census")
        .for_(NAMESPACE, metadata_only=True, cluster=ClusterSet.ENGAGED)
        .watches(Census, enqueue_map_func(of_its_cluster))
        .build(reconcile)
    )


async def main() -> None:
    """Run it until it is stopped."""
    manager = Manager(await Config.load(), ManagerOptions(name="census", handle_signals=True))
    setup(manager, "clusters")
    await manager.start()


if __name__ == "__main__":
    run(main())
