"""Several processes at work on the objects of one cluster, each object of one of them: slots and their owners."""

from ctrlruntime.sharding.options import ShardingOptions
from ctrlruntime.sharding.ownership import SlotHandOver, SlotOwnership, current_slot
from ctrlruntime.sharding.slots import (
    ALL_SLOTS,
    SLOT_LABEL,
    SLOTS,
    BadSlots,
    format_slots,
    parse_slots,
    slot_of,
    slot_of_labels,
    slot_selector,
)

__all__ = [
    "ALL_SLOTS",
    "SLOTS",
    "SLOT_LABEL",
    "BadSlots",
    "ShardingOptions",
    "SlotHandOver",
    "SlotOwnership",
    "current_slot",
    "format_slots",
    "parse_slots",
    "slot_of",
    "slot_of_labels",
    "slot_selector",
]
