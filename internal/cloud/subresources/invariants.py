"""What has to be true of a running instance."""

from typing import Final

from apis.cloud import Instance, InstanceInvariants, InstanceInvariantsSpec
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.subresources.domains import primary_domain
from internal.cloud.subresources.secrets import of_requests, requests_of_invariants
from internal.cloud.tasks.task import Concurrency, Supersede, TaskDefinition
from internal.named_secrets import NamedKey

DEFINITION: Final = TaskDefinition(
    name="invariants",
    timeout=1800.0,
    supersede=Supersede.CANCEL,
    concurrency=Concurrency(limit=50, starts_per_minute=120),
    period=24 * 3600.0,
    teardown=True,
)


def desired(instance: Instance, upstream: Upstream) -> InstanceInvariantsSpec:
    """Return the invariants, and what they may speak of."""
    spec = instance.spec
    return InstanceInvariantsSpec(
        version=upstream.version,
        domain=primary_domain(spec),
        invariants=spec.invariants,
        period=spec.invariants_period,
        alerting=spec.debug.enable_alerting,
        managed_smtp=spec.managed_smtp,
        outputs=dict(upstream.outputs),
    )


def version(resource: InstanceInvariants) -> str:
    """Return the version that the spec names."""
    return resource.spec.version


def secrets(resource: InstanceInvariants) -> list[NamedKey]:
    """Return what the requests need."""
    return of_requests(requests_of_invariants(resource.spec.invariants))


def period(resource: InstanceInvariants) -> float | None:
    """As often as the spec requests."""
    given = resource.spec.period
    return None if given is None else given.total_seconds()


SUBRESOURCE: Final = Subresource(
    kind=InstanceInvariants,
    definition=DEFINITION,
    desired=desired,
    version=version,
    after=("InstanceKubernetes",),
    secrets=secrets,
    period=period,
)
