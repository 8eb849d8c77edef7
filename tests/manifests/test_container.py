"""The Dockerfile's own steps make a manager that runs from a read-only folder as nobody's user."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from stat import S_ISDIR

import pytest

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime import __version__
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually
from manager.kinds import KINDS
from tests.house import without_envtest
from tests.house.test_without_envtest import PACKAGES_OF_THE_EXTRA
from tests.manifests.dockerfile import Stage, build, make_read_only, make_writable, steps
from tests.manifests.installation import ROOT, installer
from tests.manifests.read_only_root import contained, refusal
from tests.packages import WHEELS, from_wheels

pytestmark = [pytest.mark.xdist_group("manifests")]

USER = 65532
LARGEST = 200_000_000
"""Bytes that the image may add to its base."""
ARGUMENTS = {"BASE_DIGEST": f"@sha256:{'0' * 64}", "REVISION": "f" * 40}
DEFAULT = "default"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def machines_pip(folder: Path) -> dict[str, str]:
    """How pip finds packages here: its own files, copied to where everybody can read them."""
    found = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    for place in (Path.home() / ".config" / "pip" / "pip.conf", Path.home() / ".pip" / "pip.conf"):
        if place.is_file():
            copy = folder / "pip.conf"
            shutil.copy(place, copy)
            copy.chmod(0o644)
            found["PIP_CONFIG_FILE"] = str(copy)
    if WHEELS.is_dir():
        shutil.copytree(WHEELS, folder / "wheels")
        found |= from_wheels(folder / "wheels")
    return found


@pytest.fixture(scope="module")
def image() -> Iterator[Stage]:
    """The result, read-only. Not below pytest's own folder, which only its owner may enter."""
    folder = Path(tempfile.mkdtemp(prefix="container-"))
    folder.chmod(0o755)
    stage = build(ROOT / "Dockerfile", folder / "image", machines_pip(folder), ARGUMENTS)
    make_read_only(stage.root)
    yield stage
    if os.geteuid() != 0:
        make_writable(stage.root)
    shutil.rmtree(folder)


def command(image: Stage, *arguments: str) -> list[str]:
    return [*(image.mapped(word) for word in image.entrypoint), *arguments]


@pytest.mark.criterion("container")
def test_it_runs_as_an_unprivileged_user(image: Stage) -> None:
    assert (image.user, image.group) == (USER, USER)
    users = [rest for step, rest in steps((ROOT / "Dockerfile").read_text()) if step == "USER"]
    assert users == [f"{USER}:{USER}"] * 2  # the build as well
    for path in (image.root, *image.root.rglob("*")):
        assert path.is_symlink() or not path.stat().st_mode & 0o222


@pytest.mark.criterion("container")
def test_there_is_nothing_in_it_but_what_the_manager_needs(image: Stage) -> None:
    installed = {path.name for path in image.root.glob("opt/manager/venv/lib/*/site-packages/*")}
    assert "aiohttp" in installed
    tools = {"pip", "setuptools", "wheel", "hatchling"}
    assert not installed & {"pytest", "mypy", "ruff", "hypothesis", *tools, *PACKAGES_OF_THE_EXTRA}
    assert not list(image.root.glob("opt/manager/venv/bin/pip*"))
    assert list((image.root / "tmp").iterdir()) == []
    assert {path.name for path in (image.root / "opt/manager/app").iterdir()} == {
        "apis",
        "ctrlruntime",
        "internal",
        "manager",
    }


@pytest.mark.criterion("container")
def test_the_test_environment_is_not_in_it(image: Stage) -> None:
    left = image.root / "opt/manager/app/ctrlruntime/envtest"
    assert [path.name for path in left.iterdir() if path.name != "__pycache__"] == ["__init__.py"]
    locked = (image.root.parent / "build/tmp/runtime.lock").read_text()
    assert not [name for name in requirements_of_envtest() if f"\n{name}==" in f"\n{locked}"]


@pytest.mark.criterion("container")
def test_every_module_is_imported_in_it(image: Stage) -> None:
    program = Path(without_envtest.__file__).read_text()
    done = inside(image, command(image)[0], "-c", program)
    assert done.returncode == 0, done.stderr
    assert "manager.controllers.cosmos\n" in done.stdout


@pytest.mark.criterion("container")
@pytest.mark.parametrize("arguments", [("run", "--embedded"), ("demo",)])
def test_an_embedded_server_is_refused_with_what_to_install(
    image: Stage, arguments: tuple[str, ...]
) -> None:
    done = inside(image, *command(image, *arguments))
    assert done.returncode == 1
    assert "pip install 'ctrlruntime[envtest]'" in done.stderr
    assert "Traceback" not in done.stderr


def inside(image: Stage, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as the image's user, in its folder and with its variables."""
    done: subprocess.CompletedProcess[str] = subprocess.run(
        words,
        cwd=image.place(""),
        env=image.variables({}),
        capture_output=True,
        text=True,
        **image.identity(),  # type: ignore[call-overload]
    )
    return done


def requirements_of_envtest() -> list[str]:
    """Names of the packages that only the test environment needs."""
    project = tomllib.loads((ROOT / "distributions/envtest/pyproject.toml").read_text())["project"]
    names = [re.split("[<>=]", item)[0] for item in project["dependencies"]]
    return [name for name in names if name not in ("ctrlruntime", "protobuf")]


@pytest.mark.criterion("container")
def test_it_explains_itself(image: Stage) -> None:
    result = inside(image, *command(image, "run", "--help"))
    assert result.returncode == 0, result.stderr
    assert "--allow-foreign-namespaces" in result.stdout
    assert image.command == ["run"]
    named = inside(
        image, *command(image)[:1], image.mapped("/opt/manager/venv/bin/manager"), "--version"
    )
    assert named.stdout.startswith("manager "), f"{named.stderr}: messages call it by that name"


@pytest.mark.criterion("container")
def test_it_adds_less_than_200_mb_to_its_base(image: Stage) -> None:
    found = [path.lstat() for path in image.root.rglob("*")]
    sizes = {entry.st_ino: entry.st_size for entry in found if not S_ISDIR(entry.st_mode)}
    assert sum(sizes.values()) < LARGEST
    compiled = image.root.glob("opt/manager/venv/lib/*/site-packages/pydantic/__pycache__/*.pyc")
    assert list(compiled), "modules that cannot be compiled later are compiled"


@pytest.mark.criterion("container")
def test_its_labels_and_base_are_those_of_the_build(image: Stage) -> None:
    base = f"python:3.11-slim-bookworm{ARGUMENTS['BASE_DIGEST']}"
    labels = {
        name.removeprefix("org.opencontainers.image."): text for name, text in image.labels.items()
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert image.base == labels.pop("base.name") == base
    assert labels.pop("version") == __version__
    assert labels.pop("revision") == ARGUMENTS["REVISION"]
    assert labels.pop("licenses") == project["license"]
    assert labels.pop("title") == f"{project['name']}-manager"
    assert labels.pop("vendor") == project["authors"][0]["name"]
    assert [labels.pop(name) for name in ("url", "documentation", "source")] == [
        project["urls"][name] for name in ("Homepage", "Documentation", "Source")
    ]
    assert set(labels) == {"description"}


@pytest.fixture
def volumes(image: Stage) -> Iterator[Path]:
    """Return a folder for what containers mount; skip where none can be run."""
    if why := refusal():
        pytest.skip(f"no container without a builder: {why}")
    folder = image.root.parent / "volumes"
    folder.mkdir()
    yield folder
    shutil.rmtree(folder)


WRITE = """
import os
tree = [f for top in ("/opt", "/dev", "/tmp") for f, _, _ in os.walk(top)]
for folder in ["/", "/usr", "/usr/bin", "/etc", *tree]:
    try:
        open(os.path.join(folder, "written"), "w").close()
        print(folder)
    except OSError as error:
        if error.errno not in (13, 30):
            raise
print(os.getuid(), os.getgid(), os.getgroups(), os.listdir("/opt"))
"""


@pytest.mark.criterion("container")
@pytest.mark.parametrize("user", [0, USER])
def test_no_file_can_be_written_in_the_container(image: Stage, volumes: Path, user: int) -> None:
    """Not by root either: it is the file system that is read-only, not only its files."""
    stage = replace(image, user=user, group=user)
    words = [image.entrypoint[0], "-c", WRITE]
    done = subprocess.run(contained(stage, words, {}), capture_output=True, text=True)
    assert done.stdout == f"{user} {user} [] ['manager']\n", done.stderr


@pytest.mark.criterion("container")
def test_the_deployments_give_the_containers_no_volume_to_write_to() -> None:
    pods = [
        each["spec"]["template"]["spec"] for each in installer() if each["kind"] == "Deployment"
    ]
    assert pods
    for pod in pods:
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert pod["securityContext"]["runAsUser"] == USER
        assert not pod.get("volumes")


@pytest.mark.criterion("container")
async def test_it_reconciles_a_tenant_from_a_read_only_root(image: Stage, volumes: Path) -> None:
    with contextlib.closing(sqlite3.connect(volumes / "rows.sqlite")) as rows, rows:
        rows.execute("CREATE TABLE t (uid, active)")
        rows.execute("INSERT INTO t VALUES ('a', 1)")
    async with Environment() as environment:
        await environment.install_crds(*KINDS)
        shutil.copy(environment.kubeconfig("manager"), volumes / "kubeconfig")
        (volumes / "kubeconfig").chmod(0o644)
        words = [
            *image.entrypoint,
            *image.command,
            "--kubeconfig=/etc-manager/kubeconfig",
            "--allow-sqlite=/etc-manager",
            "--metrics-bind-address=127.0.0.1:0",
            "--health-probe-bind-address=127.0.0.1:0",
            "--leader-elect",
            "--leader-election-namespace=default",
        ]
        process = await asyncio.create_subprocess_exec(
            *contained(image, words, {"/etc-manager": volumes}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            client = environment.client("admin")
            for manifest in (REGISTRY, TEMPLATE):
                await client.create(manifest)
            expected = {"data": {"tenant": "a"}}
            await eventually(client, CONFIG_MAP, "a-cm", expected, namespace=DEFAULT)
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            await eventually(client, Tenant.gvk(), "a-app", ready, namespace=DEFAULT)
            assert identity(process.pid) == {"Uid": {USER}, "Gid": {USER}, "Groups": set()}
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            log, _ = await process.communicate()
        assert process.returncode == 0, log.decode()
        assert b"Traceback" not in log


def identity(pid: int) -> dict[str, set[int]]:
    """Return the users and groups of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return {name: {int(each) for each in found[name].split()} for name in ("Uid", "Gid", "Groups")}


TENANCY = "tenancy.ctrlruntime.dev/v1"
REGISTRY = {
    "apiVersion": TENANCY,
    "kind": "TenantRegistry",
    "metadata": {"name": "rows", "namespace": DEFAULT},
    "spec": {
        "source": {
            "type": "sqlite",
            "sqlite": {"path": "rows.sqlite", "table": "t"},
            "syncInterval": "1s",
        },
        "valueMappings": {"uid": "uid", "activate": "active"},
    },
}
TEMPLATE = {
    "apiVersion": TENANCY,
    "kind": "TenantTemplate",
    "metadata": {"name": "app", "namespace": DEFAULT},
    "spec": {
        "registryId": "rows",
        "configMaps": [
            {
                "id": "cm",
                "nameTemplate": "{{ .uid }}-cm",
                "spec": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"tenant": "{{ .uid }}"}},
            }
        ],
    },
}


async def judged(environment: Environment) -> None:
    """Until the manager has looked at a template, which takes its renderer, and has said so."""
    spec = {
        "registryId": "none",
        "configMaps": [
            {
                "id": "cm",
                "nameTemplate": "{{ .uid }}",
                "spec": {"apiVersion": "v1", "kind": "ConfigMap"},
            }
        ],
    }
    client = environment.client("admin")
    head = {"apiVersion": TenantTemplate.gvk().api_version, "kind": "TenantTemplate"}
    metadata = {"name": "app", "namespace": "default"}
    await client.create({**head, "metadata": metadata, "spec": spec})
    template = await eventually(
        client,
        TenantTemplate,
        "app",
        lambda found: find_condition(found.status.conditions, "Valid") is not None,
        namespace="default",
        timeout=300,  # the first start of an installation compiles it
    )
    valid = find_condition(template.status.conditions, "Valid")
    assert valid is not None
    assert valid.reason == "RegistryNotFound"
