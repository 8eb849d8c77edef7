"""What is seen of a set of nodes beside fields of its objects: decisions about it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from ctrlruntime.api.scalars import Quantity
from ctrlruntime.json import Json
from internal.cosmos.cache.observation import Observation
from internal.cosmos.datasource import selector_of
from internal.cosmos.fullnode.pvc_control import retains
from internal.cosmos.selfheal.autoscale import Disk, decide
from internal.cosmos.selfheal.drift import laggards
from internal.cosmos.workload.rollout import compute_rollout
from tests.cosmos.builders.samples import node_set

from .objects import Seen, config, names, node, of, pod
from .row import Given, at

NOW: Final = datetime(2026, 11, 26, 12, tzinfo=UTC)


def pods_that_may_go(given: Given) -> Json:
    """How many of eight nodes, all of them up, may be taken down."""
    return compute_rollout(node_set(**given).spec.strategy.max_unavailable, 8, 8)


def grown_size(given: Given) -> Json:
    """What a disk of 100Gi that is used to 90 % grows to."""
    heal = node_set(**given).spec.self_heal
    if heal is None or heal.pvc_auto_scale is None:
        return None
    disk = Disk("pvc-test-0", 90, Quantity("100Gi"), "standard", expandable=True)
    size = decide(disk, heal.pvc_auto_scale, None, NOW).size
    return None if size is None else str(size)


def restarted_nodes(given: Given) -> Json:
    """Which of three nodes are restarted, the last of them 10 blocks behind."""
    heal = node_set(**given).spec.self_heal
    if heal is None or heal.height_drift_mitigation is None:
        return []
    nodes = [
        Observation(f"test-{ordinal}", f"uid-{ordinal}", ordinal, NOW, height, False)
        for ordinal, height in enumerate((100, 100, 90))
    ]
    return [each.node.pod for each in laggards(nodes, heal.height_drift_mitigation.threshold)]


def kept_disks(given: Given) -> Json:
    """Whether disks stay when their nodes go: of a set with nodes, and of one without."""
    return [retains(node_set(**{**given, "replicas": number})) for number in (2, 0)]


def account(given: Given) -> Json:
    """Name of the Pods' account, and names of what is made for it."""
    kinds = ("ServiceAccount", "Role", "RoleBinding")
    made = [name for kind in kinds for name in names(kind)(given)]
    return [pod("spec.serviceAccountName")(given), made]


def pods_and_claims(given: Given) -> Json:
    """Names of both."""
    return [names("Pod")(given), names("PersistentVolumeClaim")(given)]


def probed_containers(given: Given) -> Json:
    """Which containers of a Pod have a readiness probe."""
    containers = pod("spec.containers")(given)
    return [each["name"] for each in containers if "readinessProbe" in each]


def signer_parts(given: Given) -> Json:
    """How a node waits for a signer: Services, address, index, and whether it sleeps first."""
    services = [each for each in names("Service")(given) if "privval" in each]
    address, index = config("priv_validator_laddr")(given), config("tx_index.indexer")(given)
    return [services, address, index, node("command.0")(given) == "sh"]


def team_and_note(kind: str, name: str) -> Seen:
    """The label `team` and the annotation `note` of an object."""

    def seen(given: Given) -> Json:
        made = of(kind, name, "metadata")(given)
        return [at(made, "labels.team"), at(made, "annotations.note")]

    return seen


def snapshot_selector(given: Given) -> Json:
    """The labels by which a snapshot for the first node is looked for."""
    source = node_set(**given).spec.volume_claim_template.auto_data_source
    return None if source is None else selector_of(source, "test-0")


def named_source(given: Given) -> Json:
    """What a new claim is filled from, if it is named."""
    source = node_set(**given).spec.volume_claim_template.data_source
    return None if source is None else [source.kind, source.name]


def images(given: Given) -> Json:
    """Images of the node, of its init, and of the container and init container of the user."""
    spec = pod("spec")(given)
    inside = (
        "containers.node",
        "initContainers.chain-init",
        "containers.own",
        "initContainers.own",
    )
    return [at(spec, f"{each}.image") for each in inside]
