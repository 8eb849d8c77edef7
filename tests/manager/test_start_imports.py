"""What a manager without webhooks loads: libraries of parts that it does not use stay out."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.criterion("PF-3")

PROGRAM = """
import sys
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Builder
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.resources import Control, Desired

async def main():
    options = ManagerOptions(metrics_bind_address="127.0.0.1:0", health_bind_address="127.0.0.1:0")
    manager = Manager(Config(host="http://127.0.0.1:1"), options)
    print(" ".join({name.partition(".")[0] for name in sys.modules}))
    {more}
    print(" ".join({name.partition(".")[0] for name in sys.modules}))

import asyncio
asyncio.run(main())
"""
UNUSED = {
    "aiohttp",
    "cryptography",
    "jinja2",
    "jsonschema_rs",
    "kubernetes_asyncio",
    "networkx",
    "opentelemetry.sdk",
    "sqlite3",
}


def test_a_manager_loads_nothing_for_webhooks_templates_or_plugins_that_it_has_not() -> None:
    program = PROGRAM.replace("{more}", "manager.webhooks")
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    before, after = (set(line.split()) for line in output.splitlines())
    assert "httptools" in before
    assert not before & UNUSED
    assert {"aiohttp", "cryptography"} <= after, "the webhook server makes its certificates"
