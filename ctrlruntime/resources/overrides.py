"""What is different about one instance of many, laid over the manifests that all of them have. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from ctrlruntime.api.kinds import Manifest


class Disable(StrEnum):
    """What of one instance is taken away."""

    POD = "Pod"
    """The Pod; its claim stays."""
    ALL = "All"
    """Pod and claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """What is different about one instance."""

    disable: Disable | None = None
    image: str | None = None
    """Image of the main container."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """In place of the Pod's; empty: the Pod keeps its own."""
    claim_template: Manifest | None = None
    """`metadata` (labels, annotations) and `spec` in place of the claim's."""


def override_pod(
    manifest: Manifest, override: Override | None, *, container: str
) -> Manifest | None:
    """The Pod with what is different, a copy; None if it is to be taken away.

    `container`: the one whose image is overridden. ValueError if the Pod has none of that name.
    """
    if override is None:
        return _copy(manifest)
    if override.disable is not None:
        return None
    pod = _copy(manifest)
    if override.image is not None:
        _named(pod, container)["image"] = override.image
    if override.node_selector:
        pod["spec"]["nodeSelector"] = dict(override.node_selector)
    return pod


def override_claim(manifest: Manifest, override: Override | None) -> Manifest | None:
    """The claim with what is different, a copy; None if it is to be taken away."""
    if override is None:
        return _copy(manifest)
    if override.disable is Disable.ALL:
        return None
    claim = _copy(manifest)
    if override.claim_template is not None:
        template = _copy(override.claim_template)
        claim["spec"] = template.get("spec") or {}
        for name in ("labels", "annotations"):
            given = (template.get("metadata") or {}).get(name)
            if given:
                claim["metadata"][name] = {**(claim["metadata"].get(name) or {}), **given}
    return claim


def _named(pod: Manifest, container: str) -> Manifest:
    containers: list[Manifest] = pod["spec"].get("containers") or []
    for each in containers:
        if each["name"] == container:
            return each
    raise ValueError(f"Pod {pod['metadata']['name']!r} has no container {container!r}")


def _copy(manifest: Manifest) -> Manifest:
    copied: Manifest = orjson.loads(orjson.dumps(manifest))
    return copied
