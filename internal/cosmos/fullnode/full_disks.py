"""Disks that are nearly full, and that nothing makes larger. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import Condition, Quantity
from ctrlruntime.cache.entry import Entry
from internal.cosmos.cache.observation import DiskObservation
from internal.cosmos.fullnode.metadata import named
from internal.cosmos.labels import claim_name

DISKS_FULL: Final = "DisksFull"
"""Condition: disks are nearly full and do not grow."""
NEARLY_FULL: Final = 90
"""Percent of a disk from which on it is nearly full, where the spec has no limit of its own."""
_SHOWN: Final = 3


def full_disks(
    node_set: CosmosFullNode, disks: Iterable[DiskObservation], claims: Iterable[Entry]
) -> Condition | None:
    """Return the condition DisksFull; None while no disk is, or one that is may still grow.

    Its message stays the same while the disks do: the percentages are in `status.sync`.
    """
    policy = None if node_set.spec.self_heal is None else node_set.spec.self_heal.pvc_auto_scale
    limit = NEARLY_FULL if policy is None else policy.used_space_percentage
    ceiling = None if policy is None else policy.max_size
    sizes: Mapping[str, Quantity | None] = {each.name: _capacity(each) for each in claims}
    full = []
    for each in disks:
        size = sizes.get(name := claim_name(named(node_set), each.ordinal))
        if each.usage is None or each.usage.percent < limit or size is None:
            continue
        if policy is None or (ceiling is not None and size.value >= ceiling.value):
            full.append(name)
    if not full:
        return None
    names = ", ".join(full[:_SHOWN]) + (f" and {len(full) - _SHOWN} more" if full[_SHOWN:] else "")
    if policy is None:
        reason = "NoAutoScale"
        message = (
            f"{names}: {limit}% are used or more. Raise volumeClaimTemplate.resources.requests.storage, or let disks grow "
            "by selfHeal.pvcAutoScale."
        )
    else:
        reason = "AtCeiling"
        message = (
            f"{names}: {limit}% are used or more, and selfHeal.pvcAutoScale.maxSize ({ceiling}) is reached. Raise maxSize, "
            "or let the nodes keep less (chain.app.pruning)."
        )
    return Condition(type=DISKS_FULL, status="True", reason=reason, message=message)


def _capacity(claim: Entry) -> Quantity | None:
    capacity = ((claim.field("status") or {}).get("capacity") or {}).get("storage")
    return Quantity(capacity) if capacity else None
