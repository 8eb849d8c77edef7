"""Override fields of the Pod of one instance. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from ctrlruntime.api.kinds import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Fields of one instance that differ from the template."""

    image: str | None = None
    """Image of the main container."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """In place of the Pod's; empty: the Pod keeps its own."""


def override_pod(manifest: Manifest, override: Override | None, *, container: str) -> Manifest:
    """Return a copy of the Pod with the override.

    `container`: the one whose image is overridden. Raises ValueError if the Pod has none of that name.
    """
    pod = _copy(manifest)
    if override is None:
        return pod
    if override.image is not None:
        _named(pod, container)["image"] = override.image
    if override.node_selector:
        pod["spec"]["nodeSelector"] = dict(override.node_selector)
    return pod


def _named(pod: Manifest, container: str) -> Manifest:
    containers: list[Manifest] = pod["spec"].get("containers") or []
    for each in containers:
        if each["name"] == container:
            return each
    raise ValueError(f"Pod {pod['metadata']['name']!r} has no container {container!r}")


def _copy(manifest: Manifest) -> Manifest:
    copied: Manifest = orjson.loads(orjson.dumps(manifest))
    return copied
