"""Providers of runs and backends of Terraform are imported only where they are configured."""

from __future__ import annotations

import subprocess
import sys

import pytest

from internal.cloud.tasks.terraform.backends import BACKENDS
from manager.controllers.runs import PLUGINS, plugin_of

PLUGGED = {
    "internal.cloud.runs.cloudrun": "manager.controllers.run_providers.cloudrun",
    "internal.cloud.runs.jobs": "manager.controllers.run_providers.jobs",
    "internal.cloud.tasks.terraform.hcp": BACKENDS["hcp"],
    "internal.cloud.tasks.terraform.local": BACKENDS["local"],
}
"""Packages, and the plug-in that imports each."""
PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(*sys.modules)
"""


def imported_with(*modules: str) -> set[str]:
    """Import modules in a process of their own; return all that were imported there."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *modules], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_manager_and_the_terraform_task_import_no_plugin() -> None:
    imported = imported_with(
        "manager.commands.run", "manager.controllers.cloud", "internal.cloud.tasks.terraform.task"
    )
    assert imported & PLUGGED.keys() == set()


@pytest.mark.parametrize(("package", "plugin"), PLUGGED.items())
def test_a_plugin_imports_its_own_package_alone(package: str, plugin: str) -> None:
    assert imported_with(plugin) & PLUGGED.keys() == {package}


@pytest.mark.parametrize("provider", PLUGINS)
def test_every_provider_has_a_plugin(provider: str) -> None:
    plugin = plugin_of(provider)  # type: ignore[arg-type]
    assert callable(plugin.make)
    assert {group for group, _, _ in plugin.permissions} == (
        {"batch", ""} if provider == "jobs" else set()
    )
