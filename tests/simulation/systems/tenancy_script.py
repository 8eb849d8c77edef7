"""What users of the tenancy system do, as a seed has it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from apis.operations import ChangeFreeze
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import format_time
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.faults import KINDS
from ctrlruntime.envtest.simulation.oracles import ROLLED_BACK
from internal.tenancy.shared.labels import RESUMED_AT
from tests.simulation.systems.table import Values
from tests.simulation.systems.tenancy_end import REGISTRIES, TEMPLATES
from tests.simulation.systems.tenancy_rules import TENANTS
from tests.simulation.systems.tenancy_windows import drawn
from tests.simulation.systems.tenancy_world import (
    NAMESPACE,
    REGISTRY,
    UIDS,
    Blueprint,
    Wanted,
    registry,
    row,
)
from tests.tenancy.harness import CONFIG_MAP, approval_in

_FREEZE = "inventory"
_PATIENCE = 5.0
"""Seconds between two looks of the user who approves."""


@dataclass(slots=True)
class Script:
    """Each step changes the world as users mean it, and does so."""

    sim: Simulation
    world: Wanted
    draws: random.Random
    _web: Blueprint | None = None
    """The second template, also while it is not there: Jobs of its hooks may be."""
    _marks: int = 0

    async def begin(self) -> None:
        """Make some rows, the registry and a template."""
        for uid in UIDS[: self.draws.randint(1, 4)]:
            self.world.table.rows[uid] = row(uid)
        self.world.used |= {*self.world.table.rows}
        draws, guard = self.draws, self.world.guard
        guard |= {
            "maxDeletePercent": draws.choice((0, 20, 50, 100)),
            "alwaysAllowedRows": draws.choice((0, 1, 2)),
            "window": draws.choice(("0s", "24h")),
        }
        windows = drawn(self.sim.draws("windows"))
        self.world.windows = bool(windows)
        interval = self.sim.draws("interval").choice(("1s", "4s"))
        await self.sim.client.create(registry(interval, deletionGuard={**guard}, **windows))
        await self._apply(self._drawn("app"))

    def _drawn(self, name: str) -> Blueprint:
        draws = self.draws
        spec: dict[str, Any] = {}
        if draws.random() < 0.5:
            rollout: dict[str, Any] = {
                "maxSkew": draws.choice((1, 2)),
                "progressDeadlineSeconds": 60,
            }
            rollout |= draws.choice(({}, {"haltOnFailures": 1}))
            if draws.choice((False, True)):
                rollout |= {"haltOnFailures": 1, "onHalt": "Rollback"}
            spec["rollout"] = rollout | drawn(self.sim.draws("windows"))
            if "onHalt" in rollout:
                self.sim.allow(ROLLED_BACK)
        if draws.random() < 0.3:
            spec["deletionProtection"] = False
        return Blueprint(
            name,
            extra=draws.random() < 0.5,
            generates=draws.random() < 0.5,
            hooks=draws.random() < 0.4,
            spec=spec,
        )

    async def _apply(self, blueprint: Blueprint) -> None:
        self.world.blueprints[blueprint.name] = blueprint
        await self.sim.client.create(blueprint.manifest())

    async def go_on(self) -> None:
        """Do some things, one after the other."""
        steps = (
            self.add_row,
            self.add_row,
            self.change_row,
            self.change_row,
            self.remove_row,
            self.rename_row,
            self.doubt_row,
            self.change_template,
            self.change_template,
            self.spoil_template,
            self.add_or_drop_template,
            self.edit,
            self.delete_tenant,
            self.freeze,
            self.approve,
        )
        for _ in range(self.draws.randint(3, 10)):
            await self.sim.sleep(self.draws.choice((0.1, 2, 10, 30)))
            step: Callable[[], Awaitable[None]] = self.draws.choice(steps)
            await step()
            self.sim.note(f"{step.__name__}: {self._rows()}")

    async def tidy_up(self) -> None:
        """End what must not last: rows in doubt, content that cannot be, a freeze."""
        self.world.table.recover()
        for values in self.world.table.rows.values():
            if values["active"] == "perhaps":
                values["active"] = "1"
        for name, blueprint in [*self.world.blueprints.items()]:
            if blueprint.bad:
                await self._change(name, bad=False)
        with contextlib.suppress(NotFound):
            await self.sim.client.delete(ChangeFreeze, _FREEZE)

    async def keep_approving(self) -> None:
        """Approve again and again what is held and meant, and resume rollouts of good content."""
        while True:
            await asyncio.sleep(_PATIENCE)
            await self.approve()
            await self._resume()

    async def _resume(self) -> None:
        """Resume what went back: where a watch was silent for longer than a deadline, good content seemed to fail.

        Without any fault it stays back, and the story does not come to its end.
        """
        if not any(map(self.sim.has_fired, KINDS)):
            return
        for each in self.sim.objects(TEMPLATES):
            phase = ((each.get("status") or {}).get("rollout") or {}).get("phase")
            if phase == "RolledBack":
                now = format_time(self.sim.now())
                patch = {"metadata": {"annotations": {RESUMED_AT: now}}}
                name = each["metadata"]["name"]
                await self.sim.client.patch(TenantTemplate, name, patch, namespace=NAMESPACE)

    # -- rows --------------------------------------------------------------------------------------------

    def _rows(self) -> str:
        rows = self.world.table.rows.values()
        return "; ".join(", ".join(str(value) for value in each.values()) for each in rows)

    def _any(self) -> str:
        return self.draws.choice([*self.world.table.rows])

    async def add_row(self) -> None:
        """Add a row that is not there, or that was inactive."""
        uid = self.draws.choice(UIDS)
        self.world.table.rows.setdefault(uid, row(uid))["active"] = "1"
        self.world.used.add(uid)
        self.world.renamed.pop(uid, None)

    async def change_row(self) -> None:
        """Change a value of a row."""
        name, values = self.draws.choice(
            (("image", ("nginx:1", "nginx:2")), ("plan", ("basic", "gold", "")))
        )
        self.world.table.rows[self._any()][name] = self.draws.choice(values)

    async def remove_row(self) -> None:
        """Remove a row, or make it inactive; one stays, as an empty table is taken for an error."""
        if len(self.world.table.active()) > 1:
            uid = self._any()
            if self.draws.random() < 0.5:
                del self.world.table.rows[uid]
            else:
                self.world.table.rows[uid]["active"] = self.draws.choice(("0", ""))

    async def rename_row(self) -> None:
        """Give a row another uid; its URL shows that it is the same customer."""
        rows = self.world.table.rows
        uid, free = self._any(), [each for each in UIDS if each not in self.world.used]
        urls = [values["url"] for values in rows.values()]
        if free and rows[uid]["active"] == "1" and urls.count(rows[uid]["url"]) == 1:
            new = self.draws.choice(free)
            values: Values = {**rows.pop(uid), "uid": new}
            rows[new] = values
            self.world.used.add(new)
            self.world.heirs |= {uid, new}
            self.world.renamed[uid] = new
            self.world.renamed.pop(new, None)

    async def doubt_row(self) -> None:
        """Write something into a row that means neither active nor inactive."""
        if len(self.world.table.active()) > 1:
            self.world.table.rows[self._any()]["active"] = "perhaps"

    # -- templates ---------------------------------------------------------------------------------------

    async def change_template(self) -> None:
        """Give a template other content."""
        name = self.draws.choice([*self.world.blueprints])
        await self._change(name, extra=self.draws.random() < 0.5, bad=False)

    async def spoil_template(self) -> None:
        """Give a template content that cannot be, in a rollout that halts for that."""
        name = self.draws.choice([*self.world.blueprints])
        if "haltOnFailures" in self.world.blueprints[name].spec.get("rollout", {}):
            await self._change(name, bad=True)

    async def _change(self, name: str, **changes: object) -> None:
        after = self.world.change(name, mark=self.world.blueprints[name].mark + 1, **changes)
        spec = after.manifest()["spec"]
        await self.sim.client.patch(TenantTemplate, name, {"spec": spec}, namespace=NAMESPACE)

    async def add_or_drop_template(self) -> None:
        """Add a second template, or delete it."""
        if "web" not in self.world.blueprints:
            self._web = replace(self._web or self._drawn("web"), mark=self._marks + 1, bad=False)
            await self._apply(self._web)
        else:
            self._web = self.world.blueprints.pop("web")
            self._marks = self._web.mark
            await self.sim.client.delete(TenantTemplate, "web", namespace=NAMESPACE)

    # -- objects -----------------------------------------------------------------------------------------

    async def edit(self) -> None:
        """Edit an object by hand, where it is there."""
        patch = {"data": {"plan": "edited"}}
        with contextlib.suppress(NotFound):
            await self.sim.client.patch(
                CONFIG_MAP, f"{self._any()}-app-settings", patch, namespace=NAMESPACE
            )

    async def delete_tenant(self) -> None:
        """Delete a Tenant by hand: it comes again if its row is there."""
        names = [each["metadata"]["name"] for each in self.sim.objects(TENANTS)]
        if names:
            with contextlib.suppress(NotFound):
                await self.sim.client.delete(Tenant, self.draws.choice(names), namespace=NAMESPACE)

    async def freeze(self) -> None:
        """Begin a freeze of all changes, or end it."""
        gvk = ChangeFreeze.gvk()
        if self.sim.objects("changefreezes.operations.ctrlruntime.dev"):
            await self.sim.client.delete(ChangeFreeze, _FREEZE)
            return
        head = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": {"name": _FREEZE}}
        await self.sim.client.create({**head, "spec": {"reason": "Inventory"}})

    async def approve(self) -> None:
        """Approve what the registry holds, if all of it is meant to go."""
        (found,) = self.sim.objects(REGISTRIES)
        for each in (found.get("status") or {}).get("conditions") or ():
            if each["type"] == "DeletionsHeld" and each["status"] == "True":
                names = each["message"].rpartition("Held: ")[2].split(", ")
                if all(map(self.world.may_go, names)):
                    name, digest = approval_in(each["message"])
                    self.world.approved |= {*names}
                    patch = {"metadata": {"annotations": {name: digest}}}
                    await self.sim.client.patch(
                        TenantRegistry, REGISTRY, patch, namespace=NAMESPACE
                    )
