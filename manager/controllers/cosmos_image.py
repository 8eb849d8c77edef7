"""The image of the containers beside the nodes, where their set names none."""

from dataclasses import replace
from typing import Final

from ctrlruntime.client.config import Config
from manager.controllers.cosmos_options import CosmosOptions
from manager.own_image import NoSidecarImage, OwnImageUnknown, own_image

OUTSIDE: Final = "controller:latest"
"""Outside of a cluster the manager is in no image; this is the one that `config/manager` names."""


async def with_sidecar_image(
    options: CosmosOptions, config: Config, namespace: str
) -> CosmosOptions:
    """Return the options with the image that this manager runs in, where none is named.

    `namespace`: of the manager's Pod; empty outside of a cluster. Raises NoSidecarImage if the Pod
    cannot be read.
    """
    if options.node_sidecar_image:
        return options
    if not namespace:
        return replace(options, node_sidecar_image=OUTSIDE)
    try:
        return replace(options, node_sidecar_image=await own_image(config, namespace))
    except OwnImageUnknown as error:
        raise NoSidecarImage(
            f"the containers beside nodes are to be of the manager's own image, but {error}: name the "
            "image with --node-sidecar-image"
        ) from error
