"""`manager ephemeral` and `manager instance`, typed against an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from apis.cloud import Instance
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Fail, Match
from internal.cloud.bulk import Change, apply_version
from internal.cloud.leases import lease_end
from manager.cli import main


@dataclass
class Terminal:
    """Somebody at a keyboard."""

    environment: Environment

    async def types(self, *arguments: str) -> str:
        """What a command that works says."""
        code, told = await self.tries(*arguments)
        assert code == 0, told
        return told

    async def refused(self, *arguments: str) -> str:
        """What a command that does not work says."""
        code, told = await self.tries(*arguments)
        assert code != 0, told
        return told

    async def tries(self, *arguments: str) -> tuple[int, str]:
        where = ["--kubeconfig", str(self.environment.kubeconfig("admin"))]
        result = await asyncio.to_thread(CliRunner().invoke, main, [*arguments, *where])
        return result.exit_code, result.output

    @property
    def client(self) -> Client:
        return self.environment.client("admin")

    async def instance(self, name: str) -> Instance:
        return await self.client.get(Instance, name, namespace="default")

    async def make(self, name: str, **metadata: object) -> None:
        manifest = {
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {"version": "5.1.0"},
        }
        await self.client.create(Instance.from_manifest(manifest))

    async def complete(self, name: str) -> None:
        """As if its creation had ended."""
        found = await self.instance(name)
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-03-01T12:00:00Z",
        }
        status = {
            "version": "5.1.0",
            "phase": "Ready",
            "observedGeneration": found.metadata.generation,
            "conditions": [ready],
        }
        await self.client.patch_status(Instance, name, {"status": status}, namespace="default")


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    async with Environment(folder=tmp_path, proxy=True) as environment:
        await environment.install_crds(Instance)
        yield Terminal(environment)


@pytest.mark.criterion("SG-77")
async def test_the_life_of_an_ephemeral_instance(terminal: Terminal) -> None:
    deploy = ("ephemeral", "deploy", "5.1.0", "--name", "My/Branch")
    assert "my-branch: created" in await terminal.types(*deploy)
    made = await terminal.instance("my-branch")
    assert made.spec.instance_features["ephemeral_instance"] == "true"
    assert not made.spec.debug.enable_deletion_protection
    assert made.spec.release_channel == "pause"

    assert "under way" in await terminal.types(*deploy)  # again, while it is unfinished
    assert (await terminal.instance("my-branch")).metadata.uid == made.metadata.uid
    assert "not completed" in await terminal.refused(
        "ephemeral", "lease", "--extend", "1d", "--name", "my-branch"
    )
    await terminal.complete("my-branch")
    told = await terminal.refused(*deploy)
    assert "already exists, use `manager ephemeral upgrade 5.1.0 --name my-branch`" in told

    before = lease_end(made.spec.instance_features)
    told = await terminal.types("ephemeral", "lease", "--extend", "4d", "--name", "my-branch")
    assert "\n- until " in told
    assert "\n+ until " in told
    after = lease_end((await terminal.instance("my-branch")).spec.instance_features)
    assert before is not None
    assert after is not None
    assert (after - before).days == 4
    assert "4 days" in await terminal.refused(
        "ephemeral", "lease", "--extend", "5d", "--name", "my-branch"
    )
    await terminal.types("ephemeral", "upgrade", "5.2.0", "--name", "my-branch")
    assert (await terminal.instance("my-branch")).spec.wanted_version == "5.2.0"
    assert "my-branch\t5.2.0\tOK" in await terminal.types("ephemeral", "list")
    assert "my-branch: OK" in await terminal.types("ephemeral", "status", "--name", "my-branch")

    await terminal.types("ephemeral", "lease", "--expire-now", "--name", "my-branch")
    assert "ended at" in await terminal.refused(
        "ephemeral", "lease", "--reduce", "1h", "--name", "my-branch"
    )
    await terminal.types("ephemeral", "delete", "--name", "my-branch")
    assert "there is no instance" in await terminal.refused(
        "ephemeral", "status", "--name", "my-branch"
    )


@pytest.mark.criterion("SG-77")
async def test_what_is_not_ephemeral_is_not_touched(terminal: Terminal) -> None:
    await terminal.make("src-1")
    for command in (
        ("delete",),
        ("upgrade", "5.2.0"),
        ("deploy", "5.2.0"),
        ("lease", "--expire-now"),
    ):
        told = await terminal.refused("ephemeral", *command, "--name", "src-1")
        assert "not ephemeral" in told
    assert (await terminal.instance("src-1")).spec.wanted_version == "5.1.0"


@pytest.mark.criterion("SG-71")
@pytest.mark.criterion("SG-73")
async def test_bulk_upgrades(terminal: Terminal) -> None:
    for name, kind in (("src-1", "internal"), ("src-2", "trial"), ("src-3", "production")):
        await terminal.make(name, labels={"instance-type": kind})
        await terminal.complete(name)
    upgrade = ("instance", "upgrade", "--to", "5.2.0", "--stage", "1")
    assert "default/src-1: would be upgraded, 5.1.0 -> 5.2.0" in await terminal.types(
        *upgrade, "--dry-run"
    )
    assert (await terminal.instance("src-1")).spec.wanted_version == "5.1.0"
    told = await terminal.types(*upgrade)
    assert "default/src-2: skipped, its turn comes at a later stage" in told
    assert "internal: 1 of 1 at 5.2.0" in told
    versions = [
        (await terminal.instance(name)).spec.wanted_version for name in ("src-1", "src-2", "src-3")
    ]
    assert versions == ["5.2.0", "5.1.0", "5.1.0"]
    await terminal.types("instance", "upgrade", "--to", "5.2.0", "--percent", "trial=100")
    assert (await terminal.instance("src-2")).spec.wanted_version == "5.2.0"
    assert "not both" in await terminal.refused(*upgrade, "--percent", "trial=1")


@pytest.mark.criterion("H-B7")
async def test_h_b7_a_conflict_is_retried_with_what_is_there_now(terminal: Terminal) -> None:
    """Another client changes the object between the list and the write."""
    for name in ("src-1", "src-2"):
        await terminal.make(name, labels={"instance-type": "internal"})
        await terminal.complete(name)
    listed = await terminal.client.list(Instance, "default")
    change = {"metadata": {"labels": {"seen": "meanwhile"}}}
    await terminal.client.patch(Instance, "src-1", change, namespace="default")
    pause = {"metadata": {"annotations": {"cloud.ctrlruntime.dev/paused": "true"}}}
    await terminal.client.patch(Instance, "src-2", pause, namespace="default")
    mark = terminal.environment.proxy.log.mark()
    results = await apply_version(terminal.client, listed, "5.2.0")
    assert [(item.name, item.change) for item in results] == [
        ("default/src-1", Change.UPGRADED),
        ("default/src-2", Change.SKIPPED),
    ]
    assert "paused" in results[1].detail
    patches = [
        item.code
        for item in terminal.environment.proxy.log.entries(mark)
        if (item.verb, item.name) == ("patch", "src-1")
    ]
    assert patches == [409, 200]
    assert (await terminal.instance("src-1")).spec.wanted_version == "5.2.0"
    assert (await terminal.instance("src-2")).spec.wanted_version == "5.1.0"


@pytest.mark.criterion("H-B7")
async def test_h_b7_one_failure_does_not_stop_the_rest_and_the_exit_code_reports_it(
    terminal: Terminal,
) -> None:
    for name in ("src-1", "src-2", "src-3"):
        await terminal.make(name, labels={"instance-type": "internal"})
        await terminal.complete(name)
    await terminal.make("src-4", labels={"instance-type": "internal"})
    proxy = terminal.environment.proxy
    rule = proxy.add(Fail(code=409), Match(verb="patch", name="src-2"), times=None)
    code, told = await terminal.tries("instance", "upgrade", "--to", "5.2.0", "--stage", "1")
    assert code == 1
    assert "default/src-1: upgraded, 5.1.0 -> 5.2.0" in told
    assert "default/src-2: failed, " in told
    assert "default/src-3: upgraded, 5.1.0 -> 5.2.0" in told
    assert "default/src-4: skipped, it is not healthy" in told
    assert "internal: 2 of 4 at 5.2.0" in told
    proxy.remove(rule)
    told = await terminal.types("instance", "upgrade", "--to", "5.2.0", "--stage", "1")
    assert "default/src-1: skipped, it has 5.2.0 already" in told
    assert "default/src-2: upgraded" in told


async def test_the_annotations_of_operators(terminal: Terminal) -> None:
    await terminal.make("src-1")
    group = "cloud.ctrlruntime.dev"

    async def annotations() -> dict[str, str]:
        return (await terminal.instance("src-1")).metadata.annotations or {}

    await terminal.types("instance", "pause", "src-1")
    assert (await annotations())[f"{group}/paused"] == "true"
    await terminal.types("instance", "resume", "src-1")
    await terminal.types("instance", "extract", "src-1")
    assert await annotations() == {f"{group}/control-plane-mode": "false"}
    extracted = await terminal.instance("src-1")
    assert extracted.status.phase == "Extracted"
    assert "backfill" in extracted.status.message
    await terminal.types("instance", "backfill", "src-1")
    await terminal.types("instance", "retry", "src-1")
    first = (await annotations())[f"{group}/retry"]
    await terminal.types("instance", "retry", "src-1")
    assert (await annotations())[f"{group}/retry"] != first
    assert "src-9" in await terminal.refused("instance", "pause", "src-9")
