"""Two distributions, `ctrlruntime` and `ctrlruntime-manager`: contents, metadata, version, repeated builds."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from email.message import Message
from pathlib import Path

import pytest
from click.testing import CliRunner

import ctrlruntime
from ctrlruntime.envtest import Environment
from manager.cli import main
from manager.kinds import KINDS
from tests.docs.blocks import ROOT
from tests.manifests.test_container import judged
from tests.packages import from_wheels
from tests.wheel.distributions import ENVTEST, FOLDERS, Built, build

pytestmark = pytest.mark.xdist_group("wheel")
BOTH = pytest.mark.parametrize("name", sorted(FOLDERS))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Return both distributions, built in the checkout."""
    return {name: build(folder, tmp_path_factory.mktemp(name)) for name, folder in FOLDERS.items()}


@BOTH
def test_two_builds_are_byte_for_byte_equal(
    built: dict[str, Built], name: str, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "checkout"
    for part in ("ctrlruntime", "apis", "internal", "manager", "config/samples", "distributions"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, copy / part, ignore=ignored, copy_function=shutil.copyfile)
    for path in ROOT.iterdir():
        if path.suffix in {".md", ".toml"} or path.name in {"LICENSE", ".gitignore"}:
            shutil.copyfile(path, copy / path.name)
    place = copy / FOLDERS[name].relative_to(ROOT)
    again = build(place, tmp_path / "again", TZ="Pacific/Auckland", LC_ALL="C", PYTHONHASHSEED="7")
    assert again.wheel.name == built[name].wheel.name
    assert again.wheel.read_bytes() == built[name].wheel.read_bytes()
    assert again.sdist.read_bytes() == built[name].sdist.read_bytes()


def test_two_builds_of_the_test_environment_are_equal_too(tmp_path: Path) -> None:
    first, second = (build(ENVTEST, tmp_path / name, "-t", "wheel") for name in "ab")
    assert first.wheel.read_bytes() == second.wheel.read_bytes()
    assert "ctrlruntime/envtest/fixtures.py" in first.names


@BOTH
def test_a_wheel_built_from_the_sdist_is_the_same(
    built: dict[str, Built], name: str, tmp_path: Path
) -> None:
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xzf", built[name].sdist], cwd=unpacked, check=True)
    (source,) = unpacked.iterdir()
    wheel = build(source, tmp_path / "wheel", "-t", "wheel").wheel
    assert wheel.read_bytes() == built[name].wheel.read_bytes()


@BOTH
def test_its_metadata_is_complete(built: dict[str, Built], name: str) -> None:
    metadata = built[name].metadata
    assert metadata["Version"] == ctrlruntime.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert len(metadata["Keywords"].split(",")) >= 5
    urls = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog"} == set(urls)
    classifiers = metadata.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert any(each.endswith("/licenses/LICENSE") for each in built[name].names)
    assert (FOLDERS[name] / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def requirements(metadata: Message) -> set[str]:
    """Return the names of the packages that are always installed."""
    lines = metadata.get_all("Requires-Dist", [])
    found = (re.match(r"[\w.-]+", line) for line in lines if "extra ==" not in line)
    return {match[0].replace(".", "-").lower() for match in found if match}


def test_the_library_has_its_extras_and_the_manager_none_of_them(built: dict[str, Built]) -> None:
    library, program = (built[name].metadata for name in sorted(FOLDERS))
    assert {"envtest", "otel"} <= set(library.get_all("Provides-Extra", []))
    version = ctrlruntime.__version__
    assert f"ctrlruntime=={version}" in program.get_all("Requires-Dist", [])
    assert "jinja2" in requirements(program) - requirements(library)
    assert "kubernetes-validate" not in requirements(program) | requirements(library)


def test_the_manager_puts_one_package_into_an_environment(built: dict[str, Built]) -> None:
    names = built["ctrlruntime_manager"].names
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "ctrlruntime_manager"
    }
    carried = {name.removeprefix("ctrlruntime_manager/app/") for name in names}
    command = ["git", "ls-files", "apis", "internal", "manager", "config/samples"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [path for path in listed.stdout.splitlines() if path not in carried] == []
    assert not [name for name in carried if "__pycache__" in name or name.startswith("tests")]


def test_an_sdist_has_no_more_than_a_build_needs(built: dict[str, Built]) -> None:
    with tarfile.open(built["ctrlruntime"].sdist) as archive:
        top = {name.split("/")[1] for name in archive.getnames()}
    assert {"ctrlruntime", "LICENSE", "CHANGELOG.md", "SECURITY.md"} <= top
    assert not top & {"apis", "internal", "manager", "tests", "benchmarks", "docs", "config"}


def test_the_version_is_the_same_wherever_it_stands() -> None:
    version = ctrlruntime.__version__
    for path in (ROOT / "pyproject.toml", ROOT / "distributions" / "manager" / "pyproject.toml"):
        project = tomllib.loads(path.read_text())["project"]
        assert "version" in project["dynamic"]
    images = re.findall(r"ctrlruntime-manager:(\d[\w.]*)", (ROOT / "Makefile").read_text())
    tags = re.findall(r"newTag: (\S+)", (ROOT / "config/manager/kustomization.yaml").read_text())
    assert {*images, *tags} == {version}, "the image's tag is the version"
    pins = [(ROOT / "pyproject.toml").read_text(), (ENVTEST / "pyproject.toml").read_text()]
    pinned = re.findall(
        r'"ctrlruntime(?:-envtest)?==([^"]+)"|^version = "([^"]+)"', "\n".join(pins), re.MULTILINE
    )
    assert {one or other for one, other in pinned} == {version}, "the test environment's pins"
    log = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", log, re.MULTILINE) or (
        "## [Unreleased]" in log and version in log
    )


def test_version_prints_the_version() -> None:
    done = CliRunner().invoke(main, ["--version"], prog_name="ctrlruntime-manager")
    assert done.exit_code == 0
    assert done.output == f"ctrlruntime-manager {ctrlruntime.__version__}\n"


@pytest.fixture(scope="module")
def installed(built: dict[str, Built], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment made by `pip install ctrlruntime-manager`, with no extras."""
    prefix = tmp_path_factory.mktemp("manager") / "venv"
    venv.create(prefix)
    command = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "install"]
    command += ["-q", "--no-compile", "--disable-pip-version-check"]
    command += [str(each.wheel) for each in built.values()]
    places = from_wheels()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), **places}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return prefix


@pytest.mark.slow
def test_the_installed_command_prints_its_version(installed: Path) -> None:
    for name in ("manager", "kubectl-tenants", "ctrlruntime-manager"):
        command = [str(installed / "bin" / name), "--version"]
        done = subprocess.run(command, cwd=installed, capture_output=True, text=True, check=False)
        assert done.stdout == f"{name} {ctrlruntime.__version__}\n", done.stderr


@pytest.mark.slow
async def test_the_installed_command_runs_the_manager(installed: Path, tmp_path: Path) -> None:
    program = installed / "bin" / "ctrlruntime-manager"
    async with Environment() as environment:
        await environment.install_crds(*KINDS)
        process = await asyncio.create_subprocess_exec(
            program,
            "run",
            f"--kubeconfig={environment.kubeconfig('manager')}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=127.0.0.1:0",
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            await judged(environment)
        finally:
            process.terminate()
            print((await process.communicate())[0].decode())
        assert process.returncode == 0


@pytest.mark.slow
def test_nothing_of_the_manager_is_importable_beside_its_package(installed: Path) -> None:
    program = "import importlib.util as util, ctrlruntime_manager\n"
    program += "print([n for n in ('apis', 'internal', 'manager', 'config') if util.find_spec(n)])"
    command = [str(installed / "bin" / "python"), "-I", "-c", program]
    done = subprocess.run(command, cwd=installed, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
