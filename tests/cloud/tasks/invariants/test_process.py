"""Invariants and Terraform as processes: `manager task run`, with files as a provider lays them out."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.outbound_addresses import ALLOWED
from internal.cloud.runs.wire import encode_input
from tests.cloud.servers.site import Say, Site
from tests.cloud.tasks.terraform.test_local import SPEC, LocalBench
from tests.cloud.tasks.workbench import Workbench

SECRET = "s3cret-t0ken"


class Place:
    """The files of one run."""

    def __init__(self, folder: Path, task: str, spec: Mapping[str, Any]) -> None:
        given = Workbench(folder).context(task, spec).input
        self.task = task
        self.result = folder / "result.json"
        (folder / "input.json").write_bytes(encode_input(given))
        (folder / "secrets" / "admin").mkdir(parents=True)
        (folder / "secrets" / "admin" / "token").write_text(SECRET + "\n")
        self.environment = {
            "PATH": os.environ["PATH"],
            ALLOWED: os.environ[ALLOWED],
            "TASK_INPUT": str(folder / "input.json"),
            "TASK_RESULT": str(self.result),
            "TASK_SECRETS": str(folder / "secrets"),
        }

    async def run(self, **more: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, report and log."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "manager", "task", "run", self.task,
            env={**self.environment, **more}, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, log = await process.communicate()
        report: dict[str, Any] = json.loads(self.result.read_bytes())
        return process.returncode or 0, report, log.decode()


@pytest.mark.parametrize("good", [True, False])
async def test_invariants(tmp_path: Path, good: bool) -> None:
    async with Site() as site:
        site.answers["GET /smtp"] = Say(json={"value": "on" if good else f"<{SECRET}>"})
        ref = {"name": "admin", "key": "token"}
        check = {
            "url": f"{site.url}/smtp",
            "secretHeaders": [{"name": "Authorization", "prefix": "Bearer ", "valueFrom": ref}],
            "expect": [{"path": "$.value", "equals": "on"}],
        }
        spec = {"version": "5.3.0", "invariants": [{"name": "smtp", "check": check}]}
        code, report, log = await Place(tmp_path, "invariants", spec).run()
        assert site.asked[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert code == (0 if good else 1)
    assert SECRET not in log + json.dumps(report)
    if good:
        assert (report["state"], report["message"]) == ("Succeeded", "1 held, 0 mended")
    else:
        assert report["message"].startswith("0 held, 0 mended, 1 failed (smtp). smtp: GET ")
        assert report["message"].endswith('$.value is a string of 14 characters, not "on"')


async def test_terraform(tmp_path: Path) -> None:
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    del spec["infrastructure"]["terraform"]["module"][
        "sensitiveOutputs"
    ]  # needs a key to seal with
    local = LocalBench(tmp_path)
    place = Place(tmp_path, "terraform", spec)
    code, report, log = await place.run(**local.environment)
    assert code == 0, log
    assert report["message"] == "2 added, 0 changed, 0 destroyed"
    assert report["outputs"] == {"address": "<address>"}
