"""The Containerfile's own steps make a manager that runs from a read-only folder as nobody's user."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from apis.tenancy import TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.envtest import Environment
from tests.manifests.containerfile import Stage, build, make_read_only, make_writable, steps
from tests.manifests.installation import ROOT
from tests.packages import WHEELS, from_wheels

pytestmark = [pytest.mark.xdist_group("manifests"), pytest.mark.timeout(300)]

USER = 65532


def machines_pip(folder: Path) -> dict[str, str]:
    """How pip finds packages here: its own files, copied to where everybody can read them."""
    found = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    found["PIP_NO_COMPILE"] = "1"  # it takes long, and is undone soon
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
    stage = build(ROOT / "Containerfile", folder / "image", machines_pip(folder))
    make_read_only(stage.root)
    yield stage
    if os.geteuid() != 0:
        make_writable(stage.root)
    shutil.rmtree(folder)


def command(image: Stage, *arguments: str) -> list[str]:
    return [*(image.mapped(word) for word in image.entrypoint), *arguments]


@pytest.mark.criterion("container")
def test_it_runs_as_nobody_in_particular(image: Stage) -> None:
    assert (image.user, image.group) == (USER, USER)
    users = [rest for step, rest in steps((ROOT / "Containerfile").read_text()) if step == "USER"]
    assert users == [f"{USER}:{USER}"] * 2  # the build as well
    for path in (image.root, *image.root.rglob("*")):
        assert path.is_symlink() or not path.stat().st_mode & 0o222


@pytest.mark.criterion("container")
def test_there_is_nothing_in_it_but_what_the_manager_needs(image: Stage) -> None:
    installed = {path.name for path in image.root.glob("opt/manager/venv/lib/*/site-packages/*")}
    assert "aiohttp" in installed
    assert not installed & {"pytest", "mypy", "ruff", "hypothesis"}
    assert {path.name for path in (image.root / "opt/manager/app").iterdir()} == {
        "apis",
        "ctrlruntime",
        "internal",
        "manager",
    }


@pytest.mark.criterion("container")
def test_it_explains_itself(image: Stage) -> None:
    result = subprocess.run(
        command(image, "run", "--help"),
        cwd=image.place(""),
        env=image.variables({}),
        capture_output=True,
        text=True,
        check=True,
        **image.identity(),  # type: ignore[call-overload]
    )
    assert "--allow-foreign-namespaces" in result.stdout
    assert image.command == ["run"]


@pytest.mark.criterion("container")
async def test_it_works_against_an_api_server_and_writes_no_file(image: Stage) -> None:
    before = written()
    async with Environment() as environment:
        from manager.embedded import KINDS

        await environment.install_crds(*KINDS)
        kubeconfig = image.root.parent / "kubeconfig"
        kubeconfig.write_text(environment.kubeconfig("manager").read_text())
        kubeconfig.chmod(0o644)
        process = await asyncio.create_subprocess_exec(
            *command(
                image,
                *image.command,
                f"--kubeconfig={kubeconfig}",
                "--metrics-bind-address=127.0.0.1:0",
                "--health-probe-bind-address=127.0.0.1:0",
                "--leader-elect",
                "--leader-election-namespace=default",
            ),
            cwd=image.place(""),
            env=image.variables({}),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            **image.identity(),  # type: ignore[arg-type]
        )
        try:
            await judged(environment)
        finally:
            process.terminate()
            log, _ = await process.communicate()
        assert process.returncode == 0, log.decode()
    assert written() == before


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
    async with asyncio.timeout(60):
        while True:
            template = await client.get(TenantTemplate, "app", "default")
            valid = find_condition(template.status.conditions, "Valid")
            if valid is not None:
                assert valid.reason == "RegistryNotFound"
                return
            await asyncio.sleep(0.1)


def written() -> set[str]:
    """Files of the image's user in the places where programs leave some; all others' are left out."""
    if os.geteuid() != 0:
        return set()
    places = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
    return {str(p) for place in places for p in place.iterdir() if p.lstat().st_uid == USER}
