"""What `manager run` loads before it knows its work: libraries that one source or one system needs stay out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.criterion("PF-3")

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from ctrlruntime.fast_imports import fast_imports
with fast_imports():
    import manager.run
print(*sorted(sys.modules))
"""
LOADED_ON_USE = {
    "aiohttp",
    "aiomysql",
    "aiosqlite",
    "asyncpg",
    "cryptography",
    "ctrlruntime.envtest.server",
    "jsonschema_rs",
    "kubernetes_asyncio",
    "networkx",
    "opentelemetry.sdk",
    "pymysql",
    "rich",
    "sqlite3",
}


def test_a_manager_loads_drivers_and_clients_of_other_services_on_use() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert {"manager.controllers.tenancy", "manager.controllers.cosmos"} <= loaded
    assert not loaded & LOADED_ON_USE
