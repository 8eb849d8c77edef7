"""The command line of a proxy as its own process: `python -m ctrlruntime.envtest.proxy`."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
import uvloop

from ctrlruntime.clock import random_hex
from ctrlruntime.envtest.process import report_ready
from ctrlruntime.envtest.proxy.control import ControlServer
from ctrlruntime.envtest.proxy.proxy import Proxy, ProxyOptions, server_context, serving_context
from ctrlruntime.envtest.users import read_token_file

CONTROL_TOKEN = "ENVTEST_PROXY_CONTROL_TOKEN"  # noqa: S105 - the variable's name


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of the command line."""

    upstream: str
    upstream_ca: Path | None
    upstream_insecure: bool
    port: int
    control_port: int
    tokens: Path | None
    tls_cert: Path | None
    tls_key: Path | None
    ready: str | None
    export: Path | None


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT."""
    users = read_token_file(settings.tokens) if settings.tokens else []
    ca = settings.upstream_ca.read_bytes() if settings.upstream_ca else None
    tls = None
    if settings.tls_cert is not None and settings.tls_key is not None:
        tls = serving_context(settings.tls_cert, settings.tls_key)
    options = ProxyOptions(
        port=settings.port,
        users={user.token: user.name for user in users},
        tls=tls,
        server_tls=server_context(ca, verify=not settings.upstream_insecure),
    )
    token = os.environ.pop(CONTROL_TOKEN, None) or random_hex(24)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with Proxy(settings.upstream, options) as proxy:
        control = ControlServer(proxy, token, port=settings.control_port)
        await control.start()
        facts = {"url": proxy.url, "control": control.url, "control_token": token}
        report_ready(settings.ready, facts)
        if settings.ready is None:
            click.echo(msgspec.json.encode(facts).decode())
        await stopping.wait()
        await control.stop()
        if settings.export is not None:
            settings.export.write_bytes(msgspec.json.encode(proxy.log.mark()))


_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(context_settings={"show_default": True})
@click.option("--upstream", required=True, help="URL of the API server.")
@click.option("--upstream-ca", type=_FILE, help="Its CA certificates, PEM.")
@click.option("--upstream-insecure", is_flag=True, help="Do not verify its certificate.")
@click.option("--port", default=0, help="Port to serve on, on 127.0.0.1; 0 picks a free one.")
@click.option("--control-port", default=0, help="Port of the control endpoint.")
@click.option("--tokens", type=_FILE, help="Users, as kube-apiserver's --token-auth-file.")
@click.option("--tls-cert", type=_FILE, help="Serve TLS with this certificate (PEM).")
@click.option("--tls-key", type=_FILE, help="Its key.")
@click.option("--ready", help="File that gets one line of JSON (url, control, control_token).")
@click.option("--export", type=_FILE, help="File that gets the log's counts at the end, JSON.")
def main(**options: object) -> None:
    """Run a loopback proxy in front of an API server, with a request log and faults.

    The control endpoint's token is taken from ENVTEST_PROXY_CONTROL_TOKEN, or made up.
    """
    uvloop.run(serve(msgspec.convert(options, Settings)))
