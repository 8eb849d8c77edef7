"""Group fleet.ctrlruntime.dev: one hub, and a stack of controllers for each data plane."""

from .common import GROUP, VERSION
from .fleetconfig import (
    FleetConfig,
    FleetConfigSpec,
    FleetConfigStatus,
    Reason,
    ScaleMode,
    TargetNamespace,
    TargetResult,
)

__all__ = [
    "GROUP",
    "VERSION",
    "FleetConfig",
    "FleetConfigSpec",
    "FleetConfigStatus",
    "Reason",
    "ScaleMode",
    "TargetNamespace",
    "TargetResult",
]
