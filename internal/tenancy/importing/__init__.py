"""Adopting the objects that Lynq, or the tenant operator it was before, made for the same tenants."""

from internal.tenancy.importing.former import FORMERS, FormerOperator, translated
from internal.tenancy.importing.takeover import (
    IMPORTED,
    confirm_patch,
    is_held_by,
    is_taken_over,
    takeover_patch,
    undo_patch,
)

__all__ = [
    "FORMERS",
    "IMPORTED",
    "FormerOperator",
    "confirm_patch",
    "is_held_by",
    "is_taken_over",
    "takeover_patch",
    "translated",
    "undo_patch",
]
