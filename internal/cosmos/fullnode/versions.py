"""Which version of the chain's binary a height wants. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from apis.cosmos import ChainVersion, CosmosFullNode


def version_at(versions: Sequence[ChainVersion], height: int) -> ChainVersion | None:
    """Return the version whose height is the greatest that `height`, the next to be made, has reached."""
    reached = [version for version in versions if version.height <= height]
    return max(reached, key=lambda version: version.height, default=None)


def version_after(versions: Sequence[ChainVersion], height: int) -> ChainVersion | None:
    """Return the version that comes next."""
    ahead = [version for version in versions if version.height > height]
    return min(ahead, key=lambda version: version.height, default=None)


def node_version(node_set: CosmosFullNode, pod: str) -> ChainVersion | None:
    """Return the version of one node; None where none is listed for its height. An unknown height is 0."""
    return version_at(node_set.spec.chain.versions, node_set.status.height.get(pod, 0))


def halt_height(node_set: CosmosFullNode, pod: str) -> int | None:
    """Return the height that a node is to end at: the spec's, or that of a next version which requests it.

    If there are both, the lower one; None if there is neither.
    """
    app = node_set.spec.chain.app
    given = None if app is None else app.halt_height
    after = version_after(node_set.spec.chain.versions, node_set.status.height.get(pod, 0))
    asked = after.height if after is not None and after.set_halt_height else None
    return min((height for height in (given, asked) if height), default=None)


def image_at(node_set: CosmosFullNode, pod: str, height: int) -> str:
    """Image of the container `node` if `height` is the next to be made.

    The node's own, else that of its height, else the template's; empty if there is none.
    """
    override = node_set.spec.instance_overrides.get(pod)
    if override is not None and override.image:
        return override.image
    version = version_at(node_set.spec.chain.versions, height)
    return version.image if version is not None else node_set.spec.pod_template.image or ""


def images_by_height(node_set: CosmosFullNode) -> dict[int, str]:
    """Return the image that nodes without one of their own run from each height on."""
    template = node_set.spec.pod_template.image
    listed = {version.height: version.image for version in node_set.spec.chain.versions}
    return ({0: template} if template else {}) | listed
