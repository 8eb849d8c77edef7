"""The controller under test, as a program: a ConfigMap and a status for each widget."""

from __future__ import annotations

from pathlib import Path

from ctrlruntime.fast_imports import fast_imports

with fast_imports():  # as every program of the project does
    import click

    from benchmarks.runtime.first_reconcile import FirstReconcile
    from benchmarks.runtime.widget import Widget, WidgetStatus
    from ctrlruntime.api.builtin import BUILTIN
    from ctrlruntime.api.kinds import GroupVersionKind
    from ctrlruntime.client.config import Config
    from ctrlruntime.controller import Builder, Controller, ControllerOptions, Request
    from ctrlruntime.controller.predicates import generation_changed
    from ctrlruntime.envtest.process import report_ready
    from ctrlruntime.manager import Manager, ManagerOptions, run
    from ctrlruntime.manager.metrics import Durations
    from ctrlruntime.manager.watchdog import GCOptions
    from ctrlruntime.resources import Control, Desired, Owner

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
FIELD_MANAGER = "widgets"
FINE = tuple(0.001 * 1.05**step for step in range(284))
"""Bounds of 5 % steps up to 1,000 s: the usual powers of ten say nothing about a percentile."""


def config_map(widget: Widget) -> Desired:
    """The builder."""
    metadata = {"name": widget.metadata.name, "namespace": widget.metadata.namespace}
    return Desired(
        mapping=CONFIG_MAP,
        manifest={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"size": str(widget.spec.size)},
        },
    )


def setup(manager: Manager, workers: int) -> Controller:
    """What is watched, and one reconcile."""
    control = Control(manager.cache, field_manager=FIELD_MANAGER)
    first = FirstReconcile(manager.metrics.registry)

    async def reconcile(request: Request) -> None:
        first.mark()
        found = manager.cache.get(Widget, request.name, namespace=request.namespace)
        if found is None or found.metadata.deletion_timestamp:
            return
        outcome = await control.ensure(config_map(found), Owner.of(found))
        status = WidgetStatus(ready=not outcome.conflict, config_map=request.name)
        if status != found.status:
            patch = {"status": status.model_dump(by_alias=True)}
            await manager.client.patch_status(
                Widget, request.name, patch, namespace=request.namespace
            )

    return (
        Builder(manager)
        .for_(Widget, predicates=(generation_changed,))
        .owns(CONFIG_MAP, metadata_only=True, track_manager=FIELD_MANAGER)
        .options(ControllerOptions(max_concurrent_reconciles=workers))
        .build(reconcile)
    )


async def control_widgets(kubeconfig: Path, namespace: str, workers: int, ready: str) -> None:
    options = ManagerOptions(
        name="widgets",
        namespaces=(namespace,),
        metrics_bind_address="127.0.0.1:0",
        health_bind_address="0",
        handle_signals=True,
        gc=GCOptions(manage=True),
    )
    manager = Manager(await Config.load(kubeconfig), options)
    controller = setup(manager, workers)
    manager.metrics.controller(controller.name, workers).queue_time = Durations(FINE)
    report_ready(ready, {"metrics": manager.metrics_port})
    await manager.start()


@click.command()
@click.option("--kubeconfig", type=Path, required=True)
@click.option("--namespace", required=True)
@click.option("--workers", default=10)
@click.option("--ready", required=True)
def main(kubeconfig: Path, namespace: str, workers: int, ready: str) -> None:
    """Reconcile widgets until told to stop."""
    run(control_widgets(kubeconfig, namespace, workers, ready))


if __name__ == "__main__":
    main()
