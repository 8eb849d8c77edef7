"""The command line of simulated nodes as a process of their own: `python -m ctrlruntime.envtest.nodes`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from ctrlruntime.client.config import Config
from ctrlruntime.envtest.kubeconfig import is_marked
from ctrlruntime.envtest.nodes.cluster import NodeOptions
from ctrlruntime.envtest.nodes.program import SimulatedNodes
from ctrlruntime.envtest.process import report_ready
from ctrlruntime.manager import run


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of the command line."""

    kubeconfig: Path
    pods: bool
    start_delay: float
    run_local: bool
    workers: int
    namespace: tuple[str, ...]
    ready: str | None


async def serve(settings: Settings) -> None:
    """Run the nodes until cancelled, which `run` does at SIGTERM and SIGINT."""
    config = await Config.load(settings.kubeconfig)
    if settings.run_local and not is_marked(settings.kubeconfig, config.host):
        raise click.UsageError(
            f"--run-local: {config.host} was not started by the test environment that wrote "
            f"{settings.kubeconfig}. Commands of Pods are run only for such servers."
        )
    options = NodeOptions(
        pods=settings.pods,
        start_delay=settings.start_delay,
        run_local=settings.run_local,
        workers=settings.workers,
        namespaces=settings.namespace or None,
    )
    nodes = SimulatedNodes(config, options, kubeconfig=settings.kubeconfig)
    async with nodes.running():
        report_ready(settings.ready, {"ready": True})
        click.echo(f"simulated nodes run on {config.host}")
        await nodes.manager.stopped.wait()


@click.command(context_settings={"show_default": True})
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="How to reach the API server.",
)
@click.option("--pods/--no-pods", default=True, help="Make ReplicaSets and Pods for workloads.")
@click.option("--start-delay", default=0.0, help="Seconds a Pod stays Pending.")
@click.option("--run-local", is_flag=True, help="Run commands of Pods annotated for it, here.")
@click.option("--workers", default=4, help="Concurrent reconciles of each kind.")
@click.option("--namespace", multiple=True, help="Look after this one only. Repeatable.")
@click.option("--ready", help="File that gets one line of JSON once everything is watched.")
def main(**options: object) -> None:
    """Run simulated nodes: workloads progress, only annotated Pods really run."""
    run(serve(msgspec.convert(options, Settings)))
