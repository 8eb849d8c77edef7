"""What a command changes: from what was rendered last, what is rendered now and what is on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from .merge import has_marks, merge
from .project import ProjectError

__all__ = ["Change", "Plan", "plan"]


class Change(msgspec.Struct, frozen=True):
    """One file: its text before and after; None is a file that is not there."""

    path: str
    before: str | None
    after: str | None
    conflicts: int = 0

    @property
    def action(self) -> str:
        if self.after is None:
            return "removed"
        if self.conflicts:
            return "CONFLICT"
        return "created" if self.before is None else "changed"


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes, the texts that are the base of the next merge, and what stays as it is."""

    changes: list[Change] = field(default_factory=list)
    rendered: dict[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)
    """Files that are on disk and were never rendered; they are not written."""
    absent: list[str] = field(default_factory=list)
    """Files that would change, and that the user deleted; they stay deleted."""
    notes: list[str] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)
    """Files that stay as they are, with conflicts of an earlier merge."""


def plan(recorded: Mapping[str, str], rendered: Mapping[str, str], disk: Mapping[str, str]) -> Plan:
    """Return what to write so that what changed in the scaffold changes, and what the user changed stays.

    ``recorded`` is the base. A file that the user deleted stays deleted, one that the scaffold no longer has is
    removed unless the user changed it. Raises ProjectError where the conflict of an earlier merge is still marked
    in a file that would change.
    """
    result = Plan()
    for path, new in rendered.items():
        base, now = recorded.get(path), disk.get(path)
        if base is None and now not in (None, new):
            result.foreign.append(path)
            continue
        result.rendered[path] = new
        if base is None and now is None:
            result.changes.append(Change(path, None, new))
        elif now is None and base != new:
            result.absent.append(path)
        elif base is not None and now is not None and base != new:
            _merge(result, path, base, now, new)
    changed = {each.path for each in result.changes}
    left = (path for path in result.rendered if path not in changed)
    result.unresolved.extend(path for path in left if has_marks(disk.get(path, "")))
    for path, base in recorded.items():
        if path in rendered or path not in disk:
            continue
        if disk[path] == base:
            result.changes.append(Change(path, base, None))
        else:
            result.notes.append(
                f"{path}: no part of the scaffold any more; it stays, as you changed it"
            )
    return result


def _merge(result: Plan, path: str, base: str, now: str, new: str) -> None:
    merged = merge(base, now, new)
    if merged.text == now:
        return
    if has_marks(now):
        raise ProjectError(
            f"{path} has conflicts still: choose between the lines from <<<<<<< to >>>>>>>, "
            "then give the same command again"
        )
    result.changes.append(Change(path, now, merged.text, merged.conflicts))
