"""A change of version: one object for each, used once."""

from typing import Final

from apis.cloud import Instance, InstanceKubernetes, UpgradeInstanceTask, UpgradeInstanceTaskSpec
from internal.cloud.subresource import ObjectStrategy, Subresource, Upstream
from internal.cloud.subresources.domains import primary_domain
from internal.cloud.subresources.secrets import of_cluster, of_requests, requests_of_upgrade
from internal.cloud.tasks.task import Concurrency, Retries, Supersede, TaskDefinition
from internal.named_secrets import NamedKey

DEFINITION: Final = TaskDefinition(
    name="upgrade",
    timeout=4 * 3600.0,
    retries=Retries(limit=3, base=60.0),
    supersede=Supersede.AWAIT,
    concurrency=Concurrency(limit=10, starts_per_minute=30),
    once=True,
)


def desired(instance: Instance, upstream: Upstream) -> UpgradeInstanceTaskSpec | None:
    """From the version that is deployed to the one wanted; None if they are the same."""
    spec = instance.spec
    if upstream.version == spec.wanted_version:
        return None
    return UpgradeInstanceTaskSpec(
        instance_name=instance.metadata.name or "",
        from_version=upstream.version,
        to_version=spec.wanted_version,
        domain=primary_domain(spec),
        cluster=spec.cluster.model_copy(update={"disks": None, "drift_period": None}),
        steps=spec.upgrade,
        outputs=dict(upstream.outputs),
        outputs_secret_name=upstream.outputs_secret_name,
        bundle_revision=upstream.bundle_revision,
    )


def version(resource: UpgradeInstanceTask) -> str:
    """Return the version that the spec names."""
    return resource.spec.to_version


def secrets(resource: UpgradeInstanceTask) -> list[NamedKey]:
    """Return what opens the cluster, and what the requests of the steps need."""
    spec = resource.spec
    cluster = of_cluster(spec.cluster.kubeconfig_from, spec.outputs_secret_name)
    return [*cluster, *of_requests(requests_of_upgrade(spec.steps))]


def config_maps(resource: UpgradeInstanceTask) -> list[str]:
    """Those of the bundle, which the upgrade rolls out."""
    return list(resource.spec.cluster.bundle.config_map_names)


SUBRESOURCE: Final = Subresource(
    kind=UpgradeInstanceTask,
    definition=DEFINITION,
    desired=desired,
    version=version,
    strategy=ObjectStrategy.ONE_PER_UPGRADE,
    after=("InstanceTerraform",),
    secrets=secrets,
    record_of=InstanceKubernetes,
    config_maps=config_maps,
)
