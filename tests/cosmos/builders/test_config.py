"""Every field of config.toml and app.toml, and what overrides do to them."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.json import Json
from ctrlruntime.resources import Desired
from internal.cosmos.fullnode.configmap_builder import build_config_maps
from internal.cosmos.fullnode.peers import Peers, build_peers
from tests.support.counted_lines import lines

from .samples import balanced, key, keys_of, node_set

Document = dict[str, Any]


def config_maps(nodes: CosmosFullNode, peers: Peers | None = None) -> list[Desired]:
    keys = keys_of(nodes)
    return [*build_config_maps(nodes, keys, peers or build_peers(nodes, keys, {}))]


def document(nodes: CosmosFullNode, file: str) -> Document:
    return tomllib.loads(config_maps(nodes)[0].manifest["data"][f"{file}-overlay.toml"])


def config(**changes: object) -> Document:
    return document(node_set(**changes), "config")


def app(**changes: object) -> Document:
    return document(node_set(**changes), "app")


def at(value: Document, path: str) -> Json:
    for part in path.split("."):
        value = (value or {}).get(part)  # type: ignore[assignment]
    return value


def test_each_node_has_its_own() -> None:
    nodes = node_set(
        replicas=3, ordinals={"start": 4}, instanceOverrides={"test-5": {"disable": "All"}}
    )
    assert [item.name for item in config_maps(nodes)] == ["test-4", "test-5", "test-6"]
    assert [item.instance for item in config_maps(nodes)] == [4, 5, 6]
    some = [*build_config_maps(nodes, {"test-6": key(6)}, Peers())]
    assert [item.name for item in some] == ["test-6"]


COMET: dict[str, tuple[Any, str, Any, Any]] = {
    "rpcListenAddress": ("tcp://0.0.0.0:1", "rpc.laddr", "tcp://0.0.0.0:1", "tcp://0.0.0.0:26657"),
    "p2pListenAddress": ("tcp://0.0.0.0:2", "p2p.laddr", "tcp://0.0.0.0:2", "tcp://0.0.0.0:26656"),
    "seeds": ("a@b:1,c@d:2", "p2p.seeds", "a@b:1,c@d:2", ""),
    "maxInboundPeers": (7, "p2p.max_num_inbound_peers", 7, 20),
    "maxOutboundPeers": (8, "p2p.max_num_outbound_peers", 8, 20),
    "corsAllowedOrigins": (["*"], "rpc.cors_allowed_origins", ["*"], []),
    "overrides": ("[p2p]\npex = false", "p2p.pex", False, None),
    "txIndexer": ("psql", "tx_index.indexer", "psql", None),
    "keyCase": ("kebab-case", "p2p.max-num-inbound-peers", 20, None),
}


@pytest.mark.parametrize("field", COMET)
def test_each_field_of_comet(field: str) -> None:
    given, path, wanted, usual = COMET[field]
    assert at(config(), path) == usual
    assert at(config(chain__config={field: given}), path) == wanted


IDS = {number: key(number).id for number in range(2)}


@pytest.mark.criterion("COSMOS-A2-14")
@pytest.mark.parametrize(
    ("field", "ours", "path"),
    [
        (
            "peers",
            f"{IDS[1]}@test-p2p-1.chains.svc.cluster.local:26656",
            "p2p.persistent_peers",
        ),
        ("privatePeerIDs", IDS[1], "p2p.private_peer_ids"),
        ("unconditionalPeerIDs", IDS[1], "p2p.unconditional_peer_ids"),
    ],
)
def test_peers_of_the_set_are_added_to_those_given(field: str, ours: str, path: str) -> None:
    assert at(config(), path) == ours
    assert at(config(chain__config={field: " x@y:1, , z@w:2 "}), path) == f"{ours},x@y:1,z@w:2"
    assert at(config(replicas=1, chain__config={field: "x@y:1"}), path) == "x@y:1"


def test_peers_are_looked_for_in_the_domain_of_the_cluster() -> None:
    made = config(service={"clusterDomain": "example.internal"})
    assert "@test-p2p-1.chains.svc.example.internal:26656" in at(made, "p2p.persistent_peers")


def test_the_address_for_peers_outside() -> None:
    nodes = node_set(replicas=2, instanceOverrides={"test-1": {"externalAddress": "me.example:9"}})
    service = balanced(nodes, 0, ip="203.0.113.9")
    keys = keys_of(nodes)
    peers = build_peers(nodes, keys, {service["metadata"]["name"]: service})
    texts = [item.manifest["data"]["config-overlay.toml"] for item in config_maps(nodes, peers)]
    found = [tomllib.loads(text)["p2p"]["external_address"] for text in texts]
    assert found == ["203.0.113.9:26656", "me.example:9"]
    assert "external_address" not in config()["p2p"]


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [("logLevel", "trace", "log_level"), ("logFormat", "plain", "log_format")],
)
def test_logging(field: str, value: str, where: str) -> None:
    assert where not in config()
    assert config(**{f"chain__{field}": value})[where] == value


@pytest.mark.parametrize("backend", ["goleveldb", "rocksdb", "pebbledb"])
def test_what_blocks_are_kept_in(backend: str) -> None:
    assert config(chain__databaseBackend=backend)["db_backend"] == backend
    assert app(chain__databaseBackend=backend)["app-db-backend"] == backend
    assert "db_backend" not in config()
    assert "app-db-backend" not in app()


@pytest.mark.criterion("H-C7")
def test_h_c7_a_chain_without_app_has_no_app_toml() -> None:
    assert app(chain__app=None) == {}
    assert app(chain__app=None, chain__databaseBackend="rocksdb") == {"app-db-backend": "rocksdb"}


@pytest.mark.criterion("H-C7")
def test_h_c7_prometheus_is_on_and_can_be_overridden() -> None:
    assert config()["instrumentation"]["prometheus"] is True
    off = "[instrumentation]\nprometheus = false"
    assert config(chain__config={"overrides": off})["instrumentation"]["prometheus"] is False


@pytest.mark.criterion("H-C7")
def test_h_c7_what_a_new_manager_writes_is_held_back() -> None:
    """Inputs are those that older managers recorded, so that another content is a change of the builder alone."""
    none, before = (
        config_maps(node_set(**given), Peers())[0]
        for given in ({}, {"chain__databaseBackend": "goleveldb"})
    )
    assert none.inputs == before.inputs
    assert none.revision != before.revision


@pytest.mark.criterion("COSMOS-A7-1")
def test_a_sentry_waits_for_its_signer_and_keeps_no_index() -> None:
    made = config(type="Sentry")
    assert made["priv_validator_laddr"] == "tcp://0.0.0.0:1234"
    assert made["tx_index"] == {"indexer": "null"}
    assert "priv_validator_laddr" not in config()
    assert "tx_index" not in config()


APP: dict[str, tuple[Any, str, Any, Any]] = {
    "minGasPrice": ("1utest", "minimum-gas-prices", "1utest", "0.1utest"),
    "apiEnableUnsafeCORS": (True, "api.enabled-unsafe-cors", True, False),
    "grpcWebEnableUnsafeCORS": (True, "grpc-web.enable-unsafe-cors", True, False),
    "haltHeight": (77, "halt-height", 77, None),
    "overrides": ("[api]\nswagger = true", "api.swagger", True, None),
}


@pytest.mark.parametrize("field", APP)
def test_each_field_of_the_app(field: str) -> None:
    given, path, wanted, usual = APP[field]
    assert at(app(), path) == usual
    assert at(app(**{f"chain__app__{field}": given}), path) == wanted


@pytest.mark.parametrize(
    ("field", "value", "where", "wanted"),
    [
        ("strategy", "everything", "pruning", "everything"),
        ("interval", 10, "pruning-interval", "10"),
        ("keepEvery", 0, "pruning-keep-every", "0"),
        ("keepRecent", 100, "pruning-keep-recent", "100"),
        ("minRetainBlocks", 5, "min-retain-blocks", 5),
    ],
)
def test_pruning(field: str, value: object, where: str, wanted: object) -> None:
    assert where not in app()
    assert app(chain__app__pruning={field: value})[where] == wanted
    assert app(chain__app__pruning={})["pruning"] == "default"


def test_overrides_go_over_everything_else() -> None:
    made = config(
        chain__config={
            "maxInboundPeers": 5,
            "overrides": 'new = [1]\ndb_backend = "rocksdb"\n[p2p]\nmax_num_inbound_peers = 6\n',
        }
    )
    assert made["db_backend"] == "rocksdb"
    assert made["new"] == [1]
    assert made["p2p"]["max_num_inbound_peers"] == 6
    assert made["p2p"]["max_num_outbound_peers"] == 20
    assert app(chain__app__overrides="[[list]]\na = 1\n")["list"] == [{"a": 1}]


@pytest.mark.criterion("N-A21")
@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ('p2p = "text"', r"p2p is a table, \[p2p\], and not 'text'"),
        ("[db_backend]\na = 1", "db_backend is one value, and no table"),
        (
            '[rpc]\nladdr = "unix:///run/rpc.sock"',
            "rpc.laddr is 'unix:///run/rpc.sock', and has to",
        ),
        ('[rpc]\nladdr = ":99999"', "rpc.laddr is ':99999', and has to"),
        ('[rpc]\nladdr = "tcp://127.0.0.1:26657"', "rpc.laddr is .*, where neither the manager"),
    ],
)
def test_overrides_that_take_the_node_out_of_reach_are_refused(overrides: str, why: str) -> None:
    nodes = node_set(chain__config={"overrides": overrides}, chain__databaseBackend="goleveldb")
    with pytest.raises(UnrecoverableError, match=rf"spec\.chain\.config\.overrides: {why}"):
        config_maps(nodes)


def test_a_signer_beside_the_node_may_be_at_a_socket() -> None:
    override = 'priv_validator_laddr = "unix:///run/signer.sock"'
    made = config(type="Sentry", chain__config={"overrides": override})
    assert made["priv_validator_laddr"] == "unix:///run/signer.sock"


@pytest.mark.parametrize("where", ["config", "app"])
def test_overrides_that_are_no_toml_name_the_field(where: str) -> None:
    given = {"overrides": "= broken"}
    if where == "app":
        given["minGasPrice"] = "1u"
    with pytest.raises(UnrecoverableError, match=rf"spec\.chain\.{where}\.overrides: is no TOML"):
        config_maps(node_set(**{f"chain__{where}": given}))


@pytest.mark.criterion("S-F3")
@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ("# " + "x" * 70_000, "has more than 65536 characters"),
        ("\n".join(f"k{number} = 1" for number in range(4_000)), "has more than 400 values"),
        ("a = " + "[" * 50 + "]" * 50, "nests more than 32 levels"),
        (".".join("a" * 5_000) + " = 1", "has a key of more than 32 parts"),
    ],
)
def test_overrides_that_take_long_are_refused_before(overrides: str, why: str) -> None:
    """4,000 keys stopped the loop for 4 s, and the time grew by their square; a megabyte was parsed for 3 s."""
    with pytest.raises(UnrecoverableError, match=rf"spec\.chain\.app\.overrides: {why}"):
        config_maps(node_set(chain__app={"minGasPrice": "1u", "overrides": overrides}))


@pytest.mark.criterion("S-F3")
def test_more_origins_than_the_writer_takes_on_the_loop_are_refused() -> None:
    """10,000 stopped it for 10 s."""
    origins = [f"https://{number}.example" for number in range(401)]
    with pytest.raises(UnrecoverableError, match="corsAllowedOrigins: has more than 400 origins"):
        config_maps(node_set(chain__config={"corsAllowedOrigins": origins}))


@pytest.mark.criterion("S-F3")
def test_each_is_built_when_it_is_taken() -> None:
    """Those of 200 nodes were a second of the loop."""
    nodes = node_set(replicas=200)
    keys = keys_of(nodes)
    peers = build_peers(nodes, keys, {})
    few = node_set(replicas=1)
    next(build_config_maps(few, keys, build_peers(few, keys, {})))  # the writer is imported
    assert lines(lambda: next(build_config_maps(nodes, keys, peers))) < 300_000


VERSIONS = [
    {"height": 0, "image": "a:v1"},
    {"height": 100, "image": "a:v2"},
    {"height": 200, "image": "a:v3", "setHaltHeight": True},
]


@pytest.mark.parametrize(
    ("height", "given", "wanted"),
    [
        (50, None, None),
        (100, None, 200),
        (199, None, 200),
        (200, None, None),
        (150, 120, 120),
        (150, 300, 200),
        (250, 300, 300),
    ],
)
def test_the_height_that_a_version_ends_at(
    height: int, given: int | None, wanted: int | None
) -> None:
    app_spec: dict[str, Any] = {"minGasPrice": "1u"}
    if given is not None:
        app_spec["haltHeight"] = given
    made = app(chain__versions=VERSIONS, chain__app=app_spec, status={"height": {"test-0": height}})
    assert made.get("halt-height") == wanted


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 3},
        {"chain__config": {"seeds": "a@b:1"}},
        {"chain__app": {"minGasPrice": "2u"}},
        {"chain__logLevel": "info"},
        {"chain__databaseBackend": "rocksdb"},
        {"type": "Sentry"},
        {"service": {"clusterDomain": "a.b"}},
        {"instanceOverrides": {"test-0": {"externalAddress": "a:1"}}},
    ],
    ids=str,
)
def test_what_changes_a_configuration_is_among_its_inputs(changes: dict[str, Any]) -> None:
    before, after = config_maps(node_set())[0], config_maps(node_set(**changes))[0]
    assert after.revision != before.revision
    assert after.inputs != before.inputs


@pytest.mark.parametrize(
    "changes",
    [
        {"podTemplate__image": "other:v2"},
        {"status": {"height": {"test-0": 5}}},
        {"volumeRetentionPolicy": "Retain"},
    ],
    ids=str,
)
def test_what_does_not_change_it_is_not(changes: dict[str, Any]) -> None:
    before, after = config_maps(node_set())[0], config_maps(node_set(**changes))[0]
    assert (after.revision, after.inputs) == (before.revision, before.inputs)


@pytest.mark.criterion("COSMOS-A7-1")
def test_a_sentry_indexes_nothing_unless_it_is_to() -> None:
    assert config(type="Sentry")["tx_index"] == {"indexer": "null"}
    made = config(type="Sentry", chain__config={"txIndexer": "kv"})
    assert made["tx_index"] == {"indexer": "kv"}


def test_kebab_case_is_that_of_tendermint_0_35() -> None:
    level = {"chain__logLevel": "info", "chain__databaseBackend": "goleveldb"}
    over = {"keyCase": "kebab-case", "overrides": "[p2p]\nmax-num-inbound-peers = 3\nby_hand = 1"}
    made = config(type="Sentry", chain__config=over, replicas=2, **level)
    assert made["priv-validator"] == {"laddr": "tcp://0.0.0.0:1234"}
    assert made["tx-index"] == {"indexer": ["null"]}
    assert (made["log-level"], made["db-backend"]) == ("info", "goleveldb")
    assert made["rpc"].keys() == {"laddr", "cors-allowed-origins"}
    assert made["p2p"]["max-num-inbound-peers"] == 3
    assert made["p2p"]["by_hand"] == 1, "overrides are taken as they are"
    assert "@" in made["p2p"]["persistent-peers"]
    under = [key for table in (made, *made.values()) if isinstance(table, dict) for key in table]
    assert [key for key in under if "_" in key] == ["by_hand"]


@pytest.mark.parametrize("on", [True, False])
def test_swagger_is_served_as_it_is_given_or_as_the_chain_has_it(on: bool) -> None:
    given = {"minGasPrice": "1uatom", "apiEnableSwagger": on}
    assert app(chain__app=given)["api"]["swagger"] is on
    assert "swagger" not in app(chain__app={"minGasPrice": "1uatom"})["api"]


def test_without_log_settings_a_node_logs_as_its_chain_does() -> None:
    assert not {"log_level", "log_format"} & config().keys()
