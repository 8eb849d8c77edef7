"""What is different about one instance of many, laid over the manifests that all of them have. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

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
    raise NotImplementedError


def override_claim(manifest: Manifest, override: Override | None) -> Manifest | None:
    """The claim with what is different, a copy; None if it is to be taken away."""
    raise NotImplementedError
