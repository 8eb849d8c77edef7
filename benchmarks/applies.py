"""CPU of the embedded server for server-side applies by two managers, kind by kind.

    python -m benchmarks.applies [requests] [folder of another checkout]

The server is a process of its own; what counts is its CPU time. With another checkout its server
runs beside, and both are sent the same requests in turns, so that a busy machine slows them alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import uvloop

Manifest = dict[str, Any]
APPLY = "application/apply-patch+yaml"
CHUNK = 24
"""Requests that one server is sent before it is the other's turn: three objects, all ROUNDS."""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TEXT = {"type": "string"}
_PART = {
    "type": "object",
    "properties": {"name": _TEXT, "note": _TEXT, "size": {"type": "integer"}},
}
_KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_SPEC = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 0},
        "color": {"type": "string", "default": "red", "enum": ["red", "green"]},
        "parts": {"type": "array", "items": {**_PART, "required": ["name"]}, **_KEYED},
        "labels": {"type": "object", "additionalProperties": _TEXT},
    },
}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.bench.example.com"},
    "spec": {
        "group": "bench.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
            }
        ],
    },
}


def deployment(manager: str, version: int) -> Manifest:
    labels = {"app": "web"}
    env = [{"name": f"A{number}", "value": f"{manager}{version}"} for number in range(6)]
    container = {
        "name": manager,
        "image": f"web:{version}",
        "env": env,
        "ports": [{"containerPort": 80, "name": f"{manager}-http"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    spec: Manifest = {"containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"labels": {**labels, manager: str(version)}},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def config_map(manager: str, version: int) -> Manifest:
    data = {f"{manager}{number}": f"{version}-{number}" for number in range(12)}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"annotations": {f"bench/{manager}": str(version)}},
        "data": data,
    }


def widget(manager: str, version: int) -> Manifest:
    parts = [{"name": f"{manager}{n}", "size": version, "note": "n"} for n in range(6)]
    return {
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": {"labels": {manager: "x"}},
        "spec": {"parts": parts, "labels": {manager: str(version)}},
    }


KINDS = {
    "Deployment": ("/apis/apps/v1/namespaces/default/deployments", deployment),
    "ConfigMap": ("/api/v1/namespaces/default/configmaps", config_map),
    "Widget": ("/apis/bench.example.com/v1/namespaces/default/widgets", widget),
}
ROUNDS = (("a", 1), ("b", 1), ("a", 1), ("a", 2), ("b", 2), ("b", 2), ("a", 3), ("b", 3))
"""What each object is sent: creation, a second owner, changes, and the same again."""


def requests(kind: str, count: int) -> Iterator[tuple[str, bytes]]:
    """Path and body of so many applies."""
    root, make = KINDS[kind]
    for number in range(count):
        manager, version = ROUNDS[number % len(ROUNDS)]
        name = f"o-{number // len(ROUNDS)}"
        body = make(manager, version)
        body["metadata"]["name"] = name
        yield f"{root}/{name}?fieldManager={manager}", orjson.dumps(body)


@dataclass(slots=True)
class Served:
    """A server of a checkout; CPU seconds it took for each turn, by kind."""

    pid: int
    url: str
    used: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def cost(self, kind: str) -> float:
        """Microseconds of CPU for an apply, in the turn that was least disturbed."""
        return min(self.used[kind]) / CHUNK * 1e6

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.pid}/schedstat").read_text().split()
        return int(fields[0]) / 1e9


@contextmanager
def serving(checkout: Path) -> Iterator[Served]:
    """The embedded server of a checkout, as a process of its own."""
    command = [sys.executable, "-m", "ctrlruntime.envtest"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with subprocess.Popen(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = next(each for each in process.stdout if each.startswith("serving "))
            yield Served(process.pid, line.split()[1])
        finally:
            process.terminate()


async def send(session: aiohttp.ClientSession, url: str, body: bytes) -> None:
    headers = {"Content-Type": APPLY}
    async with session.patch(url, data=body, headers=headers) as answer:
        if answer.status >= 300:
            raise RuntimeError(f"{url} answered {answer.status}: {await answer.text()}")
        await answer.read()


async def measure(servers: list[Served], count: int) -> None:
    async with aiohttp.ClientSession() as session:
        for server in servers:
            async with session.post(server.url + DEFINITIONS, json=WIDGETS) as answer:
                answer.raise_for_status()
        for kind in KINDS:
            asked = list(requests(kind, count))
            for start in range(0, count, CHUNK):
                for server in servers:
                    before = server.cpu()
                    for path, body in asked[start : start + CHUNK]:
                        await send(session, server.url + path, body)
                    server.used[kind].append(server.cpu() - before)


def main() -> None:
    count = (int(sys.argv[1]) if len(sys.argv) > 1 else 2016) // len(KINDS)
    count += -count % CHUNK
    mine = Path(__file__).resolve().parents[1]
    with serving(mine) as ours, serving(Path(sys.argv[2]) if len(sys.argv) > 2 else mine) as other:
        servers = [ours, other] if len(sys.argv) > 2 else [ours]
        uvloop.run(measure(servers, count))
    for kind in KINDS:
        shown = [server.cost(kind) for server in servers]
        line = f"{kind}: {shown[0]:.0f} us CPU an apply"
        if len(shown) > 1:
            line += (
                f", {shown[1]:.0f} in the other checkout: {shown[1] / shown[0]:.2f} times as much"
            )
        print(line)


if __name__ == "__main__":
    main()
