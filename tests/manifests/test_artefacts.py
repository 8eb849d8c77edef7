"""From the built artefacts alone, in an empty folder: the wheels and the chart's archive install, run, upgrade and
uninstall the manager on a real server, and every tenant's objects stay."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

from tests.manifests.installation import INSTALLER, NAMESPACE, ROOT, Manifest
from tests.manifests.test_chart import helm, run
from tests.manifests.test_pods import database, installed_upgraded_uninstalled, server
from tests.mariadb import MariaDB
from tests.packages import from_wheels
from tests.wheel.distributions import FOLDERS, build

__all__ = ["database", "helm"]
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("manifests")]


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what a release has: both wheels, the chart's archive, install.yaml."""
    folder = tmp_path_factory.mktemp("artefacts")
    for name, source in FOLDERS.items():
        wheel = build(source, tmp_path_factory.mktemp(name), "-t", "wheel").wheel
        wheel.rename(folder / wheel.name)
    packed = run(ROOT / "hack" / "chart.sh", folder)
    assert packed.returncode == 0, packed.stderr
    (folder / "install.yaml").write_bytes(INSTALLER.read_bytes())
    return folder


@pytest.fixture(scope="module")
def command(artefacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the command of the installed wheels."""
    prefix = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(prefix)
    pip = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "install"]
    pip += ["-q", "--no-compile", "--disable-pip-version-check", *map(str, artefacts.glob("*.whl"))]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **from_wheels()}
    done = subprocess.run(pip, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return prefix / "bin" / "ctrlruntime-manager"


def of_file(artefacts: Path) -> list[Manifest]:
    """Return the objects of install.yaml."""
    text = (artefacts / "install.yaml").read_text()
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each]


def of_chart(artefacts: Path, helm: str) -> list[Manifest]:
    """Return the objects of the chart's archive, with all systems, as in install-all.yaml."""
    (archive,) = artefacts.glob("*.tgz")
    given = ("--namespace", NAMESPACE, "--set", "systems={cloud,cosmos,tenancy}")
    done = run(helm, "template", "ctrlruntime", archive, *given)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.load_all(done.stdout, yaml.CSafeLoader) if each]


@pytest.mark.parametrize("way", ["install.yaml", "chart"])
async def test_a_release_installs_runs_upgrades_and_uninstalls(
    way: str, artefacts: Path, command: Path, helm: str, database: MariaDB, tmp_path: Path
) -> None:
    objects = of_chart(artefacts, helm) if way == "chart" else of_file(artefacts)
    async with server("kube-apiserver", tmp_path) as environment:
        before, after = await installed_upgraded_uninstalled(
            environment, objects, database, tmp_path, command=(command,)
        )
        assert after == before
