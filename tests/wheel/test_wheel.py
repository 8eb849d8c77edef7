"""The wheel, in an environment where nothing else of this repository is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.blocks import ROOT, blocks
from tests.packages import from_wheels

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.xdist_group("wheel")]

PAGE = "docs/first-controller.md"
PACKAGES = [
    "api",
    "cache",
    "client",
    "controller",
    "events",
    "generate",
    "manager",
    "queue",
    "resources",
    "webhook",
]
QUIETLY = ("-q", "--no-compile", "--disable-pip-version-check")


@dataclass(frozen=True, slots=True)
class Installed:
    """A virtual environment with the wheel in it, and an empty folder to work in."""

    prefix: Path
    folder: Path
    constraints: Path

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run the environment's interpreter. The checkout is not on its path."""
        command = [str(self.prefix / "bin" / "python"), *arguments]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.variables() | environment,
            capture_output=True,
            text=True,
        )

    def install(self, *what: str) -> None:
        """Install into it, in the versions of the lock file."""
        done = self.pip("install", *QUIETLY, "-c", str(self.constraints), *what)
        assert done.returncode == 0, done.stderr

    def pip(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Pip of the tests' own environment on this one: to install pip takes longer than to use it."""
        command = [sys.executable, "-m", "pip", "--python", str(self.prefix / "bin" / "python")]
        return subprocess.run(
            [*command, *arguments],
            cwd=self.folder,
            env=self.variables(),
            capture_output=True,
            text=True,
        )

    @staticmethod
    def variables() -> dict[str, str]:
        """What the machine says of itself and of its packages, and nothing of the checkout."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        kept |= {key: os.environ[key] for key in os.environ if key.startswith(("PIP_", "SSL_"))}
        return kept | from_wheels()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make wheel` builds."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install ctrlruntime`, and no extras."""
    folder = tmp_path_factory.mktemp("wheel")
    pinned = re.findall(r"^[\w.-]+(?:\[[\w,-]+\])?==[^\s\\]+", lock(), re.MULTILINE)
    (folder / "constraints.txt").write_text("\n".join(pinned) + "\n")
    (folder / "work").mkdir()
    venv.create(folder / "venv")
    made = Installed(folder / "venv", folder / "work", folder / "constraints.txt")
    made.install(str(wheel))
    return made


def lock() -> str:
    return (ROOT / "requirements.lock").read_text()


@pytest.fixture(scope="module")
def with_envtest(installed: Installed, wheel: Path) -> Installed:
    """`pip install ctrlruntime[envtest]`, and what its fixtures are used with."""
    installed.install(f"{wheel}[envtest]", "pytest", "pytest-asyncio")
    return installed


def test_it_holds_the_library_alone(wheel: Path) -> None:
    names = ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} - {"ctrlruntime"} == {
        next(name.partition("/")[0] for name in names if ".dist-info/" in name)
    }
    assert "ctrlruntime/py.typed" in names
    left_out = [path for path in source_files() if path not in names]
    assert left_out == []


def source_files() -> list[str]:
    command = ["git", "ls-files", "ctrlruntime"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).exists()]


def test_it_imports_without_extras_and_without_the_repository(installed: Installed) -> None:
    program = "import importlib, importlib.util as util\n"
    program += f"for name in {PACKAGES!r}: importlib.import_module('ctrlruntime.' + name)\n"
    program += "ours = ('apis', 'internal', 'manager', 'tests', 'benchmarks')\n"
    program += "assert not [name for name in ours if util.find_spec(name)]\n"
    done = installed.python("-c", program)
    assert done.returncode == 0, done.stderr
    assert installed.pip("check").returncode == 0


def test_a_missing_extra_is_named(installed: Installed) -> None:
    done = installed.python("-c", "from ctrlruntime.envtest import Environment")
    assert done.returncode != 0
    assert "pip install 'ctrlruntime[envtest]'" in done.stderr


@pytest.mark.parametrize("backend", ["embedded-process", "kube-apiserver"])
def test_the_sample_controller_runs_from_it(with_envtest: Installed, backend: str) -> None:
    website, test = sample(with_envtest.folder)
    command = ["-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider", test.name]
    done = with_envtest.python(*command, CTRLRUNTIME_ENVTEST_BACKEND=backend)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout, website


def test_it_is_typed(with_envtest: Installed) -> None:
    website, _ = sample(with_envtest.folder)
    python = with_envtest.prefix / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python)]
    command += ["--config-file", os.devnull, "--cache-dir", str(with_envtest.folder / ".mypy")]
    done = subprocess.run(
        [*command, website.name], cwd=with_envtest.folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def sample(folder: Path) -> tuple[Path, Path]:
    """The controller of the first page, and its test."""
    website, test = (block for block in blocks(PAGE) if block.language == "python")
    (folder / "website.py").write_text(website.text)
    (folder / "test_website.py").write_text(test.text)
    return folder / "website.py", folder / "test_website.py"
