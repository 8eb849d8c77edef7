"""`make bench-cloud N=n`: the last line is one JSON object.

API server and manager are processes of their own; the proxy's request log counts what the manager's
user asks, without Leases, Events included. Every Instance has three children whose tasks take a
second; at most LIMIT of a type run at once.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop

from apis import cloud
from apis.cloud import Instance, InstanceInvariants, InstanceKubernetes, InstanceTerraform
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Counts
from ctrlruntime.generate.discovery import find_kinds, load

NAMESPACE = "default"
SETTLE_SECONDS = 10.0
CHILDREN = (InstanceTerraform, InstanceKubernetes, InstanceInvariants)


@dataclass(slots=True)
class Figures:
    """What the last line says."""

    n: int = 0
    seconds: float = 0.0
    writes_per_instance: float = 0.0
    max_running: int = 0
    """Most runs of one type at once."""
    duplicate_runs: int = 0
    longest_wait: float = 0.0
    """Seconds that a run waited for its turn, of the cohort where that is the most of its median."""
    median_wait: float = 0.0
    longest_to_median: float = 0.0
    steady_seconds: float = 0.0
    steady_requests: int = 0
    restart_writes: int = 0
    rss_mib: float = 0.0


@dataclass(slots=True)
class Bench:
    """One run."""

    environment: Environment
    folder: Path
    n: int
    limit: int
    steady_seconds: float
    figures: Figures = field(default_factory=Figures)
    manager: ChildProcess | None = None
    report: dict[str, Any] = field(default_factory=dict)

    async def run(self) -> Figures:
        """All phases in turn. Exits with what is wrong if a limit was passed."""
        self.figures.n = self.n
        await self.environment.install_crds(*find_kinds(load(("apis.cloud",))))
        await self._create_instances()
        say(f"{self.n} instances; starting the manager")
        mark, started = self._counts(), time.monotonic()
        await self._start_manager()
        await self._until_ready()
        self.figures.seconds = round(time.monotonic() - started, 1)
        counts = self._counts() - mark
        self.figures.writes_per_instance = round(counts.writes / self.n, 2)
        say(f"all ready after {self.figures.seconds} s\n{counts}")
        await self._measure_waits()
        await self._rest()
        self.figures.rss_mib = round(self._resident_mib(), 1)
        await self._stop_manager()
        self.report = orjson.loads(self._report_path.read_bytes())
        self.figures.max_running = max(self.report["most_live"].values())
        self.figures.duplicate_runs = self.report["duplicates"]
        say(f"most at once: {self.report['most_live']}, runs: {self.report['runs']}")
        await self._restart()
        return self.figures

    def verdict(self) -> list[str]:
        """What does not hold."""
        figures = self.figures
        expected = min(self.limit, self.n)
        wrong = []
        if figures.max_running != expected:
            wrong.append(f"{figures.max_running} ran at once, not {expected}")
        if figures.duplicate_runs:
            wrong.append(f"{figures.duplicate_runs} runs were started twice")
        if self.report["runs"] != self.n * len(CHILDREN):
            wrong.append(f"{self.report['runs']} runs, not {self.n * len(CHILDREN)}")
        if figures.writes_per_instance > 40:
            wrong.append(f"{figures.writes_per_instance} writes for each instance")
        if figures.longest_to_median > 2:
            wrong.append(f"the longest wait is {figures.longest_to_median} times the median")
        if figures.steady_requests:
            wrong.append(f"{figures.steady_requests} requests at rest")
        if figures.restart_writes:
            wrong.append(f"{figures.restart_writes} writes after a restart")
        return wrong

    # -- phases ----------------------------------------------------------------------------

    async def _create_instances(self) -> None:
        client = self._client
        slots = asyncio.Semaphore(32)

        async def create(number: int) -> None:
            async with slots:
                await client.create(instance(number))

        async with asyncio.TaskGroup() as group:
            for number in range(self.n):
                group.create_task(create(number))

    async def _until_ready(self) -> None:
        end = time.monotonic() + 120 + self.n * 0.5
        while True:
            await asyncio.sleep(1.0)
            if self.manager is not None and self.manager.returncode is not None:
                raise SystemExit(f"the manager ended:\n{self.manager.log_tail()}")
            found = await self._client.list(Instance, NAMESPACE)
            left = [item for item in found if item.status.phase is not cloud.Phase.READY]
            if not left:
                return
            if time.monotonic() > end:
                said = Counter(f"{item.status.phase}: {item.status.message}" for item in left)
                raise SystemExit(f"{len(left)} are not ready: {said.most_common(5)}")

    async def _measure_waits(self) -> None:
        """From the first look at a child to its run. A cohort came at the same time: as many
        consecutive children of a type as may run at once."""
        worst = 0.0
        for kind in CHILDREN:
            found = [
                (pending[-1].last_transition_time, item.status.run.created_at)
                for item in await self._client.list(kind, NAMESPACE)
                if item.status.run is not None
                and (pending := [c for c in item.status.task_conditions if c.type == "Pending"])
            ]
            waits = [_seconds(*times) for times in sorted(found, key=str)]
            say(
                f"{kind.__name__} waited {statistics.median(waits):.1f} s in the median,"
                f" {max(waits):.1f} s at most"
            )
            for start in range(0, len(waits), self.limit):
                cohort = waits[start : start + self.limit]
                median, longest = statistics.median(cohort), max(cohort)
                if longest / max(median, 1.0) > worst:
                    worst = longest / max(median, 1.0)
                    self.figures.median_wait = round(median, 1)
                    self.figures.longest_wait = round(longest, 1)
        self.figures.longest_to_median = round(worst, 2)

    async def _rest(self) -> None:
        await asyncio.sleep(SETTLE_SECONDS)
        mark = self._counts()
        await asyncio.sleep(self.steady_seconds)
        counts = self._counts() - mark
        self.figures.steady_seconds = self.steady_seconds
        self.figures.steady_requests = counts.total - counts.watches
        say(f"at rest for {self.steady_seconds:g} s:\n{counts}")

    async def _restart(self) -> None:
        """A new manager, with a stub that knows none of the runs: they are all done."""
        mark = self._counts()
        await self._start_manager()
        await asyncio.sleep(SETTLE_SECONDS + self.n / 200)
        self.figures.restart_writes = (self._counts() - mark).writes
        await self._stop_manager()

    # -- the manager ---------------------------------------------------------------------------

    async def _start_manager(self) -> None:
        command = [sys.executable, "-m", "benchmarks.cloud.manager"]
        command += [str(self.environment.kubeconfig("manager")), str(self._report_path)]
        self.manager = await ChildProcess.start(
            [*command, str(self.limit)], log=self.folder / "manager.log", ready=False
        )

    async def _stop_manager(self) -> None:
        if self.manager is None:
            return
        await self.manager.stop()
        self.manager = None

    @property
    def _report_path(self) -> Path:
        return self.folder / "report.json"

    # -- what is looked at -----------------------------------------------------------------------

    @property
    def _client(self) -> Client:
        return self.environment.client("envtest")

    def _counts(self) -> Counts:
        return self.environment.proxy.log.counts().select(user="manager").without_leases()

    def _resident_mib(self) -> float:
        if self.manager is None:
            return 0.0
        for line in Path(f"/proc/{self.manager.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0


def _seconds(since: datetime | None, until: datetime | None) -> float:
    if since is None or until is None:
        return 0.0
    return max(0.0, (until - since).total_seconds())


def instance(number: int) -> Instance:
    """One of the fleet: infrastructure, a workload, an invariant."""
    request = {"url": "http://127.0.0.1:9/healthz"}
    return Instance.model_validate(
        {
            "metadata": {"name": f"src-{number:06}", "namespace": NAMESPACE},
            "spec": {
                "sourcegraphVersion": "5.2.0",
                "domain": f"i{number}.example.com",
                "infrastructure": {
                    "gcp": {
                        "zone": "us-central1-f",
                        "gke": {"blue": {"machineType": "n2-standard-8"}},
                    },
                    "terraform": {"organization": "example"},
                },
                "cluster": {"kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"}},
                "invariants": [{"name": "healthy", "check": request}],
                "invariantsPeriod": "876000h",  # none is due again while we look
                "debug": {"enableDeletionProtection": False},
            },
        }
    )


def say(text: str) -> None:
    """Progress, for people."""
    click.echo(text, err=True)


async def bench(n: int, limit: int, steady: float) -> list[str]:
    """Start everything, run, stop everything. Prints the figures; returns what does not hold."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        async with Environment("embedded-process", proxy=True, folder=folder) as environment:
            run = Bench(environment, folder, n, limit, steady)
            try:
                figures = await run.run()
            finally:
                await run._stop_manager()
    click.echo(orjson.dumps(asdict(figures)).decode())
    return run.verdict()


@click.command()
@click.option("-n", default=1000, help="Instances.")
@click.option("--limit", default=50, help="Runs of one type at once.")
@click.option("--steady", default=60.0, help="Seconds to watch the fleet at rest.")
def main(n: int, limit: int, steady: float) -> None:
    """Count what a fleet of Instances costs the API server, and see the limits hold."""
    wrong = uvloop.run(bench(n, limit, steady))
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
