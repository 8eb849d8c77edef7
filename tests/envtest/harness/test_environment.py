"""Environments: servers, users, kubeconfigs and kinds, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from ctrlruntime.api import ApiModel, ObjectMeta, Resource
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import Forbidden, NoKindMatch, NotFound, Unauthorized
from ctrlruntime.envtest.backends import existing
from ctrlruntime.envtest.crds import CRD, install_crds
from ctrlruntime.envtest.environment import Environment
from ctrlruntime.envtest.kubeconfig import is_marked, write_kubeconfig
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Fail, Match
from ctrlruntime.envtest.users import Identity, User
from tests.support.waiting import eventually

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


class GadgetSpec(ApiModel):
    size: int = 1


class GadgetStatus(ApiModel):
    ready: bool = False


class Gadget(
    Resource[GadgetSpec, GadgetStatus], group="test.ctrlruntime.dev", version="v1", plural="gadgets"
):
    """A kind to install."""


def config_map(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


@pytest.mark.parametrize("backend", ["embedded", "embedded-process"])
@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("proxy", [False, True])
async def test_every_kind_of_environment_serves_its_users(
    backend: str, tls: bool, proxy: bool
) -> None:
    async with Environment(backend, tls=tls, proxy=proxy) as env:
        assert env.url.startswith("https" if tls else "http:")
        await env.client("admin").create(config_map("a"))
        async with Client.connect(await Config.load(env.kubeconfig("manager"))) as other:
            assert (await other.get(CONFIG_MAP, "a", namespace="default"))["metadata"][
                "name"
            ] == "a"
        if proxy:
            rows = [(r.user, r.verb, r.resource, r.code) for r in env.proxy.log.counts()]
            assert rows == [
                ("admin", "create", "configmaps", 201),
                ("manager", "get", "configmaps", 200),
            ]


@pytest.mark.criterion("EN-02")
@pytest.mark.parametrize("proxy", [False, True])
async def test_kinds_are_served_when_install_returns(proxy: bool, tmp_path: Path) -> None:
    (tmp_path / "crd.yaml").write_bytes(orjson.dumps(Gadget.crd()))
    async with Environment(proxy=proxy) as env:
        for source in (Gadget, Gadget.crd(), tmp_path, tmp_path / "crd.yaml"):
            mappings = await env.install_crds(source)
            assert [m.plural for m in mappings] == ["gadgets"]
        gadget = Gadget(metadata=ObjectMeta(name="g", namespace="default"), spec=GadgetSpec(size=3))
        made = await env.client().create(gadget)
        assert made.spec.size == 3
        if proxy:
            assert env.proxy.log.counts().total == 1, "the environment's own calls go past it"
        await env.uninstall_crds(Gadget)
        async with Client.connect(env.config()) as fresh:
            with pytest.raises((NoKindMatch, NotFound)):
                await fresh.get(Gadget, "g", namespace="default")


async def test_a_definition_that_is_there_is_updated() -> None:
    async with Environment() as env:
        await env.install_crds(Gadget)
        changed = Gadget.crd()
        changed["spec"]["names"]["shortNames"] = ["gg"]
        await env.install_crds(changed)
        live = await env.client().get(CRD, "gadgets.test.ctrlruntime.dev")
        assert live["spec"]["names"]["shortNames"] == ["gg"]


async def test_a_path_without_definitions_is_an_error(tmp_path: Path) -> None:
    async with Environment() as env:
        with pytest.raises(ValueError, match="neither a file nor a folder"):
            await env.install_crds(tmp_path / "none.yaml")
        with pytest.raises(ValueError, match="holds no CustomResourceDefinition"):
            await env.install_crds(tmp_path)


async def test_users_have_the_rights_they_are_given() -> None:
    users: list[str | User] = ["admin", User(name="nobody", groups=("test",))]
    async with Environment(users=users, authorization="RBAC") as env:
        assert await env.client("admin").list(NAMESPACE)
        with pytest.raises(Forbidden):
            await env.client("nobody").list(NAMESPACE)
        with pytest.raises(KeyError, match="no user 'stranger'"):
            env.config("stranger")


def test_a_kubeconfig_that_is_written_again_disturbs_nobody_who_reads_it(tmp_path: Path) -> None:
    path, user = tmp_path / "admin.kubeconfig", User(name="admin")
    before = write_kubeconfig(path, "http://127.0.0.1:1", None, user).read_text()
    with path.open() as reader:
        assert write_kubeconfig(path, "http://127.0.0.1:2", None, user) == path
        assert reader.read() == before
    assert "http://127.0.0.1:2" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]


async def test_kubeconfigs_are_private_and_marked_as_of_the_environment(tmp_path: Path) -> None:
    async with Environment(folder=tmp_path) as env:
        path = env.kubeconfig("admin")
        assert path.stat().st_mode & 0o777 == 0o600
        assert is_marked(path, env.backend.url)
        assert not is_marked(path, "http://127.0.0.1:1")
        assert not is_marked(tmp_path / "elsewhere" / "config", env.backend.url)


async def test_an_unknown_backend_is_named_with_those_there_are() -> None:
    with pytest.raises(
        ValueError, match="there are apiextensions, embedded, embedded-process, kube"
    ):
        Environment("kind")


async def test_what_had_started_is_stopped_when_a_part_fails() -> None:
    stopped = []

    class Half:
        url, ca_data, version = "ftp://nowhere", None, (1, 0)

        def __init__(self, _: object) -> None: ...

        def identity(self, user: User) -> Identity:
            return Identity(token=user.token)

        async def start(self) -> None: ...

        async def stop(self) -> None:
            stopped.append(True)

    env = Environment(Half, proxy=True)
    with pytest.raises(ValueError, match="ftp"):
        await env.start()
    assert stopped == [True]
    with pytest.raises(RuntimeError, match="not running"):
        _ = env.backend


@pytest.mark.criterion("EN-01")
async def test_the_server_process_stops_cleanly_on_sigterm_and_reports_what_it_is(
    tmp_path: Path,
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    child = await ChildProcess.start(
        [sys.executable, "-m", "ctrlruntime.envtest", "--kubeconfig", str(kubeconfig),
         "--token", "alice=t-alice"],
        log=tmp_path / "log",
    )  # fmt: skip
    async with Client.connect(await Config.load(kubeconfig)) as client:
        assert await client.list(NAMESPACE)
    os.kill(child.pid, signal.SIGTERM)
    assert await child.wait() == 0
    assert "test and demonstration device" in child.log_tail()
    assert str(kubeconfig) in child.log_tail()


async def test_a_malformed_token_is_refused(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ctrlruntime.envtest", "--token", "alice",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, stderr = await process.communicate()
    assert process.returncode == 2
    assert b"is not NAME=TOKEN" in stderr


@pytest.mark.criterion("EN-01")
async def test_the_server_process_ends_with_its_environment() -> None:
    async with Environment("embedded-process") as env:
        pid = env.backend.child.pid  # type: ignore[attr-defined]
    await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_users_of_an_environment_around_a_running_server_come_and_go() -> None:
    async with Environment(authorization="RBAC") as server:
        async with Environment(existing(server), users=["guest"], proxy=True) as around:
            assert around.backend.version >= (1, 32)
            await around.client("guest").list(NAMESPACE)
            assert around.proxy.log.counts().select(user="guest").total == 1
            left = around.config("guest", direct=True)
        async with Client.connect(left) as client:
            with pytest.raises(Unauthorized):
                await client.list(NAMESPACE)
        await server.client().list(NAMESPACE)


@pytest.mark.parametrize("proxy", [False, True])
async def test_a_server_known_by_its_configuration_impersonates_the_users(proxy: bool) -> None:
    async with Environment(authorization="RBAC", tls=True) as server:
        known = server.config("admin")
        users: list[str | User] = ["boss", User(name="nobody", groups=("test",))]
        async with Environment(existing(known), users=users, proxy=proxy) as around:
            await around.client("boss").list(NAMESPACE)
            with pytest.raises(Forbidden, match="nobody"):
                await around.client("nobody").list(NAMESPACE)
            config = await Config.load(around.kubeconfig("nobody"))
            async with Client.connect(config) as client:
                with pytest.raises(Forbidden, match="nobody"):
                    await client.list(NAMESPACE)
            if proxy:
                assert around.proxy.log.counts().select(user="boss").total == 1
            kubeconfig = around.kubeconfig("boss", direct=True)
            assert not is_marked(kubeconfig, around.backend.url), "commands must not run for it"


async def test_only_one_group_can_be_impersonated() -> None:
    async with Environment() as server:
        users = [User(name="many", groups=("one", "two"))]
        async with Environment(existing(server.config()), users=users) as around:
            with pytest.raises(ValueError, match="many is in more than one group"):
                around.client("many")


@pytest.mark.criterion("EN-02")
async def test_install_waits_for_discovery() -> None:
    """A server may serve objects a while before its discovery documents name the kind."""
    async with Environment(proxy=True) as env:
        late = Match(user="admin", resource="/apis/test.ctrlruntime.dev/v1")
        rule = env.proxy.add(Fail(code=404), late, times=3)
        await install_crds(env.client("admin"), [Gadget])
        assert rule.fired == 3
        assert env.proxy.log.counts().select(user="admin", resource=late.resource).total == 4
