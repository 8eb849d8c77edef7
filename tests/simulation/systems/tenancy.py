"""The tenancy system: rows that come, change and go, templates that change, and users who interfere."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.oracles import LEASE
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.manager import GCOptions, Manager
from ctrlruntime.sharding.slots import slot_of_labels
from internal.tenancy.sources import SourceTypes
from internal.tenancy.sources.crd import registry_crd
from manager.controllers.tenancy_options import TenancyOptions
from manager.options import RunOptions
from manager.serving.shards import with_slots
from manager.systems import load_systems
from tests.simulation.systems.kubelets import Kubelets
from tests.simulation.systems.members import Members
from tests.simulation.systems.table import Table, served, source_type
from tests.simulation.systems.tenancy_end import lacks
from tests.simulation.systems.tenancy_rules import TENANTS, Rules
from tests.simulation.systems.tenancy_script import Script
from tests.simulation.systems.tenancy_windows import PATIENCE, Windows
from tests.simulation.systems.tenancy_world import Wanted


async def members(sim: Simulation) -> None:
    """The same with two or three managers that divide the tenants."""
    sim.allow(LEASE)  # who led once is a member still: Members has the rule instead
    sim.shows(Members(sim, _slot))
    await story(sim, members=sim.draws("members").choice((2, 3)))


def _slot(call: Call, bucket: Bucket, change: Change) -> int | None:
    """Return the slot of a tenant or of what is made for it. Tenants themselves are the leader's, their status is not."""
    if bucket.resource == TENANTS and not call.request.subresource:
        return None
    return slot_of_labels(change.record.obj["metadata"].get("labels"))


async def story(sim: Simulation, members: int = 0) -> None:
    """Rows and templates, changed in all ways while everything fails; then all is as users mean it.

    With `members` so many managers divide the tenants.
    """
    draws = sim.draws("script")
    world = Wanted(Table(sim.draws("table"), sim.inputs_change), shared=members > 0)
    script = Script(sim, world, draws)
    with served(sim, world.table):
        crd = registry_crd(SourceTypes((source_type(world.table),)))
        await sim.install(crd, TenantTemplate, Tenant, ChangeFreeze)
        Kubelets(sim, sim.draws("kubelets")).start()
        sim.shows(Rules(sim, world))
        sim.shows(Windows(sim, world))
        given = RunOptions(systems=("tenancy",), tenancy=options(draws), shards=members > 0)
        run_managers(sim, given, members or 2)
        await script.begin()
        async with sim.faults():
            await script.go_on()
            await sim.sleep(40)
        await script.tidy_up()
        async with _beside(script):
            await sim.settles(within=1200 + PATIENCE, lacks=partial(lacks, sim, world))
        await sim.stays_idle(600)


@contextlib.asynccontextmanager
async def _beside(script: Script) -> AsyncIterator[None]:
    """Let a user approve what is held for as long as that takes."""
    task = asyncio.create_task(script.keep_approving())
    try:
        yield
    finally:
        task.cancel()


def run_managers(sim: Simulation, options: RunOptions, replicas: int) -> None:
    """Start managers as `manager run` does."""
    systems = load_systems(options.systems)

    async def add(manager: Manager) -> None:
        for each in systems:
            await each(manager, with_slots(options, manager), manager.config)

    given = replace(options.manager_options(), gc=GCOptions(), handle_signals=False)
    sim.manager(add, replicas=replicas, leader_election=True, options=given)


def options(draws: random.Random) -> TenancyOptions:
    """Draw the options of a manager."""
    return TenancyOptions(
        registry_concurrency=draws.choice((1, 3)),
        tenant_concurrency=draws.choice((1, 2, 10)),
        writes_per_type=draws.choice((1, 16)),
        writes_total=draws.choice((2, 64)),
        status_period=draws.choice((0.1, 1.0)),
    )
