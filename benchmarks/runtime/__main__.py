"""`make bench-runtime BACKEND=... N=... [WORKERS=...] [BASE=commit|none] [PEER=kopf]`.

What the work costs, and what a restart does. API server, controller and this load are processes of
their own. The widgets are there before the controller starts; it is done when a watch of the benchmark
has seen the last of them ready. The same is done by the code of an earlier commit, in turns on the same server,
and with a peer by that too, each on widgets of its own. The last line is one JSON object; the exit
code says whether the figures keep their bounds.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import aiohttp
import click
import orjson
import uvloop
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import base_code
from benchmarks.frame import cpu_seconds, report_progress, resident_mib
from benchmarks.runtime.bounds import exceeded
from benchmarks.runtime.first_reconcile import CPU_SECONDS, SECONDS
from benchmarks.runtime.imports import import_cpu_seconds
from benchmarks.runtime.peer import adapter_command, kopf_command, kopf_environment
from benchmarks.runtime.target import Target, target
from benchmarks.runtime.widget import Widget, widget, widget_definition
from benchmarks.runtime.witness import Witness
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.process import ChildProcess

LOADERS = 16
OURS = "ctrlruntime"
BASE = "base"
ADAPTER = "adapter"
"""The handler of the peer kopf on ctrlruntime.kopf."""
QUIET = 2.0
"""Nothing may change for so long before writes are counted."""


@dataclass(slots=True)
class RunFigures:
    """The last line. Processor time and memory are the controller's, at the end of its work."""

    n: int
    seconds: float = 0.0
    writes: int = 0
    conflicts: int = 0
    cpu_seconds: float = 0.0
    rss_mib: float = 0.0
    p99_queue_seconds: float = 0.0
    restart_writes: int = 0
    first_reconcile_seconds: float = 0.0
    """From the start of the process that finds the widgets; 0 for code that does not count it."""
    first_reconcile_cpu_seconds: float = 0.0
    restart_first_reconcile_seconds: float = 0.0
    """The same where the ConfigMaps are there as well."""
    restart_first_reconcile_cpu_seconds: float = 0.0


@dataclass(slots=True)
class Round:
    """One controller on widgets of its own."""

    target: Target
    namespace: str
    count: int
    workers: int
    code: Path | None = None
    """The tree whose controller runs; None is this one."""

    @property
    def patience(self) -> float:
        return 120 + self.count * 0.5

    async def load(self) -> None:
        """Create the widgets."""
        metadata = {"name": self.namespace}
        client = self.target.client
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        numbers = iter(range(self.count))

        async def create() -> None:
            for number in numbers:
                await client.create(widget(self.namespace, number), kind=Widget.mapping())

        await asyncio.gather(*(create() for _ in range(LOADERS)))

    async def remove(self) -> None:
        """Delete the namespace; what it holds goes in its own time."""
        await self.target.client.delete(_NAMESPACE, self.namespace)

    async def controller(self) -> ChildProcess:
        command = [sys.executable, "-m", "benchmarks.runtime.controller"]
        command += ["--kubeconfig", str(self.target.kubeconfig), "--namespace", self.namespace]
        command += ["--workers", str(self.workers)]
        log = self.target.folder / f"{self.namespace}.log"
        if self.code is None:
            return await ChildProcess.start(command, log=log)
        environment = base_code.environment(self.code)
        return await ChildProcess.start(command, log=log, cwd=self.code, env=environment)

    async def kopf(self, *, adapter: bool) -> ChildProcess:
        command = adapter_command if adapter else kopf_command
        return await ChildProcess.start(
            command(self.namespace),
            env=kopf_environment(self.target.kubeconfig, self.workers),
            log=self.target.folder / ("adapter.log" if adapter else "kopf.log"),
            ready=False,
        )

    async def measure(self, witness: Witness, figures: RunFigures) -> None:
        """A controller's figures: the work, then a restart with nothing left to do."""
        before = await self.target.counts()
        started = time.monotonic()
        process = await self.controller()
        try:
            await self._converge(process, witness, figures, started)
            metrics = await scrape(process)
            figures.p99_queue_seconds = round(queue_percentile(metrics, 0.99), 3)
            figures.first_reconcile_seconds = round(total(metrics, SECONDS), 2)
            figures.first_reconcile_cpu_seconds = round(total(metrics, CPU_SECONDS), 2)
            await witness.quiet(QUIET)
            counts = await self.target.counts() - before
            figures.writes, figures.conflicts = counts.writes, counts.conflicts
            check_log(process)
            await process.stop()
            before = await self.target.counts()
            process = await self.controller()
            await self._at_rest(process)
            metrics = await scrape(process)
            figures.restart_first_reconcile_seconds = round(total(metrics, SECONDS), 2)
            figures.restart_first_reconcile_cpu_seconds = round(total(metrics, CPU_SECONDS), 2)
            await witness.quiet(QUIET)
            figures.restart_writes = (await self.target.counts() - before).writes
        finally:
            await process.stop()

    async def measure_peer(self, witness: Witness, figures: RunFigures, *, adapter: bool) -> None:
        before = await self.target.counts()
        started = time.monotonic()
        process = await self.kopf(adapter=adapter)
        try:
            await self._converge(process, witness, figures, started)
            await witness.quiet(2 * QUIET)
            counts = await self.target.counts() - before
            figures.writes, figures.conflicts = counts.writes, counts.conflicts
        finally:
            await process.stop()

    async def kill(self, witness: Witness) -> None:
        """SIGKILL in the middle of the work, and a new start that ends it."""
        process = await self.controller()
        async with asyncio.timeout(self.patience):
            while len(witness.ready) < self.count // 2:  # noqa: ASYNC110 - a watch fills it
                await asyncio.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        process = await self.controller()
        try:
            await witness.converged(self.count, self.patience)
            await self._at_rest(process)
            await witness.quiet(QUIET)
        finally:
            await process.stop()

    async def _converge(
        self, process: ChildProcess, witness: Witness, figures: RunFigures, started: float
    ) -> None:
        waiting = asyncio.create_task(witness.converged(self.count, self.patience))
        ended = asyncio.create_task(process.wait())
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if not waiting.done():
                raise SystemExit(f"the controller ended:\n{process.log_tail()}")
            figures.seconds = round(await waiting - started, 2)
            figures.cpu_seconds = round(cpu_seconds(process.pid), 2)
            figures.rss_mib = round(resident_mib(process.pid), 1)
        except TimeoutError:
            raise SystemExit(
                f"{len(witness.ready)} of {self.count} ready:\n{process.log_tail()}"
            ) from None
        finally:
            waiting.cancel()
            ended.cancel()

    async def _at_rest(self, process: ChildProcess) -> None:
        """Until a controller has looked at every widget and has nothing more to do."""
        async with asyncio.timeout(self.patience):
            while True:
                metrics = await scrape(process)
                done = total(metrics, "controller_runtime_reconcile_total")
                waiting = total(metrics, "workqueue_depth")
                busy = total(metrics, "controller_runtime_active_workers")
                if done >= self.count and waiting == busy == 0:
                    return
                await asyncio.sleep(0.2)


_NAMESPACE = Widget.gvk().parse("v1", "Namespace")
Metrics = list[tuple[str, dict[str, str], float]]


async def scrape(process: ChildProcess) -> Metrics:
    """The controller's own metrics."""
    url = f"http://127.0.0.1:{process.facts['metrics']}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        text = await response.text()
    families = text_string_to_metric_families(text)
    return [(s.name, s.labels, s.value) for family in families for s in family.samples]


def total(metrics: Metrics, name: str) -> float:
    return sum(value for found, _, value in metrics if found == name)


def queue_percentile(metrics: Metrics, share: float) -> float:
    """The bucket's upper bound that `share` of the waits in the work queue stay below."""
    name = "workqueue_queue_duration_seconds_bucket"
    buckets = sorted(
        (float(labels["le"]), value) for found, labels, value in metrics if found == name
    )
    wanted = share * buckets[-1][1] if buckets else 0
    return next((bound for bound, count in buckets if count >= wanted), 0.0)


def check_log(process: ChildProcess) -> None:
    """A reconcile that failed and was tried again would show in no other figure."""
    if "Reconciler error" in (text := process.log.read_text(errors="replace")):
        raise SystemExit(f"reconciles failed:\n{text[:3000]}")


async def bench(
    at: Target,
    count: int,
    workers: int,
    *,
    peer: str = "",
    base: Path | None = None,
    turns: int = 1,
) -> dict[str, Any]:
    """The figures; with a base or a peer, theirs and the ratios too.

    On a cluster of other users' as well, their writes of ConfigMaps are counted with ours.
    """
    await install_crds(at.client, (widget_definition(),))
    stamp = f"{int(time.time()):x}"
    rounds: list[Round] = []
    found: dict[str, list[RunFigures]] = {}
    for turn, who in enumerate(order(peer, base is not None, turns)):
        code = base if who == BASE else None
        current = Round(at, f"bench-{who}-{stamp}-{turn}", count, workers, code)
        rounds.append(current)
        report_progress(f"{who}: {count} widgets")
        figures = await measured(current, peer=who if who in (peer, ADAPTER) else "")
        found.setdefault(who, []).append(figures)
        report_progress(orjson.dumps(asdict(figures)).decode())
    for current in rounds:  # not before: what a garbage collector deletes would be counted
        await current.remove()
    line = asdict(summary(found[OURS]))
    line["import_cpu_seconds"] = round(import_cpu_seconds(), 3)
    if BASE in found:
        line |= compared_to_base(line, asdict(summary(found[BASE])))
    if peer:
        line |= compared(line, asdict(summary(found[peer])), peer)
        line |= adapted(asdict(summary(found[ADAPTER])), asdict(summary(found[peer])))
    return line


def order(peer: str, base: bool, turns: int) -> list[str]:
    """Who runs when: base and own code in turns, the first one changing; the peer at the end, once."""
    pair = [BASE, OURS] if base else [OURS]
    found = [who for turn in range(turns) for who in (pair[::-1] if turn % 2 else pair)]
    return [*found, ADAPTER, peer] if peer else found


async def measured(current: Round, *, peer: str) -> RunFigures:
    figures = RunFigures(current.count)
    await current.load()
    async with Witness(current.target.client, current.namespace) as witness:
        if peer:
            await current.measure_peer(witness, figures, adapter=peer == ADAPTER)
        else:
            await current.measure(witness, figures)
    return figures


def summary(found: list[RunFigures]) -> RunFigures:
    """Of several turns: the least of all times, which others disturbed least, but of waits in the queue; the most of all else."""
    most = RunFigures(
        **{
            field.name: max(getattr(each, field.name) for each in found)
            for field in fields(RunFigures)
        }
    )
    times = [
        field.name
        for field in fields(RunFigures)
        if field.name.endswith("seconds") and field.name != "p99_queue_seconds"
    ]
    return replace(most, **{name: min(getattr(each, name) for each in found) for name in times})


def compared_to_base(own: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """The base's figures, and what share of its processor time ours is."""
    found: dict[str, Any] = {
        f"base_{key}": base[key] for key in ("cpu_seconds", "rss_mib", "writes")
    }
    found["cpu_ratio_to_base"] = round(own["cpu_seconds"] / base["cpu_seconds"], 3)
    return found


def compared(own: dict[str, Any], other: dict[str, Any], peer: str) -> dict[str, Any]:
    """The peer's figures, and how many times ours they are."""
    keys = ("seconds", "writes", "conflicts", "cpu_seconds", "rss_mib")
    found: dict[str, Any] = {"peer": peer} | {f"peer_{key}": other[key] for key in keys}
    for key in ("seconds", "writes", "cpu_seconds"):
        found[f"{key}_ratio"] = round(other[key] / own[key], 2) if own[key] else 0.0
    return found


def adapted(adapter: dict[str, Any], peer: dict[str, Any]) -> dict[str, Any]:
    """The figures of the peer's handler on the adapter, and what share of the peer's they are."""
    keys = ("seconds", "writes", "cpu_seconds", "rss_mib")
    found: dict[str, Any] = {f"{ADAPTER}_{key}": adapter[key] for key in keys}
    for key in ("writes", "cpu_seconds"):
        found[f"{ADAPTER}_{key}_to_peer"] = round(adapter[key] / peer[key], 3)
    return found


class Options(TypedDict):
    count: int
    workers: int
    turns: int
    peer: str


async def run(backend: str, base: Path | None, **options: Unpack[Options]) -> dict[str, Any]:
    async with target(backend) as at:
        return await bench(at, base=base, **options)


@click.command()
@click.option("--backend", default="embedded", help="embedded, kube-apiserver, or a kubeconfig.")
@click.option("-n", "--widgets", "count", default=5000)
@click.option("--workers", default=10)
@click.option("--base", default="none", help="A commit to compare processor time with, or none.")
@click.option("--turns", default=1, help="How often each of the two runs.")
@click.option("--peer", type=click.Choice(["", "kopf"]), default="")
def main(backend: str, base: str, **options: Unpack[Options]) -> None:
    """Reconcile widgets, and count what that costs. Fails if a figure exceeds its bound."""
    code = None if base in ("", "none") else base_code.exported(base)
    for folder in filter(None, (base_code.REPOSITORY, code)):
        base_code.compile_code(folder)
    line = uvloop.run(run(backend, base=code, **options))
    click.echo(orjson.dumps(line).decode())
    if wrong := exceeded(line):
        raise SystemExit("; ".join(wrong))


if __name__ == "__main__":
    main()
