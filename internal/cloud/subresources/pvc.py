"""Disks that grow as they fill, and how often they are looked at.

A look is a run, and most find nothing to do. The last result decides how soon the next is of use.
"""

from collections.abc import Mapping
from typing import Final

from apis.cloud import Instance, InstanceKubernetesPVC, InstanceKubernetesPVCSpec
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.subresources.secrets import of_cluster, of_requests
from internal.cloud.tasks.task import Concurrency, Retries, Supersede, TaskDefinition
from internal.named_secrets import NamedKey

FULLEST: Final = "fullest"
"""Output of a look: how full the fullest claim is, in per cent."""
SOON: Final = 600.0
"""Seconds between looks at claims that may be full before long, or whose usage is unknown."""
LATER: Final = 3600.0
"""The same, 10 points and more below the threshold."""
SELDOM: Final = 6 * 3600.0
"""The same, 30 points and more below."""


def looks_apart(outputs: Mapping[str, str], threshold: int) -> float:
    """Seconds between two looks, by what the last one handed back: the more room, the rarer."""
    fullest = outputs.get(FULLEST, "")
    if not fullest.isdecimal():
        return SOON
    room = threshold - int(fullest)
    if room >= 30:
        return SELDOM
    return LATER if room >= 10 else SOON


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


def secrets(resource: InstanceKubernetesPVC) -> list[NamedKey]:
    """Return what opens the cluster, and what asking for the usage needs."""
    spec = resource.spec
    cluster = of_cluster(spec.kubeconfig_from, spec.outputs_secret_name)
    return [*cluster, *of_requests([spec.disks.usage])]


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
