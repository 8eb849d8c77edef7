"""Staged rollouts: which members may change now, why the others wait, and what halts. Pure.

A caller describes its :class:`Member` objects and a :class:`Strategy`, calls :func:`decide` with the
time, carries out :attr:`Decision.changes` and records each :class:`Change` on its member in the same
write as the version. All state is derived from the members, so a restarted process decides the same.
"""

from ctrlruntime.rollout.budget import NumberOrPercent, resolve
from ctrlruntime.rollout.decision import Assignment, Decision, decide, waves_of
from ctrlruntime.rollout.freezes import (
    ChangeHolds,
    Freeze,
    FrozenObject,
    NoHolds,
    hold_of,
    next_edge,
)
from ctrlruntime.rollout.members import Change, ChangeKind, Health, Member, Readiness
from ctrlruntime.rollout.observed import ClockJump, ObservedClock
from ctrlruntime.rollout.records import change_record, read_change
from ctrlruntime.rollout.strategy import OnHalt, Strategy, Wave
from ctrlruntime.rollout.waiting import Reason, Waiting
from ctrlruntime.rollout.windows import (
    BadWindow,
    Window,
    closed_window,
    is_open,
    next_opening,
    parse_window,
)

__all__ = [
    "Assignment",
    "BadWindow",
    "Change",
    "ChangeHolds",
    "ChangeKind",
    "ClockJump",
    "Decision",
    "Freeze",
    "FrozenObject",
    "Health",
    "Member",
    "NoHolds",
    "NumberOrPercent",
    "ObservedClock",
    "OnHalt",
    "Readiness",
    "Reason",
    "Strategy",
    "Waiting",
    "Wave",
    "Window",
    "change_record",
    "closed_window",
    "decide",
    "hold_of",
    "is_open",
    "next_edge",
    "next_opening",
    "parse_window",
    "read_change",
    "resolve",
    "waves_of",
]
