"""`ctrlruntime dev` as a process, and against a server that exists."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cli.dev_server import ExistingServer
from ctrlruntime.cli.dev_session import Display
from ctrlruntime.cli.program import program
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest import Environment
from ctrlruntime.generate.discovery import find_kinds, load

CODE = """
from ctrlruntime import *
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")

def setup(manager):
    async def reconcile(request):
        if request.name == "probe":
            answer = 40 + 2
            breakpoint()
        while request.name == "stuck":
            pass
    options = ControllerOptions(reconciliation_timeout=0.1)
    Builder(manager).for_(CONFIG_MAP).named("copy").options(options).build(reconcile)
"""
PROBE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "probe", "namespace": "default"},
}
STUCK = PROBE | {"metadata": {"name": "stuck", "namespace": "default"}}
ROOT = Path(__file__).parents[2]
LIMIT = 120.0
"""Seconds for what takes less than one on a machine at rest."""


async def until(stream: asyncio.StreamReader, text: str) -> str:
    """Read until a text comes, and return all."""
    async with asyncio.timeout(LIMIT):
        return (await stream.readuntil(text.encode())).decode()


@contextlib.asynccontextmanager
async def program_running(folder: Path, *arguments: str) -> AsyncIterator[Process]:
    """Run the command until the code is loaded and its controllers work; Ctrl-C ends it at the end, in order."""
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "ctrlruntime.cli", "dev", *arguments],
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        await until(process.stdout, "watching files")
        await until(process.stdout, "Starting workers")
        yield process
        process.send_signal(signal.SIGINT)
        await asyncio.wait_for(process.communicate(), LIMIT)
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.criterion("D-15")
async def test_breakpoint_stops_a_reconcile_and_ctrl_c_ends_one_that_does_not_yield(
    tmp_path: Path,
) -> None:
    (tmp_path / "stops.py").write_text(CODE)
    arguments = ["--setup", "stops:setup", "--no-nodes", "--write-kubeconfig", "kubeconfig"]
    async with program_running(tmp_path, *arguments) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        config = await Config.load(tmp_path / "kubeconfig")
        async with Client.connect(config) as client:
            await client.create(PROBE)
            await until(process.stdout, "(Pdb) ")
            process.stdin.write(b"p answer\nc\n")
            text = await until(process.stdout, "cause: ConfigMap default/probe created\n")
            assert "42" in text
            assert "failed" not in text
            await client.create(STUCK)
        await until(process.stdout, "reconcile stands still at stops.py:1")


@pytest.mark.criterion("D-10")
async def test_the_page_works_with_its_controller_and_simulated_nodes(tmp_path: Path) -> None:
    """Runs docs/how-to/develop.md: a server and nodes as processes, which start in a few seconds."""
    page, first = (ROOT / "docs" / name for name in ("how-to/develop.md", "first-controller.md"))
    _, command = next(line for line in blocks(page)[0] if "dev" in line).split(" dev ")
    (tmp_path / "website.py").write_text("\n".join(blocks(first)[1]))
    async with program_running(tmp_path, *command.split()) as process:
        assert process.stdout is not None
        site = {
            "apiVersion": "example.com/v1",
            "kind": "Website",
            "metadata": {"name": "hello", "namespace": "default"},
            "spec": {"image": "nginx:1.27", "replicas": 2},
        }
        config = await Config.load(tmp_path / "kubeconfig")
        async with Client.connect(config) as client:
            await client.create(site)
        await until(process.stdout, "-> '2 of 2 are ready'")
        file = tmp_path / "website.py"
        file.write_text(file.read_text().replace('are ready"', 'are up"'))
        assert "\x1b" not in await until(process.stdout, "'2 of 2 are ready' -> '2 of 2 are up'")


def blocks(page: Path) -> list[list[str]]:
    """Return the lines of each fenced block of a page."""
    parts = page.read_text().split("```")[1::2]
    return [part.splitlines()[1:] for part in parts]


KIND = """
from ctrlruntime import *

class Sprocket(Resource[ApiModel, NoStatus], group="example.com", version="v1"):
    pass

def setup(manager):
    async def reconcile(request):
        pass
    Builder(manager).for_(Sprocket).build(reconcile)
"""


@pytest.mark.criterion("D-16")
async def test_a_cluster_of_a_kubeconfig_is_left_as_it_is_and_what_is_missing_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "sprockets.py").write_text(KIND)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    kinds = find_kinds(load(["sprockets"]))
    async with Environment() as env:
        server = ExistingServer(env.config(), "sprockets:setup")
        display = Display()
        await server.install(kinds, display.note)
        await server.install(kinds, display.note)
        (line,) = capsys.readouterr().out.splitlines()
        assert "sprockets.example.com is not installed on the server: ctrlruntime generate" in line
        crd = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
        assert await env.client().list(crd) == []
        command = line.partition("ctrlruntime ")[2].partition(" | ")[0].split()
        done = await asyncio.to_thread(CliRunner().invoke, program, command)
        (tmp_path / "crd.yaml").write_text(done.stdout)
        await env.install_crds(tmp_path / "crd.yaml")
        again = ExistingServer(env.config(), "sprockets:setup")
        await again.install(kinds, display.note)
        assert capsys.readouterr().out == ""
        live = await env.client().get(crd, "sprockets.example.com")
        live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].pop("spec")
        live["spec"]["versions"][0]["schema"]["openAPIV3Schema"].pop("required", None)
        await env.client().update(live)
        await ExistingServer(env.config(), "sprockets:setup").install(kinds, display.note)
        assert "sprockets.example.com differs on the server: " in capsys.readouterr().out


WRONG = {
    "nothing": ([], "name the function that adds the controllers, as in --setup website:setup"),
    "no function": (["--setup", "website"], "name the module and its function"),
    "context": (["--setup", "a:b", "--context", "c"], "--context needs --kubeconfig"),
    "options": (["--setup", "a:b", "--options", "sys:path"], "is a list: name ManagerOptions"),
    "kubeconfig": (["--setup", "a:b", "--kubeconfig", "absent"], "does not exist"),
}


@pytest.mark.criterion("D-16")
@pytest.mark.parametrize(("arguments", "shown"), WRONG.values(), ids=WRONG)
def test_wrong_options_are_refused_with_the_right_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], shown: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(program, ["dev", *arguments])
    assert done.exit_code != 0
    assert shown in done.output


@pytest.mark.criterion("D-16")
def test_the_setup_function_is_found_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ctrlruntime.cli.dev import configured

    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "app.py").touch()
    (tmp_path / ".ctrlruntime").mkdir()
    (tmp_path / ".ctrlruntime" / "project.json").touch()
    assert configured(tmp_path) == ("shop.app:setup", "shop.app:OPTIONS")
    with pytest.raises(UsageError, match=f"give the command in {tmp_path}, the folder"):
        configured(tmp_path / "shop")
    (tmp_path / "pyproject.toml").write_text('[tool.ctrlruntime]\nsetup = "a:b"\n')
    assert configured(tmp_path) == ("a:b", None)
    for wrong in (
        "[tool]\nctrlruntime = 3\n",
        '[tool.ctrlruntime]\nsetup = "a:b"\noptions = ["x"]\n',
    ):
        (tmp_path / "pyproject.toml").write_text(wrong)
        with pytest.raises(UsageError, match="below it setup = "):
            configured(tmp_path)
