"""What goes wrong: only what a correct API server, network and kernel may do.

A fault is planned at a time, and fires when its process meets what it is for: its n-th write, say.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from ctrlruntime.envtest.simulation.hands import Hands
from ctrlruntime.envtest.simulation.network import Transport
from ctrlruntime.envtest.simulation.process import Process
from ctrlruntime.envtest.simulation.replica import Replica
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.envtest.simulation.sources import World
from ctrlruntime.envtest.simulation.tape import Tape

PROCESS: Final = ("crash", "pause", "pause main loop", "clock jump", "partition", "compaction")
"""Kinds that meet a process. A compaction happens while the process is cut off: apart they hardly ever meet."""
WRITE: Final = ("crash before write", "crash after write", "lost reply", "409", "504 after write")
"""Kinds that meet one of its next writes."""
REQUEST: Final = ("reset", "slow", "429", "500", "503", "504", "410")
"""Kinds that meet one of its next requests; a 410 the next watch."""
STREAM: Final = ("watch cut", "watch ended", "watch silent", "watch late", "no bookmarks")
"""Kinds that meet one of its open watches."""
HAND: Final = ("deletion by hand", "finalizer by hand")
"""What people do to an object that a controller made."""
KINDS: Final = (*PROCESS, *WRITE, *REQUEST, *STREAM, *HAND)
_WEIGHTS: Final = {
    **dict.fromkeys(WRITE, 3.0),
    **dict.fromkeys(REQUEST, 2.0),
    **dict.fromkeys(PROCESS, 1.5),
    **dict.fromkeys(STREAM, 2.5),
    **dict.fromkeys(HAND, 5.0),
}
"""How often a kind is drawn: fewer of some meet what they are for, or only some stories have them."""
_OWN: Final = 3.0
"""How often a kind of a test's own is drawn."""

_REASONS: Final = {
    "409": (409, "Conflict"),
    "410": (410, "Expired"),
    "429": (429, "TooManyRequests"),
    "500": (500, "InternalError"),
    "503": (503, "ServiceUnavailable"),
    "504": (504, "Timeout"),
}
_UNSENT: Final = _REASONS["503"]
"""What would be answered, did the answer arrive."""
_SLOWEST: Final = 2.5
"""Seconds: below lease_duration - renew_deadline - retry_period. A write that is under way for longer may
arrive when another process leads, which no program could prevent."""
_STALE: Final = 240.0
"""Seconds after which nothing that a fault withheld is unknown any more: the longest one, and a new watch."""
_AIMED: Final = 0.6
"""The share of faults of a process that wait until it is at work: most of its time it is idle."""
_AT_LEADERS: Final = 0.7
"""The share of faults of writes and requests that are for a process that leads: others hardly make any."""
_LONGEST_JUMP: Final = 7200.0


@dataclass(slots=True)
class _Armed:
    """A fault that waits for the request it is for."""

    action: int
    kind: str
    replica: Replica
    left: int
    """Requests that pass before."""
    seconds: float
    leases: bool
    """Whether requests of the election count: most are."""

    def meets(self, call: Call) -> bool:
        """Whether it is for this request."""
        if call.process is None or call.process.root is not self.replica.process:
            return False
        if not self.leases and call.request.resource in ("leases", "events"):
            return False
        if self.kind in WRITE:
            updates = call.request.verb in ("update", "patch")
            return call.is_write and (updates or self.kind != "409")
        if self.kind == "410":
            return (
                call.request.verb == "watch"
                and call.request.query.get("resourceVersion", "0") != "0"
            )
        return True


class Faults:
    """Draws what happens, and lets it happen. It is also what a server consults for each request."""

    def __init__(self, world: World, tape: Tape) -> None:
        self.fired: Counter[str] = Counter()
        """How often each kind fired, with what it met."""
        self.actions: dict[int, str] = {}
        """What fired, by the numbers that a case names."""
        self.replicas: list[Replica] = []
        """The processes that are met."""
        self.last = -1.0
        """When something went wrong for the last time, on the loop's clock."""
        self._stale_until = -1.0
        self._world = world
        self._tape = tape
        self._armed: list[_Armed] = []
        self._watches: dict[Transport, Call] = {}
        self._expired: dict[tuple[Process, str], int] = {}
        """By process and what it watches: a version that the server has no longer, nor older ones."""
        self._until: list[Callable[[], None]] = []
        """What ends the faults that last."""
        self._next = 0
        self._own: dict[str, Callable[[random.Random], str]] = {}
        self._hasty = tape.mode("haste", 0.5)
        draw = tape.stream("swarm")
        self.kinds = [kind for kind in KINDS if draw.random() < 0.5] or list(KINDS)

    def add(self, kind: str, happen: Callable[[random.Random], str]) -> None:
        """Add a kind that is none of a process: `happen` lets it happen, and returns what it was."""
        self._own[kind] = happen
        if self._tape.stream(f"swarm/{kind}").random() < 0.5:
            self.kinds.append(kind)

    def haste(self, seconds: float) -> float:
        """Return how long users really wait who want to wait so long: in some cases they are in a hurry."""
        if not (self.active and self._hasty):
            return seconds
        return float(seconds * self._tape.stream("haste").random() ** 3)

    @property
    def active(self) -> bool:
        """Whether faults may happen now."""
        return bool(self._until)

    @property
    def stale(self) -> bool:
        """Whether a process may see what is old, or not know what it did: because of a fault, not of a defect."""
        return self._world.loop.time() < self._stale_until

    def lasts(self, end: Callable[[], None]) -> None:
        """Note what ends a fault of the test's own: it is called when all faults are over, at once if they are."""
        if self.active:
            self._until.append(end)
            self._stale_until = self._world.loop.time() + _STALE
        else:
            end()

    @asynccontextmanager
    async def happening(self, most: int, hands: Hands | None = None) -> AsyncIterator[None]:
        """Let up to `most` faults happen in the block; none lasts longer than it. People act too if they are given."""
        if not self._tape.case.faults:
            yield
            return
        self._until.append(lambda: None)
        task = asyncio.create_task(self._happen(most, hands))
        try:
            yield
        finally:
            task.cancel()
            self._armed.clear()
            for end in self._until:
                end()
            self._until.clear()
            if hands is not None:
                await hands.rest()
            self.last = self._world.loop.time()

    async def _happen(self, most: int, hands: Hands | None) -> None:
        plan = self._tape.stream("plan")
        pause, count = plan.choice((0.5, 1.0, 2.0, 5.0)), plan.randint(min(5, most), most)
        kinds = [kind for kind in self.kinds if hands is not None or kind not in HAND]
        weights = [_WEIGHTS.get(kind, _OWN) for kind in kinds]
        for number in range(self._next, self._next + count):
            self._next = number + 1
            draw = self._tape.stream(f"action/{number}")
            await asyncio.sleep(draw.expovariate(1 / pause))
            (kind,) = draw.choices(kinds or KINDS[:1], weights or None)
            if not (self.replicas and self._tape.takes_place(number)):
                continue
            if kind in HAND and hands is not None:
                if met := hands.meddle(kind, draw):
                    self._fires(number, kind, None, met)
                continue
            leading = [each for each in self.replicas if each.elected]
            aimed = kind in (*WRITE, *REQUEST) and draw.random() < _AT_LEADERS
            replica = draw.choice(leading if leading and aimed else self.replicas)
            self._act(number, kind, replica, draw)

    def _act(self, number: int, kind: str, replica: Replica, draw: random.Random) -> None:
        if (happen := self._own.get(kind)) is not None:
            self._happened(number, kind, happen(draw))
            return
        seconds = draw.choice((0.5, 3.0, 12.0, 20.0, 60.0)) * draw.uniform(0.8, 1.0)
        aimed = draw.random() < _AIMED
        if kind in (*WRITE, *REQUEST) or (kind in PROCESS and aimed):
            left = min(int(draw.expovariate(0.8)), 20)
            leases = draw.random() < (0.4 if kind in WRITE else 0.25)
            self._armed.append(_Armed(number, kind, replica, left, seconds, leases))
        elif kind in STREAM:
            self._meet_watch(number, kind, replica, draw)
        elif not replica.process.dead:
            self._meet_process(number, kind, replica, draw, seconds)

    def _fires(
        self, number: int, kind: str, replica: Replica | None, met: str, more: str = ""
    ) -> None:
        self.last = self._world.loop.time()
        self.fired[f"{kind}: {met}"] += 1
        if kind in (*PROCESS, *STREAM, "crash before write", "crash after write", "410", "reset"):
            self._stale_until = self.last + _STALE
        whom = met if replica is None else f"{replica.name}, {met}"
        self._note(number, f"{kind}{more} ({whom})")

    def _happened(self, number: int, kind: str, what: str) -> None:
        self.last = self._world.loop.time()
        self.fired[kind] += 1
        self._note(number, f"{kind}: {what}")

    def _note(self, number: int, text: str) -> None:
        self.actions[number] = text
        self._world.loop.trace.note(self.last, "!", text)

    # -- processes ---------------------------------------------------------------------------------------

    def _meet_process(
        self, number: int, kind: str, replica: Replica, draw: random.Random, seconds: float
    ) -> None:
        met = "elected" if replica.elected else "not elected"
        more = f" for {seconds:.3g} s"
        match kind:
            case "crash":
                steps = int(draw.expovariate(0.02))
                more = f" after {steps} steps"
                replica.process.steps_left = steps
            case "pause" | "pause main loop":
                replica.pause(seconds, main_only=kind == "pause main loop")
                self._until.append(replica.resume)
            case "clock jump":
                jump = draw.uniform(-_LONGEST_JUMP, _LONGEST_JUMP)
                more = f" of {jump:.3g} s"
                self._world.skews[replica.name] = jump
                self._until.append(lambda: self._world.skews.update({replica.name: 0.0}))
            case "partition" | "compaction":
                self._cut_off(number, replica, seconds, compacted=kind == "compaction")
        self._fires(number, kind, replica, met, more)

    def _cut_off(self, number: int, replica: Replica, seconds: float, *, compacted: bool) -> None:
        network, loop = self._world.loop.network, self._world.loop
        network.cut_off(replica.name)

        def heal() -> None:
            if replica.name in network.cut:
                network.release(replica.name)
                if compacted and self.active:
                    self._armed += [
                        _Armed(number, "410", replica, 0, 0.0, leases=True) for _ in range(5)
                    ]

        loop.call_later(seconds, heal)
        self._until.append(heal)

    # -- watches -------------------------------------------------------------------------------------------

    def _meet_watch(self, number: int, kind: str, replica: Replica, draw: random.Random) -> None:
        found = [
            (far, call)
            for far, call in self._watches.items()
            if not far.is_closing()
            and call.process is not None
            and call.process.root is replica.process
        ]
        self._watches = {far: call for far, call in self._watches.items() if not far.is_closing()}
        if not found:
            return
        far, call = draw.choice(found)
        near, loop = far.peer, self._world.loop
        seconds = draw.uniform(0.1, 150.0 if kind == "watch silent" else 10.0)
        match kind:
            case "watch cut":
                far.reset()
            case "watch ended":
                call.server.end_watch(far)
            case "watch silent":
                near.silent = True
                loop.call_later(seconds, near.speak)
                self._until.append(near.speak)
            case "watch late":
                near.lag = seconds
                self._until.append(near.speak)
            case "no bookmarks":
                self._until.append(call.server.keep_bookmarks(far))
        more = f" for {seconds:.3g} s" if kind in ("watch silent", "watch late") else ""
        self._fires(number, kind, replica, call.request.resource, more)

    # -- requests --------------------------------------------------------------------------------------------

    async def before(self, call: Call, transport: Transport) -> tuple[int, str] | None:
        """Meet a request before it is handled."""
        if call.request.verb == "watch":
            self._watches[transport] = call
            if self._has_expired(call):
                return _REASONS["410"]
        if (aimed := self._firing(call, PROCESS)) is not None:
            draw = self._tape.stream(f"action/{aimed.action}")
            self._meet_process(aimed.action, aimed.kind, aimed.replica, draw, aimed.seconds)
        armed = self._firing(call, (*REQUEST, "crash before write", "409"))
        if armed is None:
            return None
        more = ""
        if armed.kind == "slow":
            more = f" by {min(armed.seconds, _SLOWEST):.3g} s"
        self._fires(armed.action, armed.kind, armed.replica, _met(call), more)
        match armed.kind:
            case "crash before write":
                call.lost = True
                armed.replica.kill()
                return _UNSENT
            case "reset":
                call.lost = True
                transport.reset()
                return _UNSENT
            case "slow":
                await asyncio.sleep(min(armed.seconds, _SLOWEST))
                return None
            case "410" if call.process is not None:
                self._expired[call.process.root, call.path] = _version(call)
        return _REASONS[armed.kind]

    def _has_expired(self, call: Call) -> bool:
        """Whether a watch begins at what was refused before: until the process lists anew it always is.

        The newest version of all is never gone: a list may have returned it again.
        """
        if not self._expired or call.process is None:
            return False
        last = self._expired.get((call.process.root, call.path), 0)
        return 0 < _version(call) <= last < call.server.state.storage.revision

    async def after(self, call: Call, transport: Transport) -> tuple[int, str] | None:
        """Meet a request that has been handled, before it is answered."""
        armed = self._firing(call, ("crash after write", "lost reply", "504 after write"))
        if armed is None:
            return None
        self._fires(armed.action, armed.kind, armed.replica, _met(call))
        call.lost = True
        match armed.kind:
            case "crash after write":
                armed.replica.kill()
            case "lost reply":
                transport.reset()
            case "504 after write":
                return _REASONS["504"]
        return None

    def _firing(self, call: Call, kinds: tuple[str, ...]) -> _Armed | None:
        for armed in self._armed:
            if armed.kind not in kinds or not armed.meets(call):
                continue
            if armed.left > 0:
                armed.left -= 1
                continue
            self._armed.remove(armed)
            return armed
        return None


def _version(call: Call) -> int:
    return int(call.request.query.get("resourceVersion") or 0)


def _met(call: Call) -> str:
    if call.request.resource in ("leases", "events"):
        return f"{call.request.verb} {call.request.resource}"
    return f"{call.request.verb} {call.request.subresource}".strip()
