"""The tenancy system: rows that come, change and go, templates that change, and users who interfere."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.manager import GCOptions, Manager
from internal.tenancy.sources import SourceTypes
from internal.tenancy.sources.crd import registry_crd
from manager.controllers.tenancy_options import TenancyOptions
from manager.options import RunOptions
from manager.systems import load_systems
from tests.simulation.systems.kubelets import Kubelets
from tests.simulation.systems.table import Table, served, source_type
from tests.simulation.systems.tenancy_rules import TENANTS, Rules
from tests.simulation.systems.tenancy_world import NAMESPACE, UIDS, Blueprint, World, registry, row
from tests.tenancy.harness import CONFIG_MAP


async def story(sim: Simulation) -> None:
    """A few rows and a template, changed in all ways while everything fails; then it is as users mean it."""
    draws = sim.draws("script")
    world = World(Table(sim.draws("table"), sim.inputs_change))
    rules = Rules(sim, world)
    with served(sim, world.table):
        await sim.install(
            registry_crd(SourceTypes((source_type(world.table),))),
            TenantTemplate,
            Tenant,
            ChangeFreeze,
        )
        Kubelets(sim, sim.draws("kubelets")).start()
        sim.shows(rules)
        run_managers(sim, RunOptions(systems=("tenancy",), tenancy=options(draws)))
        script = Script(sim, world, draws)
        await script.begin()
        async with sim.faults():
            await script.go_on()
            await sim.sleep(40)
        await sim.settles(within=900, lacks=rules.lacks)
        await sim.stays_idle(600)


def run_managers(sim: Simulation, options: RunOptions) -> None:
    """Start two managers as `manager run` does."""
    systems = load_systems(options.systems)

    async def add(manager: Manager) -> None:
        for each in systems:
            await each(manager, options, manager.config)

    given = replace(options.manager_options(), gc=GCOptions(), handle_signals=False)
    sim.manager(add, replicas=2, leader_election=True, options=given)


def options(draws: random.Random) -> TenancyOptions:
    """Draw the options of a manager."""
    return TenancyOptions(
        registry_concurrency=draws.choice((1, 3)),
        tenant_concurrency=draws.choice((1, 2, 10)),
        writes_per_type=draws.choice((1, 16)),
        writes_total=draws.choice((2, 64)),
        status_period=draws.choice((0.1, 1.0)),
    )


@dataclass(slots=True)
class Script:
    """What users do, as the seed has it."""

    sim: Simulation
    world: World
    draws: random.Random

    async def begin(self) -> None:
        """Make some rows, the registry and a template."""
        for uid in UIDS[: self.draws.randint(1, 4)]:
            self.world.table.rows[uid] = row(uid)
        self.world.blueprints["app"] = Blueprint("app", extra=self.draws.random() < 0.5)
        guard = {"maxDeletePercent": 100}
        await self.sim.client.create(registry(deletionGuard=guard))
        await self.sim.client.create(self.world.blueprints["app"].manifest())

    async def go_on(self) -> None:
        """Do some things, one after the other."""
        steps = (
            self.add_row,
            self.change_row,
            self.remove_row,
            self.change_template,
            self.edit,
            self.delete_tenant,
        )
        for _ in range(self.draws.randint(3, 8)):
            await self.sim.sleep(self.draws.choice((0.1, 2, 10, 30)))
            step: Callable[[], Awaitable[None]] = self.draws.choice(steps)
            await step()

    def _any(self) -> str:
        return self.draws.choice([*self.world.table.rows])

    async def add_row(self) -> None:
        """Add a row that is not there, or that was inactive."""
        uid = self.draws.choice(UIDS)
        self.world.table.rows.setdefault(uid, row(uid))["active"] = "1"

    async def change_row(self) -> None:
        """Change a value of a row."""
        name, values = self.draws.choice(
            (("image", ("nginx:1", "nginx:2")), ("plan", ("basic", "gold", "")))
        )
        self.world.table.rows[self._any()][name] = self.draws.choice(values)

    async def remove_row(self) -> None:
        """Remove a row, or make it inactive; one stays, as an empty table is not believed."""
        if len(self.world.table.active()) > 1:
            uid = self._any()
            if self.draws.random() < 0.5:
                del self.world.table.rows[uid]
            else:
                self.world.table.rows[uid]["active"] = self.draws.choice(("0", ""))

    async def change_template(self) -> None:
        """Give the template other content."""
        before = self.world.blueprints["app"]
        extra = before.extra != (self.draws.random() < 0.5)
        after = self.world.change("app", mark=before.mark + 1, extra=extra)
        spec = after.manifest()["spec"]
        await self.sim.client.patch(TenantTemplate, "app", {"spec": spec}, namespace=NAMESPACE)

    async def edit(self) -> None:
        """Edit an object by hand, where it is there."""
        name = f"{self._any()}-app-settings"
        patch = {"data": {"plan": "edited"}}
        with contextlib.suppress(NotFound):
            await self.sim.client.patch(CONFIG_MAP, name, patch, namespace=NAMESPACE)

    async def delete_tenant(self) -> None:
        """Delete a Tenant by hand: it comes again if its row is there."""
        names = [each["metadata"]["name"] for each in self.sim.objects(TENANTS)]
        if names:
            with contextlib.suppress(NotFound):
                await self.sim.client.delete(Tenant, self.draws.choice(names), namespace=NAMESPACE)
