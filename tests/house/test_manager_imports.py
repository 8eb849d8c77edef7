"""What `manager run` loads before it knows its work: other systems, commands and drivers stay out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from manager.cli import COMMANDS
from manager.options import SYSTEMS

pytestmark = pytest.mark.criterion("PF-3")

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from ctrlruntime.fast_imports import fast_imports
with fast_imports():
    import manager.cli
    import manager.commands.run
from manager.systems import load_systems
load_systems(sys.argv[1:])
print(*sorted(sys.modules))
"""
LOADED_ON_USE = {
    "aiohttp",
    "aiomysql",
    "aiosqlite",
    "asyncpg",
    "cryptography",
    "ctrlruntime.envtest",
    "ctrlruntime.generate",
    "jsonpath",
    "jsonschema_rs",
    "kubernetes_asyncio",
    "networkx",
    "opentelemetry.sdk",
    "pymysql",
    "rich",
    "sqlite3",
    "tomlkit",
}


OF_A_SYSTEM = {system: {f"apis.{system}", f"manager.controllers.{system}"} for system in SYSTEMS}
"""Modules that show that a system is loaded."""
SMALL = {"internal.cloud.pace", "internal.cosmos.clock", "internal.cosmos.times"}
"""What the defaults of options are made of: a few lines each, of the standard library alone."""


def loaded(*systems: str) -> set[str]:
    """Return the modules that `manager run` with these systems has loaded when it connects."""
    return printed(PROGRAM, *systems)


def printed(program: str, *arguments: str) -> set[str]:
    """Return the words that a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_manager_loads_drivers_other_commands_and_clients_of_other_services_on_use() -> None:
    found = loaded(*SYSTEMS)
    assert found > set().union(*OF_A_SYSTEM.values())
    assert not found & LOADED_ON_USE
    assert not found & ({module for module, _ in COMMANDS.values()} - {"manager.commands.run"})


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_manager_loads_only_the_systems_that_it_runs(system: str) -> None:
    found = loaded(system)
    assert found > OF_A_SYSTEM[system]
    for other in {*SYSTEMS} - {system}:
        inside = (f"internal.{other}.", f"apis.{other}", f"manager.controllers.{other}")
        options = f"manager.controllers.{other}_options"
        assert {name for name in found if name.startswith(inside)} - SMALL == {options}


def test_the_list_of_commands_imports_none_of_them() -> None:
    """`manager --help` answers at once."""
    shown = "import sys\nfrom manager.cli import main\nmain(['--help'], standalone_mode=False)\n"
    found = printed(f"{shown}print(*sys.modules)")
    assert not found & {module.partition(":")[0] for module, _ in COMMANDS.values()}
    assert "ctrlruntime.manager" not in found
