"""What runs in production imports no test environment, nor the packages that only it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import grimp

from tests.house import without_envtest

ROOT = Path(__file__).parents[2]
PACKAGES_OF_THE_EXTRA = ("cel", "jsonschema_rs", "kubernetes_validate")
"""Modules of the packages in distributions/envtest that nothing else needs."""


def test_only_the_demo_and_the_embedded_cluster_import_the_test_environment() -> None:
    graph = grimp.build_graph(*without_envtest.PACKAGES, cache_dir=None)
    environment = {"ctrlruntime.envtest", *graph.find_descendants("ctrlruntime.envtest")}
    importers = {
        importer
        for module in environment
        for importer in graph.find_modules_that_directly_import(module)
    }
    assert importers - environment == {
        "ctrlruntime.cli.dev_server",
        "manager.demo.tenants",
        "manager.demo.fleet",
        "manager.demo.embedded",
    }


def test_every_module_of_production_is_imported_without_it() -> None:
    program = str(Path(without_envtest.__file__))
    done = subprocess.run(
        [sys.executable, program, *PACKAGES_OF_THE_EXTRA],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    imported = set(done.stdout.split())
    assert {
        "manager.serving.run",
        "manager.controllers.cosmos",
        "manager.controllers.tenancy",
    } <= imported
    assert not {name for name in imported if name.startswith("ctrlruntime.envtest")}
