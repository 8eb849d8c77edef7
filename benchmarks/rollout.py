"""`make bench-rollout ROWS=n`: a template change for n tenants of five resources, staged by `maxSkew: 10`.

First a good change, with the manager's watch events delayed at random and the manager killed twice. Then a bad one
with `haltOnFailures: 3` and `onHalt: Rollback`. Server, simulated nodes and manager are processes of their own; a
watch of the benchmark's own counts which tenants change. The last line is one JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import uvloop

from apis.tenancy import RolloutPhase, Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import (
    MANAGER,
    NAMESPACE,
    Fleet,
    ManagerProcess,
    exit_with,
    print_figures,
    report_progress,
    violated,
)
from benchmarks.plan.__main__ import fill, registry
from benchmarks.tenancy.fleet import REGISTRY, manager_command, sample
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import DelayEvents, Match
from ctrlruntime.envtest.proxy.requests import WRITES

TEMPLATE = "web-app"
TENANTS = "tenants.tenancy.ctrlruntime.dev"
CHILDREN = frozenset({"serviceaccounts", "configmaps", "secrets", "deployments.apps", "services"})
SKEW = 10
HALT = 3
MOST_CHANGED = SKEW + HALT
MOST_WRITES = 2.2
KILLS = 2
LONGEST_DELAY = 2.0
STATUS_PERIOD = "0.2"


@dataclass(slots=True)
class RolloutFigures:
    """The last line. `writes` are those of the bad change for each tenant resource that it changed."""

    rows: int = 0
    seconds: float = 0.0
    kills: int = 0
    delays: int = 0
    max_updating: int = 0
    lost: int = 0
    doubled: int = 0
    rollback_seconds: float = 0.0
    changed: int = 0
    not_restored: int = 0
    changed_resources: int = 0
    writes: float = 0.0

    def violations(self) -> list[str]:
        """The bounds that do not hold."""
        return violated(
            {
                f"max_updating > {SKEW}": self.max_updating > SKEW,
                "lost > 0": self.lost > 0,
                "doubled > 0": self.doubled > 0,
                "changed == 0": self.changed == 0,
                f"changed > {MOST_CHANGED}": self.changed > MOST_CHANGED,
                "not_restored > 0": self.not_restored > 0,
                f"writes > {MOST_WRITES}": self.writes > MOST_WRITES,
            }
        )


@dataclass(slots=True)
class Observer:
    """Follows all tenants: which have left a revision, how often, and how many of them are not ready at once."""

    revision: str
    most: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    _revisions: dict[str, str] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)

    def saw(self, tenant: Tenant) -> None:
        """Take one event."""
        name, revision = tenant.metadata.name or "", tenant.spec.template_revision or ""
        before = self._revisions.get(name, self.revision)
        self._revisions[name] = revision
        if revision != before:
            self.changes[name] += 1
        if revision == self.revision or is_ready(tenant):
            self._changing.discard(name)
        else:
            self._changing.add(name)
        self.most = max(self.most, len(self._changing))


def is_ready(tenant: Tenant) -> bool:
    """Whether a tenant is ready for what its spec is now."""
    ready = find_condition(tenant.status.conditions, "Ready")
    return (
        ready is not None
        and ready.status == "True"
        and ready.observed_generation == tenant.metadata.generation
    )


def template(release: str, *, bad: bool = False, **rollout: object) -> dict[str, Any]:
    """The sample template with a label on each of its resources. In a bad one the last cannot be rendered."""
    manifest = sample("tenanttemplate.yaml")
    for items in manifest["spec"].values():
        for item in items if isinstance(items, list) else ():
            item.setdefault("labelsTemplate", {})["release"] = release
    manifest["spec"]["rollout"] = {"maxSkew": SKEW, **rollout}
    if bad:
        manifest["spec"]["services"][0]["labelsTemplate"]["release"] = "{{ .noSuchVariable }}"
    return manifest


@dataclass(slots=True)
class RolloutBench(Fleet):
    """One run."""

    rows: int
    figures: RolloutFigures = field(default_factory=RolloutFigures)
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    async def run(self) -> RolloutFigures:
        """Both changes in turn."""
        self.figures.rows = self.rows
        await self.environment.install_crds(TenantRegistry, TenantTemplate, Tenant)
        await self.client.create(registry())
        await self.client.create(template("one"))
        report_progress(f"{self.rows} rows; starting the manager")
        await self.manager.start()
        await self.wait_until_done(self._missing_tenants, limit=300 + self.rows, every=0.5)
        await self._change()
        await self._change_badly()
        return self.figures

    async def _change(self) -> None:
        """A good change, with late events and two kills."""
        report_progress("a good change, late events, two kills")
        started = time.monotonic()
        async with self._observed() as observer:
            await self._put(template("two"))
            async with asyncio.TaskGroup() as group:
                delays = group.create_task(self._delay_events())
                for number in range(1, KILLS + 1):
                    await self._until_updated(observer, self.rows * number // (KILLS + 1))
                    await self._kill()
                await self.wait_until_done(
                    lambda: self._not_complete(RolloutPhase.COMPLETE),
                    limit=300 + self.rows * 2,
                    every=0.5,
                )
                delays.cancel()
            await self._until_updated(observer, self.rows)
        tenants = await self.client.list(Tenant, NAMESPACE)
        revisions = Counter(item.spec.template_revision for item in tenants)
        figures = self.figures
        figures.seconds = round(time.monotonic() - started, 1)
        figures.max_updating = observer.most
        figures.lost = self.rows - revisions[await self._revision()]
        figures.doubled = sum(count > 1 for count in observer.changes.values())

    async def _change_badly(self) -> None:
        """A bad change, which is rolled back."""
        report_progress("a bad change")
        started, mark = time.monotonic(), self.log.mark()
        async with self._observed() as observer:
            bad = template("three", bad=True, haltOnFailures=HALT, onHalt="Rollback")
            await self._put(bad)
            await self.wait_until_done(
                lambda: self._not_complete(RolloutPhase.ROLLED_BACK), limit=300, every=0.2
            )
            await self.wait_until_done(self._missing_tenants, limit=300, every=0.2)
        await self.wait_until_quiet(3, limit=120)
        tenants = await self.client.list(Tenant, NAMESPACE)
        figures = self.figures
        figures.rollback_seconds = round(time.monotonic() - started, 1)
        figures.changed = len(observer.changes)
        figures.not_restored = sum(
            item.spec.template_revision != observer.revision for item in tenants
        )
        writes = [
            (each.resource, each.name)
            for each in self.requests(mark)
            if each.verb in WRITES and each.resource in CHILDREN
        ]
        figures.changed_resources = len(set(writes))
        figures.writes = round(len(writes) / max(len(set(writes)), 1), 2)

    # -- what is done ------------------------------------------------------------------------

    async def _put(self, manifest: Mapping[str, Any]) -> None:
        await self.client.patch(
            TenantTemplate,
            TEMPLATE,
            {"spec": dict(manifest["spec"])},
            namespace=NAMESPACE,
            type=PatchType.MERGE,
        )

    async def _kill(self) -> None:
        process = self.manager.process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        await self.manager.stop()
        await self.manager.start()
        self.figures.kills += 1
        report_progress("the manager was killed")

    async def _delay_events(self) -> None:
        """Make the next event of the manager's watch of tenants late, again and again."""
        while True:
            await asyncio.sleep(self.chance.uniform(0.2, 2.0))
            self.environment.proxy.add(
                DelayEvents(seconds=self.chance.uniform(0.05, LONGEST_DELAY)),
                Match(user=MANAGER, resource=TENANTS),
                times=1,
            )
            self.figures.delays += 1

    # -- what is seen ------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _observed(self) -> AsyncIterator[Observer]:
        observer, seen = Observer(await self._revision()), asyncio.Event()

        async def follow() -> None:
            async with aclosing(self.client.watch(Tenant, NAMESPACE)) as events:
                async for _, tenant in events:
                    observer.saw(tenant)
                    seen.set()

        task = asyncio.create_task(follow())
        await seen.wait()
        try:
            yield observer
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _revision(self) -> str:
        """The revision that most tenants have."""
        tenants = await self.client.list(Tenant, NAMESPACE)
        return Counter(item.spec.template_revision or "" for item in tenants).most_common(1)[0][0]

    async def _until_updated(self, observer: Observer, number: int) -> None:
        async def missing() -> int:
            return max(number - len(observer.changes), 0)

        await self.wait_until_done(missing, limit=300 + self.rows * 2, every=0.2)

    async def _not_complete(self, phase: RolloutPhase) -> str:
        found = await self.client.get(TenantTemplate, TEMPLATE, namespace=NAMESPACE)
        rollout = found.status.rollout
        current = found.status.observed_generation == found.metadata.generation
        if rollout is not None and current and rollout.phase is phase and not rollout.changing:
            return ""
        return f"the rollout is {'unknown' if rollout is None else rollout.phase.value}"

    async def _missing_tenants(self) -> int:
        found = await self.client.get(TenantRegistry, REGISTRY, namespace=NAMESPACE)
        return self.rows - found.status.ready


async def bench(rows: int) -> RolloutFigures:
    """Start everything, run, stop everything."""
    with tempfile.TemporaryDirectory(prefix="bench-rollout-") as name:
        folder = Path(name)
        environment = Environment(
            "embedded-process", nodes=True, pods=False, proxy=True, folder=folder
        )
        async with environment:
            fill(folder, rows)
            command = manager_command(environment.kubeconfig(MANAGER))
            command += ["--allow-sqlite", str(folder), "--status-period", STATUS_PERIOD]
            manager = ManagerProcess(folder, command)
            try:
                return await RolloutBench(environment, manager, rows).run()
            finally:
                await manager.stop()


@click.command()
@click.option("--rows", default=1000, help="Active rows.")
def main(rows: int) -> None:
    """Measure a rollout and a rollback."""
    figures = uvloop.run(bench(rows))
    print_figures(figures)
    exit_with(figures.violations())


if __name__ == "__main__":
    main()
