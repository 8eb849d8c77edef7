"""What runs in an instance's cluster."""

from typing import Final

from apis.cloud import Instance, InstanceKubernetes, InstanceKubernetesSpec
from internal.cloud.labels import DATABASE_RESTORED, FORMER_CLUSTER
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.subresources.domains import primary_domain
from internal.cloud.subresources.secrets import of_cluster
from internal.cloud.tasks.kubernetes.cluster_record import recorded_ref
from internal.cloud.tasks.task import Concurrency, Supersede, TaskDefinition
from internal.named_secrets import NamedKey, Purpose, named_keys

DEFINITION: Final = TaskDefinition(
    name="kubernetes",
    timeout=3600.0,
    supersede=Supersede.CANCEL,
    concurrency=Concurrency(limit=50, starts_per_minute=120),
    teardown=True,
)

LEAST_PERIOD: Final = 60.0
"""Seconds of the shortest period."""


def desired(instance: Instance, upstream: Upstream) -> InstanceKubernetesSpec:
    """Return the workload in the version that should run now; disks are not part of it."""
    spec = instance.spec
    return InstanceKubernetesSpec(
        version=upstream.version,
        domain=primary_domain(spec),
        cluster=spec.cluster.model_copy(update={"disks": None}),
        outputs=dict(upstream.outputs),
        outputs_secret_name=upstream.outputs_secret_name,
        bundle_revision=upstream.bundle_revision,
    )


def version(resource: InstanceKubernetes) -> str:
    """Return the version that the spec names."""
    return resource.spec.version


def secrets(resource: InstanceKubernetes) -> list[NamedKey]:
    """Return what opens the cluster, and what opened the one where the workload is."""
    now = of_cluster(resource.spec.cluster.kubeconfig_from, resource.spec.outputs_secret_name)
    before = recorded_ref(resource.status.record)
    former = [] if before is None else named_keys([before], Purpose.CLUSTER)
    return list(dict.fromkeys([*now, *former]))


def period(resource: InstanceKubernetes) -> float | None:
    """As often as the spec requests, and not more often than LEAST_PERIOD."""
    given = resource.spec.cluster.drift_period
    return None if given is None else max(LEAST_PERIOD, given.total_seconds())


def config_maps(resource: InstanceKubernetes) -> list[str]:
    """Those of the bundle."""
    return list(resource.spec.cluster.bundle.config_map_names)


SUBRESOURCE: Final = Subresource(
    kind=InstanceKubernetes,
    definition=DEFINITION,
    desired=desired,
    version=version,
    deploys_version=True,
    after=("InstanceTerraform", "UpgradeInstanceTask"),
    annotations=frozenset({DATABASE_RESTORED, FORMER_CLUSTER}),
    secrets=secrets,
    config_maps=config_maps,
    period=period,
)
