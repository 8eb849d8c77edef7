"""Labels of an owner that its objects get. Pure."""

from collections.abc import Mapping
from typing import Final

from internal.cosmos import labels as label_keys

FOUND_BY: Final = frozenset(
    {
        label_keys.NAME,
        label_keys.INSTANCE,
        label_keys.COMPONENT,
        label_keys.CREATED_BY,
        label_keys.BELONGS_TO,
    }
)
"""Labels that Services select by and objects are found by. No inherited metadata changes them."""


def labels_beside(labels: Mapping[str, str] | None, own: Mapping[str, str]) -> dict[str, str]:
    """Return the owner's labels but those that objects are found by, and those of the object's `own`."""
    given = labels or {}
    return {key: value for key, value in given.items() if key not in FOUND_BY and key not in own}
