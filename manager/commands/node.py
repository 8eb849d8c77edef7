"""`manager node`: what runs in the Pod of a node, beside the node and before it."""

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
import uvloop

from ctrlruntime.fast_imports import fast_imports
from manager.commands.output import echo

if TYPE_CHECKING:
    from internal.cosmos.comet.address import Address

_FOLDER = click.Path(path_type=Path, file_okay=False)
_RPC_URL = click.option(
    "--rpc-url", default="http://127.0.0.1:26657", help="Where the node answers requests."
)
_TIMEOUT = click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=5.0,
    help="Seconds that the node has to answer.",
)


@click.group()
def node() -> None:
    """Run what is beside a node of a chain, and before it. Pods of node sets start it."""


def _address(url: str) -> "Address":
    from internal.cosmos.comet.address import Address

    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--rpc-url") from error
    if parts.scheme != "http" or not parts.hostname:
        raise click.BadParameter(f"{url!r} is not http://host:port", param_hint="--rpc-url")
    return Address(parts.hostname, port, 0)


@node.command()
@_RPC_URL
@_TIMEOUT
@click.option("--bind-address", default=":1251", help="Address to serve at.")
def healthcheck(rpc_url: str, timeout: float, bind_address: str) -> None:
    """Serve /health, whether the node has caught up, and /disk?dir=, how full a disk is."""
    with fast_imports():
        from ctrlruntime.manager.http import AddressError, listen
        from internal.cosmos.sidecar.serving import serve_health

    address = _address(rpc_url)
    try:
        listener = listen(bind_address, "health and disk usage")
    except AddressError as error:
        raise click.ClickException(str(error)) from error
    if listener is None:
        raise click.UsageError("--bind-address is set not to serve")
    uvloop.run(serve_health(listener, address, deadline=timeout))


@node.command("version-check")
@click.option("--namespace", required=True, help="Namespace of the set.")
@click.option("--node-set", required=True, help="Name of the CosmosFullNode.")
@click.option("--pod", required=True, help="Name of the node's Pod.")
@click.option("--image", required=True, help="Image that the node has.")
@click.option("--home", type=_FOLDER, required=True, help="Folder of the node's files.")
@_RPC_URL
@_TIMEOUT
@click.option("--once", is_flag=True, help="Check before the node starts, and end.")
@click.option(
    "--interval", type=click.FloatRange(min=0.1), default=30.0, help="Seconds between two looks."
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="Default: $KUBECONFIG, in-cluster, ~/.kube/config.",
)
def version_check(
    rpc_url: str,
    timeout: float,
    once: bool,
    interval: float,
    kubeconfig: Path | None,
    namespace: str,
    node_set: str,
    pod: str,
    image: str,
    home: Path,
) -> None:
    """Tell the set which height the node makes next.

    With --once it ends with 1 if the node has another version than that height wants: the manager then
    replaces the Pod.
    """
    with fast_imports():
        from ctrlruntime.client.errors import APIError, TransportError
        from ctrlruntime.client.kubeconfig import ConfigError
        from internal.cosmos.sidecar.serving import check_before_start, keep_checking
        from internal.cosmos.sidecar.version_check import Place, WrongVersion

    where = Place(namespace=namespace, node_set=node_set, pod=pod, image=image, home=home)
    address = _address(rpc_url)
    try:
        if once:
            echo(uvloop.run(check_before_start(where, kubeconfig)))
        else:
            looking = keep_checking(where, address, kubeconfig, seconds=interval, deadline=timeout)
            uvloop.run(looking)
    except (APIError, ConfigError, TransportError, WrongVersion) as error:
        raise click.ClickException(str(error)) from error


@node.command("config-merge")
@click.option(
    "--base-dir",
    type=_FOLDER,
    default=Path("/home/operator/.tmp/config"),
    help="Folder with what the chain's init made.",
)
@click.option(
    "--overlay-dir",
    type=_FOLDER,
    default=Path("/home/operator/.config"),
    help="Folder with the overlays.",
)
@click.option("--config-dir", type=_FOLDER, envvar="CONFIG_DIR", required=True, help="Where to.")
def config_merge(base_dir: Path, overlay_dir: Path, config_dir: Path) -> None:
    """Lay the overlays over config.toml and app.toml."""
    from internal.cosmos.sidecar.config_merge import BadConfig, merge_config

    try:
        for path in merge_config(base_dir, overlay_dir, config_dir):
            echo(f"wrote {path}")
    except (BadConfig, OSError) as error:
        raise click.ClickException(str(error)) from error


@node.command()
@click.argument("what", type=click.Choice(["genesis", "addrbook", "snapshot"]))
@click.argument("url")
@click.option(
    "--home", type=_FOLDER, envvar="CHAIN_HOME", required=True, help="Folder of the node's files."
)
@click.option(
    "--max-bytes",
    type=click.IntRange(min=1),
    help="Limit of the file, packed and unpacked. Default: twice the size of the disk.",
)
@click.option("--sha256", default="", help="Checksum of the file as it is served. Default: any.")
def fetch(what: str, url: str, home: Path, max_bytes: int | None, sha256: str) -> None:
    """Fetch WHAT a node begins with from URL, unless its disk has it.

    Files may be compressed by gzip, lz4, xz, bzip2 or zstd and lie in a tar or, of one file, a zip archive.
    Of an archive of data, only data/ and wasm/ are written.
    """
    from internal.cosmos.sidecar import fetch as fetching

    data = home / "data"
    try:
        limit = max_bytes or fetching.default_limit(home)
        source = fetching.Source(url, limit, sha256)
        if what == "genesis":
            fetched = fetching.fetch_genesis(source, home / "config" / "genesis.json", data)
        elif what == "addrbook":
            fetched = fetching.fetch_addrbook(source, home / "config" / "addrbook.json")
        else:
            fetched = fetching.fetch_snapshot(source, home, data)
    except (fetching.FetchError, OSError) as error:
        raise click.ClickException(str(error)) from error
    echo(f"{what}: fetched" if fetched else f"{what}: the disk has it")
