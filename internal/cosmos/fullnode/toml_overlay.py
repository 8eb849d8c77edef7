"""What is laid over the configuration that a chain's `init` makes: config.toml and app.toml. Pure."""

import tomllib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import orjson

from apis.cosmos import App, Chain, Comet, CosmosFullNode, FullNodeType, KeyCase, Pruning, TxIndexer
from internal.cosmos.fullnode.peers import Peers
from internal.cosmos.fullnode.ports import (
    API,
    DEEPEST,
    GRPC,
    GRPC_WEB,
    IN_APP,
    IN_CONFIG,
    PRIVVAL,
    PROMETHEUS,
    Places,
    moved,
    too_long,
)
from internal.cosmos.fullnode.versions import halt_height
from internal.cosmos.invalid import invalid_field

CONFIG_OVERLAY = "config-overlay.toml"
APP_OVERLAY = "app-overlay.toml"

Document = dict[str, Any]
MOST_VALUES: Final = 400
"""Of overrides, and of a list: the writer's time grows by the square, 4,000 in one table took 4 s."""


def config_overlay(node_set: CosmosFullNode, pod: str, peers: Peers) -> str:
    """Return what goes over config.toml of one node. Raises InvalidSpec for overrides that are no TOML, and too many origins."""
    chain = node_set.spec.chain
    comet = chain.config
    if len(comet.cors_allowed_origins) > MOST_VALUES:
        raise invalid_field(
            "spec.chain.config.corsAllowedOrigins", f"has more than {MOST_VALUES} origins"
        )
    document: Document = {
        "rpc": {
            "laddr": comet.rpc_listen_address,
            "cors_allowed_origins": list(comet.cors_allowed_origins),
        },
        "p2p": _p2p(comet, pod, peers),
        "instrumentation": {"prometheus": True, "prometheus_listen_addr": f":{PROMETHEUS}"},
    }
    if chain.database_backend is not None:
        document["db_backend"] = chain.database_backend.value
    document.update(_logging(chain))
    sentry = node_set.spec.type is FullNodeType.SENTRY
    if sentry:
        document["priv_validator_laddr"] = f"tcp://0.0.0.0:{PRIVVAL}"
    indexer = comet.tx_indexer or (TxIndexer.NULL if sentry else None)
    if indexer is not None:
        document["tx_index"] = {"indexer": indexer.value}
    if comet.key_case is KeyCase.KEBAB:
        document = _in_kebab_case(document)
    return _laid(document, comet.overrides, IN_CONFIG, "spec.chain.config.overrides")


def _in_kebab_case(document: Document) -> Document:
    """Return the document as Tendermint 0.35 has it: hyphens, a table for the signer, and a list of indexers."""
    made = {
        key.replace("_", "-"): {each.replace("_", "-"): item for each, item in value.items()}
        if isinstance(value, Mapping)
        else value
        for key, value in document.items()
    }
    if (address := made.pop("priv-validator-laddr", None)) is not None:
        made["priv-validator"] = {"laddr": address}
    if "tx-index" in made:
        made["tx-index"] = {"indexer": [made["tx-index"]["indexer"]]}
    return made


def _p2p(comet: Comet, pod: str, peers: Peers) -> Document:
    """Return a node trusts the others of its set: it keeps their ids to itself and always lets them in."""
    others, own = peers.others(pod), peers.get(pod)
    ids = [peer.id for peer in others]
    made: Document = {
        "laddr": comet.p2p_listen_address,
        "seeds": _joined(comet.seeds),
        "persistent_peers": _joined(*(peer.private_peer for peer in others), comet.peers),
        "private_peer_ids": _joined(*ids, comet.private_peer_ids),
        "unconditional_peer_ids": _joined(*ids, comet.unconditional_peer_ids),
        "max_num_inbound_peers": comet.max_inbound_peers,
        "max_num_outbound_peers": comet.max_outbound_peers,
    }
    if own is not None and own.external:
        made["external_address"] = own.external
    return made


def _logging(chain: Chain) -> Document:
    said = {"log_level": chain.log_level, "log_format": chain.log_format}
    return {key: value.value for key, value in said.items() if value is not None}


def app_overlay(node_set: CosmosFullNode, pod: str) -> str:
    """Return what goes over app.toml of one node. Raises InvalidSpec for overrides that are no TOML."""
    chain = node_set.spec.chain
    document = {} if chain.app is None else _app(chain.app)
    if chain.database_backend is not None:
        document["app-db-backend"] = chain.database_backend.value
    ends = halt_height(node_set, pod)
    if ends is not None:
        document["halt-height"] = ends
    overrides = "" if chain.app is None else chain.app.overrides
    return _laid(document, overrides, IN_APP, "spec.chain.app.overrides")


def _app(app: App) -> Document:
    document: Document = {
        "minimum-gas-prices": app.min_gas_price,
        "api": {
            "enable": True,
            "address": f"tcp://0.0.0.0:{API}",
            "enabled-unsafe-cors": app.api_enable_unsafe_cors,
        },
        "grpc": {"enable": True, "address": f"0.0.0.0:{GRPC}"},
        "grpc-web": {
            "enable": True,
            "address": f"0.0.0.0:{GRPC_WEB}",
            "enable-unsafe-cors": app.grpc_web_enable_unsafe_cors,
        },
    }
    if app.api_enable_swagger is not None:
        document["api"]["swagger"] = app.api_enable_swagger
    if app.pruning is not None:
        document.update(_pruning(app.pruning))
    return document


def _pruning(pruning: Pruning) -> Document:
    """Numbers of a custom strategy are texts in app.toml; the number of blocks kept is none."""
    texts = {
        "pruning-interval": pruning.interval,
        "pruning-keep-every": pruning.keep_every,
        "pruning-keep-recent": pruning.keep_recent,
    }
    made: Document = {"pruning": pruning.strategy.value}
    made.update({key: str(value) for key, value in texts.items() if value is not None})
    if pruning.min_retain_blocks is not None:
        made["min-retain-blocks"] = pruning.min_retain_blocks
    return made


def _joined(*parts: str) -> str:
    """Return the parts by comma, each once, without what is empty."""
    each = (item.strip() for part in parts for item in part.split(","))
    return ",".join(dict.fromkeys(item for item in each if item))


def _laid(document: Document, overrides: str, places: Places, field: str) -> str:
    if problem := too_long(overrides):
        raise invalid_field(field, problem)
    try:
        over = _parsed(overrides)
    except (ValueError, RecursionError) as error:
        raise invalid_field(field, f"is no TOML: {error}") from error
    try:
        _check_size(over)
        moved(over, places)
        check_tables(document, over)
    except ValueError as error:
        raise invalid_field(field, str(error)) from error
    return _rendered(orjson.dumps(document, option=orjson.OPT_SORT_KEYS), overrides)


def _check_size(document: Document) -> None:
    """Raise ValueError for more values than the writer takes on the loop, or that nest too deep for it."""
    waiting: list[tuple[object, int]] = [(document, 0)]
    for count, (value, depth) in enumerate(waiting):
        if count > MOST_VALUES:
            raise ValueError(
                f"has more than {MOST_VALUES} values; a chain's own file has a hundred"
            )
        if depth > DEEPEST:
            raise ValueError(f"nests more than {DEEPEST} levels")
        if isinstance(value, Mapping):
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            waiting += [(each, depth + 1) for each in value]


def check_tables(under: Mapping[str, Any], over: Mapping[str, Any], path: str = "") -> None:
    """Raise ValueError where one document has a table and the other has not: all that is in it would be lost."""
    for key, value in over.items():
        before, name = under.get(key), f"{path}{key}"
        tables = isinstance(before, Mapping), isinstance(value, Mapping)
        if before is not None and tables == (True, False):
            raise ValueError(f"{name} is a table, [{name}], and not {value!r}")
        if before is not None and tables == (False, True):
            raise ValueError(f"{name} is one value, and no table")
        if all(tables):
            check_tables(before, value, f"{name}.")  # type: ignore[arg-type]


@lru_cache(maxsize=1024)
def _parsed(overrides: str) -> Document:
    """Return the document. Raises ValueError. A tenth of the time that the writer's parser takes, which keeps comments."""
    return tomllib.loads(overrides)


@lru_cache(maxsize=4096)
def _rendered(document: bytes, overrides: str) -> str:
    """Return the TOML text, kept from pass to pass: writing it takes 2 ms a file, and a set is built again at every pass."""
    import tomlkit

    return tomlkit.dumps(merged(orjson.loads(document), _parsed(overrides)), sort_keys=True)


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Document:
    """Two TOML documents, `over` upon `under`: tables are merged, everything else is replaced."""
    made = dict(under)
    for key, value in over.items():
        before = made.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        made[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return made


def merged_files(texts: Iterable[str]) -> str:
    """Several TOML documents as one, each upon those before it. Raises TOMLKitError."""
    import tomlkit

    made: Document = {}
    for text in texts:
        made = merged(made, tomlkit.parse(text).unwrap())
    return tomlkit.dumps(made)
