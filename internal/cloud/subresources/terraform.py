"""The infrastructure of an instance, by Terraform."""

from typing import Final, cast

from apis.cloud import Instance, InstanceTerraform, InstanceTerraformSpec
from ctrlruntime.api import ApiModel
from internal.cloud.keys import instance_key
from internal.cloud.labels import CLOUDSQL_MODE, CMEK_ALGORITHM, ENABLE_CMEK, MISSING_STATE
from internal.cloud.leases import LEASE_FEATURES
from internal.cloud.subresource import Subresource, Upstream
from internal.cloud.subresources.domains import platform_domain
from internal.cloud.tasks.task import Concurrency, Supersede, TaskDefinition
from internal.cloud.tasks.terraform.inputs import PLACE
from internal.cloud.terraform_types import moved
from internal.named_secrets import NamedKey, Purpose, named_keys

DEFINITION: Final = TaskDefinition(
    name="terraform",
    timeout=7200.0,
    supersede=Supersede.AWAIT,
    concurrency=Concurrency(limit=20, starts_per_minute=25),
    teardown=True,
    guards_changes=True,
)


def desired(instance: Instance, upstream: Upstream) -> InstanceTerraformSpec | None:
    """Infrastructure, names and features; None for an instance without Terraform."""
    spec = instance.spec
    if spec.infrastructure.terraform is None:
        return None
    settings = upstream.terraform or spec.infrastructure.terraform
    features = spec.instance_features.items()
    return InstanceTerraformSpec(
        infrastructure=spec.infrastructure.model_copy(update={"terraform": settings}),
        domain=platform_domain(spec),
        custom_domains=spec.custom_domains,
        instance_features={key: value for key, value in features if key not in LEASE_FEATURES},
        tfc_runs_mode=spec.debug.tfc_runs_mode,
    )


def refusal(found: InstanceTerraform, wanted: ApiModel) -> str:
    """Return why what was built may not get the settings that are wanted; empty if it may."""
    status, metadata = found.status, found.metadata
    if status.run is None and status.succeeded is None:
        return ""
    default = instance_key(metadata.namespace or "", metadata.name or "")
    return moved(
        found.spec.infrastructure.terraform,
        cast("InstanceTerraformSpec", wanted).infrastructure.terraform,
        default,
        built=status.outputs.get(PLACE, ""),
    )


def secrets(resource: InstanceTerraform) -> list[NamedKey]:
    """Return the API token, if one is named, and the Secrets with the environment of a local binary, each once."""
    infrastructure = resource.spec.infrastructure
    token = None if infrastructure.terraform is None else infrastructure.terraform.token_from
    keys = [] if token is None else named_keys([token], Purpose.TERRAFORM)
    names = sorted({source.secret_ref.name for source in infrastructure.environment_from})
    return [*keys, *(NamedKey(name, None, Purpose.TERRAFORM) for name in names)]


SUBRESOURCE: Final = Subresource(
    kind=InstanceTerraform,
    definition=DEFINITION,
    desired=desired,
    refusal=refusal,
    annotations=frozenset({CLOUDSQL_MODE, ENABLE_CMEK, CMEK_ALGORITHM, MISSING_STATE}),
    secrets=secrets,
    checks_drift=True,
    plans=True,
)
