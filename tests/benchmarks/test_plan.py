"""What `make bench-plan` measures, on a small scale."""

from __future__ import annotations

import asyncio
import sys

import orjson
import pytest

from tests.docs.blocks import ROOT

pytestmark = [pytest.mark.slow]


async def test_a_plan_of_a_changed_template_makes_one_request_a_group_besides_its_lists() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.plan", "--rows", "4"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    found = orjson.loads(output.splitlines()[-1])
    assert (found["rows"], found["groups"], found["writes"]) == (4, 6, 24)
    # Discovery, the freezes, the template and its dry run come first; other lists are part of the watches.
    assert found["requests"] <= found["groups"] + 4
    assert found["mib"] > 0
