"""One case from beginning to end."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.envtest.server import ServerOptions
from ctrlruntime.envtest.simulation import sources
from ctrlruntime.envtest.simulation.faults import Faults
from ctrlruntime.envtest.simulation.loop import Livelock, NothingLeft, SimLoop
from ctrlruntime.envtest.simulation.network import Network
from ctrlruntime.envtest.simulation.oracles import RuleBroken
from ctrlruntime.envtest.simulation.server import SimulatedServer
from ctrlruntime.envtest.simulation.simulation import Simulation
from ctrlruntime.envtest.simulation.state import State
from ctrlruntime.envtest.simulation.tape import Case, Tape
from ctrlruntime.envtest.simulation.trace import Trace

Story = Callable[[Simulation], Awaitable[None]]
_CALM_DELAY: Final = 0.001
"""Seconds that a piece of data is on its way where no delays are drawn."""


@dataclass(slots=True)
class Outcome:
    """How a case ended."""

    case: Case
    rule: str = ""
    """The rule that was broken; empty if none was."""
    message: str = ""
    digest: str = ""
    """Equal for equal runs."""
    steps: int = 0
    seconds: float = 0.0
    """Virtual ones."""
    requests: int = 0
    states: list[State] = field(default_factory=list)
    user_draws: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    actions: dict[int, str] = field(default_factory=dict)
    modes: tuple[str, ...] = ()
    lines: list[str] = field(default_factory=list)
    """The end of the trace, of a run in which a rule was broken."""


def run_case(
    story: Story, case: Case, expected: list[State] | None = None, *, every_step: bool = False
) -> Outcome:
    """Run a story once. Needs `sources.installed`.

    `expected`: the states in which the same users' actions end without faults. An error of the test
    itself is an outcome as well, with the name of its class as the rule.
    """
    tape = Tape(case)
    trace = Trace(every_step=every_step)
    order = tape.stream("order") if tape.mode("order", 0.5) else None
    network = Network(_delays(tape))
    loop = SimLoop(network, trace, order)
    world = sources.World(loop, str(case.seed), _costs(tape))
    outcome = Outcome(case)
    faults = Faults(world, tape)
    with sources.running(world, str(case.seed)):
        sim = loop.run_until_complete(_begun(world, tape, faults, expected))
        try:
            loop.run_until_complete(story(sim))
        except (RuleBroken, Livelock, NothingLeft) as error:
            outcome.rule = getattr(error, "rule", type(error).__name__)
            outcome.message = str(error)
        except Exception as error:  # noqa: BLE001 - whatever ends a test is what it found
            outcome.rule, outcome.message = type(error).__name__, str(error)
        if sim.broken is not None:
            outcome.rule, outcome.message = sim.broken.rule, str(sim.broken)
    outcome.digest, outcome.steps, outcome.seconds = trace.digest, loop.steps, loop.time()
    outcome.states, outcome.user_draws = sim.states, tape.user_draws
    outcome.fired, outcome.actions = dict(faults.fired), faults.actions
    outcome.modes = tuple(tape.modes)
    if outcome.rule or every_step:
        outcome.lines = [str(each) for each in trace.lines]
    _kept.append((loop, sim))
    return outcome


_kept: list[object] = []
"""Runs that are over: if what they left were collected, its clean-up would run outside of any loop."""


def _delays(tape: Tape) -> Callable[[], float]:
    if not tape.mode("delays", 0.7):
        return lambda: _CALM_DELAY
    draw = tape.stream("delays")
    longest = draw.choice((0.005, 0.05, 0.3))
    return lambda: draw.uniform(_CALM_DELAY, longest)


def _costs(tape: Tape) -> Callable[[], float] | None:
    """Return what a look at the clock costs: the step it is in took that long, so that slices end."""
    if not tape.mode("cost", 0.3):
        return None
    draw = tape.stream("cost")
    return lambda: _cost(draw)


def _cost(draw: random.Random) -> float:
    chance = draw.random()
    return 0.3 if chance < 0.001 else 0.003 if chance < 0.1 else 0.0


async def _begun(
    world: sources.World, tape: Tape, faults: Faults, expected: list[State] | None
) -> Simulation:
    options = ServerOptions()
    server = SimulatedServer(options, world.loop.time, world.loop.trace, faults)
    await server.start()
    return Simulation(world, tape, server, faults, expected)
