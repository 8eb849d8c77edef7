"""Staged rollouts: which members may change now, why the others wait, and what halts. Pure.

A caller describes its :class:`Member` objects and a :class:`Strategy`, calls :func:`decide` with the
time, carries out :attr:`Decision.changes` and records each :class:`Change` on its member in the same
write as the version. All state is derived from the members, so a restarted process decides the same.
"""

from ctrlruntime.rollout.budget import NumberOrPercent, resolve
from ctrlruntime.rollout.decision import Assignment, Decision, Reason, Waiting, decide
from ctrlruntime.rollout.members import Change, ChangeKind, Health, Member
from ctrlruntime.rollout.records import change_record, read_change
from ctrlruntime.rollout.strategy import OnHalt, Strategy, Wave
from ctrlruntime.rollout.windows import BadWindow, Window, is_open, next_opening, parse_window

__all__ = [
    "Assignment",
    "BadWindow",
    "Change",
    "ChangeKind",
    "Decision",
    "Health",
    "Member",
    "NumberOrPercent",
    "OnHalt",
    "Reason",
    "Strategy",
    "Waiting",
    "Wave",
    "Window",
    "change_record",
    "decide",
    "is_open",
    "next_opening",
    "parse_window",
    "read_change",
    "resolve",
]
