"""The gate's answers: a Permit, which removals require, and a Hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn, final

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.gate.removal import Cause, Evidence, Removal, Victim, unused_digest
from ctrlruntime.gate.state import STATEFUL

SHOWN: Final = 10
"""How many names a hold lists; the others are counted."""


@final
class Permit:
    """The permission to remove one object, by UID. Only a gate makes it; it does not outlive the process."""

    __slots__ = ("_removal",)
    _removal: Removal

    def __init__(self) -> None:
        """Raise TypeError: ask a Gate, or use `scratch`."""
        raise TypeError("a Permit has no constructor: pass the removal to a Gate")

    @classmethod
    def scratch(cls, scratch: Scratch, name: str, *, namespace: str = "", uid: str = "") -> Permit:
        """Return the permit for an object that a program made for its own work.

        `uid`: the object that was seen; empty: whatever has the name.
        """
        victim = Victim(scratch.kind, namespace, name)
        return grant(
            Removal(
                victim=victim,
                uid=uid,
                holds_state=False,
                cause=Cause.RETENTION,
                evidence=Evidence.CERTAIN,
                parent=scratch.what,
            )
        )

    @property
    def removal(self) -> Removal:
        """What may be removed, and why."""
        return self._removal

    def __repr__(self) -> str:
        return f"<Permit {self._removal.cause} {self._removal.victim}>"

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: what was decided by one process is decided again by the next."""
        raise TypeError("a Permit is neither copied nor stored: pass the removal to a Gate again")


def grant(removal: Removal) -> Permit:
    """Return a permit. For the gate of this package alone; a test checks that."""
    permit = object.__new__(Permit)
    permit._removal = removal
    return permit


@dataclass(frozen=True, slots=True)
class Scratch:
    """Objects of a kind that a program makes for its own work and deletes after it.

    Raises ValueError for kinds that hold state.
    """

    kind: GroupKind
    what: str
    """What they are for, in a few words."""

    def __post_init__(self) -> None:
        if self.kind in STATEFUL:
            raise ValueError(
                f"{self.kind} holds state: it is no scratch; pass its removal to a Gate"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Nothing of a set is removed for now. It is decided again whenever it is asked for: nothing is lost.

    `digest` names the set; an approval repeats it.
    """

    reason: str
    names: tuple[str, ...] = ()
    """The first ten, with their causes."""
    count: int = 0
    digest: str = ""
    used: tuple[str, ...] = ()
    """Approvals on the parent that were used before: each counts once."""

    @classmethod
    def of(
        cls,
        removals: Sequence[Removal],
        reason: str,
        *,
        used: Mapping[str, int] = MappingProxyType({}),
        given: Collection[str] = (),
    ) -> Hold:
        """Return the hold of a set. `used`: when each approval was used; `given`: those on the parent now."""
        shown = sorted({f"{each.victim} ({each.cause})" for each in removals})
        return cls(
            reason=reason,
            names=tuple(shown[:SHOWN]),
            count=len(removals),
            digest=unused_digest(removals, used),
            used=tuple(sorted(used.keys() & set(given))),
        )

    @property
    def message(self) -> str:
        """What is held and why, in one sentence without values of objects."""
        more = self.count - len(self.names)
        names = ", ".join(self.names) + (f" and {more} more" if more > 0 else "")
        return f"{self.reason}; held: {names} (digest {self.digest})"
