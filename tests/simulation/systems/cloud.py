"""Instances whose runs execute elsewhere: what users change, what fails, and what may never happen meanwhile."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from structlog.testing import capture_logs

from apis.cloud import FleetRollout, Instance, TaskOperation
from apis.operations import ChangeFreeze
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.manager import GCOptions, Manager
from internal.cloud.runs import Run, RunRequest, RunState
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.tasks.task import RECORDED, VERSION
from manager.controllers.cloud import add_cloud
from manager.kinds import PLANE_KINDS
from manager.options import RunOptions
from tests.simulation.systems.cloud_approvals import Approvals
from tests.simulation.systems.cloud_rollouts import BAD, FIRST, Rollout, RolloutRules
from tests.simulation.systems.runs import Runs

_KINDS: Final = [
    each for each in PLANE_KINDS if each is ChangeFreeze or each.gvk().group == Instance.gvk().group
]
ONE_RUN: Final = "one run"
LIMIT: Final = "limit"
MIGRATIONS: Final = "migrations"
DESTROYED: Final = "destroyed"
FORGOTTEN: Final = "forgotten"
END: Final = "as the spec requests"
_VERSIONS: Final = ("5.1.0", "5.2.0", "5.3.0")
_EXCLUSIVE: Final = frozenset({"terraform", "kubernetes", "upgrade"})
"""Tasks of which an instance has one at a time."""
_CHANGES: Final = frozenset({TaskOperation.APPLY, TaskOperation.TEARDOWN, TaskOperation.REPAIR})
Manifest = dict[str, Any]


@dataclass(slots=True)
class Script:
    """What was meant: all that the rules know."""

    limits: dict[str, int]
    versions: dict[str, list[str]] = field(default_factory=dict)
    """By instance, the versions it was ever to have, in their order."""
    leaving: set[str] = field(default_factory=set)
    """Instances that were deleted."""
    rollout: Rollout | None = None


class Rules:
    """What may never happen to instances; a witness of the simulation and of the place where runs execute."""

    def __init__(self, sim: Simulation, script: Script, runs: Runs) -> None:
        self._sim = sim
        self._script = script
        self._runs = runs
        self.built: dict[str, set[str]] = {}
        """By instance, the tasks of which something is there outside."""
        self.deployed: dict[str, str] = {}
        """By instance, the version that its data have, or may have since a run began that did not succeed."""
        self._rollouts = RolloutRules(sim, self.deployed)
        runs.begins, runs.ends = self._begins, self._ends

    def _begins(self, request: RunRequest) -> None:
        given = request.input
        live = self._runs.live()
        for other in live:
            if other.input.owner.uid == given.owner.uid:
                self._sim.breaks(ONE_RUN, f"{request.run_id} begins beside {other.run_id}")
            both = {given.task, other.input.task} <= _EXCLUSIVE
            if both and other.input.instance == given.instance:
                what = f"{given.task} of {given.instance} begins beside {other.input.task}"
                self._sim.breaks(ONE_RUN, what)
        limit = self._script.limits.get(given.task, 0)
        if limit and sum(each.input.task == given.task for each in live) >= limit:
            self._sim.breaks(LIMIT, f"{request.run_id} begins, and there are {limit} already")
        if given.operation is TaskOperation.TEARDOWN:
            if given.instance not in self._script.leaving:
                self._sim.breaks(DESTROYED, f"{given.task} of {given.instance} is torn down")
        elif given.operation in _CHANGES:
            self.built.setdefault(given.instance, set()).add(given.task)
        if given.task == "upgrade":
            self._upgrade_begins(request)
        if given.task == "kubernetes" and given.operation in (
            TaskOperation.APPLY,
            TaskOperation.REPAIR,
        ):
            version, has = str(given.spec["version"]), self.deployed.get(given.instance)
            if has not in (None, version):
                what = f"{given.instance} runs {version}, and its data have {has}"
                self._sim.breaks(MIGRATIONS, what)

    def _upgrade_begins(self, request: RunRequest) -> None:
        spec, name = request.input.spec, request.input.instance
        self._rollouts.begins(self._script.rollout, name, str(spec["toVersion"]))
        start, end = str(spec["fromVersion"]), str(spec["toVersion"])
        if end not in self._script.versions[name]:
            self._sim.breaks(MIGRATIONS, f"{name} is brought to {end}, which nobody wanted")
        has = self.deployed.get(name)
        if has not in (None, start, end):
            what = f"{name} is brought from {start} to {end}, and its data have {has}"
            self._sim.breaks(MIGRATIONS, what)

    def _ends(self, request: RunRequest, run: Run) -> None:
        given = request.input
        applies = given.task == "kubernetes" and given.operation is TaskOperation.APPLY
        wrote = run.outputs or run.state is not RunState.FAILED  # what fails by itself has reported
        if applies and wrote and run.started_at is not None:
            self.deployed.setdefault(given.instance, str(given.spec["version"]))
        if run.state is not RunState.SUCCEEDED:
            return
        self._rollouts.ends(request)
        if applies:
            self.deployed[given.instance] = str(given.spec["version"])
        if given.operation is TaskOperation.TEARDOWN:
            self.built.get(given.instance, set()).discard(given.task)
        if given.task == "upgrade":
            change = (given.instance, str(given.spec["fromVersion"]), str(given.spec["toVersion"]))
            if self.deployed.get(given.instance) == change[2]:
                self._sim.breaks(MIGRATIONS, f"{change} is made twice")
            self.deployed[given.instance] = change[2]

    def changed(self, _call: Call | None, bucket: Bucket, change: Change) -> None:
        """Judge a change."""
        if change.type != "DELETED" or not bucket.resource.startswith("instance"):
            return
        name = change.record.obj["metadata"]["name"]
        if name not in self._script.leaving:
            self._sim.breaks(DESTROYED, f"{bucket.resource} {name} goes, which was not meant to")
        left = self.built.get(name, set())
        if bucket.resource.startswith("instances.") and left & {"terraform", "kubernetes"}:
            self._sim.breaks(FORGOTTEN, f"{name} is gone, and what {sorted(left)} built is there")

    def answered(self, call: Call) -> None:
        """Leave it."""


class Fleet:
    """Instances, their users, and where their runs execute."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        draw = self.draw = random.Random(sim.random.random())
        self.runs = Runs(random.Random(draw.random()))
        self.limits = {
            task: draw.choice((0, 1, 2)) for task in ("terraform", "kubernetes", "upgrade")
        }
        self.script = Script({task: limit for task, limit in self.limits.items() if limit})
        self.rules = Rules(sim, self.script, self.runs)
        self.wanted = {f"i{number}": "5.1.0" for number in range(draw.randint(1, 3))}
        self.flaky = draw.choice((0.0, 0.0, 0.2))
        """The share of runs that fail, and succeed when they are tried again."""
        self.runs.result = self._result
        self._failing = random.Random(draw.random())
        own = random.Random(sim.random.random())
        self.approvals = Approvals.drawn(sim, own, self.script.leaving)
        self._machine = 1
        self._machines = dict.fromkeys(self.wanted, "v1")

    def _result(self, request: RunRequest) -> Manifest:
        if BAD in (request.input.spec.get("toVersion"), request.input.spec.get("version")):
            return {"state": RunState.FAILED, "message": "no such version", "retryable": False}
        reports = {}
        if request.input.task == "kubernetes":
            reports = {f"{RECORDED}{VERSION}": str(request.input.spec["version"])}
        if self.runs.lossy and self._failing.random() < self.flaky:
            return {"state": RunState.FAILED, "message": "try again", "outputs": reports}
        return self.approvals.applies(request)

    async def create(self) -> None:
        """Create the instances."""
        self.sim.shows(self.rules)
        for name, version in self.wanted.items():
            self.script.versions[name] = [version]
            manifest = {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"instance-type": "internal" if name == FIRST else "production"},
                },
                "spec": {
                    "version": version,
                    "infrastructure": {"terraform": {}},
                    **self.approvals.spec,
                },
            }
            await self.sim.client.create(Instance.from_manifest(manifest))

    async def change(self) -> None:
        """Let something happen, as drawn."""
        happens = (
            self._version,
            self._version,
            self._infrastructure,
            self._delete,
            self._roll_out,
            self._roll_out,
        )
        await self.draw.choice(happens)()

    async def _patch(self, name: str, spec: Manifest) -> None:
        await self.sim.client.patch(Instance, name, {"spec": spec}, namespace="default")

    def _one(self) -> str:
        return self.draw.choice(sorted(self.wanted))

    async def _version(self) -> None:
        if self.script.rollout is not None:
            return  # what it assigned counts until somebody writes another version
        name = self._one()
        newer = [each for each in _VERSIONS if each >= self.wanted[name]]  # an older one is refused
        version = self.draw.choice(newer)
        self.script.versions[name].append(version)
        self.wanted[name] = version
        await self._patch(name, {"version": version})

    async def _infrastructure(self) -> None:
        await self._machine_of(self._one())

    async def _machine_of(self, name: str) -> None:
        self._machine += 1
        machine = self._machines[name] = f"v{self._machine}"
        await self._patch(name, {"instanceFeatures": {"machine": machine}})

    async def _delete(self) -> None:
        others = sorted(self.wanted)[1:]
        if others:
            name = self.draw.choice(others)
            del self.wanted[name]
            if not self.approvals.protected:
                self.script.leaving.add(name)  # else once the person has approved it
            await self.sim.client.delete(Instance, name, namespace="default")

    async def _roll_out(self) -> None:
        """Bring all instances to a version, or let a wave begin that waits for an approval."""
        if self.approvals.rejects:
            await self._infrastructure()
            return
        client, rollout = self.sim.client, self.script.rollout
        if rollout is not None:
            await rollout.approve(client)
            return
        rollout = self.script.rollout = Rollout.drawn(self.draw)
        for name in self.wanted:
            self.script.versions[name].append(rollout.target)
            if not rollout.is_bad:
                self.wanted[name] = rollout.target
        await client.create(rollout.manifest())

    async def ends(self, within: float) -> None:
        """Wait until everything is as the specs request, or break the run."""
        if self.approvals.rejects:
            self.approvals.rejects = False
            for name in sorted(self.wanted):
                await self._machine_of(
                    name
                )  # what was rejected is given up until there is another plan
        if self.script.rollout is not None:
            await self.script.rollout.approve(self.sim.client)
        until = asyncio.get_running_loop().time() + within
        while (left := await self._left()) and asyncio.get_running_loop().time() < until:
            await self.sim.sleep(30, exactly=True)
        if left:
            self.sim.breaks(END, left)

    async def _left(self) -> str:
        """Return what is not as it should be, in words."""
        for name, version in self.wanted.items():
            found = await self.sim.client.get(Instance, name, namespace="default")
            if (found.status.phase, found.status.version) != ("Ready", version):
                return f"{name} is {found.status.phase}: {found.status.message}"
            if (has := self.rules.deployed.get(name)) != version:
                return f"{name} has {has}, not {version}"
            if (machine := self.approvals.machines.get(name)) != self._machines[name]:
                return f"{name} has the machine {machine}, not {self._machines[name]}"
        there = await self.sim.client.list(Instance, "default")
        names = {each.metadata.name or "" for each in there}
        if names != set(self.wanted):
            return f"there are {sorted(names)}, wanted are {sorted(self.wanted)}"
        for rollout in await self.sim.client.list(FleetRollout, "default"):
            meant = self.script.rollout.end if self.script.rollout is not None else ""
            if rollout.status.phase != meant:
                return f"the rollout is {rollout.status.phase}: {rollout.status.message}"
        return ""


_WITHOUT_PERIODS: Final = [
    replace(item, definition=replace(item.definition, period=None)) for item in SUBRESOURCES
]
"""What is checked once a day would be so at a time that depends on its UID, also where nothing happens."""


def add(manager: Manager, options: RunOptions, runs: Runs) -> None:
    """Add the controllers as `manager run` does, with another place for runs."""
    add_cloud(manager, options.cloud, _WITHOUT_PERIODS, provider=runs)


async def story(sim: Simulation) -> None:
    """Instances that change version and infrastructure, and go, while everything fails."""
    with capture_logs():  # of the task driver, which writes to the process's own output
        await _story(sim)


async def _story(sim: Simulation) -> None:
    sim.compared = _compared
    await sim.install(*_KINDS)
    fleet = Fleet(sim)
    options = RunOptions(systems=("cloud",))
    options = replace(options, cloud=replace(options.cloud, limits=fleet.limits))
    runtime = replace(options.manager_options(), gc=GCOptions(), handle_signals=False)
    given = partial(add, options=options, runs=fleet.runs)
    sim.manager(given, replicas=2, leader_election=True, options=runtime)
    await fleet.create()
    async with fleet.approvals.beside():
        await sim.sleep(fleet.draw.choice((5, 60, 300)))
        async with sim.faults():
            fleet.runs.lossy = True
            for _ in range(fleet.draw.randint(1, 5)):
                await fleet.change()
                await sim.sleep(fleet.draw.choice((2, 20, 120)))
            fleet.runs.lossy = False
        await fleet.ends(within=7200)
    await sim.settles(within=900)
    await sim.stays_idle(900)


_OF_RUNS: Final = (
    "runID",
    "run",
    "history",
    "succeeded",
    "taskConditions",
    "attempts",
    "record",
    "records",
    "releaseAssignment",
    "assignedVersion",
    "cloud.ctrlruntime.dev/release-assignment",
    "cloud.ctrlruntime.dev/approved-plan",
    "cloud.ctrlruntime.dev/rejected-plan",
)
"""Members that are about the way: which runs there were."""


def _compared(key: str, obj: object) -> object:
    """Leave out what the way left behind."""
    if key.startswith(("upgradeinstancetasks.", "fleetrollouts.")):
        return None
    if isinstance(obj, list):
        return [_compared("", each) for each in obj]
    if isinstance(obj, dict):
        return {name: _compared("", each) for name, each in obj.items() if name not in _OF_RUNS}
    return obj
