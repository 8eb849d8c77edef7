"""What `make bench-capacity` measures, on a small scale."""

from __future__ import annotations

import asyncio
import sys

import orjson
import pytest

from tests.docs.blocks import ROOT

pytestmark = [pytest.mark.criterion("PF-4"), pytest.mark.slow]


async def test_every_object_is_listed_and_every_event_reaches_the_queue() -> None:
    """In a process of its own: one that has held more before takes no memory for what it lists."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.runtime.capacity",
        "--objects",
        "300",
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    found = orjson.loads(output.splitlines()[-1])
    assert found["objects"] == 300
    measured = (
        "list_seconds",
        "kib_per_object",
        "objects_per_gib",
        "events_per_cpu_second",
        "manifests_read_per_cpu_second",
        "entries_read_per_cpu_second",
    )
    assert {name for name in measured if found[name] <= 0} == set()
