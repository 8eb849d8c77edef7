"""Cost of a reconcile that does nothing: ``python benchmarks/controller.py [items]``.

Context, log binding, deadline, metrics and queue are all there; spans are off.
"""

from __future__ import annotations

import asyncio
import sys
import time

import structlog

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import EntryDecoder
from ctrlruntime.cache.events import CreateEvent, Event
from ctrlruntime.controller import Controller, ControllerOptions, Request, enqueue_object
from ctrlruntime.controller.event_dispatch import EventDispatcher
from ctrlruntime.controller.reconcile import FuncReconciler
from ctrlruntime.manager import run
from ctrlruntime.manager.logs import make_logger
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.queue import PriorityQueue


async def reconciles(items: int) -> float:
    left = items
    finished = asyncio.Event()

    async def nothing(_request: Request) -> None:
        nonlocal left
        left -= 1
        if not left:
            finished.set()

    controller = Controller(
        "benchmark",
        FuncReconciler(nothing),
        settings=ControllerOptions(max_concurrent_reconciles=10).settings(),
        metrics=Metrics().controller("benchmark", 10),
        logger=make_logger(level="warning"),
    )
    for index in range(items):
        controller.queue.add(
            Request(f"item-{index}", namespace="default"), reason="ConfigMap updated"
        )
    started = time.perf_counter()
    task = asyncio.create_task(controller.start())
    await finished.wait()
    elapsed = time.perf_counter() - started
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return elapsed


async def intake(items: int) -> float:
    decoder = EntryDecoder(GroupVersionKind("", "v1", "ConfigMap"))
    events: list[Event] = []
    for index in range(items):
        metadata = {"namespace": "default", "name": f"item-{index}", "resourceVersion": "1"}
        events.append(CreateEvent(decoder.decode_manifest({"metadata": metadata})))
    taking = EventDispatcher(PriorityQueue(), structlog.get_logger())
    started = time.perf_counter()
    for event in events:
        taking.deliver(event, enqueue_object, (), kind="ConfigMap")
    return time.perf_counter() - started


async def main(items: int = 20_000) -> None:
    elapsed = await reconciles(items)
    print(f"no-op reconcile      {elapsed / items * 1e6:8.2f} us   {items / elapsed:10.0f} /s")
    elapsed = await intake(items)
    print(f"event to queue       {elapsed / items * 1e6:8.2f} us   {items / elapsed:10.0f} /s")


if __name__ == "__main__":
    run(main(*(int(argument) for argument in sys.argv[1:])))
