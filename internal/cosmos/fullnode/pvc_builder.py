"""The claims of the nodes: their disks. Pure."""

from collections.abc import Mapping

from apis.cosmos import CosmosFullNode, Disable, VolumeClaimTemplate
from ctrlruntime.api.kinds import Manifest
from internal.cosmos.fullnode.desired_objects import CLAIM, built, inputs_of
from internal.cosmos.fullnode.metadata import default_labels, metadata, named, node_ordinals
from internal.cosmos.labels import HEIGHT, claim_name, pod_name
from internal.cosmos.workload.claims import Claim, Source


def claim_template(node_set: CosmosFullNode, ordinal: int) -> VolumeClaimTemplate:
    """Return the template of one node's claim: its own, or else that of the set."""
    override = node_set.spec.instance_overrides.get(pod_name(named(node_set), ordinal))
    own = override.volume_claim_template if override is not None else None
    return own or node_set.spec.volume_claim_template


def has_claim(node_set: CosmosFullNode, ordinal: int) -> bool:
    """Whether a node keeps a disk. One that is disabled does, unless all of it is."""
    override = node_set.spec.instance_overrides.get(pod_name(named(node_set), ordinal))
    return override is None or override.disable is not Disable.ALL


def build_claims(
    node_set: CosmosFullNode,
    sources: Mapping[str, Source] | None = None,
    waiting: Mapping[str, str] | None = None,
    heights: Mapping[str, int] | None = None,
) -> list[Claim]:
    """Return the claim of each node that keeps a disk, by number.

    `sources`: what new claims are filled from; `waiting`: why some cannot be made yet. Both by name of
    the claim, and neither is part of the object that is compared. `heights`: the next height of a node whose
    claim is made from a snapshot; it stays on the claim.
    """
    sources, waiting, heights = sources or {}, waiting or {}, heights or {}
    heal = node_set.spec.self_heal
    scale = heal.pvc_auto_scale if heal is not None else None
    claims = []
    for ordinal in node_ordinals(node_set):
        if not has_claim(node_set, ordinal):
            continue
        name = claim_name(named(node_set), ordinal)
        asked = node_set.status.self_healing.pvc_auto_scaler.get(name)
        parts, inputs = _parts(node_set, ordinal)
        claims.append(
            Claim(
                desired=built(node_set, CLAIM, parts, inputs, ordinal=ordinal, instance=ordinal),
                scaled=None if asked is None else asked.requested_size,
                max_size=None if scale is None else scale.max_size,
                source=sources.get(name),
                waiting=waiting.get(name, ""),
                noted={HEIGHT: str(heights[name])} if name in heights else {},
            )
        )
    return claims


def _parts(node_set: CosmosFullNode, ordinal: int) -> tuple[Manifest, str]:
    template = claim_template(node_set, ordinal)
    name = claim_name(named(node_set), ordinal)
    labels = default_labels(node_set, ordinal=ordinal)
    spec = {
        "accessModes": template.access_modes or ["ReadWriteOnce"],
        "volumeMode": template.volume_mode or "Filesystem",
        "storageClassName": template.storage_class_name,
        "resources": template.resources,
    }
    made = {"metadata": metadata(node_set, name, labels, template.metadata), "spec": spec}
    unfilled = template.model_copy(update={"data_source": None, "auto_data_source": None})
    return made, inputs_of(labels, unfilled)
