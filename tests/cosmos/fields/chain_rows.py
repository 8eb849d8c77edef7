"""The reference's tables A1.3 and A1.4: the chain, and the disks."""

from __future__ import annotations

from typing import Final

from tests.cosmos.builders.samples import key

from .effects import images, named_source, snapshot_selector, team_and_note
from .objects import app, claim, config, init, node, pod, variable
from .row import Row

OTHER: Final = key(1).id
OWN_PEER: Final = f"{OTHER}@test-p2p-1.chains.svc.cluster.local:26656"
TEXT: Final = {"minLength": 1}
COUNT: Final = {"minimum": 0}
EMPTY: Final = "An empty text is taken, and means none."
CHAIN_DEFAULT: Final = "Written only if it is given: without it the chain's own default stays."
SCRIPTS: Final = "It runs in the image of `podTemplate.scriptImage`."
URL, SCRIPT = "https://example.com/file", "echo hello"
FETCH: Final = ["node", "fetch"]
OWN: Final = {
    "podTemplate": {
        "image": "chain:v1",
        "containers": [{"name": "own", "image": "c:v1"}],
        "initContainers": [{"name": "own", "image": "i:v1"}],
    },
    "status": {"height": {"test-0": 100}},
}
BEFORE: Final = ["chain:v1", "chain:v1", "c:v1", "i:v1"]
"""Images of `OWN`: of the node, of its init, and of the user's own containers."""


def _comet(**fields: object) -> dict[str, object]:
    return {"chain__config": fields}


def _pruning(**fields: object) -> dict[str, object]:
    return {"chain__app__pruning": fields}


def _version(**fields: object) -> dict[str, object]:
    return {"chain__versions": [{"height": 100, "image": "chain:v2", **fields}]}


def _disk(**fields: object) -> dict[str, object]:
    return {f"volumeClaimTemplate__{field}": value for field, value in fields.items()}


CHAIN: Final = (
    Row("A1.3", "chain.chainID", variable("CHAIN_ID"), {"chain__chainID": "own-2"}, "own-2", "test-1",
        rules=TEXT, required=True),
    Row("A1.3", "chain.network", pod("metadata.labels.cosmos~ctrlruntime~dev/network"),
        {"chain__network": "devnet"}, "devnet", "testnet", rules=TEXT, required=True),
    Row("A1.3", "chain.binary", node("command"), {"chain__binary": "owned"}, ["owned"], ["chaind"],
        rules=TEXT, required=True),
    Row("A1.3", "chain.homeDir", variable("CHAIN_HOME"), {"chain__homeDir": ".own"},
        "/home/operator/.own", "/home/operator/cosmos", rules={"default": "cosmos"}),
    Row("A1.3", "chain.config.rpcListenAddress", config("rpc.laddr"),
        _comet(rpcListenAddress="tcp://0.0.0.0:1"), "tcp://0.0.0.0:1", "tcp://0.0.0.0:26657",
        rules={"default": "tcp://0.0.0.0:26657"}),
    Row("A1.3", "chain.config.p2pListenAddress", config("p2p.laddr"),
        _comet(p2pListenAddress="tcp://0.0.0.0:2"), "tcp://0.0.0.0:2", "tcp://0.0.0.0:26656",
        rules={"default": "tcp://0.0.0.0:26656"}),
    Row("A1.3", "chain.config.peers", config("p2p.persistent_peers"), _comet(peers="a@b:1"),
        f"{OWN_PEER},a@b:1", OWN_PEER, differs=EMPTY),
    Row("A1.3", "chain.config.seeds", config("p2p.seeds"), _comet(seeds="a@b:1"), "a@b:1", "",
        differs=EMPTY),
    Row("A1.3", "chain.config.privatePeerIDs", config("p2p.private_peer_ids"),
        _comet(privatePeerIDs="cafe"), f"{OTHER},cafe", OTHER),
    Row("A1.3", "chain.config.unconditionalPeerIDs", config("p2p.unconditional_peer_ids"),
        _comet(unconditionalPeerIDs="cafe"), f"{OTHER},cafe", OTHER),
    Row("A1.3", "chain.config.maxInboundPeers", config("p2p.max_num_inbound_peers"),
        _comet(maxInboundPeers=7), 7, 20, rules={"default": 20, "minimum": 0}),
    Row("A1.3", "chain.config.maxOutboundPeers", config("p2p.max_num_outbound_peers"),
        _comet(maxOutboundPeers=7), 7, 20, rules={"default": 20, "minimum": 0}),
    Row("A1.3", "chain.config.corsAllowedOrigins", config("rpc.cors_allowed_origins"),
        _comet(corsAllowedOrigins=["*"]), ["*"], []),
    Row("A1.3", "chain.config.overrides", config("p2p.pex"), _comet(overrides="[p2p]\npex = false"),
        False, name="keyCase",
        differs="Keys are written in one spelling: the reference writes each in snake_case and in kebab-case, for the "
        "chain to ignore one of them, which a chain that refuses unknown keys does not."),
    Row("A1.3", "chain.app.minGasPrice", app("minimum-gas-prices"),
        {"chain__app__minGasPrice": "2utest"}, "2utest", "0.1utest", rules=TEXT, required=True),
    Row("A1.3", "chain.app.apiEnableUnsafeCORS", app("api.enabled-unsafe-cors"),
        {"chain__app__apiEnableUnsafeCORS": True}, True, False, rules={"default": False}),
    Row("A1.3", "chain.app.grpcWebEnableUnsafeCORS", app("grpc-web.enable-unsafe-cors"),
        {"chain__app__grpcWebEnableUnsafeCORS": True}, True, False, rules={"default": False}),
    Row("A1.3", "chain.app.pruning.strategy", app("pruning"), _pruning(strategy="nothing"), "nothing",
        rules={"default": "default", "enum": ["default", "nothing", "everything", "custom"]}),
    Row("A1.3", "chain.app.pruning.interval", app("pruning-interval"), _pruning(interval=7), "7",
        rules=COUNT),
    Row("A1.3", "chain.app.pruning.keepEvery", app("pruning-keep-every"), _pruning(keepEvery=0), "0",
        rules=COUNT),
    Row("A1.3", "chain.app.pruning.keepRecent", app("pruning-keep-recent"), _pruning(keepRecent=9), "9",
        rules=COUNT),
    Row("A1.3", "chain.app.pruning.minRetainBlocks", app("min-retain-blocks"),
        _pruning(minRetainBlocks=5), 5, rules=COUNT),
    Row("A1.3", "chain.app.haltHeight", app("halt-height"), {"chain__app__haltHeight": 99}, 99,
        rules=COUNT),
    Row("A1.3", "chain.app.overrides", app("telemetry.enabled"),
        {"chain__app__overrides": "[telemetry]\nenabled = true"}, True),
    Row("A1.3", "chain.logLevel", config("log_level"), {"chain__logLevel": "debug"}, "debug",
        rules={"enum": ["trace", "debug", "info", "warn", "error", "fatal", "panic"]},
        differs=CHAIN_DEFAULT),
    Row("A1.3", "chain.logFormat", config("log_format"), {"chain__logFormat": "json"}, "json",
        rules={"enum": ["plain", "json"]}, differs=CHAIN_DEFAULT),
    Row("A1.3", "chain.addrbookURL", init("addrbook-init", "args"), {"chain__addrbookURL": URL},
        [*FETCH, "addrbook", URL]),
    Row("A1.3", "chain.addrbookScript", init("addrbook-init", "args"), {"chain__addrbookScript": SCRIPT},
        [SCRIPT], differs=SCRIPTS),
    Row("A1.3", "chain.genesisURL", init("genesis-init", "args"), {"chain__genesisURL": URL},
        [*FETCH, "genesis", URL]),
    Row("A1.3", "chain.genesisScript", init("genesis-init", "args"), {"chain__genesisScript": SCRIPT},
        [SCRIPT], differs=SCRIPTS),
    Row("A1.3", "chain.snapshotURL", init("snapshot-restore", "args"), {"chain__snapshotURL": URL},
        [*FETCH, "snapshot", URL],
        differs="Of an archive only `data/` and `wasm/` are written: keys and configuration in it are skipped."),
    Row("A1.3", "chain.snapshotScript", init("snapshot-restore", "args"),
        {"chain__snapshotScript": SCRIPT}, [SCRIPT], differs=SCRIPTS),
    Row("A1.3", "chain.skipInvariants", node("args.3"), {"chain__skipInvariants": True},
        "--x-crisis-skip-assert-invariants", rules={"default": False}),
    Row("A1.3", "chain.privvalSleepSeconds", node("command.3"), {"chain__privvalSleepSeconds": 25}, "25",
        "10", besides={"type": "Sentry"}, rules={"default": 10, "minimum": 0}),
    Row("A1.3", "chain.databaseBackend", config("db_backend"), {"chain__databaseBackend": "rocksdb"},
        "rocksdb", rules={"enum": ["goleveldb", "rocksdb", "pebbledb"]}, differs=CHAIN_DEFAULT),
    Row("A1.3", "chain.versions[].height", images, _version(height=100),
        ["chain:v2", "chain:v2", "c:v1", "i:v1"], BEFORE,
        besides=OWN, rules=COUNT, required=True),
    Row("A1.3", "chain.versions[].image", images, _version(image="chain:v3"),
        ["chain:v3", "chain:v3", "c:v1", "i:v1"], BEFORE, besides=OWN, required=True),
    Row("A1.3", "chain.versions[].initContainers", images, _version(initContainers={"own": "i:v2"}),
        ["chain:v2", "chain:v2", "c:v1", "i:v2"], BEFORE, besides=OWN),
    Row("A1.3", "chain.versions[].containers", images, _version(containers={"own": "c:v2"}),
        ["chain:v2", "chain:v2", "c:v2", "i:v1"], BEFORE, besides=OWN),
    Row("A1.3", "chain.versions[].setHaltHeight", app("halt-height"),
        _version(height=101, setHaltHeight=True), 101, besides=OWN, rules={"default": False}),
    Row("A1.3", "chain.additionalInitArgs", lambda given: init("chain-init", "args")(given)[-1],
        {"chain__additionalInitArgs": ["--own"]}, "--own", "test-1"),
    Row("A1.3", "chain.additionalStartArgs", lambda given: node("args")(given)[-1],
        {"chain__additionalStartArgs": ["--own"]}, "--own", "/home/operator/cosmos"),
)  # fmt: skip

DISK: Final = (
    Row("A1.4", "volumeClaimTemplate.metadata", team_and_note("PersistentVolumeClaim", "pvc-test-0"),
        _disk(metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}}), ["a", "b"],
        [None, None],
        differs="Labels that objects are found by (name, instance, component, created-by) cannot be overridden."),
    Row("A1.4", "volumeClaimTemplate.storageClassName", claim("spec.storageClassName"),
        _disk(storageClassName="fast"), "fast", "standard", required=True,
        differs="A change that a claim cannot follow is reported by `ClaimsAsSpecified`, not passed over."),
    Row("A1.4", "volumeClaimTemplate.resources", claim("spec.resources.requests.storage"),
        _disk(resources={"requests": {"storage": "7Ti"}}), "7Ti", "10Gi", required=True,
        differs="A template that requests less than its claims have is reported by `ClaimsAsSpecified`."),
    Row("A1.4", "volumeClaimTemplate.accessModes", claim("spec.accessModes"),
        _disk(accessModes=["ReadWriteMany"]), ["ReadWriteMany"], ["ReadWriteOnce"]),
    Row("A1.4", "volumeClaimTemplate.volumeMode", claim("spec.volumeMode"), _disk(volumeMode="Block"),
        "Block", "Filesystem", rules={"pattern": "^(Filesystem|Block)$"}),
    Row("A1.4", "volumeClaimTemplate.dataSource", named_source,
        _disk(dataSource={"kind": "PersistentVolumeClaim", "name": "old"}),
        ["PersistentVolumeClaim", "old"],
        differs="A source that is not there is waited for: the reference makes an empty claim."),
    Row("A1.4", "volumeClaimTemplate.autoDataSource.volumeSnapshotSelector", snapshot_selector,
        _disk(autoDataSource={"volumeSnapshotSelector": {"chain": "a"}}), {"chain": "a"},
        differs="Where no snapshot is ready the claim waits, unless `onFailure: CreateEmpty` is given."),
    Row("A1.4", "volumeClaimTemplate.autoDataSource.matchInstance", snapshot_selector,
        _disk(autoDataSource={"matchInstance": True}), {"app.kubernetes.io/instance": "test-0"},
        rules={"default": False}, differs="Optional, `false` by default: the reference requires it."),
)  # fmt: skip
