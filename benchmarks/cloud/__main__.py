"""`make bench-cloud N=n`: the last line is one JSON object; it fails unless what follows holds.

API server and manager are processes of their own. The manager has the options of `manager run`, but
for the limit: at most LIMIT runs of a type at once, and no limit on starts per minute. All Instances
are created at once while it runs; each has three children whose tasks take a second.

- The limit is reached and never passed. A run holds a place of its type from the record of its
  intent to that of its end; how many were held at once follows from the objects. How many really
  went on at once, each for a second, is what the provider saw: never more. No run is started twice,
  and none beside another.
- Nobody starves. Who is not started at once waits in the line of its type. A cohort are those who
  entered one line within the same second (see `benchmarks.cloud.waits`): its longest wait is at
  most twice its median. And nobody is overtaken by more than LIMIT who came later.
- At most 40 writes for each Instance. The proxy's request log counts what the manager's user asks,
  Events included, and none of them was dropped.
- At rest nothing is asked for. Invariants are enforced anew every 24 hours, at times spread over the
  fleet; what is asked for an Instance whose turn comes while we look is listed on its own.
- A manager that starts anew writes nothing.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop

from apis import cloud
from apis.cloud import Instance, InstanceInvariants, InstanceKubernetes, InstanceTerraform
from benchmarks.cloud.waits import Fairness, fairness, most_at_once, spans_of, wait_of
from benchmarks.frame import (
    MANAGER,
    NAMESPACE,
    Fleet,
    ManagerProcess,
    exit_with,
    print_figures,
    report_progress,
    violated,
    writes_of,
)
from ctrlruntime.api import parse_time
from ctrlruntime.envtest import Environment
from ctrlruntime.events.recorder import EVENT
from ctrlruntime.generate.discovery import find_kinds, load

QUIET_SECONDS = 3.0
"""Without a request, after which nothing is under way any more."""
CHILDREN = (InstanceTerraform, InstanceKubernetes, InstanceInvariants)


@dataclass(slots=True)
class CloudFigures:
    """The last line."""

    n: int = 0
    seconds: float = 0.0
    """From the first Instance that is created until all are ready."""
    writes_per_instance: float = 0.0
    max_running: int = 0
    """Most runs of one type at once, as recorded."""
    max_live: int = 0
    """Most that went on at once: depends on how fast this machine starts runs of one second."""
    duplicate_runs: int = 0
    queued: int = 0
    """Runs that waited for their turn."""
    median_wait: float = 0.0
    longest_wait: float = 0.0
    """Seconds, in the line with the longest waits."""
    longest_to_median: float = 0.0
    """Of the cohort where that is most."""
    overtakers: int = 0
    events_dropped: int = 0
    steady_seconds: float = 0.0
    steady_requests: int = 0
    """Without watches that are opened anew, and without what follows."""
    steady_watches: int = 0
    due_runs: int = 0
    """Periodic runs that came due while the fleet was idle."""
    due_requests: int = 0
    restart_writes: int = 0
    rss_mib: float = 0.0


@dataclass(slots=True)
class CloudBench(Fleet):
    """One run. The manager writes its own counts to `report_path` when it is stopped."""

    report_path: Path
    n: int
    limit: int
    steady_seconds: float
    figures: CloudFigures = field(default_factory=CloudFigures)
    report: dict[str, Any] = field(default_factory=dict)

    async def run(self) -> CloudFigures:
        """All phases in turn. Exits with what is wrong if the fleet does not become ready."""
        self.figures.n = self.n
        await self.environment.install_crds(*find_kinds(load(("apis.cloud",))))
        await self.manager.start()
        await self.wait_until_quiet(QUIET_SECONDS, limit=120.0 + self.n, after_watches=True)
        report_progress(f"the manager runs; creating {self.n} instances")
        mark, started = self.counts(), time.monotonic()
        await self.create([instance(number) for number in range(self.n)], at_once=32)
        await self.wait_until_done(self._not_ready, limit=120.0 + self.n, every=1 + self.n / 500)
        self.figures.seconds = round(time.monotonic() - started, 1)
        report_progress(f"all ready after {self.figures.seconds} s")
        await self.wait_until_quiet(QUIET_SECONDS, limit=120.0 + self.n)
        counts = self.counts() - mark
        self.figures.writes_per_instance = round(counts.writes / self.n, 2)
        report_progress(str(counts))
        await self._measure_waits()
        await self._stay_idle()
        self.figures.rss_mib = self.manager.resident_mib()
        await self.manager.stop()
        self._read_report()
        await self._restart()
        return self.figures

    def violations(self) -> list[str]:
        """The bounds that do not hold."""
        figures, expected = self.figures, min(self.limit, self.n)
        due = self.report["runs"] - self.report["owners"]
        bounds: dict[str, object] = {
            f"{figures.max_running} ran at once, not {expected}": figures.max_running != expected,
            f"{figures.max_live} went on at once": figures.max_live > self.limit,
            f"{figures.duplicate_runs} runs were started twice": figures.duplicate_runs,
            f"{self.report['owners']} objects had runs, not {self.n * len(CHILDREN)}": (
                self.report["owners"] != self.n * len(CHILDREN)
            ),
            f"{due} objects had another run, more than are due in an hour": due > 1 + self.n / 24,
            f"{figures.writes_per_instance} writes for each instance": (
                figures.writes_per_instance > 40
            ),
            f"{figures.events_dropped} events were dropped": figures.events_dropped,
            "no run waited": self.n > 2 * self.limit and not figures.queued,
            f"the longest wait is {figures.longest_to_median} times the median": (
                figures.longest_to_median > 2
            ),
            f"{figures.overtakers} overtook another": figures.overtakers > self.limit,
            f"{figures.steady_requests} requests while idle": figures.steady_requests,
            f"{figures.restart_writes} writes after a restart": figures.restart_writes,
        }
        return violated(bounds)

    # -- phases ----------------------------------------------------------------------------

    async def _not_ready(self) -> list[tuple[str, int]]:
        found = await self.client.list(Instance.mapping(), NAMESPACE)
        left = [item for item in found if _phase(item) != cloud.Phase.READY.value]
        return Counter(f"{_phase(item)}: {_message(item)}" for item in left).most_common(5)

    async def _measure_waits(self) -> None:
        lines: list[Fairness] = []
        for kind in CHILDREN:
            objects = await self.client.list(kind, NAMESPACE)
            line = fairness(wait for item in objects if (wait := wait_of(item.status)))
            most = most_at_once(span for item in objects for span in spans_of(item.status))
            self.figures.max_running = max(self.figures.max_running, most)
            report_progress(f"{kind.__name__}: at most {most} at once, {line}")
            lines.append(line)
        worst, figures = max(lines, key=lambda line: line.longest), self.figures
        figures.queued = sum(line.queued for line in lines)
        figures.median_wait = round(worst.median, 1)
        figures.longest_wait = round(worst.longest, 1)
        figures.longest_to_median = round(max(line.longest_to_median for line in lines), 2)
        figures.overtakers = max(line.overtakers for line in lines)

    async def _stay_idle(self) -> None:
        figures, since, mark = self.figures, datetime.now(UTC), self.log.mark()
        await asyncio.sleep(self.steady_seconds)
        asked = self.requests(mark)
        due = await self._due(since)
        watches = [entry for entry in asked if entry.verb == "watch"]
        others = [entry for entry in asked if entry.verb != "watch"]
        periodic = len([entry for entry in others if entry.name in due])
        periodic += await self._events(since, due)
        figures.steady_seconds, figures.due_runs = self.steady_seconds, len(due)
        figures.steady_watches, figures.due_requests = len(watches), periodic
        figures.steady_requests = len(others) - periodic
        report_progress(
            f"idle for {self.steady_seconds:g} s: {len(others)} requests, {len(due)} runs due"
        )

    async def _due(self, since: datetime) -> set[str]:
        """Names of instances whose invariants were enforced anew after `since`."""
        found = await self.client.list(InstanceInvariants, NAMESPACE)
        runs = [(item.metadata.name, item.status.run) for item in found]
        return {
            name
            for name, run in runs
            if run and (run.finished_at is None or run.finished_at > since)
        }

    async def _events(self, since: datetime, names: Collection[str]) -> int:
        """How many events about these instances were recorded after `since`, for the first time or again."""
        listed = await self.client.list(EVENT, NAMESPACE) if names else []
        observed = ((item["regarding"]["name"], _last_observed(item)) for item in listed)
        return sum(name in names and at > since for name, at in observed)

    async def _restart(self) -> None:
        """A new manager, with a stub that knows none of the runs: they are all done."""
        since, mark = datetime.now(UTC), self.log.mark()
        await self.manager.start()
        await asyncio.sleep(10.0 + self.n / 200)
        writes = writes_of(self.requests(mark))
        due = await self._due(since)
        await self.manager.stop()
        self.figures.restart_writes = sum(
            entry.name not in due for entry in writes
        ) - await self._events(since, due)

    def _read_report(self) -> None:
        """What the stub of the manager that was stopped saw."""
        self.report = orjson.loads(self.report_path.read_bytes())
        self.figures.max_live = max(self.report["most_live"].values())
        self.figures.duplicate_runs = self.report["duplicates"]
        self.figures.events_dropped = self.report["events_dropped"]
        report_progress(f"went on at once: {self.report['most_live']}, runs: {self.report['runs']}")


def _phase(manifest: dict[str, Any]) -> str:
    return str(manifest.get("status", {}).get("phase", ""))


def _last_observed(event: dict[str, Any]) -> datetime:
    series = event.get("series") or {}
    return parse_time(series.get("lastObservedTime") or event["eventTime"])


def _message(manifest: dict[str, Any]) -> str:
    return str(manifest.get("status", {}).get("message", ""))


def instance(number: int) -> Instance:
    """One of the fleet: infrastructure, a workload, an invariant."""
    request = {"url": "http://127.0.0.1:9/healthz"}
    return Instance.model_validate(
        {
            "metadata": {"name": f"src-{number:06}", "namespace": NAMESPACE},
            "spec": {
                "version": "5.2.0",
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
                "debug": {"enableDeletionProtection": False},
            },
        }
    )


async def bench(n: int, limit: int, steady: float) -> list[str]:
    """Start everything, run, stop everything. Prints the figures; returns the bounds that do not hold."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        async with Environment("embedded-process", proxy=True, folder=folder) as environment:
            report, kubeconfig = folder / "report.json", environment.kubeconfig(MANAGER)
            command = ["-m", "benchmarks.cloud.manager", str(kubeconfig), str(report), str(limit)]
            manager = ManagerProcess(folder, command)
            run = CloudBench(environment, manager, report, n, limit, steady)
            try:
                print_figures(await run.run())
            finally:
                await manager.stop()
    return run.violations()


@click.command()
@click.option("-n", default=1000, help="Instances.")
@click.option("--limit", default=50, help="Runs of one type at once.")
@click.option("--steady", default=60.0, help="Seconds to watch the fleet at rest.")
def main(n: int, limit: int, steady: float) -> None:
    """Count what a fleet of Instances costs the API server, and see the limits hold."""
    exit_with(uvloop.run(bench(n, limit, steady)))


if __name__ == "__main__":
    main()
