"""In which order the subresources of an instance go. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from internal.cloud.instance.order import Object, kind_of
from internal.cloud.subresource import Subresource


def next_to_go(
    subresources: Sequence[Subresource[Any]], present: Mapping[str, Sequence[Object]]
) -> tuple[Subresource[Any], Sequence[Object]] | None:
    """The last kind that is still there, with its objects; None once nothing is left.

    Each kind is fully gone before the one before it is touched: alerts and invariants go before
    the workload, the workload before what it runs on.
    """
    for subresource in reversed(subresources):
        objects = present.get(kind_of(subresource), ())
        if objects:
            return subresource, objects
    return None
