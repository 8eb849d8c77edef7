"""`python -m tests.sharding.simulation`: members in virtual time that come, go, crash, stand still and lose their watch.

Each is the real ``Shards``, step by step, on a server in memory; its Lease, its lists and its passes take drawn times. After
each step no slot may be written by two members, and none may be without an owner for longer than the bounds.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, NoReturn, cast

import structlog

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Conflict
from ctrlruntime.events.recorder import EventRecorder
from ctrlruntime.manager.election import NEVER, ElectionOptions, Term
from ctrlruntime.manager.leadership import Leadership
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions
from ctrlruntime.sharding.assignment import Assignment, encode
from ctrlruntime.sharding.leases import ANNOUNCED, ASSIGNED, MEMBER, GroupLeases, version_of
from ctrlruntime.sharding.options import ShardingOptions
from ctrlruntime.sharding.ownership import SlotHandOver
from ctrlruntime.sharding.planner import SlotsTaken
from ctrlruntime.sharding.shards import ShardDeps, Shards
from ctrlruntime.sharding.slots import ALL_SLOTS, SLOTS, slot_of

ELECTION: Final = ElectionOptions()
LEASE, RENEW = ELECTION.lease_duration, ELECTION.retry_period
HOLD: Final = ELECTION.renew_deadline + RENEW
LIST, PASS, LATE = 3.0, 4.0, 0.5
"""Seconds that a list, a pass, and an event or a request take at most."""
AFTER_FAULT: Final = LEASE + 3 * RENEW + 4 * LATE
"""Seconds after the last fault within which all slots are on their way; a leader is elected meanwhile, too."""
HANDED_OVER: Final = PASS + LIST + RENEW + 4 * LATE
"""Seconds that a slot may be on its way while nothing fails."""
MOST: Final = 8
"""Members at once."""
KEYS: Final = 1_000_000


class Broken(AssertionError):
    """A slot with two writers, or without an owner for too long."""


class Crashed(BaseException):
    """The process is gone in the midst of a step."""


def drive(call: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that waits for nothing."""
    try:
        call.send(None)
    except StopIteration:
        return
    raise RuntimeError("it waits")


class Terms:
    """What Shards sees of its Lease."""

    def __init__(self, hurry: Callable[[], None]) -> None:
        self.term = Term()
        self.hurry = hurry


class SimShards(Shards):
    """The real one, but that its Lease and its tasks are the simulation's."""

    def __init__(self, process: Process, options: ShardingOptions, deps: ShardDeps) -> None:
        self.process = process
        super().__init__(options, deps)

    def _make_leadership(self) -> Leadership:
        return cast("Leadership", self.process.terms)

    def _spawn(
        self, slots: frozenset[int], do: Callable[[frozenset[int]], Coroutine[Any, Any, None]]
    ) -> None:
        most = LIST if do == self._take else PASS
        if slots:
            self.process.later(
                self.process.world.drawn.uniform(0, most), lambda: self._do(do, slots)
            )

    def _do(
        self, do: Callable[[frozenset[int]], Coroutine[Any, Any, None]], slots: frozenset[int]
    ) -> None:
        self.process.point(f"before {do.__name__}")
        drive(do(slots))
        self.process.point(f"after {do.__name__}")

    async def _all(
        self, call: Callable[[SlotHandOver], Coroutine[Any, Any, None]], what: str
    ) -> bool:
        return True

    def leave(self) -> None:
        """Begin no more passes."""
        self._held = frozenset()

    def step(self) -> None:
        """Do what there is to do now."""
        drive(self._step(self.process.leases))

    def relist(self) -> None:
        """Note all Leases."""
        self._relisted([*self.process.world.leases.values()])

    def note(self, lease: Manifest | None, name: str) -> None:
        """Note an event."""
        if lease is None:
            self._changed("DELETED", {"metadata": {"name": name}})
        else:
            self._changed("MODIFIED", lease)

    @property
    def announces(self) -> dict[str, str]:
        """The annotations of the next renewal."""
        return {MEMBER: self.options.name, ANNOUNCED: self._announced}

    @property
    def writable(self) -> frozenset[int]:
        """Of which it may write now."""
        return self._writable if self._in_term() else frozenset()


class SimLeases(GroupLeases):
    """Answers at once; the process may be gone before or after."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def read(self, name: str) -> Manifest | None:
        """Return a Lease."""
        self._process.point("before a read")
        return self._process.world.leases.get(name)

    async def write(self, before: Manifest | None, assignment: Assignment) -> Manifest:
        """Replace the assignment."""
        self._process.point("before the assignment")
        world = self._process.world
        present = world.leases.get(ASSIGNMENT)
        if (0 if present is None else version_of(present)) != (
            0 if before is None else version_of(before)
        ):
            raise Conflict("another was faster")
        made = world.put(ASSIGNMENT, {ASSIGNED: encode(assignment)}, {})
        world.epoch = max(world.epoch, assignment.epoch)
        self._process.point("after the assignment")
        return made

    async def delete(self, name: str, version: int) -> None:
        """Delete a Lease."""
        self._process.world.remove(name)


ASSIGNMENT: Final = "sim-slots"


class Process:
    """One member. What is left for later happens when it does not stand still, and not at all once it is gone."""

    def __init__(self, world: Simulation, name: str, fixed: frozenset[int] | None) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self.paused = 0.0
        """Until when it stands still."""
        self.silent = 0.0
        """Until when it sees no events."""
        self.terms = Terms(lambda: self.later(0.0, self.renew))
        self.leases = SimLeases(self)
        self.started = world.now
        self.inbox: deque[tuple[str, Manifest | None]] = deque()
        self.identity = f"{name}_{world.changes}_{world.drawn.random()}"
        self.renewing = self.again = self.planned = self.leaving = False
        self.false_leader = world.drawn.random() < 0.05
        options = ShardingOptions(group="sim", member=name, namespace="sim", slots=fixed)
        deps = ShardDeps(
            config=world.config,
            manager=world.manager,
            metrics=Metrics(),
            recorder=world.recorder,
            logger=world.logger,
            failed=lambda _error: None,
            leads=self.leads,
            clock=lambda: world.now,
        )
        self.shards = SimShards(self, options, deps)
        self.lease = options.lease_of(name)
        self._watched = (0, world.now)
        self.shards.relist()
        self.later(0.0, self.acquire)

    def later(self, seconds: float, do: Callable[[], None]) -> None:
        """Do something after a while."""
        self.world.at(self.world.now + seconds, lambda: self._run(do))

    def _run(self, do: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.paused > self.world.now:
            self.world.at(self.paused + self.world.drawn.uniform(0, 0.2), lambda: self._run(do))
            return
        try:
            do()
        except Crashed:
            self.world.crash(self)
        except SlotsTaken:
            self.world.refused += 1
            self.leave()

    def point(self, name: str) -> None:
        """A place at which the process may be gone, or stand still from then on."""
        drawn = self.world.drawn.random()
        if drawn < self.world.danger:
            self.world.crashes[name] += 1
            raise Crashed
        if drawn < 2 * self.world.danger:
            self.world.pause(self)

    # The Lease

    def acquire(self) -> None:
        """Take the Lease, once that of the process before has ended or not changed for its duration."""
        found = self.world.leases.get(self.lease)
        if found is not None and found["spec"]["holderIdentity"]:
            if version_of(found) != self._watched[0]:
                self._watched = (version_of(found), self.world.now)
            if self.world.now <= self._watched[1] + LEASE:
                self.later(RENEW, self.acquire)
                return
        self.beat()

    def beat(self) -> None:
        """Renew again and again; end when the term is over, whatever is on its way."""
        self.later(RENEW, self.beat)
        if NEVER < self.terms.term.may_write_until < self.world.now:
            self.world.lost(self)
        else:
            self.renew()

    def renew(self) -> None:
        """Send a renewal; one is under way at a time."""
        world = self.world
        if self.renewing:
            self.again = True
            return
        self.renewing, sent, announces = True, world.now, self.shards.announces
        found = world.leases.get(self.lease)
        version = 0 if found is None else version_of(found)
        slow = world.drawn.random() < world.danger
        arrives = world.drawn.uniform(0, 2 * LEASE if slow else LATE)
        world.fault = max(world.fault, world.now + arrives) if slow else world.fault
        self.point("a renewal is on its way")
        world.at(world.now + arrives, lambda: self._arrived(version, sent, announces))

    def _arrived(self, version: int, sent: float, announces: dict[str, str]) -> None:
        world = self.world
        found = world.leases.get(self.lease)
        stored = (0 if found is None else version_of(found)) == version
        if stored:
            spec = {"holderIdentity": self.identity, "leaseDurationSeconds": LEASE}
            world.put(self.lease, announces, spec)
        self.later(world.drawn.uniform(0, LATE), lambda: self._renewed(sent, stored))

    def _renewed(self, sent: float, stored: bool) -> None:
        self.renewing = False
        before, now = self.terms.term.may_write_until, self.world.now
        if before != NEVER and now > before:
            self.world.lost(self)
            return
        if stored:
            self.terms.term = Term(sent + HOLD, sent + LEASE)
            if before == NEVER:
                self.shards.relist()
                self.tick()
            self.world.renew_lead(self, sent)
        if self.again or not stored:
            self.again = False
            self.renew()

    def leads(self) -> bool:
        """Whether it assigns slots. Some do by mistake."""
        return self.false_leader or self.world.leads(self)

    # What it does

    def event(self, name: str, lease: Manifest | None) -> None:
        """Have an event arrive, after those before it."""
        if self.silent <= self.world.now:
            self.inbox.append((name, lease))
            self.later(self.world.drawn.uniform(0, LATE), self._deliver)

    def _deliver(self) -> None:
        if self.inbox:
            name, lease = self.inbox.popleft()
            self.shards.note(lease, name)
            if not self.planned:
                self.planned = True
                self.later(0.01, self.step)

    def speak(self) -> None:
        """List again, as the watch was silent for too long."""
        self.inbox.clear()
        self.shards.relist()
        self.step()

    def tick(self) -> None:
        """Do what time brings."""
        self.later(RENEW, self.tick)
        self.step()

    def step(self) -> None:
        """Do what there is to do now."""
        self.planned = False
        if not self.leaving and self.terms.term.may_write_until != NEVER:
            self.shards.step()

    def leave(self) -> None:
        """End in order: passes end, then the Lease is released."""
        self.leaving = True
        self.shards.leave()
        self.later(self.world.drawn.uniform(0, PASS), self._released)

    def _released(self) -> None:
        self.alive = False
        found = self.world.leases.get(self.lease)
        if found is not None and found["spec"]["holderIdentity"] == self.identity:
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
            self.world.put(self.lease, found["metadata"]["annotations"], spec)
        self.world.gone(self)


class Simulation:
    """A server, its members, and what happens to them."""

    def __init__(self, seed: int, danger: float = 0.004) -> None:
        self.drawn = random.Random(seed)
        self.danger = danger
        self.now = 1000.0
        self.config = Config(host="http://127.0.0.1:1")
        self.manager = ManagerOptions(election=ELECTION, leader_election_namespace="sim")
        self.logger = structlog.wrap_logger(None, processors=[_drop])
        self.recorder = EventRecorder(Client.connect(self.config), "sim", logger=self.logger)
        self.leases: dict[str, Manifest] = {}
        self.version = self.epoch = 0
        self.processes: list[Process] = []
        self.crashes: Counter[str] = Counter()
        self.changes = self.pauses = self.silences = self.refused = self.lapses = self.deleted = 0
        self.fault = self.now
        self.without: dict[int, float] = {}
        self.longest = 0.0
        self.lead: tuple[Process | None, float] = (None, -LEASE)
        self.names = 0
        self.checks = self.rests = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, when: float, do: Callable[[], None]) -> None:
        """Do something at a time."""
        self._number += 1
        heapq.heappush(self._queue, (when, self._number, do))

    # The server

    def put(self, name: str, annotations: dict[str, str], spec: dict[str, Any]) -> Manifest:
        """Write a Lease."""
        self.version += 1
        metadata = {"name": name, "resourceVersion": str(self.version), "annotations": annotations}
        lease = self.leases[name] = {"metadata": metadata, "spec": spec}
        self._notify(name, lease)
        return lease

    def remove(self, name: str) -> None:
        """Delete a Lease."""
        if self.leases.pop(name, None) is not None:
            self.version += 1
            self._notify(name, None)

    def _notify(self, name: str, lease: Manifest | None) -> None:
        for process in self.processes:
            process.event(name, lease)

    def leads(self, process: Process) -> bool:
        """Whether a process is the elected leader; it becomes that where there has been none for a Lease."""
        holder, renewed = self.lead
        if holder is not process and self.now > renewed + LEASE and process.shards._in_term():
            self.lead = (process, self.now)
        return self.lead[0] is process

    def renew_lead(self, process: Process, sent: float) -> None:
        """Renew the lead of the one that has it."""
        if self.lead[0] is process:
            self.lead = (process, max(sent, self.lead[1]))

    # What happens

    def join(self) -> None:
        """Start a process, under a name that is free."""
        taken = {each.name for each in self.processes}
        free = [f"m{number}" for number in range(MOST) if f"m{number}" not in taken]
        if self.drawn.random() < 0.3:
            self.names += 1
            free = [f"n{self.names}"]
        fixed = None
        if self.drawn.random() < 0.1:
            first = self.drawn.randrange(SLOTS)
            fixed = frozenset(range(first, min(SLOTS, first + self.drawn.randrange(1, 20))))
            free = [f"f{first}-{len(fixed)}"]
        name = self.drawn.choice(free)
        if name not in taken:
            self.changes += 1
            if fixed or not any(each.shards.held for each in self.dynamic):
                self.fault = max(self.fault, self.now)
            self.processes.append(Process(self, name, fixed))

    def crash(self, process: Process) -> None:
        """End a process as it is; some start again soon."""
        process.alive = False
        self.gone(process)
        if self.drawn.random() < 0.5:
            self.at(self.now + self.drawn.uniform(0, 3 * LEASE), lambda: self._restart(process))

    def _restart(self, before: Process) -> None:
        if before.name not in {each.name for each in self.processes}:
            self.changes += 1
            self.fault = max(self.fault, self.now)
            self.processes.append(Process(self, before.name, before.shards.options.slots))

    def lost(self, process: Process) -> None:
        """End a process whose term is over."""
        self.lapses += 1
        self.crash(process)

    def gone(self, process: Process) -> None:
        """Count a process that is no more."""
        if process in self.processes:
            self.changes += 1
            self.fault = max(self.fault, self.now)
            self.processes.remove(process)

    def pause(self, process: Process) -> None:
        """Have a process stand still."""
        self.pauses += 1
        process.paused = self.now + self.drawn.choice([1.0, 5.0, 11.0, 13.0, 16.0, 40.0])
        self.fault = max(self.fault, process.paused)

    def _silence(self, process: Process) -> None:
        self.silences += 1
        process.silent = self.now + self.drawn.uniform(1, 4 * LEASE)
        self.fault = max(self.fault, process.silent)
        self.at(process.silent, lambda: process._run(process.speak))

    def change(self) -> None:
        """Something happens; then it is quiet for a while, sometimes for a long one."""
        quiet = self.drawn.random() < 0.15
        self.at(self.now + (90.0 if quiet else self.drawn.expovariate(1 / 6)), self.change)
        if quiet:
            self.at(self.now + 89.0, self.rest)
            return
        what = self.drawn.random()
        process = self.drawn.choice(self.processes) if self.processes else None
        if process is None or what < 0.45:
            if len(self.processes) < MOST:
                self.join()
        elif what < 0.65:
            process._run(process.leave)
        elif what < 0.8:
            self.crashes["anywhere"] += 1
            self.crash(process)
        elif what < 0.9:
            self.pause(process)
        elif what < 0.99:
            self._silence(process)
        else:
            self.deleted += 1
            self.fault = max(self.fault, self.now)
            self.remove(ASSIGNMENT)

    @property
    def dynamic(self) -> list[Process]:
        """Those that take what they are assigned."""
        return [
            each
            for each in self.processes
            if each.shards.options.slots is None and not each.leaving
        ]

    # What is checked

    def check(self) -> None:
        """Raise Broken for two writers of a slot, and for one without an owner for too long."""
        self.checks += 1
        writable = [each.shards.writable for each in self.processes if each.alive]
        if sum(map(len, writable)) != len(frozenset().union(*writable)):
            shown = {each.name: sorted(each.shards.writable) for each in self.processes}
            raise Broken(f"two writers at {self.now:.1f}: {shown}")
        held = [each.shards.held for each in self.processes if each.alive]
        if not self.dynamic:
            self.fault = max(self.fault, self.now)
        without = ALL_SLOTS.difference(*held)
        self.without = {slot: self.without.get(slot, self.now) for slot in without}
        if self.without:
            since = max(min(self.without.values()), self.fault + AFTER_FAULT)
            self.longest = max(self.longest, self.now - since)
            if self.now > since + HANDED_OVER:
                raise Broken(
                    f"slots {sorted(self.without)} have no owner at {self.now:.1f}, fault {self.fault:.1f}"
                )

    def rest(self) -> None:
        """Look at the shares, when nothing has happened for long."""
        if self.now < self.fault + AFTER_FAULT + HANDED_OVER or self.without:
            return
        dynamic = self.dynamic
        shares = [len(each.shards.held) for each in dynamic if each.shards.held]
        if shares and max(shares) - min(shares) > 1:
            raise Broken(f"shares {shares}")
        self.rests += 1
        if len(dynamic) == len(self.processes) and shares:
            most = max(sum(KEYS_OF[slot] for slot in each.shards.held) for each in dynamic)
            if most > 1.2 * sum(KEYS_OF) / len(shares):
                raise Broken(f"one of {len(shares)} has {most} keys")

    def run(self, changes: int) -> None:
        """Run until so many members have come and gone. Raises Broken."""
        self.at(self.now, self.change)
        while self.changes < changes:
            self.now, _, do = heapq.heappop(self._queue)
            do()
            self.check()


def _drop(*_: object) -> NoReturn:
    raise structlog.DropEvent


KEYS_OF: list[int] = [1] * SLOTS
"""How many keys each slot has."""


def count_keys(keys: int) -> None:
    """Count the keys of each slot."""
    counted = Counter(slot_of(f"customer-{number}", namespace="shop") for number in range(keys))
    KEYS_OF[:] = [counted[slot] for slot in range(SLOTS)]


def main(arguments: list[str]) -> int:
    """Print what happened as JSON; the exit code is 1 where a rule was broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--changes", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    count_keys(given.keys)
    begun, world, broken = time.process_time(), Simulation(given.seed), ""
    try:
        world.run(given.changes)
    except Broken as error:
        broken = str(error)
    report = {
        "seed": given.seed,
        "keys": sum(KEYS_OF),
        "changes": world.changes,
        "two_owners": int(broken.startswith("two writers")),
        "longest_over_bound_s": 0.0 if not broken else None,
        "slowest_handover_s": round(world.longest, 1),
        "bounds_s": [AFTER_FAULT, HANDED_OVER],
        "epochs": world.epoch,
        "crashes": dict(world.crashes),
        "pauses": world.pauses,
        "silent_watches": world.silences,
        "terms_over": world.lapses,
        "refused_claims": world.refused,
        "assignments_deleted": world.deleted,
        "checks": world.checks,
        "rests": world.rests,
        "virtual_s": round(world.now - 1000),
        "cpu_s": round(time.process_time() - begun, 1),
        "broken": broken,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
