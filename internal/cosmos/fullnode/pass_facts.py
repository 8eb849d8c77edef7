"""What a pass over a set found out, put together from its steps and from memory. Pure."""

from collections.abc import Collection, Mapping, Sequence

from apis.cosmos import CosmosFullNode
from ctrlruntime.client.selectors import label_text
from ctrlruntime.resources import Owner, ordinal_of
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.observation import Observation
from internal.cosmos.fullnode.metadata import node_ordinals, node_selector
from internal.cosmos.fullnode.phase import Found, Verdict, conditions, rollout_of
from internal.cosmos.fullnode.pod_control import wanted_nodes
from internal.cosmos.fullnode.pvc_control import disk_heights
from internal.cosmos.fullnode.status import Facts
from internal.cosmos.fullnode.steps import Controls, Outcome
from internal.cosmos.fullnode.versions import images_by_height
from internal.cosmos.labels import claim_name, pod_name


def facts_of(
    node_set: CosmosFullNode, owner: Owner, controls: Controls, outcome: Outcome, final: Verdict
) -> Facts:
    """Return what the status shows of a pass, without what nodes report."""
    found = outcome.found
    names = {
        claim_name(owner.name, number): pod_name(owner.name, number)
        for number in _numbers(node_set, controls, owner)
    }
    claims = {key.name for key in controls.claims.claims.of(owner)}
    emptied = [] if found.claims is None else [*found.claims.created, *found.claims.deleted]
    kept = {pod for claim, pod in names.items() if claim in claims}
    wanted = {pod_name(owner.name, number) for number in node_ordinals(node_set)}
    return Facts(
        generation=node_set.metadata.generation or 0,
        phase=final.phase,
        message=final.message,
        reason=final.reason,
        is_invalid=found.findings.is_invalid,
        selector=label_text(node_selector(node_set)) or "",
        replicas=len(controls.pods.nodes_of(owner)),
        wanted=wanted_nodes(node_set),
        nodes=kept | wanted,
        peers=outcome.peers.external if final.is_built else None,
        rollout=rollout_of(found.pods, found.additional),
        disk_heights=_of_disks(controls, owner, names),
        images=images_by_height(node_set),
        emptied=emptied,
        emptied_nodes=[names.get(claim, "") for claim in emptied],
        conditions=conditions(node_set, found),
    )


def is_too_early(found: Found, said: Sequence[Observation], made: Collection[str]) -> bool:
    """Whether a change waits only until nodes from before this manager's start have been asked once.

    What an earlier manager reported stays until then: nothing better is known.
    """
    waits = found.pods is not None and bool(found.pods.blocked)
    return waits and any(each.error == NOT_ASKED and each.pod not in made for each in said)


def _of_disks(controls: Controls, owner: Owner, names: Mapping[str, str]) -> dict[str, int]:
    """Return the heights that are recorded on claims, by Pod."""
    found = disk_heights(controls.claims.claims.of(owner).values())
    return {names[claim]: height for claim, height in found.items() if claim in names}


def _numbers(node_set: CosmosFullNode, controls: Controls, owner: Owner) -> list[int]:
    """Numbers of all nodes that are wanted or still have something."""
    left = {ordinal_of(entry) for entry in controls.claims.claims.of(owner).values()}
    return sorted({*node_ordinals(node_set), *left})
