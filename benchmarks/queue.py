"""Cost of the work queue: ``python benchmarks/queue.py [items]``. Microseconds per item."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from ctrlruntime.queue import PriorityQueue, QueueCore, Request


def measure(name: str, items: int, work: Callable[[], None]) -> None:
    started = time.perf_counter()
    work()
    elapsed = time.perf_counter() - started
    print(f"{name:<40} {elapsed / items * 1e6:8.2f} us/item")


def main(items: int = 100_000) -> None:
    requests = [Request(f"item-{i}", namespace="default") for i in range(items)]

    def cycle() -> None:
        core = QueueCore(time.monotonic)
        for request in requests:
            core.add(request)
            core.pop()
            core.done(request)

    def backlog() -> None:
        core = QueueCore(time.monotonic)
        for index, request in enumerate(requests):
            core.add(request, priority=-100 if index % 10 else 0, reason="ConfigMap updated")
        while (item := core.pop()) is not None:
            core.done(item.request)

    def delayed() -> None:
        now = 0.0
        core = QueueCore(lambda: now)
        for index, request in enumerate(requests):
            core.add(request, after=1.0 + index % 97)
        now = 100.0
        while (item := core.pop()) is not None:
            core.done(item.request)

    def duplicates() -> None:
        core = QueueCore(time.monotonic)
        for _ in range(items):
            core.add(requests[0], reason="ConfigMap updated")

    def asynchronous() -> None:
        asyncio.run(through_workers(requests))

    measure("add, get, done", items, cycle)
    measure("backlog of two priorities with reasons", items, backlog)
    measure("delayed, due at once", items, delayed)
    measure("add of a queued item", items, duplicates)
    measure("asyncio front, 10 workers", items, asynchronous)


async def through_workers(requests: list[Request]) -> None:
    queue = PriorityQueue()
    left = len(requests)
    finished = asyncio.Event()

    async def worker() -> None:
        nonlocal left
        while True:
            item = await queue.get()
            queue.done(item.request)
            left -= 1
            if not left:
                finished.set()

    tasks = [asyncio.create_task(worker()) for _ in range(10)]
    for start in range(0, len(requests), 100):
        for request in requests[start : start + 100]:
            queue.add(request)
        await asyncio.sleep(0)
    await finished.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
