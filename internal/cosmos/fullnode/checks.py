"""Checks of fields that objects are built from, before anything is written. Pure.

The schema refuses most of these values. Objects that were stored before it did, and relations between fields, are
checked here.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from apis.cosmos import CosmosFullNode, VolumeClaimTemplate
from ctrlruntime.api.scalars import Quantity
from ctrlruntime.rollout import resolve
from internal.cosmos.fullnode.ports import container_ports
from internal.cosmos.invalid import invalid_field
from internal.cosmos.workload.rollout import tolerated

MOST_BYTES: Final = Decimal(2**63 - 1)
"""The greatest quantity that Kubernetes keeps."""


def check_strategy(node_set: CosmosFullNode) -> None:
    """Raise InvalidSpec for a `maxUnavailable` or `haltOnFailures` that is neither a number nor a percentage."""
    strategy, replicas = node_set.spec.strategy, node_set.spec.replicas
    try:
        tolerated(strategy.max_unavailable, replicas)
    except ValueError as error:
        raise invalid_field("spec.strategy.maxUnavailable", str(error)) from error
    try:
        resolve(strategy.halt_on_failures or 1, replicas)
    except ValueError as error:
        raise invalid_field("spec.strategy.haltOnFailures", str(error)) from error


def check_pods(node_set: CosmosFullNode) -> None:
    """Raise InvalidSpec for resources that are no quantities, and for two ports of one number."""
    template = node_set.spec.pod_template
    check_quantities(template.resources, "spec.podTemplate.resources")
    for index, container in enumerate(template.containers):
        path = f"spec.podTemplate.containers[{index}].resources"
        check_quantities(container.get("resources"), path)
    check_ports(container_ports(node_set))


def check_claims(node_set: CosmosFullNode) -> None:
    """Raise InvalidSpec for a claim without a size."""
    check_claim(node_set.spec.volume_claim_template, "spec.volumeClaimTemplate")
    for pod, override in node_set.spec.instance_overrides.items():
        if override.volume_claim_template is not None:
            path = f"spec.instanceOverrides[{pod}].volumeClaimTemplate"
            check_claim(override.volume_claim_template, path)


def check_claim(template: VolumeClaimTemplate, path: str) -> None:
    """Raise InvalidSpec unless `requests.storage` is a quantity above 0."""
    requests = template.resources.get("requests")
    size = requests.get("storage") if isinstance(requests, Mapping) else None
    field = f"{path}.resources.requests.storage"
    if size is None:
        raise invalid_field(field, "is required: give a size such as 100Gi")
    if not 1 <= amount(size, field) <= MOST_BYTES:
        raise invalid_field(field, f"{size} is no size of a disk: give one such as 100Gi")


def check_increase(node_set: CosmosFullNode) -> None:
    """Raise InvalidSpec for an increase of disks by nothing."""
    heal = node_set.spec.self_heal
    if heal is None or heal.pvc_auto_scale is None:
        return
    text, field = (
        heal.pvc_auto_scale.increase_quantity,
        "spec.selfHeal.pvcAutoScale.increaseQuantity",
    )
    if amount(text.removesuffix("%"), field) <= 0:
        raise invalid_field(field, f"{text} lets no disk grow; give more than 0")


def check_quantities(resources: object, path: str) -> None:
    """Raise InvalidSpec unless all limits and requests are quantities that are not negative."""
    if not isinstance(resources, Mapping):
        return
    for kind in ("limits", "requests"):
        given = resources.get(kind)
        for name, value in (given if isinstance(given, Mapping) else {}).items():
            if amount(value, f"{path}.{kind}.{name}") < 0:
                raise invalid_field(f"{path}.{kind}.{name}", f"{value} is negative")


def check_ports(ports: Iterable[Mapping[str, Any]]) -> None:
    """Raise InvalidSpec for two ports of one number."""
    known: dict[int, str] = {}
    for port in ports:
        number, name = port["containerPort"], port["name"]
        if not 1 <= number <= 65535:
            raise invalid_field(f"spec.chain.config (port {name})", f"{number} is no port")
        if number in known:
            text = f"port {number} is that of {known[number]} and of {name}; give another one"
            raise invalid_field("spec.chain.config (listen addresses)", text)
        known[number] = name


def amount(value: object, path: str) -> Decimal:
    """Return the amount of a quantity. Raises InvalidSpec for what is none."""
    try:
        return Quantity(value).value
    except ValueError as error:
        raise invalid_field(path, str(error)) from error
