"""A manager that starts one run and hangs: to be killed. `python -m tests.cloud.runs.starter JSON`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson

from internal.cloud.runs import RunRequest
from internal.cloud.runs.wire import decode_input
from tests.cloud.runs.benches import provider_of


async def main(plan: dict[str, Any]) -> None:
    async with provider_of(plan["settings"]) as provider:
        given = decode_input(orjson.dumps(plan["input"]))
        await provider.start(RunRequest(run_id=given.run_id, input=given, timeout=plan["timeout"]))
        Path(plan["started"]).touch()  # noqa: ASYNC240 - nothing else to do
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(orjson.loads(sys.argv[1])))
