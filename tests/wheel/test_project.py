"""A project from an empty folder and the wheel alone: the page on it, word for word, and what comes of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, runnable
from tests.docs.terminal import Terminal
from tests.wheel.installed import fresh

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

PAGE = "docs/start.md"


class Project:
    """The folder that the page has made, and the environment in which it did."""

    def __init__(self, folder: Path, prefix: Path, variables: dict[str, str]) -> None:
        self.folder, self.prefix, self.variables = folder, prefix, variables

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the folder."""
        variables = {**os.environ, **self.variables, **environment}
        place, *arguments = command
        program = [str(self.prefix / "bin" / place), *arguments]
        return subprocess.run(
            program, cwd=self.folder, env=variables, capture_output=True, text=True
        )


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Every block of the page, in its order. One environment and one project serve all tests."""
    base = tmp_path_factory.mktemp("project")
    folder, prefix = base / "empty", base / "venv"
    folder.mkdir()
    venv.create(prefix, with_pip=True)  # `make install` uses the environment's own
    variables = fresh(prefix, wheel, base / "constraints.txt")

    async def word_for_word() -> None:
        terminal = Terminal(folder, variables)
        try:
            for block in runnable(PAGE):
                await terminal.run(block.text, what=str(block), timeout=600)
        finally:
            await terminal.close()

    asyncio.run(word_for_word())
    return Project(folder, prefix, variables)


@pytest.mark.criterion("D-1", "D-3", "D-4", "D-8")
def test_the_page_works_word_for_word_in_few_commands(project: Project) -> None:
    first = runnable(PAGE)[0]
    assert len(first.text.splitlines()) <= 5
    made = {path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*.py")}
    assert {"shop/api/website/v2.py", "tests/test_webhook_website.py"} <= made
    assert list(project.folder.glob("config/crd/bases/*.yaml"))
    found = project.run("python", "-c", "import ctrlruntime; print(ctrlruntime.__file__)")
    assert str(project.prefix) in found.stdout


@pytest.mark.criterion("D-1", "D-3", "D-4")
def test_its_tests_pass_on_a_real_server(project: Project) -> None:
    from ctrlruntime.envtest.assets import Assets

    Assets().find()  # without one the test is skipped
    done = project.run("python", "-m", "pytest", CTRLRUNTIME_ENVTEST_BACKEND="kube-apiserver")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.criterion("D-41")
def test_its_types_hold_under_pyright_strict(project: Project) -> None:
    """And a field that the kind does not have is found. mypy runs with `make test` of the page."""
    settings = {"typeCheckingMode": "strict", "include": ["shop", "tests"]}
    environment = {"venvPath": str(project.prefix.parent), "venv": project.prefix.name}
    (project.folder / "pyrightconfig.json").write_text(json.dumps(settings | environment))
    command = [str(ROOT / "hack" / "pyright.sh")]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    own = project.folder / "shop" / "controllers" / "website.py"
    text = own.read_text()
    own.write_text(text.replace("obj.spec.replicas", "obj.spec.replica"))
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True)
    own.write_text(text)
    assert done.returncode == 1
    assert 'attribute "replica"' in done.stdout


@pytest.mark.criterion("D-5")
def test_a_newer_wheel_updates_it(project: Project) -> None:
    """The templates of the installed wheel change, as another release's do."""
    (templates,) = project.prefix.glob("lib/python*/site-packages/ctrlruntime/cli/templates")
    with (templates / "controller.py.jinja").open("a") as template:
        template.write("\n\nNEWER = 1\n")
    own = project.folder / "shop" / "controllers" / "website.py"
    own.write_text(own.read_text().replace('"name": "main"', '"name": "mine"'))
    (project.folder / "Dockerfile").unlink()
    done = project.run("ctrlruntime", "update")
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"name": "mine"' in own.read_text()
    assert own.read_text().endswith("NEWER = 1\n")
    assert not (project.folder / "Dockerfile").exists()


@pytest.mark.criterion("D-1")
def test_it_builds_as_a_package(project: Project, tmp_path: Path) -> None:
    """As its Dockerfile installs it."""
    command = ["-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), "."]
    done = project.run("python", *command)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(tmp_path.glob("shop-0.1.0-*.whl"))
