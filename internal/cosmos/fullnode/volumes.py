"""Where a node's files are, and what its containers see of it. Pure."""

import posixpath
from typing import Any, Final

from apis.cosmos import CosmosFullNode
from internal.cosmos.fullnode.node_key import FILE as NODE_KEY_FILE
from internal.cosmos.fullnode.toml_overlay import APP_OVERLAY, CONFIG_OVERLAY
from internal.cosmos.labels import claim_name, node_key_name, pod_name

WORK: Final = "/home/operator"
BASE: Final = f"{WORK}/.tmp"
"""What `init` makes at each start, to have a configuration that overlays are laid over."""
OVERLAYS: Final = f"{WORK}/.config"
"""The overlays."""

CHAIN_HOME: Final = "vol-chain-home"
"""Volume of the node's disk."""
TEMPORARY: Final = "vol-tmp"
CONFIG: Final = "vol-config"
SYSTEM_TEMPORARY: Final = "vol-system-tmp"
NODE_KEY: Final = "vol-node-key"

Part = dict[str, Any]


def chain_home(node_set: CosmosFullNode) -> str:
    """Return the folder of the node's files; it is where the disk is mounted."""
    return posixpath.normpath(f"{WORK}/{node_set.spec.chain.home_dir or 'cosmos'}")


def environment(node_set: CosmosFullNode) -> list[Part]:
    """Variables of the node and of everything that prepares it."""
    home = chain_home(node_set)
    variables = {
        "HOME": WORK,
        "CHAIN_HOME": home,
        "CHAIN_ID": node_set.spec.chain.chain_id,
        "CONFIG_DIR": f"{home}/config",
        "DATA_DIR": f"{home}/data",
        "GENESIS_FILE": f"{home}/config/genesis.json",
        "ADDRBOOK_FILE": f"{home}/config/addrbook.json",
    }
    return [{"name": name, "value": value} for name, value in variables.items()]


def volumes(node_set: CosmosFullNode, ordinal: int) -> list[Part]:
    """Volumes of one node."""
    name = node_set.metadata.name or ""
    overlays = [{"key": file, "path": file} for file in (CONFIG_OVERLAY, APP_OVERLAY)]
    key = [{"key": NODE_KEY_FILE, "path": NODE_KEY_FILE}]
    return [
        {"name": CHAIN_HOME, "persistentVolumeClaim": {"claimName": claim_name(name, ordinal)}},
        {"name": TEMPORARY, "emptyDir": {}},
        {"name": CONFIG, "configMap": {"name": pod_name(name, ordinal), "items": overlays}},
        {"name": SYSTEM_TEMPORARY, "emptyDir": {}},
        {"name": NODE_KEY, "secret": {"secretName": node_key_name(name, ordinal), "items": key}},
    ]


def common_mounts(node_set: CosmosFullNode) -> list[Part]:
    """Of the node and of what prepares it. Chains want /tmp when they sync state."""
    return [
        {"name": CHAIN_HOME, "mountPath": chain_home(node_set)},
        {"name": SYSTEM_TEMPORARY, "mountPath": "/tmp"},  # noqa: S108
    ]


def init_mounts(node_set: CosmosFullNode) -> list[Part]:
    """Of what prepares the node."""
    return [
        *common_mounts(node_set),
        {"name": TEMPORARY, "mountPath": BASE},
        {"name": CONFIG, "mountPath": OVERLAYS},
    ]


def node_mounts(node_set: CosmosFullNode) -> list[Part]:
    """Of the node: its key is there, and nowhere on its disk."""
    path = f"{chain_home(node_set)}/config/{NODE_KEY_FILE}"
    key = {"name": NODE_KEY, "mountPath": path, "subPath": NODE_KEY_FILE, "readOnly": True}
    return [*common_mounts(node_set), key]


def watching_mounts(node_set: CosmosFullNode) -> list[Part]:
    """Of what stands beside the node and only looks."""
    return [{"name": CHAIN_HOME, "mountPath": chain_home(node_set), "readOnly": True}]
