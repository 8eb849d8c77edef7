"""The wheel, in an environment where nothing else of this repository is."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

from ctrlruntime.envtest.assets import Assets
from tests.docs.blocks import ROOT, blocks, runnable
from tests.docs.terminal import Terminal
from tests.wheel.installed import Installed, fresh, pinned

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("wheel")]

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


OIDC = """
import asyncio, base64, json, pathlib, sys, time
from ctrlruntime import Config

def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

token = ".".join([part({"alg": "none"}), part({"exp": int(time.time()) + 3600}), "c2ln"])
pathlib.Path("oidc").write_text(json.dumps({
    "apiVersion": "v1", "kind": "Config", "current-context": "c",
    "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    "users": [{"name": "u", "user": {"auth-provider": {
        "name": "oidc", "config": {"id-token": token, "idp-issuer-url": "https://idp.example.com"}}}}],
}))

async def main():
    config = await Config.load(pathlib.Path("oidc"))
    assert "kubernetes_asyncio" not in sys.modules
    assert await config.auth.headers() == {"Authorization": f"Bearer {token}"}
    assert "kubernetes_asyncio" in sys.modules

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def envtest_wheel(wheel: Path) -> Path:
    """The wheel of the test environment."""
    (built,) = wheel.parent.glob("ctrlruntime_envtest-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install ctrlruntime`, and no extras."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "constraints.txt").write_text("\n".join(pinned()) + "\n")
    (folder / "work").mkdir()
    venv.create(folder / "venv")
    made = Installed(folder / "venv", folder / "work", folder / "constraints.txt")
    made.install(str(wheel))
    return made


@pytest.fixture(scope="module")
def with_envtest(installed: Installed, wheel: Path) -> Installed:
    """`pip install ctrlruntime[envtest,oidc]`, and what the fixtures are used with."""
    places = ["--find-links", str(wheel.parent)]
    installed.install(*places, f"{wheel}[envtest,oidc]", "pytest", "pytest-asyncio")
    return installed


def test_it_holds_the_library_without_the_test_environment(wheel: Path) -> None:
    names = library_files(wheel)
    assert "ctrlruntime/py.typed" in names
    assert {name for name in names if ENVTEST in name} == {NAMES_THE_EXTRA}
    assert {path for path in source_files() if ENVTEST not in path} <= names


def test_the_extra_holds_the_test_environment_alone(wheel: Path, envtest_wheel: Path) -> None:
    names = library_files(envtest_wheel)
    assert names == {path for path in source_files() if ENVTEST in path} - {NAMES_THE_EXTRA}
    assert not names & library_files(wheel)


ENVTEST = "ctrlruntime/envtest/"
NAMES_THE_EXTRA = f"{ENVTEST}__init__.py"


def library_files(wheel: Path) -> set[str]:
    """The files of a wheel but for those that describe it; all are below ctrlruntime."""
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert all(name.startswith("ctrlruntime/") for name in names)
    return names


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


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("envtest", ["-c", "from ctrlruntime.envtest import Environment"]),
        ("cli", ["-m", "ctrlruntime.cli", "init", "shop"]),
        ("oidc", ["-c", OIDC]),
    ],
)
def test_a_missing_extra_is_named(installed: Installed, extra: str, command: list[str]) -> None:
    done = installed.python(*command)
    assert done.returncode != 0
    assert f"pip install 'ctrlruntime[{extra}]'" in done.stderr


@pytest.fixture(params=["embedded-process", "kube-apiserver"])
def backend(request: pytest.FixtureRequest) -> str:
    """The API server that installed code starts."""
    if request.param == "kube-apiserver":
        Assets().find()  # without one the test is skipped
    return str(request.param)


def test_the_sample_controller_runs_from_it(with_envtest: Installed, backend: str) -> None:
    website, *tests = sample(with_envtest.folder)
    command = ["-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    names = [each.name for each in tests]
    done = with_envtest.python(*command, *names, CTRLRUNTIME_ENVTEST_BACKEND=backend)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout, website


@pytest.mark.criterion("D-42", "D-43")
def test_every_example_runs_from_it(with_envtest: Installed, backend: str) -> None:
    with_envtest.install("cronsim")
    folder = with_envtest.folder / f"examples-{backend}"
    shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    found = sorted(path.parent.name for path in folder.glob("*/test_*.py"))
    assert found == sorted(
        re.findall(r"^\| \[(\w+)\]", (folder / "README.md").read_text(), re.MULTILINE)
    )
    command = ["-m", "pytest", "-q", "-o", "asyncio_mode=auto", "-p", "no:cacheprovider"]
    places = os.pathsep.join(str(folder / name) for name in found)
    done = with_envtest.python(
        *command, str(folder), CTRLRUNTIME_ENVTEST_BACKEND=backend, PYTHONPATH=places
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.criterion("DX-7")
async def test_the_tutorial_works_word_for_word_from_an_empty_folder(
    wheel: Path, tmp_path: Path
) -> None:
    """Its commands in its order, `pip install` among them, where nothing of the checkout is."""
    prefix, folder = tmp_path / "venv", tmp_path / "empty"
    venv.create(prefix)
    folder.mkdir()
    terminal = Terminal(folder, fresh(prefix, wheel, tmp_path / "constraints.txt"))
    files = iter(SAMPLE)
    try:
        for block in runnable(PAGE):
            if block.language == "python":
                (folder / next(files)).write_text(block.text)
            else:
                await terminal.run(block.text, what=str(block), timeout=600)
        imported = await terminal.run(IMPORTED, what="where the package is", timeout=60)
        assert str(prefix) in imported
    finally:
        await terminal.close()


IMPORTED = """python -c 'import ctrlruntime; print(ctrlruntime.__file__)'"""


RUN_WITHOUT = """
import asyncio, sys
import ctrlruntime
from ctrlruntime.envtest import Environment
from ctrlruntime import Client, Config, GroupVersionKind, Manager, ManagerOptions

async def main():
    async with Environment() as env:
        config = await Config.load(env.kubeconfig("admin"))
        options = ManagerOptions(metrics_bind_address="0", health_bind_address="0")
        async with Manager(config, options).running():
            async with Client.connect(config) as client:
                await client.list(GroupVersionKind("", "v1", "ConfigMap"), namespace="default")
    assert "kubernetes_asyncio" not in sys.modules

asyncio.run(main())
"""


@pytest.mark.criterion("DX-7")
@pytest.mark.parametrize("program", [RUN_WITHOUT, OIDC], ids=["a manager runs", "oidc"])
def test_kubernetes_asyncio_is_imported_only_where_its_authentication_is_used(
    with_envtest: Installed, program: str
) -> None:
    done = with_envtest.python("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def operators(with_envtest: Installed) -> Path:
    """The two larger examples, in one folder beside the environment."""
    folder = with_envtest.folder / "operators"
    folder.mkdir()
    for name in ("database", "policies"):
        shutil.copy(ROOT / "examples" / name / f"{name}.py", folder)
    return folder


@pytest.mark.criterion("D-42", "D-43")
def test_it_is_typed(with_envtest: Installed, operators: Path) -> None:
    website, *_ = sample(with_envtest.folder)
    python = with_envtest.prefix / "bin" / "python"
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python)]
    command += ["--config-file", os.devnull, "--cache-dir", str(with_envtest.folder / ".mypy")]
    programs = [website.name, *map(str, sorted(operators.glob("*.py")))]
    done = subprocess.run(
        [*command, *programs], cwd=with_envtest.folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.criterion("D-41", "D-42", "D-43")
@pytest.mark.parametrize(
    ("program", "right", "wrong"),
    [
        ("database.py", "database.spec.replicas", "database.spec.replica"),
        ("policies.py", "policy.spec.rules", "policy.spec.rule"),
    ],
)
def test_its_types_hold_under_pyright_strict(
    with_envtest: Installed, operators: Path, tmp_path: Path, program: str, right: str, wrong: str
) -> None:
    """And a field that the kind does not have is found."""
    place, text = with_envtest.prefix, (operators / program).read_text()
    settings = {"typeCheckingMode": "strict", "venvPath": str(place.parent), "venv": place.name}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    (tmp_path / program).write_text(text)
    (tmp_path / "mistaken.py").write_text(text.replace(right, wrong))
    command = [str(ROOT / "hack" / "pyright.sh")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    mistakes = [line for line in done.stdout.splitlines() if " error: " in line]
    assert mistakes, done.stdout + done.stderr
    assert all("mistaken.py" in line for line in mistakes), done.stdout
    assert f'attribute "{wrong.rpartition(".")[2]}"' in done.stdout


SAMPLE = ("website.py", "test_website.py", "test_website_faults.py")


def sample(folder: Path) -> list[Path]:
    """The controller of the first page, its test, and the one with faults."""
    texts = [block.text for block in blocks(PAGE) if block.language == "python"]
    for name, text in zip(SAMPLE, texts, strict=True):
        (folder / name).write_text(text)
    return [folder / name for name in SAMPLE]
