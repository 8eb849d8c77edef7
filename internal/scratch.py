"""What this program makes for its own work and deletes after it: the only removals that no gate decides on."""

from __future__ import annotations

from typing import Final

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.gate import Scratch

_CONFIG_MAP: Final = GroupKind("", "ConfigMap")
_JOB: Final = GroupKind("batch", "Job")
_SECRET: Final = GroupKind("", "Secret")

RUN: Final = Scratch(_JOB, "a run of a task")
RUN_INPUT: Final = Scratch(_SECRET, "the input of a run that is over")
INVENTORY: Final = Scratch(_CONFIG_MAP, "the list of what a bundle has applied")
UPGRADE_STEP: Final = Scratch(_JOB, "a step of an upgrade")
UPGRADE_NOTES: Final = Scratch(_CONFIG_MAP, "what an upgrade records between its steps")
