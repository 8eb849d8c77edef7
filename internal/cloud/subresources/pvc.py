"""Disks that grow as they fill."""

from typing import Final

from apis.cloud import Instance, InstanceKubernetesPVC, InstanceKubernetesPVCSpec
from apis.references import SecretKeyRef
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.subresources.disks import SOON, looks_apart
from internal.cloud.subresources.secrets import of_cluster, of_requests, unique
from internal.cloud.tasks.definition import Concurrency, Retries, Supersede, TaskDefinition

DEFINITION: Final = TaskDefinition(
    name="resize",
    timeout=900.0,
    retries=Retries(limit=0),
    supersede=Supersede.CANCEL,
    concurrency=Concurrency(limit=50, starts_per_minute=600),
    period=SOON,
)


def desired(instance: Instance, upstream: Upstream) -> InstanceKubernetesPVCSpec | None:
    """Return the policy, and where the disks are; None for an instance without a policy."""
    cluster = instance.spec.cluster
    if cluster.disks is None:
        return None
    return InstanceKubernetesPVCSpec(
        kubeconfig_from=cluster.kubeconfig_from,
        namespace=cluster.namespace,
        disks=cluster.disks,
        period=cluster.disks.period,
        outputs_secret_name=upstream.outputs_secret_name,
    )


def secrets(resource: InstanceKubernetesPVC) -> list[SecretKeyRef]:
    """Return what opens the cluster, and what asking for the usage needs."""
    spec = resource.spec
    cluster = of_cluster(spec.kubeconfig_from, spec.outputs_secret_name)
    return unique([*cluster, *of_requests([spec.disks.usage])])


def period(resource: InstanceKubernetesPVC) -> float | None:
    """As often as the spec requests, or else as what the last look found makes sensible."""
    given = resource.spec.period
    if given is not None:
        return given.total_seconds()
    return looks_apart(resource.status.outputs, resource.spec.disks.usage_threshold_percent)


SUBRESOURCE: Final = Subresource(
    kind=InstanceKubernetesPVC,
    definition=DEFINITION,
    desired=desired,
    after=("InstanceKubernetes",),
    secrets=secrets,
    period=period,
    gates=False,
)
