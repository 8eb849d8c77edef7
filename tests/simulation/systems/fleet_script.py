"""What users of scale mode do, as a seed has it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from apis.fleet import FleetConfig
from apis.fleet.labels import (
    DATA_PLANE,
    KUBECONFIG_KEY,
    KUBECONFIG_SECRET,
    LEASE,
    PARALLEL_PREFIX,
    PLANE_NAMESPACE,
)
from apis.tenancy import Tenant
from ctrlruntime.client.errors import AlreadyExists, APIError, NotFound, TransportError
from ctrlruntime.envtest.simulation import Simulation
from internal.fleet.move import next_step
from internal.fleet.move_state import MoveRefused
from manager.commands import fleet_move
from tests.fleet.operator.harness import NAMESPACE, SCALE, SECRET, config, namespace
from tests.fleet.stack.harness import CONFIG_MAP, DEPLOYMENT
from tests.simulation.systems.fleet_pods import kubeconfig
from tests.simulation.systems.fleet_world import SHOP, Hub, Meant, Plane, Wanted

T = TypeVar("T")
_PATIENCE = 5.0
"""Seconds between two attempts at what does not work just now."""
_MOVE = 120.0
"""Seconds after which a user gives the command up that moves a tenant, to run it again."""
NAMES = ("a", "b", "c")
"""Of data planes."""


@dataclass(slots=True)
class Script:
    """Each step changes the world as users mean it, and does so."""

    sim: Simulation
    world: Meant
    draws: random.Random
    planes: Callable[[str], Awaitable[Plane]]
    """Starts a data plane, which has all that config/data-plane has."""
    _number: int = 0
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def begin(self) -> None:
        """Make hubs, some data planes and some tenants."""
        for hub in self.world.hubs.values():
            await hub.cluster.client.create(config(**SCALE))
            await hub.cluster.client.create(namespace(SHOP))
        for _ in range(self.draws.choice((1, 2, 2))):
            await self.add_plane()
        for _ in range(self.draws.randint(1, 3)):
            await self.add_tenant()

    async def go_on(self) -> None:
        """Do some things, one after the other."""
        steps = (
            self.add_tenant,
            self.change_tenant,
            self.change_tenant,
            self.change_tenant,
            self.delete_tenant,
            self.move_tenant,
            self.move_tenant,
            self.edit_workload,
            self.delete_workload,
            self.toggle_label,
            self.toggle_label,
            self.break_secret,
            self.renew_secret,
            self.renew_secret,
            self.mix_up_secret,
            self.toggle_grant,
            self.add_plane,
            self.hand_over_plane,
            self.hand_over_plane,
            self.change_pods,
        )
        for _ in range(self.draws.randint(2, 7)):
            await self.sim.sleep(self.draws.choice((0.1, 2, 10, 30, 70)))
            step: Callable[[], Awaitable[None]] = self.draws.choice(steps)
            self.sim.note(f"{step.__name__} ...")
            await step()

    async def tidy_up(self) -> None:
        """End what must not last: data planes without a stack, and moves that were begun."""
        for plane in self.world.planes.values():
            hub = self._hub(plane)
            if plane.broken:
                await self._write_secret(plane)
            if plane.revoked:
                await self._grant(plane, granted=True)
            if not hub.labelled[plane.name]:
                await self._label(hub, plane, labelled=True)
        await asyncio.gather(*self._tasks)

    # -- data planes ---------------------------------------------------------------------------------

    async def add_plane(self) -> None:
        """Add a data plane, and tell its hub of it."""
        free = [each for each in NAMES if each not in self.world.planes]
        if not free:
            return
        plane = self.world.planes[free[0]] = await self.planes(free[0])
        hub = self._hub(plane)
        await plane.cluster.client.create(namespace(PLANE_NAMESPACE))
        await plane.cluster.client.create(namespace(SHOP))
        await self._announce(hub, plane)

    async def _announce(self, hub: Hub, plane: Plane) -> None:
        """Do on a hub what docs/fleet.md has for a data plane."""
        plane.hub = hub.name
        plane.hubs.add(hub.name)
        with contextlib.suppress(AlreadyExists):
            await hub.cluster.client.create(namespace(plane.name))
        await self._write_secret(plane)
        await self._grant(plane, granted=True)
        await self._label(hub, plane, labelled=True)

    async def toggle_label(self) -> None:
        """Have a stack removed, or deployed again."""
        plane = self._any()
        hub = self._hub(plane)
        if not any(each.mixed_up for each in self.world.planes.values()):
            await self._label(hub, plane, labelled=not hub.labelled[plane.name])

    async def toggle_grant(self) -> None:
        """Let a stack write where its tenants are, or no more: it starts again to read other Secrets."""
        plane = self._any()
        await self._grant(plane, granted=plane.revoked)

    async def _grant(self, plane: Plane, *, granted: bool) -> None:
        plane.revoked = not granted
        labels = {f"{PARALLEL_PREFIX}{plane.name}": "true" if granted else None}
        client = self._hub(plane).cluster.client
        await client.patch(NAMESPACE, SHOP, {"metadata": {"labels": labels}})

    async def hand_over_plane(self) -> None:
        """Let another hub work for a data plane, before or after the former one ends that."""
        plane = self._any()
        former = self._hub(plane)
        others = [each for each in self.world.hubs.values() if each is not former]
        mixed_up = any(each.mixed_up for each in self.world.planes.values())
        if not others or mixed_up or not self.world.stays(plane):
            return
        before = self.draws.random() < 0.5
        if before:
            await self._label(former, plane, labelled=False)
            await self.sim.sleep(self.draws.choice((0.1, 5, 60)))
        await self._announce(others[0], plane)
        if not before:
            await self.sim.sleep(self.draws.choice((0.1, 5, 60)))
            await self._label(former, plane, labelled=False)

    async def _label(self, hub: Hub, plane: Plane, *, labelled: bool) -> None:
        hub.labelled[plane.name] = labelled
        hub.since[plane.name] = asyncio.get_running_loop().time()
        value = "true" if labelled else None
        labels = {"metadata": {"labels": {DATA_PLANE: value}}}
        await hub.cluster.client.patch(NAMESPACE, plane.name, labels)

    async def break_secret(self) -> None:
        """Write something into the Secret that is no kubeconfig: a stack that runs stays."""
        plane = self._any()
        plane.broken, plane.mixed_up = True, False
        await self._write(plane, "no kubeconfig")

    async def mix_up_secret(self) -> None:
        """Write the kubeconfig of another data plane into a Secret: no stack may work there for it."""
        running = [each for each in self.world.planes.values() if _has_stack(each)]
        if len(running) > 1 and all(self._hub(each).labelled[each.name] for each in running):
            plane, other = self.draws.sample(running, 2)
            plane.broken = plane.mixed_up = True
            self._number += 1
            await self._write(plane, kubeconfig(other.cluster.url, self._number))

    async def renew_secret(self) -> None:
        """Write another kubeconfig of the same data plane: the stack is rolled once."""
        await self._write_secret(self._any())

    async def _write_secret(self, plane: Plane) -> None:
        plane.broken = plane.mixed_up = False
        self._number += 1
        await self._write(plane, kubeconfig(plane.cluster.url, self._number))

    async def _write(self, plane: Plane, content: str) -> None:
        client, encoded = (
            self._hub(plane).cluster.client,
            base64.b64encode(content.encode()).decode(),
        )
        data = {"data": {KUBECONFIG_KEY: encoded}}
        try:
            await client.patch(SECRET, KUBECONFIG_SECRET, data, namespace=plane.name)
        except NotFound:
            metadata = {"name": KUBECONFIG_SECRET, "namespace": plane.name}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
            await client.create({**secret, **data})

    async def change_pods(self) -> None:
        """Change what Pods of stacks get: all are rolled."""
        self._number += 1
        self.world.memory = f"{self._number + 300}Mi"
        requests = {"memory": self.world.memory}
        change = {"spec": {"stackPods": {"controllers": {"requests": requests}}}}
        for hub in self.world.hubs.values():
            await hub.cluster.client.patch(FleetConfig, "fleet", change)

    # -- tenants -------------------------------------------------------------------------------------

    async def add_tenant(self) -> None:
        """Create a tenant on some data plane."""
        plane = self._any()
        self._number += 1
        wanted = Wanted(f"t{self._number}", plane.name)
        self.world.tenants[wanted.name] = wanted
        await self._there(plane, lambda: plane.cluster.client.create(wanted.manifest()))

    async def change_tenant(self) -> None:
        """Give a tenant other content."""
        if (wanted := self._tenant()) is None:
            return
        self._number += 1
        wanted.marks.append(self._number)
        plane, change = self.world.planes[wanted.plane], {"spec": wanted.manifest()["spec"]}
        client = plane.cluster.client
        await self._there(plane, lambda: client.patch(Tenant, wanted.name, change, namespace=SHOP))

    async def delete_tenant(self) -> None:
        """Delete a tenant."""
        if (wanted := self._tenant()) is None:
            return
        plane = self.world.planes[wanted.plane]
        self.world.leaving[wanted.name] = self.world.tenants.pop(wanted.name)
        client = plane.cluster.client
        await self._there(plane, lambda: client.delete(Tenant, wanted.name, namespace=SHOP))

    async def move_tenant(self) -> None:
        """Begin to move a tenant to another data plane of the same hub; that goes on beside other things."""
        if (wanted := self._tenant()) is None:
            return
        left = self.world.planes[wanted.plane]
        others = [
            each
            for each in self.world.planes.values()
            if each.hub == left.hub and each is not left and len(each.hubs) == 1
        ]
        if not others or len(left.hubs) > 1:
            return
        made = self.draws.choice(others)
        wanted.moving, wanted.plane = True, made.name
        wanted.former.add(left.name)
        wanted.former.discard(made.name)
        self._tasks.append(asyncio.create_task(self._move(wanted, left, made)))

    async def _move(self, wanted: Wanted, left: Plane, made: Plane) -> None:
        hub = self._hub(made).cluster.client
        clients = (hub, left.cluster.client, made.cluster.client)
        while True:
            names = (left.id, made.id, left.name, made.name, wanted.name, SHOP)
            move = fleet_move.Move(*clients, *names)
            try:
                async with asyncio.timeout(_MOVE):
                    await move.run(next_step)
                break
            except (MoveRefused, TimeoutError, APIError, TransportError) as error:
                self.sim.note(f"the move of {wanted.name}: {error}")
            await asyncio.sleep(_PATIENCE)
        wanted.moving = False

    def print(self, line: str) -> None:
        """Note what a command prints, without the time of day."""
        self.sim.note(f"the move: {line.partition(' ')[2]}")

    # -- workloads -----------------------------------------------------------------------------------

    async def edit_workload(self) -> None:
        """Edit an object of a tenant on the hub by hand."""
        await self._by_hand(edit=True)

    async def delete_workload(self) -> None:
        """Delete an object of a tenant on the hub by hand."""
        await self._by_hand(edit=False)

    async def _by_hand(self, *, edit: bool) -> None:
        if (wanted := self._tenant()) is None:
            return
        client = self._hub(self.world.planes[wanted.plane]).cluster.client
        kind, key = self.draws.choice([*zip((DEPLOYMENT, CONFIG_MAP), wanted.on_hub, strict=True)])
        with contextlib.suppress(NotFound):
            if not edit:
                self.world.by_hand.add(key)
                await client.delete(kind, key[1], namespace=SHOP)
                return
            change: dict[str, Any] = {"data": {"mark": "edited"}}
            if kind is DEPLOYMENT:
                change = {"spec": {"replicas": 3}}
            await client.patch(kind, key[1], change, namespace=SHOP)

    # -- which ---------------------------------------------------------------------------------------

    def _hub(self, plane: Plane) -> Hub:
        return self.world.hubs[plane.hub]

    def _any(self) -> Plane:
        return self.draws.choice([*self.world.planes.values()])

    def _tenant(self) -> Wanted | None:
        """Return a tenant that may be changed: none whose data plane it leaves just now."""
        found = [each for each in self.world.tenants.values() if not each.moving]
        return self.draws.choice(found) if found else None

    async def _there(self, plane: Plane, do: Callable[[], Awaitable[T]]) -> None:
        """Do something on a data plane, as soon as it answers."""
        while True:
            try:
                await do()
                return
            except TransportError as error:
                self.sim.note(f"{plane.name} does not answer: {error}")
            await asyncio.sleep(_PATIENCE)


def _has_stack(plane: Plane) -> bool:
    """Whether some controllers hold the Lease on a data plane."""
    return any(
        each["metadata"]["name"] == LEASE and each["spec"].get("holderIdentity")
        for each in plane.cluster.objects("leases.coordination.k8s.io")
    )
