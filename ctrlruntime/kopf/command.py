"""``ctrlruntime kopf run FILE``: handlers from files, as `kopf run` starts them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ctrlruntime.client.config import Config
from ctrlruntime.kopf.errors import NotOffered
from ctrlruntime.kopf.logs import configure
from ctrlruntime.kopf.operator import operator
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.manager import run as run_loop

__all__ = ["kopf", "load"]


@click.group()
def kopf() -> None:
    """Run kopf's handlers on this runtime."""


@kopf.command(context_settings={"show_default": True})
@click.argument("paths", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-m", "--module", "modules", multiple=True, help="A module with handlers.")
@click.option("-n", "--namespace", "namespaces", multiple=True, help="Where to watch.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Watch everywhere; as without -n.")
@click.option("--name", default="kopf", help="Names the operator: its records and its Lease.")
@click.option("--leader-election/--standalone", default=False, help="One of several at a time.")
@click.option("--lease-namespace", default="", help="Of Lease and records. Default: the Pod's own.")
@click.option("-L", "--liveness", default="0", help="Address of /healthz, as :8080.")
@click.option("--metrics", default="0", help="Address of /metrics and of /probes.")
@click.option("--kubeconfig", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-q", "--quiet", is_flag=True, help="Warnings and errors alone.")
@click.option("-v", "--verbose", is_flag=True, help="Debugging lines too.")
@click.option("--peering", "-P", hidden=True)
@click.option("--priority", "-p", hidden=True)
def run(
    *,
    paths: Sequence[Path],
    modules: Sequence[str],
    namespaces: Sequence[str],
    all_namespaces: bool,
    name: str,
    leader_election: bool,
    lease_namespace: str,
    liveness: str,
    metrics: str,
    kubeconfig: Path | None,
    quiet: bool,
    verbose: bool,
    peering: str | None,
    priority: str | None,
) -> None:
    """Run the handlers of files and modules until stopped."""
    if peering or priority:
        raise click.UsageError(str(NotOffered("there is no peering: use --leader-election")))
    if not paths and not modules:
        raise click.UsageError("name a file with handlers, as: ctrlruntime kopf run handlers.py")
    configure(verbose=verbose, quiet=quiet)
    load(paths, modules)
    options = ManagerOptions(
        name=name,
        namespaces=None if all_namespaces else tuple(namespaces) or None,
        leader_election=leader_election,
        leader_election_id=f"{name}-operator" if leader_election else "",
        leader_election_namespace=lease_namespace,
        health_bind_address=liveness,
        metrics_bind_address=metrics,
    )
    run_loop(_run(kubeconfig, options))


async def _run(kubeconfig: Path | None, options: ManagerOptions) -> None:
    await operator(config=await Config.load(kubeconfig), options=options)


def load(paths: Sequence[Path], modules: Sequence[str] = ()) -> None:
    """Import files and modules, whose decorators fill the default registry. Raises what they raise.

    What they import as `kopf` is this package, unless `kopf` was imported before.
    """
    package = importlib.import_module("ctrlruntime.kopf")
    sys.modules.setdefault("kopf", package)
    sys.modules.setdefault("kopf.on", package.on)
    sys.path.insert(0, "")
    for module in modules:
        importlib.import_module(module)
    for path in paths:
        sys.path.insert(0, str(path.parent.resolve()))
        spec = importlib.util.spec_from_file_location(f"__kopf_script_{path.stem}", path)
        if spec is None or spec.loader is None:
            raise click.UsageError(f"{path} is no Python file")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = loaded
        spec.loader.exec_module(loaded)
