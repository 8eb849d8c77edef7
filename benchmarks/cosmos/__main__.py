"""`make bench-cosmos`: the last line is one JSON object; it fails unless what follows holds.

API server, simulated nodes and manager are processes of their own; the nodes' RPC and disks are one
server in this process, which counts what it is asked. The proxy's log counts what the manager asks.

- While heights advance the manager writes statuses only, at most one a minute for each set.
- While nothing advances it asks the API server for nothing.
- A reconcile asks no node and no disk: what these servers were asked is what the cache asked.
- A manager that starts anew writes nothing.
"""

import asyncio
import math
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click
import orjson
import uvloop

from apis.cosmos import CosmosFullNode, FullNodePhase
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
from ctrlruntime.envtest import Environment
from ctrlruntime.generate.discovery import find_kinds, load
from tests.cosmos.servers.comet import CometNodes
from tests.cosmos.servers.snapshotcrds import SNAPSHOT_CRDS

QUIET_SECONDS = 5.0
"""Without a request, after which nothing is under way any more."""
BLOCKS_PER_SECOND = 0.2
STATUS = "cosmosfullnodes.cosmos.ctrlruntime.dev/status"


@dataclass(slots=True)
class CosmosFigures:
    """The last line."""

    sets: int = 0
    nodes: int = 0
    seconds: float = 0.0
    """From the first set that is created until all are complete."""
    writes: int = 0
    """Until then."""
    status_writes_per_minute: float = 0.0
    """Most of one set, while heights advance."""
    other_writes: int = 0
    """While heights advance: anything but those statuses."""
    reconcile_p99_ms: float = 0.0
    node_calls: int = 0
    cache_questions: int = 0
    """What the cache asked; some of it before nodes could be reached."""
    node_calls_in_reconcile: int = 0
    """What nodes and disks were asked beyond that."""
    steady_requests: int = 0
    """While nothing advances; without watches that are opened anew."""
    restart_writes: int = 0
    cpu_percent: float = 0.0
    """Of one core, of the manager while heights advance."""
    rss_mib: float = 0.0


@dataclass(slots=True)
class CosmosBench(Fleet):
    """One run. The manager writes its own counts to `report` when it is stopped."""

    nodes: CometNodes
    report: Path
    sets: int
    replicas: int
    minutes: float
    still_seconds: float
    figures: CosmosFigures = field(default_factory=CosmosFigures)

    async def run(self) -> CosmosFigures:
        """All phases in turn. Exits with what is wrong if the sets do not become complete."""
        self.figures.sets, self.figures.nodes = self.sets, self.sets * self.replicas
        await self.environment.install_crds(*find_kinds(load(("apis.cosmos",))), *SNAPSHOT_CRDS)
        await self.manager.start()
        report_progress(f"the manager runs; creating {self.sets} sets")
        mark, started = self.log.mark(), time.monotonic()
        await self.create([self._node_set(number) for number in range(self.sets)])
        limit = 300.0 + 3 * self.sets
        await self.wait_until_done(self._incomplete, limit=limit, every=2)
        self.figures.seconds = round(time.monotonic() - started, 1)
        await self.wait_until_quiet(QUIET_SECONDS, limit=300)
        self.figures.writes = len(writes_of(self.requests(mark)))
        report_progress(
            f"all complete after {self.figures.seconds} s, {self.figures.writes} writes"
        )
        await self._advance()
        await self._stay_idle()
        self.figures.rss_mib = self.manager.resident_mib()
        await self.manager.stop()
        self._read_report()
        await self._restart()
        return self.figures

    def violations(self) -> list[str]:
        """The bounds that do not hold."""
        figures = self.figures
        bounds: dict[str, object] = {
            f"{figures.status_writes_per_minute} status writes a minute for one set": (
                figures.status_writes_per_minute > 1
            ),
            f"{figures.other_writes} other writes": figures.other_writes,
            f"{figures.node_calls_in_reconcile} questions not of the cache": (
                figures.node_calls_in_reconcile
            ),
            "no node was asked": not figures.node_calls,
            f"{figures.steady_requests} requests while idle": figures.steady_requests,
            f"{figures.restart_writes} writes after a restart": figures.restart_writes,
        }
        return violated(bounds)

    # -- phases ----------------------------------------------------------------------------

    async def _incomplete(self) -> list[tuple[str, int]]:
        found = await self.client.list(CosmosFullNode.mapping(), NAMESPACE)
        statuses = [item.get("status") or {} for item in found]
        left = [s for s in statuses if s.get("phase") != FullNodePhase.COMPLETE.value]
        return Counter(f"{s.get('phase')}: {s.get('status')}" for s in left).most_common(5)

    async def _advance(self) -> None:
        """Blocks are made; statuses follow."""
        mark, cpu, began = self.log.mark(), self.manager.cpu_seconds(), time.monotonic()
        ends = began + 60 * self.minutes
        while time.monotonic() < ends:
            self.nodes.advance()
            await asyncio.sleep(1 / BLOCKS_PER_SECOND)
        self.manager.check()
        seconds = time.monotonic() - began
        writes = writes_of(self.requests(mark))
        statuses = Counter(entry.name for entry in writes if entry.resource == STATUS)
        most = max(statuses.values(), default=0)
        # A window of n minutes has n + 1 beginnings of a minute at most.
        self.figures.status_writes_per_minute = round(max(0, most - 1) / (seconds / 60), 2)
        self.figures.other_writes = len(writes) - statuses.total()
        self.figures.cpu_percent = round(100 * (self.manager.cpu_seconds() - cpu) / seconds, 1)
        report_progress(
            f"{statuses.total()} status writes in {seconds:.0f} s, at most {most} of one set"
        )

    async def _stay_idle(self) -> None:
        await asyncio.sleep(70)  # the last heights are reported within a minute
        await self.wait_until_quiet(QUIET_SECONDS, limit=300)
        mark = self.log.mark()
        await asyncio.sleep(self.still_seconds)
        asked = [entry for entry in self.requests(mark) if entry.verb != "watch"]
        self.figures.steady_requests = len(asked)
        report_progress(f"idle for {self.still_seconds:g} s: {len(asked)} requests")

    async def _restart(self) -> None:
        mark = self.log.mark()
        await self.manager.start()
        await asyncio.sleep(15.0 + self.sets / 10)
        self.figures.restart_writes = len(writes_of(self.requests(mark)))
        await self.manager.stop()

    def _read_report(self) -> None:
        """What the manager that was stopped had counted itself."""
        report = orjson.loads(self.report.read_bytes())
        figures = self.figures
        figures.node_calls = self.nodes.questions
        figures.cache_questions = int(report["questions"])
        figures.node_calls_in_reconcile = max(0, figures.node_calls - figures.cache_questions)
        figures.reconcile_p99_ms = round(1000 * quantile(0.99, report["durations"]), 1)

    def _node_set(self, number: int) -> CosmosFullNode:
        port = {"name": "health", "containerPort": self.nodes.port}
        containers = [{"name": "healthcheck", "ports": [{"$patch": "replace"}, port]}]
        return CosmosFullNode.model_validate(
            {
                "metadata": {"name": f"chain-{number:04}", "namespace": NAMESPACE},
                "spec": {
                    "replicas": self.replicas,
                    "chain": {
                        "chainID": "chain-1",
                        "network": "testnet",
                        "binary": "chaind",
                        "config": {"rpcListenAddress": f"tcp://0.0.0.0:{self.nodes.port}"},
                        "app": {"minGasPrice": "0.1stake"},
                    },
                    "podTemplate": {
                        "image": "example.com/chain:v1",
                        "sidecarImage": "example.com/sidecar:v1",
                        "containers": containers,
                    },
                    "volumeClaimTemplate": {
                        "storageClassName": "standard",
                        "resources": {"requests": {"storage": "10Gi"}},
                    },
                    "service": {"maxP2PExternalAddresses": 0},
                    "selfHeal": {
                        "pvcAutoScale": {"usedSpacePercentage": 80, "increaseQuantity": "20%"},
                        "heightDriftMitigation": {"threshold": 100},
                    },
                },
            }
        )


def quantile(share: float, cumulative: dict[str, float]) -> float:
    """The quantile of a histogram in seconds, as `histogram_quantile` of PromQL has it."""
    counts = sorted((float(bound), count) for bound, count in cumulative.items())
    if not counts or not counts[-1][1]:
        return 0.0
    rank, below, floor = share * counts[-1][1], 0.0, 0.0
    for bound, count in counts:
        if count >= rank:
            if math.isinf(bound):
                return floor
            return floor + (bound - floor) * (rank - below) / max(count - below, 1.0)
        below, floor = count, bound
    return floor


async def bench(sets: int, replicas: int, minutes: float, still: float) -> list[str]:
    """Start everything, run, stop everything. Prints the figures; returns the bounds that do not hold."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        async with (
            Environment(
                "embedded-process",
                proxy=True,
                nodes=True,
                folder=folder,
            ) as environment,
            CometNodes.start(environment.client("envtest")) as nodes,
        ):
            report, kubeconfig = folder / "report.json", environment.kubeconfig(MANAGER)
            command = ["-m", "benchmarks.cosmos.manager", str(kubeconfig), str(report)]
            manager = ManagerProcess(folder, command)
            run = CosmosBench(environment, manager, nodes, report, sets, replicas, minutes, still)
            try:
                print_figures(await run.run())
            finally:
                await manager.stop()
    return run.violations()


@click.command()
@click.option("--sets", default=100, help="Sets of nodes.")
@click.option("--replicas", default=5, help="Nodes of each.")
@click.option("--minutes", default=4.0, help="How long blocks are made.")
@click.option("--still", default=60.0, help="Seconds to watch while nothing happens.")
def main(sets: int, replicas: int, minutes: float, still: float) -> None:
    """Count what sets of nodes cost at rest."""
    exit_with(uvloop.run(bench(sets, replicas, minutes, still)))


if __name__ == "__main__":
    main()
