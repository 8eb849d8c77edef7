"""Group operations.ctrlruntime.dev: what concerns the manager's systems together."""

from .changefreeze import (
    ChangeFreeze,
    ChangeFreezePhase,
    ChangeFreezeSpec,
    ChangeFreezeStatus,
    Exemption,
    ExemptionState,
    ExemptionStatus,
    FrozenKind,
    FrozenSystem,
    HeldChanges,
)
from .common import EXEMPT, GROUP, VERSION

__all__ = [
    "EXEMPT",
    "GROUP",
    "VERSION",
    "ChangeFreeze",
    "ChangeFreezePhase",
    "ChangeFreezeSpec",
    "ChangeFreezeStatus",
    "Exemption",
    "ExemptionState",
    "ExemptionStatus",
    "FrozenKind",
    "FrozenSystem",
    "HeldChanges",
]
