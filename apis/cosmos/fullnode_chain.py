"""The chain of a CosmosFullNode: its files config.toml and app.toml, its downloads and versions."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, Quantity

from .common import Count, Height, NonEmpty
from .shapes import Folder, Image, ListenAddress

__all__ = [
    "App",
    "Chain",
    "ChainVersion",
    "Comet",
    "DatabaseBackend",
    "KeyCase",
    "LogFormat",
    "LogLevel",
    "Pruning",
    "PruningStrategy",
    "Sha256",
    "TxIndexer",
]

Sha256 = Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
"""A SHA-256 checksum in hex."""


class PruningStrategy(StrEnum):
    """Which past states a node keeps."""

    DEFAULT = "default"
    NOTHING = "nothing"
    EVERYTHING = "everything"
    CUSTOM = "custom"


class LogLevel(StrEnum):
    """What a node logs."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"
    PANIC = "panic"


class KeyCase(StrEnum):
    """How the keys of config.toml are written."""

    SNAKE = "snake_case"
    KEBAB = "kebab-case"
    """As Tendermint 0.35 and 0.36, and chains made from them, have them."""


class TxIndexer(StrEnum):
    """What a node keeps of transactions, to find them again."""

    NULL = "null"
    """Nothing."""
    KV = "kv"
    PSQL = "psql"


class LogFormat(StrEnum):
    """How a node logs."""

    PLAIN = "plain"
    JSON = "json"


class DatabaseBackend(StrEnum):
    """What a node keeps its blocks in."""

    GOLEVELDB = "goleveldb"
    ROCKSDB = "rocksdb"
    PEBBLEDB = "pebbledb"


class Comet(ApiModel):
    """config.toml."""

    rpc_listen_address: ListenAddress = "tcp://0.0.0.0:26657"
    """Where the node answers requests."""
    p2p_listen_address: ListenAddress = Field(
        default="tcp://0.0.0.0:26656", alias="p2pListenAddress"
    )
    """Where peers connect."""
    peers: str = ""
    """Persistent peers outside of the set: `id@host:port`, by comma. Those of the set are added."""
    seeds: str = ""
    """Seeds: `id@host:port`, by comma."""
    private_peer_ids: str = Field(default="", alias="privatePeerIDs")
    """Ids that are not given to others, by comma. Those of the set are added."""
    unconditional_peer_ids: str = Field(default="", alias="unconditionalPeerIDs")
    """Ids that no limit keeps out, by comma. Those of the set are added."""
    max_inbound_peers: Count = 20
    """Peers that may connect to a node."""
    max_outbound_peers: Count = 20
    """Peers that a node connects to."""
    cors_allowed_origins: list[str] = Field(default_factory=list)
    """Origins that browsers may send requests from."""
    tx_indexer: TxIndexer | None = None
    """Index of transactions. Default: that of the chain, and none for a sentry."""
    key_case: KeyCase = KeyCase.SNAKE
    """How the chain writes the keys of this file; those of `overrides` are taken as they are."""
    overrides: str = ""
    """TOML that goes over all else."""


class Pruning(ApiModel):
    """Which past states a node keeps."""

    strategy: PruningStrategy = PruningStrategy.DEFAULT
    """Preset, or custom."""
    interval: Count | None = None
    """custom: every how many blocks states are removed."""
    keep_every: Count | None = None
    """custom: every how many blocks a state is kept for good."""
    keep_recent: Count | None = None
    """custom: how many last states are kept."""
    min_retain_blocks: Count | None = None
    """Blocks below the last that are kept at least; 0 keeps all."""


class App(ApiModel):
    """app.toml."""

    min_gas_price: NonEmpty
    """Lowest price of gas that the node takes, such as 0.1uatom."""
    api_enable_unsafe_cors: bool = Field(default=False, alias="apiEnableUnsafeCORS")
    """Let browsers use the API from anywhere."""
    grpc_web_enable_unsafe_cors: bool = Field(default=False, alias="grpcWebEnableUnsafeCORS")
    """Let browsers use gRPC-web from anywhere."""
    api_enable_swagger: bool | None = None
    """Whether the API serves its own documentation. Default: that of the chain."""
    pruning: Pruning | None = None
    """Which past states are kept."""
    halt_height: Height | None = None
    """Height that the node ends at."""
    overrides: str = ""
    """TOML that goes over all else."""


class ChainVersion(ApiModel):
    """The binary from a height on."""

    height: Height
    """First height that is made with this version."""
    image: Image
    """Image of the container `node`."""
    init_containers: dict[str, Image] = Field(default_factory=dict)
    """Images of init containers, by name."""
    containers: dict[str, Image] = Field(default_factory=dict)
    """Images of further containers, by name."""
    set_halt_height: bool = False
    """Make the version before it end at this height; for chains that do not do so themselves."""


class Chain(ApiModel):
    """The chain."""

    chain_id: NonEmpty = Field(alias="chainID")
    """Id of the chain, such as cosmoshub-4."""
    network: NonEmpty
    """The network, such as mainnet; a label."""
    binary: NonEmpty
    """Name of the chain's binary within the image."""
    home_dir: Folder = "cosmos"
    """Folder of the node's files below /home/operator."""
    config: Comet = Field(default_factory=Comet)
    """config.toml."""
    app: App | None = None
    """app.toml. Without it nothing is laid over the file, for chains that are not of the Cosmos SDK."""
    log_level: LogLevel | None = None
    """What the node logs. Default: the chain's."""
    log_format: LogFormat | None = None
    """How the node logs. Default: the chain's."""
    addrbook_url: str | None = Field(default=None, alias="addrbookURL")
    """Where an address book is fetched from."""
    addrbook_script: str | None = None
    """Shell script that makes the file $ADDRBOOK_FILE; before the URL."""
    genesis_url: str | None = Field(default=None, alias="genesisURL")
    """Where the genesis file is fetched from."""
    genesis_script: str | None = None
    """Shell script that makes the file $GENESIS_FILE; before the URL."""
    snapshot_url: str | None = Field(default=None, alias="snapshotURL")
    """Where an archive of the data is fetched from, if there is none yet."""
    snapshot_script: str | None = None
    """Shell script that fills $CHAIN_HOME with data, if there is none yet; before the URL."""
    addrbook_sha256: Sha256 | None = Field(default=None, alias="addrbookSHA256")
    """SHA-256 of the file at `addrbookURL` as it is served, in hex. Default: not checked."""
    genesis_sha256: Sha256 | None = Field(default=None, alias="genesisSHA256")
    """SHA-256 of the file at `genesisURL` as it is served, in hex. Default: not checked."""
    snapshot_sha256: Sha256 | None = Field(default=None, alias="snapshotSHA256")
    """SHA-256 of the archive at `snapshotURL` as it is served, in hex. Default: not checked."""
    max_download_size: Quantity | None = None
    """Limit of each download, packed and unpacked. Default: twice the size of the disk."""
    skip_invariants: bool = False
    """Skip the chain's invariants when it starts from genesis."""
    privval_sleep_seconds: Count = 10
    """Sentries: seconds to wait before the node starts, so that the signer has time to go."""
    database_backend: DatabaseBackend | None = None
    """What blocks are kept in. Default: what the chain's init writes."""
    versions: list[ChainVersion] = Field(default_factory=list)
    """Versions by height; the last whose height a node has reached is used."""
    additional_init_args: list[str] = Field(default_factory=list)
    """Further arguments of `init`."""
    additional_start_args: list[str] = Field(default_factory=list)
    """Further arguments of `start`."""
