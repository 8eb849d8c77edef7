"""Cost of simulated nodes: Deployments created until all are Available, then at rest.

    python -m benchmarks.nodes [deployments] [--pods]

Server and nodes are processes of their own; seconds, CPU and memory are those of the nodes.
"""

from __future__ import annotations

import asyncio
import sys
import time

import uvloop

from benchmarks.frame import cpu_seconds, resident_mib
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.nodes.kinds import DEPLOYMENT


def deployment(index: int) -> dict[str, object]:
    labels = {"app": f"web-{index}"}
    containers = [{"name": "c", "image": "web:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"web-{index}", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


async def available(client: Client, count: int) -> None:
    done: set[str] = set()
    page = await anext(client.pages(DEPLOYMENT, "default", limit=0))
    version = page.resource_version
    states = [("ADDED", item) for item in page.items]
    while len(done) < count:
        for _, item in states:
            if item.get("status", {}).get("availableReplicas") == 2:
                done.add(item["metadata"]["name"])
        states = []
        if len(done) < count:
            async for event in client.watch(DEPLOYMENT, "default", resource_version=version):
                if event[1].get("status", {}).get("availableReplicas") == 2:
                    done.add(event[1]["metadata"]["name"])
                if len(done) == count:
                    break


async def main() -> None:
    pods = "--pods" in sys.argv
    numbers = [argument for argument in sys.argv[1:] if argument.isdigit()]
    count = int(numbers[0]) if numbers else 1000
    async with Environment("embedded-process", nodes=True, pods=pods) as env:
        client, nodes = env.client(), env.nodes
        assert nodes is not None
        before = cpu_seconds(nodes.pid)
        began = time.perf_counter()
        limit = asyncio.Semaphore(16)

        async def create(index: int) -> None:
            async with limit:
                await client.create(deployment(index))

        await asyncio.gather(*(create(i) for i in range(count)))
        created = time.perf_counter() - began
        await available(client, count)
        seconds = time.perf_counter() - began
        await asyncio.sleep(1)
        used = cpu_seconds(nodes.pid) - before
        resting = cpu_seconds(nodes.pid)
        await asyncio.sleep(5)
        print(
            f"{count} Deployments, {'with' if pods else 'without'} Pods: created in {created:.1f} s, "
            f"all available after {seconds:.1f} s; nodes used {used:.1f} s CPU "
            f"({used / count * 1e3:.2f} ms each), {resident_mib(nodes.pid):.0f} MiB, "
            f"idle {(cpu_seconds(nodes.pid) - resting) / 5 * 100:.1f} % CPU"
        )


if __name__ == "__main__":
    uvloop.run(main())
