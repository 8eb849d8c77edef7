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
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import orjson
import uvloop

from apis.cosmos import CosmosFullNode, FullNodePhase
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.nodes.addresses import PodNetwork
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import LogEntry, Mark
from ctrlruntime.envtest.proxy.log import LEASES
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.generate.discovery import find_kinds, load
from tests.cosmos.servers.comet import CometNodes
from tests.cosmos.servers.snapshotcrds import SNAPSHOT_CRDS

NAMESPACE = "default"
MANAGER = "manager"
"""User of the manager."""
QUIET_SECONDS = 5.0
"""Without a request, after which nothing is under way any more."""
BLOCKS_PER_SECOND = 0.2
STATUS = "cosmosfullnodes.cosmos.ctrlruntime.dev/status"


@dataclass(slots=True)
class Figures:
    """What the last line says."""

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
class Bench:
    """One run."""

    environment: Environment
    nodes: CometNodes
    folder: Path
    sets: int
    replicas: int
    minutes: float
    still_seconds: float
    figures: Figures = field(default_factory=Figures)
    manager: ChildProcess | None = None

    async def run(self) -> Figures:
        """All phases in turn. Exits with what is wrong if the sets do not become complete."""
        self.figures.sets, self.figures.nodes = self.sets, self.sets * self.replicas
        await self.environment.install_crds(*find_kinds(load(("apis.cosmos",))), *SNAPSHOT_CRDS)
        await self._start_manager()
        say(f"the manager runs; creating {self.sets} sets")
        mark, started = self.environment.proxy.log.mark(), time.monotonic()
        await self._create()
        await self._until_complete()
        self.figures.seconds = round(time.monotonic() - started, 1)
        await self._until_quiet()
        self.figures.writes = len(self._writes(self._asked(mark)))
        say(f"all complete after {self.figures.seconds} s, {self.figures.writes} writes")
        await self._advance()
        await self._stand_still()
        self.figures.rss_mib = round(self._resident_mib(), 1)
        await self._stop_manager()
        self._read_report()
        await self._restart()
        return self.figures

    def verdict(self) -> list[str]:
        """What does not hold."""
        figures = self.figures
        wrong = {
            f"{figures.status_writes_per_minute} status writes a minute for one set": (
                figures.status_writes_per_minute > 1
            ),
            f"{figures.other_writes} other writes": figures.other_writes,
            f"{figures.node_calls_in_reconcile} questions not of the cache": (
                figures.node_calls_in_reconcile
            ),
            "no node was asked": not figures.node_calls,
            f"{figures.steady_requests} requests at rest": figures.steady_requests,
            f"{figures.restart_writes} writes after a restart": figures.restart_writes,
        }
        return [text for text, holds in wrong.items() if holds]

    # -- phases ----------------------------------------------------------------------------

    async def _create(self) -> None:
        slots = asyncio.Semaphore(16)

        async def create(number: int) -> None:
            async with slots:
                await self._client.create(self._node_set(number))

        async with asyncio.TaskGroup() as group:
            for number in range(self.sets):
                group.create_task(create(number))

    async def _until_complete(self) -> None:
        end = time.monotonic() + 300 + 3 * self.sets
        while True:
            await asyncio.sleep(2)
            self._check_manager()
            found = await self._client.list(CosmosFullNode.mapping(), NAMESPACE)
            statuses = [item.get("status") or {} for item in found]
            left = [s for s in statuses if s.get("phase") != FullNodePhase.COMPLETE.value]
            if not left:
                return
            if time.monotonic() > end:
                said = Counter(f"{s.get('phase')}: {s.get('status')}" for s in left)
                raise SystemExit(f"{len(left)} are not complete: {said.most_common(5)}")

    async def _until_quiet(self) -> None:
        """Until nothing was asked for a while."""
        end, since = time.monotonic() + 300, time.monotonic()
        log = self.environment.proxy.log
        mark = log.mark()
        while time.monotonic() - since < QUIET_SECONDS:
            await asyncio.sleep(0.5)
            self._check_manager()
            if self._asked(mark):
                mark, since = log.mark(), time.monotonic()
            if time.monotonic() > end:
                raise SystemExit("the manager does not come to rest")

    async def _advance(self) -> None:
        """Blocks are made; statuses follow."""
        mark, cpu, began = self.environment.proxy.log.mark(), self._cpu(), time.monotonic()
        ends = began + 60 * self.minutes
        while time.monotonic() < ends:
            self.nodes.advance()
            await asyncio.sleep(1 / BLOCKS_PER_SECOND)
        self._check_manager()
        seconds = time.monotonic() - began
        writes = self._writes(self._asked(mark))
        statuses = Counter(entry.name for entry in writes if entry.resource == STATUS)
        most = max(statuses.values(), default=0)
        # A window of n minutes has n + 1 beginnings of a minute at most.
        self.figures.status_writes_per_minute = round(max(0, most - 1) / (seconds / 60), 2)
        self.figures.other_writes = len(writes) - statuses.total()
        self.figures.cpu_percent = round(100 * (self._cpu() - cpu) / seconds, 1)
        say(f"{statuses.total()} status writes in {seconds:.0f} s, at most {most} of one set")

    async def _stand_still(self) -> None:
        await asyncio.sleep(70)  # the last heights are told within a minute
        await self._until_quiet()
        mark = self.environment.proxy.log.mark()
        await asyncio.sleep(self.still_seconds)
        asked = [entry for entry in self._asked(mark) if entry.verb != "watch"]
        self.figures.steady_requests = len(asked)
        say(f"at rest for {self.still_seconds:g} s: {len(asked)} requests")

    async def _restart(self) -> None:
        mark = self.environment.proxy.log.mark()
        await self._start_manager()
        await asyncio.sleep(15.0 + self.sets / 10)
        self.figures.restart_writes = len(self._writes(self._asked(mark)))
        await self._stop_manager()

    # -- the manager ---------------------------------------------------------------------------

    async def _start_manager(self) -> None:
        command = [sys.executable, "-m", "benchmarks.cosmos.manager"]
        command += [str(self.environment.kubeconfig(MANAGER)), str(self._report_path)]
        self.manager = await ChildProcess.start(
            command, log=self.folder / "manager.log", ready=False
        )

    async def _stop_manager(self) -> None:
        if self.manager is not None:
            await self.manager.stop()
            self.manager = None

    def _check_manager(self) -> None:
        if self.manager is not None and self.manager.returncode is not None:
            raise SystemExit(f"the manager ended:\n{self.manager.log_tail()}")

    def _read_report(self) -> None:
        """What the manager that was stopped had counted itself."""
        report = orjson.loads(self._report_path.read_bytes())
        figures = self.figures
        figures.node_calls = self.nodes.questions
        figures.cache_questions = int(report["questions"])
        figures.node_calls_in_reconcile = max(0, figures.node_calls - figures.cache_questions)
        figures.reconcile_p99_ms = round(1000 * quantile(0.99, report["durations"]), 1)

    @property
    def _report_path(self) -> Path:
        return self.folder / "report.json"

    # -- what is looked at -----------------------------------------------------------------------

    @property
    def _client(self) -> Client:
        return self.environment.client("envtest")

    def _asked(self, mark: Mark) -> list[LogEntry]:
        found = self.environment.proxy.log.entries(mark)
        return [each for each in found if each.user == MANAGER and each.resource != LEASES]

    @staticmethod
    def _writes(entries: list[LogEntry]) -> list[LogEntry]:
        return [entry for entry in entries if entry.verb in WRITES]

    def _cpu(self) -> float:
        """Seconds of CPU that the manager has used."""
        assert self.manager is not None
        text = Path(f"/proc/{self.manager.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(text[11]) + int(text[12])) / 100

    def _resident_mib(self) -> float:
        assert self.manager is not None
        for line in Path(f"/proc/{self.manager.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

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


def say(text: str) -> None:
    """Progress, for people."""
    click.echo(text, err=True)


async def bench(sets: int, replicas: int, minutes: float, still: float) -> list[str]:
    """Start everything, run, stop everything. Prints the figures; returns what does not hold."""
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        async with (
            Environment(
                "embedded-process",
                proxy=True,
                nodes=True,
                pod_network=PodNetwork.LOOPBACK,
                folder=folder,
            ) as environment,
            CometNodes.start(environment.client("envtest")) as nodes,
        ):
            run = Bench(environment, nodes, folder, sets, replicas, minutes, still)
            try:
                figures = await run.run()
            finally:
                await run._stop_manager()
    click.echo(orjson.dumps(asdict(figures)).decode())
    return run.verdict()


@click.command()
@click.option("--sets", default=100, help="Sets of nodes.")
@click.option("--replicas", default=5, help="Nodes of each.")
@click.option("--minutes", default=4.0, help="How long blocks are made.")
@click.option("--still", default=60.0, help="Seconds to watch while nothing happens.")
def main(sets: int, replicas: int, minutes: float, still: float) -> None:
    """Count what sets of nodes cost at rest."""
    wrong = uvloop.run(bench(sets, replicas, minutes, still))
    if wrong:
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
