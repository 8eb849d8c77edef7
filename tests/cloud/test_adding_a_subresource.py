"""docs/adding-a-subresource.md, followed to the letter in a copy of the sources."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from tests.cloud.servers.site import Say, Site
from tests.support.waiting import eventually

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs/adding-a-subresource.md"
BLOCK: Final = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
API: Final = "cloud.ctrlruntime.dev/v1"
INSTANCE: Final = GroupVersionKind("cloud.ctrlruntime.dev", "v1", "Instance")
DNS: Final = GroupVersionKind("cloud.ctrlruntime.dev", "v1", "InstanceDNS")


def blocks() -> list[tuple[str, str]]:
    """The files of the page and what it says of each."""
    return BLOCK.findall(PAGE.read_text())


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources with what the page adds."""
    for name in ("apis", "internal", "manager", "config", "ctrlruntime"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for name, text in blocks():
        path = tmp_path / name
        if path.exists():
            path.write_text(with_lines(path.read_text(), text))
        else:
            path.write_text(text)
    return tmp_path


def with_lines(old: str, wanted: str) -> str:
    """A file with the lines of a block: each new one stands beside the one that the page shows."""
    if wanted.startswith("from . import"):
        head, _, wanted = wanted.partition("\n\n")
        old, count = re.subn(r"^from \. import .*$", head, old, flags=re.MULTILINE)
        assert count == 1
    lines, shown = old.splitlines(), wanted.splitlines()
    known = [line for line in shown if line in lines]
    assert len(known) == 1, f"the page shows {shown}, and the file has {known} of it"
    at = lines.index(known[0])
    lines[at : at + 1] = shown
    return "\n".join(lines) + "\n"


def python(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )


def documents(path: Path) -> Iterator[dict[str, object]]:
    yield from yaml.safe_load_all(path.read_text())


def test_it_takes_one_kind_one_task_and_one_wiring_module() -> None:
    files = [name for name, _ in blocks()]
    new = [name for name in files if not (ROOT / name).exists()]
    assert [Path(name).parts[:2] for name in new] == [
        ("apis", "cloud"),
        ("internal", "cloud"),
        ("internal", "cloud"),
    ]
    changed = [text for name, text in blocks() if (ROOT / name).exists()]
    assert max(len(text.splitlines()) for text in changed) <= 4


def test_manifests_follow(copy: Path) -> None:
    done = python(copy, "-m", "manager", "manifests")
    assert done.returncode == 0, done.stdout + done.stderr
    [crd] = documents(copy / "config/crd/bases/cloud.ctrlruntime.dev_instancedns.yaml")
    assert crd["kind"] == "CustomResourceDefinition"
    role = (copy / "config/rbac/role.yaml").read_text()
    assert "- instancedns\n" in role
    assert "- instancedns/status\n" in role


async def test_it_works(copy: Path, tmp_path: Path) -> None:
    """Made after the infrastructure, carried out, and undone when the instance goes."""
    async with Site() as site, Environment(users=("admin", "manager")) as environment:
        site.answers["PUT /records/acme.example.com"] = Say(status=201)
        site.answers["DELETE /records/acme.example.com"] = Say(status=204)
        python(copy, "-m", "manager", "manifests")
        await environment.install_crds(copy / "config/crd/bases")
        manager = await ChildProcess.start(
            command(environment.kubeconfig("manager"), tmp_path / "runs"),
            log=tmp_path / "manager.log",
            ready=False,
            env={**os.environ, "PYTHONPATH": str(copy)},
            cwd=copy,
        )
        try:
            await the_life_of_a_name(environment.client("envtest"), site)
            assert site.paths() == [
                "PUT /records/acme.example.com",
                "DELETE /records/acme.example.com",
            ]
            assert site.asked[0].body == {"address": "192.0.2.7"}
        except (TimeoutError, AssertionError) as error:
            raise AssertionError(manager.log_tail()) from error
        finally:
            await manager.stop()


def command(kubeconfig: Path, runs: Path) -> list[str]:
    options = {
        "--system": "cloud",
        "--kubeconfig": str(kubeconfig),
        "--run-provider": "local",
        "--runs-folder": str(runs),
        "--metrics-bind-address": "0",
        "--health-probe-bind-address": "0",
    }
    return [sys.executable, "-m", "manager", "run", *itertools.chain(*options.items())]


async def the_life_of_a_name(client: Client, site: Site) -> None:
    features = {"dns_address": "192.0.2.7", "dns_provider": site.url}
    spec = {
        "version": "5.2.0",
        "domain": "acme.example.com",
        "instanceFeatures": features,
        "debug": {"enableDeletionProtection": False},
    }
    metadata = {"name": "acme", "namespace": "default"}
    await client.create({"apiVersion": API, "kind": "Instance", "metadata": metadata, "spec": spec})
    await until(client, DNS, lambda found: phase(found) == "Ready")
    found = await client.get(DNS, "acme", namespace="default")
    assert found["status"]["message"] == "acme.example.com leads to 192.0.2.7."
    await client.delete(INSTANCE, "acme", namespace="default")
    await until(client, DNS, lambda found: found is None)


async def until(
    client: Client, kind: GroupVersionKind, is_so: Callable[[dict[str, Any] | None], bool]
) -> None:
    async def found() -> dict[str, Any] | None:
        try:
            return await client.get(kind, "acme", namespace="default")
        except NotFound:
            return None

    await eventually(found, is_so)


def phase(found: dict[str, Any] | None) -> str | None:
    return None if found is None else (found.get("status") or {}).get("phase")
