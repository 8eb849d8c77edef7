"""Visits every state of a small world: a decider, and all that can happen around it.

Safety holds in each state and at each step. And it ends in calm: what the program does by itself, whatever
else no longer happens, comes to a calm state in a finite number of steps.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, Self, TypeVar

State = TypeVar("State")


class Violated(AssertionError):
    """A rule of a world was broken."""


@dataclass(frozen=True, slots=True)
class Step(Generic[State]):
    """Something that happens in a state."""

    name: str
    after: State
    drives: bool = False
    """Whether the program, or time, does it by itself: users, faults and others need not act."""


class Scope(Protocol[State]):
    """A decider in the smallest world that has all of its cases."""

    name: str

    def starts(self) -> Iterable[State]:
        """Return the first states."""

    def key(self, state: State) -> Hashable:
        """Return what makes a state the same as another one."""

    def steps(self, state: State) -> Iterable[Step[State]]:
        """Return all that can happen. Raises Violated for what may not."""

    def is_calm(self, state: State) -> bool:
        """Whether nothing is left to do. Raises Violated in a state that may not be."""


@dataclass(slots=True)
class Exploration:
    """What a visit of all states came to."""

    world: str
    states: int = 0
    steps: int = 0
    calm: int = 0
    deepest: int = 0
    broken: str = ""
    """The rule that was broken; empty if none was."""
    path: list[str] = field(default_factory=list)
    """What led there."""


class _Visit(Generic[State]):
    """The states that were found, by number, with what leads on from each."""

    def __init__(self, world: Scope[State]) -> None:
        self.found = Exploration(world.name)
        self._world = world
        self._numbers: dict[Hashable, int] = {}
        self._from: list[tuple[int, str]] = []
        self._driven: list[list[int]] = []
        self._calm: list[bool] = []
        self._depths: list[int] = []

    def enter(self, state: State, before: int, name: str) -> tuple[int, bool]:
        """Return the number of a state, and whether it is new."""
        key = self._world.key(state)
        number = self._numbers.get(key)
        if number is not None:
            return number, False
        number = self._numbers[key] = len(self._from)
        self._from.append((before, name))
        self._driven.append([])
        self._depths.append(self._depths[before] + 1 if before >= 0 else 0)
        try:
            self._calm.append(self._world.is_calm(state))
        except Violated as error:
            raise Violated(f"{name}: {error}") from None
        return number, True

    def expand(self, number: int, state: State) -> Iterator[tuple[int, State]]:
        """Yield the new states that follow from one."""
        for step in self._world.steps(state):
            after, new = self.enter(step.after, number, step.name)
            self.found.steps += 1
            if step.drives and after != number:
                self._driven[number].append(after)
            if new:
                yield after, step.after

    def finish(self) -> Exploration:
        """Count, and look whether each state ends in calm. Raises Violated."""
        found = self.found
        found.states, found.calm = len(self._from), sum(self._calm)
        found.deepest = max(self._depths, default=0)
        restless = self._restless()
        if restless is not None:
            found.path = self.path(restless)
            raise Violated(
                "never calm: what it does by itself stops short of that, or goes on for ever"
            )
        return found

    def _restless(self) -> int | None:
        """Return a state from which the program does not come to a calm one; calm ones are ends."""
        waits = [
            0 if calm else len(then) for calm, then in zip(self._calm, self._driven, strict=True)
        ]
        before: list[list[int]] = [[] for _ in waits]
        for number, then in enumerate(self._driven):
            if not self._calm[number]:
                for after in then:
                    before[after].append(number)
        settled = deque(number for number, calm in enumerate(self._calm) if calm)
        left = len(waits) - len(settled)
        while settled:
            for number in before[settled.popleft()]:
                waits[number] -= 1
                if waits[number] == 0:
                    settled.append(number)
                    left -= 1
        if not left:
            return None
        stuck = [n for n, then in enumerate(self._driven) if not (self._calm[n] or then)]
        return stuck[0] if stuck else next(n for n, count in enumerate(waits) if count)

    def path(self, number: int) -> list[str]:
        """Return the steps that lead to a state."""
        names: list[str] = []
        while number >= 0:
            number, name = self._from[number]
            names.append(name)
        return names[::-1]


def explore(world: Scope[State], *, depth_first: bool = False) -> Exploration:
    """Visit every state of a world, by breadth or by depth, until a rule is broken."""
    visit = _Visit(world)
    number = -1
    try:
        waiting: deque[tuple[int, Iterator[tuple[int, State]]]] = deque()
        for start in world.starts():
            number, new = visit.enter(start, -1, "start")
            if new:
                waiting.append((number, visit.expand(number, start)))
        while waiting:
            number, following = waiting[-1 if depth_first else 0]
            found = next(following, None)
            if found is not None:
                waiting.append((found[0], visit.expand(*found)))
            elif depth_first:
                waiting.pop()
            else:
                waiting.popleft()
        return visit.finish()
    except Violated as error:
        visit.found.broken = str(error)
        visit.found.path = visit.found.path or visit.path(number)
        return visit.found


class Model:
    """A decider with what is around it, which acts are carried out on in place: on copies of it."""

    def key(self) -> Hashable:
        """Return what makes it the same as another one."""
        raise NotImplementedError

    def acts(self) -> Iterable[tuple[str, tuple[object, ...], bool]]:
        """Return the names of methods with their arguments, and whether the program does that by itself."""
        raise NotImplementedError

    def is_calm(self) -> bool:
        """Whether nothing is left to do. Raises Violated in a state that may not be."""
        raise NotImplementedError

    def copy(self) -> Self:
        """Return a copy that shares nothing with it."""
        copied: Self = pickle.loads(pickle.dumps(self, -1))
        return copied


ModelT = TypeVar("ModelT", bound=Model)


class ModelScope(Generic[ModelT]):
    """The world of a model."""

    def __init__(self, name: str, *starts: ModelT) -> None:
        self.name = name
        self._starts = starts

    def starts(self) -> Iterable[ModelT]:
        """Return the first states."""
        return self._starts

    def key(self, state: ModelT) -> Hashable:
        """Return what makes a state the same as another one."""
        return state.key()

    def steps(self, state: ModelT) -> Iterable[Step[ModelT]]:
        """Carry out each act on a copy."""
        for name, arguments, drives in state.acts():
            after = state.copy()
            shown = " ".join(map(str, (name, *arguments)))
            try:
                getattr(after, name)(*arguments)
            except Violated as error:
                raise Violated(f"{shown}: {error}") from None
            yield Step(shown, after, drives)

    def is_calm(self, state: ModelT) -> bool:
        """Whether nothing is left to do."""
        return state.is_calm()
