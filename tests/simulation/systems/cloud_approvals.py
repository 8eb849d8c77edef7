"""Plans and teardowns that wait for a person, the person who decides, and what may never happen without them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Final

from apis.cloud import (
    Instance,
    InstanceTerraform,
    PlanApproval,
    PlanDecision,
    PlannedChange,
    TaskOperation,
)
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.simulation import Simulation
from internal.cloud.labels import APPROVED_PLAN, REJECTED_PLAN
from internal.cloud.runs import EarlierPlan, RunInput, RunRequest, RunState
from internal.cloud.tasks.plans import MadePlan, plan_output
from internal.removal_holds import HELD
from tests.tenancy.harness import approval_in

APPROVED: Final = "approved"
_REPLACES: Final = 3
"""One in so many machines replaces the one before."""
_PATIENCE: Final = 5.0
"""Seconds between two looks of the person."""
Manifest = dict[str, Any]


@dataclass(slots=True)
class Approvals:
    """What the person decided, and what Terraform made of it: the truth that the rule goes by."""

    sim: Simulation
    leaving: set[str]
    """Instances that may be torn down: the person adds to them."""
    manual: bool
    """Whether each plan waits, and not those alone that destroy."""
    protected: bool
    rejects: bool
    """Whether the person rejects some plans; what is rejected counts as a failure, so no rollout goes beside it."""
    machines: dict[str, str] = field(default_factory=dict)
    """By instance, the machine that it has."""
    _approved: set[tuple[str, str, str]] = field(default_factory=set)
    """UID of the object, run that made the plan, and content of it: as the person saw them."""

    @classmethod
    def drawn(cls, sim: Simulation, draw: random.Random, leaving: set[str]) -> Approvals:
        """Draw what a script has of it; some have none."""
        manual, protected, rejects = (draw.random() < share for share in (0.4, 0.4, 0.4))
        return cls(sim, leaving, manual, protected, rejects and manual)

    @property
    def spec(self) -> Manifest:
        """The part of an Instance's spec."""
        found: Manifest = {"debug": {"enableDeletionProtection": self.protected}}
        if self.manual:
            found["terraformRuns"] = {"approval": "Manual"}
        return found

    # -- the person ------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Let the person look again and again."""
        task = asyncio.create_task(self._keep_deciding())
        try:
            yield
        finally:
            task.cancel()

    async def _keep_deciding(self) -> None:
        draws = self.sim.draws("approvals")
        while True:
            await asyncio.sleep(draws.uniform(0.2, 3.0) * _PATIENCE)
            await self._decide_on_plans(draws)
            await self._decide_on_teardowns()

    async def _decide_on_plans(self, draws: random.Random) -> None:
        for found in await self.sim.client.list(InstanceTerraform, "default"):
            name, plan = str(found.metadata.name), found.status.plan
            if plan is None or find_condition(found.status.conditions, "AwaitsApproval") is None:
                continue
            if self.rejects and draws.random() < 0.3:
                await self._annotate(InstanceTerraform, name, REJECTED_PLAN, plan.digest)
            else:
                self._approved.add(_key(str(found.metadata.uid), plan))
                await self._annotate(InstanceTerraform, name, APPROVED_PLAN, plan.digest)

    async def _decide_on_teardowns(self) -> None:
        for found in await self.sim.client.list(Instance, "default"):
            held = find_condition(found.status.conditions, HELD)
            is_held = held is not None and held.status == "True" and "run `" in held.message
            if held is not None and is_held and found.metadata.deletion_timestamp:
                name = str(found.metadata.name)
                annotation, digest = approval_in(held.message)
                self.leaving.add(name)
                await self._annotate(Instance, name, annotation, digest)

    async def _annotate(
        self, kind: type[Instance | InstanceTerraform], name: str, key: str, value: str
    ) -> None:
        with contextlib.suppress(NotFound):
            patch = {"metadata": {"annotations": {key: value}}}
            await self.sim.client.patch(kind, name, patch, namespace="default")

    # -- Terraform -------------------------------------------------------------------------------------------

    def applies(self, request: RunRequest) -> Manifest:
        """Return what a run of Terraform ends as: with a plan that waits, rejected, or applied."""
        given = request.input
        if given.task != "terraform" or given.operation is not TaskOperation.APPLY:
            return {}
        plan = given.plan
        if plan is not None and plan.decision is PlanDecision.REJECTED:
            return {"state": RunState.FAILED, "message": "rejected", "retryable": False}
        machine = machine_of(given)
        if machine == self.machines.get(given.instance):
            return {}
        replaces = self._replaces(given, machine)
        waits = given.approval is PlanApproval.MANUAL or replaces
        if waits and not _is_approved(plan, machine):
            made = MadePlan(content=machine, change=1, destroy=int(replaces))
            return {"outputs": plan_output(made)}
        if self.manual or replaces:
            self._was_approved(given, machine)
        self.machines[given.instance] = machine
        return {}

    def _replaces(self, given: RunInput, machine: str) -> bool:
        """Whether what was made before goes. Under protection that is no matter of an approval: none does."""
        number = int(machine.removeprefix("v") or 0)
        return given.instance in self.machines and not self.protected and number % _REPLACES == 0

    def _was_approved(self, given: RunInput, machine: str) -> None:
        plan = given.plan
        key = ("", "", "") if plan is None else (given.owner.uid, plan.run_id, machine)
        if key not in self._approved:
            what = f"{given.run_id} applies {machine} to {given.instance} by {plan}"
            self.sim.breaks(APPROVED, f"{what}, which no person approved")
        self._approved.discard(key)  # an approval is for one application


def _is_approved(plan: EarlierPlan | None, machine: str) -> bool:
    decided = plan is not None and plan.decision is PlanDecision.APPROVED
    return decided and plan is not None and plan.content == machine


def machine_of(given: RunInput) -> str:
    """Return the machine that an instance is to have."""
    return str((given.spec.get("instanceFeatures") or {}).get("machine", "v1"))


def _key(uid: str, plan: PlannedChange) -> tuple[str, str, str]:
    return uid, plan.run_id, plan.content
