"""The command line of the embedded API server as a process of its own: `python -m ctrlruntime.envtest`."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import msgspec
import uvloop

from ctrlruntime.envtest.backends.embedded import server_tokens
from ctrlruntime.envtest.kubeconfig import mark_server, write_kubeconfig
from ctrlruntime.envtest.process import ChildProcess, report_ready
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.users import User, administrator, read_token_file

NOTICE = (
    "ctrlruntime's embedded API server: a test and demonstration device. Its state is in memory "
    "and ends with this process."
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of the command line."""

    port: int
    tls: bool
    authorization: Literal["AlwaysAllow", "RBAC"]
    kubeconfig: Path | None
    token: tuple[str, ...]
    tokens: Path | None
    nodes: bool
    pods: bool
    run_local: bool
    watch_history: int
    ready: str | None


def users_of(settings: Settings) -> list[User]:
    """Return the users of the command line, always with `admin` and `nodes`.

    Raises click.BadParameter for a --token that is not NAME=TOKEN.
    """
    users = read_token_file(settings.tokens) if settings.tokens else []
    for given in settings.token:
        name, _, token = given.partition("=")
        if not name or not token:
            raise click.BadParameter(f"{given!r} is not NAME=TOKEN", param_hint="--token")
        users.append(User(name=name, token=token, groups=("system:masters",)))
    names = {user.name for user in users}
    return users + [administrator(name) for name in ("admin", "nodes") if name not in names]


async def serve(settings: Settings, folder: Path) -> None:
    """Run until SIGTERM or SIGINT."""
    users = users_of(settings)
    by_name = {user.name: user for user in users}
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    options = ServerOptions(
        port=settings.port,
        tls=settings.tls,
        tokens=server_tokens(users),
        authorization=settings.authorization,
        watch_history=settings.watch_history * 1024 * 1024,
    )
    async with APIServer(options) as server:
        target = settings.kubeconfig or folder / "kubeconfig"
        write_kubeconfig(target, server.url, server.ca_data, by_name["admin"])
        mark_server(folder, server.url)
        own = write_kubeconfig(
            folder / "nodes.kubeconfig", server.url, server.ca_data, by_name["nodes"]
        )
        nodes = await _start_nodes(settings, own, folder) if settings.nodes else None
        _announce(settings, server, target)
        await stopping.wait()
        if nodes is not None:
            await nodes.stop()


async def _start_nodes(settings: Settings, kubeconfig: Path, folder: Path) -> ChildProcess:
    command = [sys.executable, "-m", "ctrlruntime.envtest.nodes", "--kubeconfig", str(kubeconfig)]
    command += [] if settings.pods else ["--no-pods"]
    command += ["--run-local"] if settings.run_local else []
    return await ChildProcess.start(command, log=folder / "nodes.log")


def _announce(settings: Settings, server: APIServer, kubeconfig: Path) -> None:
    ca = server.ca_data.decode() if server.ca_data else None
    report_ready(settings.ready, {"url": server.url, "ca": ca, "kubeconfig": str(kubeconfig)})
    click.echo(NOTICE)
    click.echo(f"serving {server.url}")
    click.echo(f"kubectl --kubeconfig {kubeconfig} get namespaces")


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"show_default": True})
@click.option("--port", default=0, help="Port on 127.0.0.1; 0 takes a free one.")
@click.option("--tls", is_flag=True, help="Serve https with a certificate of its own CA.")
@click.option("--authorization", type=click.Choice(["AlwaysAllow", "RBAC"]), default="AlwaysAllow")
@click.option("--kubeconfig", type=_FILE, help="Where to write the administrator's kubeconfig.")
@click.option("--token", multiple=True, help="NAME=TOKEN of one more administrator. Repeatable.")
@click.option("--tokens", type=_FILE, help="Users, as kube-apiserver's --token-auth-file.")
@click.option("--nodes", is_flag=True, help="Run simulated nodes beside it.")
@click.option("--pods/--no-pods", default=True, help="Simulated nodes make ReplicaSets and Pods.")
@click.option("--run-local", is_flag=True, help="Run commands of Pods annotated for it, here.")
@click.option("--watch-history", default=64, help="MiB of changes kept for watches.")
@click.option("--ready", help="File that gets one line of JSON once it serves.")
def main(**options: object) -> None:
    """Run the embedded API server: a test and demonstration device, not a cluster."""
    settings = msgspec.convert(options, Settings)
    with tempfile.TemporaryDirectory(prefix="envtest-") as folder:
        uvloop.run(serve(settings, Path(folder)))
