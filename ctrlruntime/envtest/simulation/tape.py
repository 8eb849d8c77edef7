"""What a seed draws, each under a name of its own, and what is left out when a red seed is shrunk."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Final

MODES: Final = ("order", "delays", "cost", "haste", "brief", "patient")
"""What a seed decides about a whole run, besides its actions."""
SHARED: Final = 4
"""Consecutive seeds in which users do the same, so that they are compared with one run without faults."""
_OF_USERS: Final = "user"


@dataclass(frozen=True, slots=True)
class Case:
    """A seed, and what of it takes place. Written as ``17``, or shrunk as ``17/3.9/order``.

    The second part names the only actions that take place, the third the only modes.
    """

    seed: int
    actions: frozenset[int] | None = None
    modes: frozenset[str] | None = None
    faults: bool = True
    """Whether there are any faults: without them a run shows where the same users' actions should end."""

    @classmethod
    def parse(cls, text: str) -> Case:
        """Raise ValueError for what is no case."""
        try:
            seed, *rest = text.split("/")
            actions = frozenset(map(int, filter(None, rest[0].split(".")))) if rest else None
            modes = frozenset(filter(None, rest[1].split("."))) if len(rest) > 1 else None
            if len(rest) > 2 or not (modes or frozenset()) <= set(MODES):
                raise ValueError
            return cls(int(seed), actions, modes)
        except ValueError:
            raise ValueError(
                f"{text!r} is no seed: write a number, as 17, or what a red run printed, as 17/3.9/order"
            ) from None

    def __str__(self) -> str:
        if self.actions is None and self.modes is None:
            return str(self.seed)
        modes = sorted(MODES if self.modes is None else self.modes)
        return f"{self.seed}/{'.'.join(map(str, sorted(self.actions or ())))}/{'.'.join(modes)}"

    @property
    def script(self) -> int:
        """What users do: equal for seeds in which they do the same."""
        return self.seed // SHARED

    def calm(self, *, brief: bool = False) -> Case:
        """Return the case without faults, in the plain order."""
        modes = frozenset({"brief"}) if brief else frozenset()
        return replace(self, actions=frozenset(), modes=modes, faults=False)


@dataclass(slots=True)
class Tape:
    """The draws of one case. Each name is a stream of its own: to leave one out changes no other."""

    case: Case
    user_draws: int = 0
    """How many streams the test itself has taken: without any, all seeds mean the same users' actions."""
    modes: list[str] = field(default_factory=list)
    """Those that this case has."""
    _streams: dict[str, random.Random] = field(default_factory=dict)

    def stream(self, name: str) -> random.Random:
        """Return the stream of a name."""
        found = self._streams.get(name)
        if found is None:
            seed = self.case.script if name == _OF_USERS else self.case.seed
            found = self._streams[name] = random.Random(f"{seed}/{name}")
        return found

    def mode(self, name: str, chance: float) -> bool:
        """Return whether this case has a mode, drawn with a chance."""
        drawn = self.stream(f"mode/{name}").random() < chance
        if not drawn or (self.case.modes is not None and name not in self.case.modes):
            return False
        self.modes.append(name)
        return True

    def takes_place(self, action: int) -> bool:
        """Return whether the action of this number takes place."""
        return self.case.faults and (self.case.actions is None or action in self.case.actions)
