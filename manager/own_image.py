"""The image that this manager runs in."""

import socket
from typing import Final

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client import APIError, Client, Config, TransportError

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CONTAINER: Final = "manager"
"""Name of the manager's own container."""


class OwnImageUnknown(ValueError):
    """The manager's Pod cannot be read; the message names it and the reason."""


class NoImage(ValueError):
    """The image of runs, or the place for them, is not configured. The message names the option."""


class NoSidecarImage(ValueError):
    """The image of the containers beside nodes is not configured. The message names the option."""


async def own_image(config: Config, namespace: str) -> str:
    """Return the image of the manager's container, from its Pod in `namespace`. Raises OwnImageUnknown."""
    pod = socket.gethostname()
    try:
        async with Client.connect(config) as client:
            found = await client.get(POD, pod, namespace=namespace)
    except (APIError, TransportError) as error:
        raise OwnImageUnknown(f"its Pod {namespace}/{pod} cannot be read ({error})") from error
    containers = found["spec"]["containers"]
    chosen = [str(item["image"]) for item in containers if item["name"] == CONTAINER]
    return chosen[0] if chosen else str(containers[0]["image"])
