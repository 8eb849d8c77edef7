"""What prepares a node's disk each time its Pod starts. Pure.

Every step can be cut off at any point and goes on from there at the next start: what is on the disk is
kept, and a disk that was being filled is filled again from the beginning.
"""

from dataclasses import dataclass
from typing import Any, Final

from apis.cosmos import Chain, CosmosFullNode
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.containers import SIDECAR, image_of, pulled, version_check_arguments
from internal.cosmos.fullnode.validator_key import (
    KEEP,
    RESTORE,
    TAKE_OVER,
    VALIDATOR_KEY,
    keeps_key,
    take_over_arguments,
)
from internal.cosmos.fullnode.volumes import (
    WORK,
    common_mounts,
    environment,
    init_mounts,
)
from internal.cosmos.labels import pod_name

Part = dict[str, Any]
CLEAN: Final = "clean-init"
CHAIN: Final = "chain-init"
GENESIS: Final = "genesis-init"
ADDRBOOK: Final = "addrbook-init"
CONFIG: Final = "config-merge"
SNAPSHOT: Final = "snapshot-restore"

_CLEAN = 'find "$HOME/.tmp" -mindepth 1 -delete'
_CHAIN = """\
set -eu
if [ -d "$DATA_DIR" ]; then
  echo "The disk has a chain already."
else
  rm -f "$GENESIS_FILE"
  "$0" "$@" --home "$CHAIN_HOME"
fi
rm -rf "$HOME/.tmp/config" "$HOME/.tmp/data"
"$0" "$@" --home "$HOME/.tmp"
"""
_HAS_BLOCKS = 'ls -d "$DATA_DIR"/*.db >/dev/null 2>&1'
_GENESIS_OF_INIT = """\
set -eu
if [ -s "$GENESIS_FILE" ]; then
  echo "There is a genesis file already."
else
  mkdir -p "$CONFIG_DIR"
  cp "$HOME/.tmp/config/genesis.json" "$GENESIS_FILE"
fi
"""
_GENESIS_SCRIPT = f"""\
set -eu
if [ -s "$GENESIS_FILE" ] && {_HAS_BLOCKS}; then
  echo "The chain has begun, with its genesis file."
else
  mkdir -p "$CONFIG_DIR"
  sh -c "$0"
fi
"""
_ADDRBOOK_SCRIPT = """\
set -eu
if [ -s "$ADDRBOOK_FILE" ]; then
  echo "There is an address book already."
else
  mkdir -p "$CONFIG_DIR"
  sh -c "$0"
fi
"""
_NO_ADDRBOOK = 'echo "No address book is fetched."'
RESTORING: Final = ".restoring"
"""File in the node's folder while its disk is filled."""
_SNAPSHOT_SCRIPT = f"""\
set -eu
RESTORING="$CHAIN_HOME/{RESTORING}"
if [ ! -e "$RESTORING" ] && {_HAS_BLOCKS}; then
  echo "The disk has data already."
  exit 0
fi
{RESTORE}"""


@dataclass(frozen=True, slots=True)
class Images:
    """Images of the containers that are not the chain's."""

    sidecar: str
    """Of our own."""
    script: str
    """Of users' scripts."""


def init_containers(
    node_set: CosmosFullNode, ordinal: int, images: Images, *, own_disk: bool = False
) -> list[Part]:
    """All of them, in order. A user's script runs in the image for scripts, all else in the manager's.

    `own_disk`: whether the node's claim is known to have been made empty.
    """
    chain, sidecar_image = node_set.spec.chain, images.sidecar
    genesis = images.script if chain.genesis_script else sidecar_image
    addrbook = images.script if chain.addrbook_script else sidecar_image
    snapshot = images.script if chain.snapshot_script else sidecar_image
    made = [
        _of_sidecar(node_set, CLEAN, sidecar_image, _shell(_CLEAN)),
        _validator_key(node_set, ordinal, sidecar_image, own_disk=own_disk),
        _chain(node_set, ordinal),
        _of_sidecar(node_set, GENESIS, genesis, _genesis(node_set)),
        _of_sidecar(node_set, ADDRBOOK, addrbook, _addrbook(node_set)),
        _of_sidecar(node_set, CONFIG, sidecar_image, {"args": ["node", CONFIG]}, SIDECAR),
    ]
    if chain.snapshot_script or chain.snapshot_url:
        made.append(_of_sidecar(node_set, SNAPSHOT, snapshot, _snapshot(node_set, ordinal)))
    if chain.versions:
        arguments = [*version_check_arguments(node_set, ordinal), "--once"]
        check = {"args": arguments, "volumeMounts": common_mounts(node_set)}
        made.append(_of_sidecar(node_set, label_keys.VERSION_CHECK, sidecar_image, check, SIDECAR))
    return made


def _shell(script: str, *arguments: str) -> Part:
    return (
        {"command": ["sh", "-c", script], "args": list(arguments)}
        if arguments
        else {"command": ["sh", "-c", script]}
    )


def _fetch(chain: Chain, what: str, url: str, sha256: str | None) -> Part:
    """Arguments that are not given are not there, so that Pods of older managers stay as they are."""
    options = [f"--sha256={sha256.lower()}"] if sha256 else []
    if chain.max_download_size is not None:
        options.append(f"--max-bytes={int(chain.max_download_size.value)}")
    return {"args": ["node", "fetch", what, url, *options]}


def _chain(node_set: CosmosFullNode, ordinal: int) -> Part:
    """Arguments are handed to the shell as they are: nothing in them is read as a command."""
    chain = node_set.spec.chain
    arguments = [
        chain.binary,
        "init",
        pod_name(node_set.metadata.name or "", ordinal),
        "--chain-id",
        chain.chain_id,
        *chain.additional_init_args,
    ]
    return {
        "name": CHAIN,
        **image_of(node_set),
        **_shell(_CHAIN, *arguments),
        "env": environment(node_set),
        "volumeMounts": init_mounts(node_set),
        "workingDir": WORK,
        **pulled(node_set),
    }


def _genesis(node_set: CosmosFullNode) -> Part:
    chain = node_set.spec.chain
    if chain.genesis_script:
        return _shell(_GENESIS_SCRIPT, chain.genesis_script)
    if chain.genesis_url:
        return _fetch(chain, "genesis", chain.genesis_url, chain.genesis_sha256)
    return _shell(_GENESIS_OF_INIT)


def _addrbook(node_set: CosmosFullNode) -> Part:
    chain = node_set.spec.chain
    if chain.addrbook_script:
        return _shell(_ADDRBOOK_SCRIPT, chain.addrbook_script)
    if chain.addrbook_url:
        return _fetch(chain, "addrbook", chain.addrbook_url, chain.addrbook_sha256)
    return _shell(_NO_ADDRBOOK)


def _validator_key(node_set: CosmosFullNode, ordinal: int, image: str, *, own_disk: bool) -> Part:
    """Return the container that is before the chain's: what its `init` finds is of this node."""
    work = _shell(TAKE_OVER, *take_over_arguments(node_set, ordinal, own_disk=own_disk))
    return _of_sidecar(node_set, VALIDATOR_KEY, image, work)


def _snapshot(node_set: CosmosFullNode, ordinal: int) -> Part:
    chain = node_set.spec.chain
    if chain.snapshot_script:
        kept = [KEEP] if keeps_key(node_set, ordinal) else []
        return _shell(_SNAPSHOT_SCRIPT, chain.snapshot_script, *kept)
    return _fetch(chain, "snapshot", chain.snapshot_url or "", chain.snapshot_sha256)


def _of_sidecar(
    node_set: CosmosFullNode, name: str, image: str, work: Part, more: Part | None = None
) -> Part:
    return {
        "name": name,
        "image": image,
        "env": environment(node_set),
        "volumeMounts": init_mounts(node_set),
        **pulled(node_set),
        **work,
        **(more or {}),
    }
