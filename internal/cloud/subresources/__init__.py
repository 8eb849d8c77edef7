"""The subresources: one wiring module for each: its spec, what it follows, its task."""

from typing import Any, Final

from internal.cloud.subresource import Subresource

from . import invariants, kubernetes, pvc, terraform, upgrade

SUBRESOURCES: Final[tuple[Subresource[Any], ...]] = (
    terraform.SUBRESOURCE,
    upgrade.SUBRESOURCE,
    kubernetes.SUBRESOURCE,
    pvc.SUBRESOURCE,
    invariants.SUBRESOURCE,
)
"""In the order in which they are carried out; an instance that goes is torn down in reverse."""

__all__ = ["SUBRESOURCES"]
