"""Providers engage and disengage clusters as Secrets and files come, change and go."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.client.kubeconfig import ConfigError, Kubeconfig
from ctrlruntime.cluster import (
    ClusterNotFound,
    ClusterSet,
    FileProvider,
    KubeconfigProvider,
    Provider,
)
from ctrlruntime.controller import Builder
from ctrlruntime.manager import Manager
from tests.manager.support import CONFIG_MAP, EVENT, manager
from tests.support.waiting import eventually

from .support import Reconciled, config_map, create, servers, silent_server

pytestmark = pytest.mark.criterion("MG-20")

SECRET = {"apiVersion": "v1", "kind": "Secret"}
SECRET_KIND = GroupVersionKind("", "v1", "Secret")
LABEL = {"cluster.ctrlruntime.dev/kubeconfig": "true"}


def kubeconfig(host: str, **user: object) -> str:
    return yaml.safe_dump(
        {
            "clusters": [{"name": "c", "cluster": {"server": host}}],
            "users": [{"name": "u", "user": {"note": "t0p-secret", **user}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


class Secrets:
    """Kubeconfigs in Secrets of the manager's own cluster."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def provider(self, subject: Manager) -> Provider:
        return KubeconfigProvider(subject.cluster, "default")

    async def put(self, name: str, content: str) -> None:
        data = {"kubeconfig": base64.b64encode(content.encode()).decode()}
        metadata = {"name": name, "namespace": "default", "labels": LABEL}
        manifest = {**SECRET, "metadata": metadata, "data": data}
        async with Client.connect(self._config) as client:
            try:
                await client.create(manifest)
            except AlreadyExists:
                await client.patch(SECRET_KIND, name, {"data": data}, namespace="default")

    async def remove(self, name: str) -> None:
        async with Client.connect(self._config) as client:
            await client.delete(SECRET_KIND, name, namespace="default")


class Files:
    """Kubeconfigs in a directory, each renamed into place."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def provider(self, subject: Manager) -> Provider:
        return FileProvider(self._directory, interval=0.02)

    async def put(self, name: str, content: str) -> None:
        fresh = self._directory / f"{name}.new"
        fresh.write_text(content)
        fresh.rename(self._directory / f"{name}.kubeconfig")

    async def remove(self, name: str) -> None:
        (self._directory / f"{name}.kubeconfig").unlink()


@pytest.fixture(params=["secrets", "files"])
def place(request: pytest.FixtureRequest, config: Config, tmp_path: Path) -> Secrets | Files:
    return Secrets(config) if request.param == "secrets" else Files(tmp_path)


@dataclass
class Harness:
    """A manager with a provider, and two servers."""

    subject: Manager
    reconciled: Reconciled
    east: Config
    west: Config
    logs: list[Any]


@pytest.fixture
async def harness(config: Config, place: Secrets | Files) -> AsyncIterator[Harness]:
    with structlog.testing.capture_logs() as logs:
        async with servers(2) as (east, west):
            subject, reconciled = manager(config), Reconciled()
            builder = Builder(subject).for_(
                CONFIG_MAP, labels="test=clusters", cluster=ClusterSet.ENGAGED
            )
            builder.named("clusters").build(reconciled)
            subject.add_provider(place.provider(subject))
            async with subject.running():
                yield Harness(subject, reconciled, east, west, logs)


def failures(harness: Harness) -> list[str]:
    return [each["error"] for each in harness.logs if "Cluster not engaged" in each["event"]]


async def test_clusters_come_change_and_go_with_their_kubeconfigs(
    harness: Harness, place: Secrets | Files
) -> None:
    await create(harness.east, config_map("in-east"))
    await create(harness.west, config_map("in-west"))
    await place.put("plane", kubeconfig(harness.east.host))
    await harness.reconciled.until("plane:in-east")
    await place.put("plane", kubeconfig(harness.west.host))
    await harness.reconciled.until("plane:in-west")
    assert harness.subject.get_cluster("plane").config.host == harness.west.host
    await place.remove("plane")
    await eventually(lambda: not list(harness.subject._clusters))
    await place.put("plane", kubeconfig(harness.east.host))
    await create(harness.east, config_map("again"))
    await harness.reconciled.until("plane:again")


@pytest.mark.parametrize(
    "broken",
    [
        "{: not yaml",
        "just text",
        "{clusters: 5}",
        "{current-context: x}",
        "",
    ],
)
async def test_a_broken_kubeconfig_is_reported_and_leaves_the_cluster_as_it_is(
    harness: Harness, place: Secrets | Files, broken: str
) -> None:
    await place.put("plane", kubeconfig(harness.east.host))
    await create(harness.east, config_map("a"))
    await harness.reconciled.until("plane:a")
    await place.put("plane", broken)
    await eventually(lambda: bool(failures(harness)))
    await create(harness.east, config_map("b"))
    await harness.reconciled.until("plane:b")
    await place.put("other", kubeconfig(harness.west.host))
    await create(harness.west, config_map("c"))
    await harness.reconciled.until("other:c")
    await place.put("plane", kubeconfig(harness.west.host))
    await harness.reconciled.until("plane:c")
    assert len(failures(harness)) == 1
    assert "t0p-secret" not in str(harness.logs)


async def test_a_silent_cluster_does_not_keep_a_provider_from_the_next(
    harness: Harness, place: Secrets | Files
) -> None:
    async with silent_server() as silent:
        await place.put("a-silent", kubeconfig(silent.host))
        await place.put("plane", kubeconfig(harness.east.host))
        await create(harness.east, config_map("a"))
        await harness.reconciled.until("plane:a")
        await place.remove("a-silent")
        await eventually(lambda: [each.name for each in harness.subject._clusters] == ["plane"])
        assert failures(harness) == []


@pytest.mark.parametrize("place", ["secrets"], indirect=True)
async def test_a_secret_with_a_kubeconfig_that_is_refused_gets_an_event(
    harness: Harness, place: Secrets, config: Config
) -> None:
    await place.put("plane", kubeconfig(harness.east.host, tokenFile="/etc/passwd"))
    async with Client.connect(config) as client:
        notes: list[str] = []
        while not notes:
            events = await client.list(EVENT, namespace="default")
            notes = [each["note"] for each in events if each["reason"] == "KubeconfigInvalid"]
    assert notes[0].startswith("the kubeconfig of Secret default/plane uses tokenFile")
    assert not list(harness.subject._clusters)


@pytest.mark.parametrize("place", ["secrets"], indirect=True)
async def test_a_secret_that_loses_its_label_disengages_its_cluster(
    harness: Harness, place: Secrets, config: Config
) -> None:
    await place.put("plane", kubeconfig(harness.east.host))
    await eventually(lambda: len(list(harness.subject._clusters)) == 1)
    patch = {"metadata": {"labels": {"cluster.ctrlruntime.dev/kubeconfig": None}}}
    async with Client.connect(config) as client:
        await client.patch(SECRET_KIND, "plane", patch, namespace="default")
    await eventually(lambda: not list(harness.subject._clusters))
    with pytest.raises(ClusterNotFound):
        harness.subject.get_cluster("plane")


def move(source: Path, target: Path) -> None:
    source.rename(target)


@pytest.mark.parametrize("place", ["files"], indirect=True)
async def test_a_directory_that_cannot_be_read_changes_nothing(
    harness: Harness, place: Files, tmp_path: Path
) -> None:
    await place.put("plane", kubeconfig(harness.east.host))
    await eventually(lambda: len(list(harness.subject._clusters)) == 1)
    move(tmp_path, tmp_path.with_name("gone"))
    await eventually(lambda: any("cannot be read" in each["event"] for each in harness.logs))
    await create(harness.east, config_map("a"))
    await harness.reconciled.until("plane:a")
    move(tmp_path.with_name("gone"), tmp_path)
    await place.put("other", kubeconfig(harness.west.host))
    await eventually(lambda: len(list(harness.subject._clusters)) == 2)
    assert failures(harness) == []


def test_a_directory_that_goes_during_a_look_was_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "planes"
    folder.mkdir()

    def glob(path: Path, pattern: str) -> list[Path]:
        move(path, tmp_path / "gone")
        return []

    monkeypatch.setattr(Path, "glob", glob)
    with pytest.raises(FileNotFoundError):
        FileProvider(folder)._stamps()


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}},
        {"tokenFile": "/etc/passwd"},
        {"client-certificate": "/etc/passwd"},
        {"client-key": "/etc/passwd"},
        {"auth-provider": {"name": "oidc"}},
    ],
)
def test_a_kubeconfig_from_elsewhere_reads_no_files_and_runs_nothing(user: dict[str, Any]) -> None:
    content = kubeconfig("http://127.0.0.1:1", **user).encode()
    with pytest.raises(
        ConfigError, match=f"of Secret a/b uses {next(iter(user))}, which is refused"
    ):
        Kubeconfig.parse(content, "Secret a/b")


def test_the_error_of_a_kubeconfig_that_is_not_yaml_shows_none_of_it() -> None:
    with pytest.raises(ConfigError) as caught:
        Kubeconfig.parse(b"token: t0p-secret: {", "Secret a/b")
    assert "not YAML (line 1, column" in str(caught.value)
    assert "t0p-secret" not in str(caught.value)
