"""The gate through which removals go: a :class:`Permit` for what may go, a :class:`Hold` for the rest."""

from ctrlruntime.gate.budget import Approval, Budget, BudgetRecord
from ctrlruntime.gate.gate import Decision, Gate, ParentState
from ctrlruntime.gate.permit import Hold, Permit, Scratch
from ctrlruntime.gate.records import RecordChanged, RecordStore, decide
from ctrlruntime.gate.removal import Cause, Evidence, Removal, Victim, digest_of, unused_digest
from ctrlruntime.gate.state import HOLDS_STATE, STATE, STATEFUL, StateTable

__all__ = [
    "HOLDS_STATE",
    "STATE",
    "STATEFUL",
    "Approval",
    "Budget",
    "BudgetRecord",
    "Cause",
    "Decision",
    "Evidence",
    "Gate",
    "Hold",
    "ParentState",
    "Permit",
    "RecordChanged",
    "RecordStore",
    "Removal",
    "Scratch",
    "StateTable",
    "Victim",
    "decide",
    "digest_of",
    "unused_digest",
]
