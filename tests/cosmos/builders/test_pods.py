"""Every field of the Pods' template, and every field of the chain that a Pod shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.controller.aggregate_error import UnrecoverableError
from ctrlruntime.json import Json
from ctrlruntime.resources import Desired
from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.pod_builder import build_pods, sidecar_image_of
from internal.cosmos.workload.checksums import CONFIG_CHECKSUM
from manager.controllers.cosmos_options import CosmosOptions
from tests.support.counted_lines import lines

from .samples import SIDECAR, node_set

Manifest = dict[str, Any]


def pods(nodes: CosmosFullNode, **checksums: str) -> list[Desired]:
    named = {name.replace("_", "-"): value for name, value in checksums.items()}
    return [*build_pods(nodes, named, sidecar_image=SIDECAR)]


def pod(nodes: CosmosFullNode, place: int = 0) -> Manifest:
    return pods(nodes)[place].manifest


def spec(**changes: object) -> Manifest:
    made: Manifest = pod(node_set(**changes))["spec"]
    return made


def container(spec: Manifest, name: str, place: str = "containers") -> Manifest:
    found: list[Manifest] = [each for each in spec[place] if each["name"] == name]
    assert len(found) == 1, f"{name} is there {len(found)} times"
    return found[0]


def names(spec: Manifest, place: str = "containers") -> list[str]:
    return [each["name"] for each in spec[place]]


# -- A1.1 -----------------------------------------------------------------------------------------


def test_replicas_and_the_first_number() -> None:
    assert [item.name for item in pods(node_set(replicas=3))] == ["test-0", "test-1", "test-2"]
    moved = pods(node_set(replicas=2, ordinals={"start": 7}))
    assert [item.name for item in moved] == ["test-7", "test-8"]
    assert [item.instance for item in moved] == [7, 8]
    assert [item.ordinal for item in moved] == [7, 8]
    assert pods(node_set(replicas=0)) == []


@pytest.mark.criterion("COSMOS-A2-23")
def test_a_pod_paused_for_a_snapshot_is_not_built() -> None:
    paused = {"scheduledSnapshotStatus": {"chains.daily.v1": {"podCandidate": "test-1"}}}
    assert [item.name for item in pods(node_set(replicas=3, status=paused))] == ["test-0", "test-2"]


@pytest.mark.parametrize("disable", ["Pod", "All"])
def test_a_disabled_node_has_no_pod(disable: str) -> None:
    nodes = node_set(instanceOverrides={"test-0": {"disable": disable}})
    assert [item.name for item in pods(nodes)] == ["test-1"]


def test_a_node_may_have_an_image_and_machines_of_its_own() -> None:
    nodes = node_set(
        podTemplate__nodeSelector={"disk": "fast"},
        instanceOverrides={"test-1": {"image": "debug:v9", "nodeSelector": {"disk": "slow"}}},
    )
    usual, own = (item.manifest for item in pods(nodes))
    assert container(usual["spec"], "node")["image"] == "registry.example.com/chain:v1"
    assert usual["spec"]["nodeSelector"] == {"disk": "fast"}
    assert container(own["spec"], "node")["image"] == "debug:v9"
    assert container(own["spec"], "chain-init", "initContainers")["image"] == "debug:v9"
    assert own["spec"]["nodeSelector"] == {"disk": "slow"}
    assert own["metadata"]["labels"][label_keys.VERSION] == "v9"


def test_the_account_is_ours_or_the_one_that_is_named() -> None:
    assert spec()["serviceAccountName"] == "test-vc-sa"
    assert spec(serviceAccountName="own")["serviceAccountName"] == "own"


def test_changes_of_the_builder_are_followed_only_if_that_is_asked_for() -> None:
    assert not pods(node_set())[0].roll_on_builder_change
    assert pods(node_set(strategy={"builderChanges": "Roll"}))[0].roll_on_builder_change


@pytest.mark.criterion("COSMOS-A7-2")
def test_a_sentry_sleeps_before_it_starts_and_has_no_probe() -> None:
    made = spec(type="Sentry")
    node = container(made, "node")
    assert node["command"][:2] == ["sh", "-c"]
    assert node["command"][-1] == "10"
    assert node["args"][:2] == ["chaind", "start"]
    assert "readinessProbe" not in node
    assert "readinessProbe" not in container(made, "healthcheck")
    assert {"name": "privval", "containerPort": 1234, "protocol": "TCP"} in node["ports"]
    assert pod(node_set(type="Sentry"))["metadata"]["labels"][label_keys.TYPE] == "Sentry"


@pytest.mark.criterion("COSMOS-A7-2")
def test_how_long_a_sentry_sleeps() -> None:
    node = container(spec(type="Sentry", chain__privvalSleepSeconds=25), "node")
    assert node["command"][-1] == "25"
    awake = container(spec(type="Sentry", chain__privvalSleepSeconds=0), "node")
    assert awake["command"] == ["chaind"]
    full = container(spec(chain__privvalSleepSeconds=25), "node")
    assert full["command"] == ["chaind"]
    assert "privval" not in [port["name"] for port in full["ports"]]


# -- A1.2 -----------------------------------------------------------------------------------------


def test_labels_and_annotations() -> None:
    given = {
        "labels": {
            "team": "a",
            label_keys.NETWORK: "theirs",
            label_keys.INSTANCE: "no",
            label_keys.NAME: "no",
        },
        "annotations": {"example.com/note": "b"},
    }
    made = pods(node_set(podTemplate__metadata=given), test_0="sum")[0].manifest["metadata"]
    assert made["labels"] == {
        label_keys.COMPONENT: "CosmosFullNode",
        label_keys.CREATED_BY: "cosmos-manager",
        label_keys.INSTANCE: "test-0",
        label_keys.NAME: "test",
        label_keys.VERSION: "v1",
        label_keys.NETWORK: "theirs",
        label_keys.TYPE: "FullNode",
        "team": "a",
    }
    assert made["annotations"] == {"example.com/note": "b", CONFIG_CHECKSUM: "sum"}


def test_a_changed_configuration_changes_the_pod() -> None:
    before, after = (pods(node_set(), test_0=each)[0] for each in ("one", "two"))
    assert before.revision != after.revision
    assert before.inputs != after.inputs
    assert "annotations" not in pod(node_set())["metadata"]


TEMPLATE: dict[str, tuple[Any, str, Any]] = {
    "image": ("other:v2", "containers.0.image", "other:v2"),
    "imagePullPolicy": ("Always", "containers.0.imagePullPolicy", "Always"),
    "imagePullSecrets": ([{"name": "s"}], "imagePullSecrets", [{"name": "s"}]),
    "nodeSelector": ({"a": "b"}, "nodeSelector", {"a": "b"}),
    "affinity": ({"podAffinity": {}}, "affinity", {"podAffinity": {}}),
    "topologySpreadConstraints": (
        [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        "topologySpreadConstraints.0.labelSelector.matchLabels",
        {label_keys.NAME: "test", label_keys.COMPONENT: "CosmosFullNode"},
    ),
    "schedulerName": ("own", "schedulerName", "own"),
    "runtimeClassName": ("gvisor", "runtimeClassName", "gvisor"),
    "tolerations": ([{"operator": "Exists"}], "tolerations", [{"operator": "Exists"}]),
    "priorityClassName": ("high", "priorityClassName", "high"),
    "priority": (7, "priority", 7),
    "resources": ({"limits": {"cpu": 2}}, "containers.0.resources", {"limits": {"cpu": 2}}),
    "terminationGracePeriodSeconds": (0, "terminationGracePeriodSeconds", 0),
    "sidecarImage": ("side:v2", "containers.1.image", SIDECAR),
}


def at(value: Json, path: str) -> Json:
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value


@pytest.mark.parametrize("field", TEMPLATE)
def test_each_field_of_the_template(field: str) -> None:
    given, path, wanted = TEMPLATE[field]
    assert at(spec(**{f"podTemplate__{field}": given}), path) == wanted
    if field not in {"image", "sidecarImage", "terminationGracePeriodSeconds"}:
        assert at(spec(), path.partition(".labelSelector")[0].removesuffix(".0")) is None


def test_a_node_has_30_seconds_to_end() -> None:
    assert spec()["terminationGracePeriodSeconds"] == 30


def test_the_pull_policy_is_that_of_every_container() -> None:
    made = spec(podTemplate__imagePullPolicy="Never", chain__versions=[{"height": 0, "image": "a"}])
    each = [*made["containers"], *made["initContainers"]]
    assert {item["imagePullPolicy"] for item in each} == {"Never"}


def test_the_image_beside_the_nodes() -> None:
    status = {"sidecarImage": "recorded:v1"}
    assert sidecar_image_of(node_set(), "default:v1") == "default:v1"
    assert sidecar_image_of(node_set(status=status), "default:v2") == "recorded:v1"
    own = node_set(status=status, podTemplate__sidecarImage="own:v1")
    assert sidecar_image_of(own, "default:v2") == "own:v1"
    with pytest.raises(UnrecoverableError, match=r"spec\.podTemplate\.sidecarImage"):
        build_pods(node_set(), {}, sidecar_image="")


@pytest.mark.parametrize(
    ("strategy", "node", "sidecar"),
    [("InSync", True, True), ("Reachable", True, False), ("None", False, False)],
)
def test_probes(strategy: str, node: bool, sidecar: bool) -> None:
    made = spec(podTemplate__probes={"strategy": strategy})
    assert ("readinessProbe" in container(made, "node")) is node
    assert ("readinessProbe" in container(made, "healthcheck")) is sidecar


def test_probes_ask_the_node_and_what_stands_beside_it() -> None:
    made = spec()
    asked = {
        name: container(made, name)["readinessProbe"]["httpGet"] for name in ("node", "healthcheck")
    }
    assert asked["node"] == {"path": "/health", "port": "rpc", "scheme": "HTTP"}
    assert asked["healthcheck"] == {"path": "/health", "port": "health", "scheme": "HTTP"}


@pytest.mark.criterion("COSMOS-A2-24")
def test_no_process_is_root() -> None:
    assert spec()["securityContext"] == {
        "runAsUser": 1025,
        "runAsGroup": 1025,
        "runAsNonRoot": True,
        "fsGroup": 1025,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


# -- A1.3 -----------------------------------------------------------------------------------------


def test_the_chain_and_where_its_files_are() -> None:
    made = spec(chain__homeDir="osmosis", chain__binary="osmosisd")
    node = container(made, "node")
    assert node["command"] == ["osmosisd"]
    assert node["args"] == ["start", "--home", "/home/operator/osmosis"]
    variables = {each["name"]: each["value"] for each in node["env"]}
    assert variables == {
        "HOME": "/home/operator",
        "CHAIN_HOME": "/home/operator/osmosis",
        "CHAIN_ID": "test-1",
        "CONFIG_DIR": "/home/operator/osmosis/config",
        "DATA_DIR": "/home/operator/osmosis/data",
        "GENESIS_FILE": "/home/operator/osmosis/config/genesis.json",
        "ADDRBOOK_FILE": "/home/operator/osmosis/config/addrbook.json",
    }
    mounts = {each["name"]: each["mountPath"] for each in node["volumeMounts"]}
    assert mounts == {
        "vol-chain-home": "/home/operator/osmosis",
        "vol-system-tmp": "/tmp",
        "vol-node-key": "/home/operator/osmosis/config/node_key.json",
    }
    assert container(spec(), "node")["args"][-1] == "/home/operator/cosmos"


def test_init_receives_the_chain_and_its_arguments() -> None:
    arguments = ["--default-denom", "utest; rm -rf /"]
    made = spec(chain__additionalInitArgs=arguments)
    chain = container(made, "chain-init", "initContainers")
    assert chain["args"] == ["chaind", "init", "test-0", "--chain-id", "test-1", *arguments]
    assert chain["image"] == "registry.example.com/chain:v1"
    assert "rm -rf /" not in chain["command"][-1]


@pytest.mark.parametrize(
    ("field", "value", "arguments"),
    [
        ("skipInvariants", True, ["--x-crisis-skip-assert-invariants"]),
        ("logLevel", "debug", ["--log_level", "debug"]),
        ("logFormat", "json", ["--log_format", "json"]),
        ("additionalStartArgs", ["--a", "b c"], ["--a", "b c"]),
    ],
)
def test_arguments_of_start(field: str, value: object, arguments: list[str]) -> None:
    usual = ["start", "--home", "/home/operator/cosmos"]
    assert container(spec(), "node")["args"] == usual
    made = container(spec(**{f"chain__{field}": value}), "node")
    assert made["args"] == [*usual, *arguments]


def test_the_network_is_a_label() -> None:
    labels = pod(node_set(chain__network="main net"))["metadata"]["labels"]
    assert labels[label_keys.NETWORK] == "main-net"


@pytest.mark.parametrize("what", ["genesis", "addrbook", "snapshot"])
def test_what_a_disk_begins_with_is_fetched_or_made(what: str) -> None:
    step = {"genesis": "genesis-init", "addrbook": "addrbook-init", "snapshot": "snapshot-restore"}
    url, script = f"https://example.com/{what}", f"make {what}"
    fetched = spec(**{f"chain__{what}URL": url})
    assert container(fetched, step[what], "initContainers")["args"] == ["node", "fetch", what, url]
    both = spec(**{f"chain__{what}URL": url, f"chain__{what}Script": script})
    made = container(both, step[what], "initContainers")
    assert made["args"] == [script]
    assert 'sh -c "$0"' in made["command"][-1]
    without = names(spec(), "initContainers")
    assert (step[what] in without) is (what != "snapshot")


@pytest.mark.criterion("H-D3")
@pytest.mark.parametrize("what", ["genesis", "addrbook", "snapshot"])
def test_h_d3_checksum_and_limit_are_arguments_only_if_given(what: str) -> None:
    """Without them the Pod is as older managers made it."""
    url, checksum = f"https://example.com/{what}", "Ab" * 32
    given = {f"chain__{what}URL": url, f"chain__{what}SHA256": checksum}
    step = {"genesis": "genesis-init", "addrbook": "addrbook-init", "snapshot": "snapshot-restore"}
    made = spec(**given, chain__maxDownloadSize="1Ki")
    assert container(made, step[what], "initContainers")["args"][4:] == [
        f"--sha256={'ab' * 32}",
        "--max-bytes=1024",
    ]


@pytest.mark.criterion("COSMOS-A2-25")
def test_what_prepares_a_node_in_order() -> None:
    made = spec(chain__snapshotURL="https://a", chain__versions=[{"height": 0, "image": "a"}])
    assert names(made, "initContainers") == [
        "clean-init",
        "validator-key-init",
        "chain-init",
        "genesis-init",
        "addrbook-init",
        "config-merge",
        "snapshot-restore",
        "version-check",
    ]
    assert names(made) == ["node", "healthcheck", "version-check-interval"]
    assert names(spec(), "initContainers")[-1] == "config-merge"
    assert names(spec()) == ["node", "healthcheck"]


def test_where_a_node_listens() -> None:
    made = spec(
        chain__config={
            "rpcListenAddress": "tcp://0.0.0.0:1001",
            "p2pListenAddress": "tcp://0.0.0.0:1002",
        }
    )
    ports = {each["name"]: each["containerPort"] for each in container(made, "node")["ports"]}
    assert ports["rpc"] == 1001
    assert ports["p2p"] == 1002
    assert "--rpc-url=http://127.0.0.1:1001" in container(made, "healthcheck")["args"]
    usual = {each["name"]: each["containerPort"] for each in container(spec(), "node")["ports"]}
    assert usual == {
        "api": 1317,
        "rosetta": 8080,
        "grpc": 9090,
        "prometheus": 26660,
        "p2p": 26656,
        "rpc": 26657,
        "grpc-web": 9091,
    }


def test_disks_and_configuration_are_those_of_the_node() -> None:
    made = {each["name"]: each for each in pod(node_set(), 1)["spec"]["volumes"]}
    assert made["vol-chain-home"]["persistentVolumeClaim"] == {"claimName": "pvc-test-1"}
    assert made["vol-config"]["configMap"]["name"] == "test-1"
    assert made["vol-node-key"]["secret"]["secretName"] == "test-1-node-key"


# -- what a Pod is built from ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 5},
        {"volumeRetentionPolicy": "Retain"},
        {"service": {"maxP2PExternalAddresses": 0}},
        {"chain__app": {"minGasPrice": "2utest"}},
        {"chain__config": {"seeds": "a@b:1"}},
        {"status": {"height": {"test-0": 99}}},
        {"strategy": {"maxUnavailable": 2}},
    ],
    ids=str,
)
def test_what_a_pod_does_not_show_does_not_change_it(changes: dict[str, Any]) -> None:
    before, after = pods(node_set())[0], pods(node_set(**changes))[0]
    assert after.revision == before.revision
    assert after.inputs == before.inputs


@pytest.mark.parametrize(
    "changes",
    [
        {"podTemplate__image": "other:v2"},
        {"podTemplate__metadata": {"labels": {"a": "b"}}},
        {"chain__homeDir": "other"},
        {"chain__config": {"rpcListenAddress": "tcp://0.0.0.0:1"}},
        {"chain__versions": [{"height": 0, "image": "a:v1"}]},
        {"serviceAccountName": "own"},
        {"type": "Sentry"},
        {"instanceOverrides": {"test-0": {"image": "b:v1"}}},
    ],
    ids=str,
)
def test_what_a_pod_shows_changes_its_inputs_too(changes: dict[str, Any]) -> None:
    before, after = pods(node_set())[0], pods(node_set(**changes))[0]
    assert after.revision != before.revision
    assert after.inputs != before.inputs


SCRIPTS = {
    "genesisScript": "genesis-init",
    "addrbookScript": "addrbook-init",
    "snapshotScript": "snapshot-restore",
}


@pytest.mark.criterion("H-C7")
@pytest.mark.parametrize("field", SCRIPTS)
def test_h_c7_scripts_alone_run_in_the_image_for_scripts(field: str) -> None:
    nodes = node_set(
        **{f"chain__{field}": "true", "chain__versions": [{"height": 0, "image": "a"}]}
    )
    tools = "tools:v1"
    made = next(build_pods(nodes, {}, sidecar_image=SIDECAR, script_image=tools))
    images = {each["name"]: each["image"] for each in made.manifest["spec"]["initContainers"]}
    assert [name for name, image in images.items() if image == tools] == [SCRIPTS[field]]
    own = node_set(**{f"chain__{field}": "true", "podTemplate__scriptImage": "mine:v1"})
    found = next(build_pods(own, {}, sidecar_image=SIDECAR, script_image=tools))
    assert container(found.manifest["spec"], SCRIPTS[field], "initContainers")["image"] == "mine:v1"


@pytest.mark.criterion("S-F3")
def test_each_is_built_when_it_is_taken() -> None:
    """200 at once took 0.14 s of the loop; each may be as large as an object of the API server."""
    made = build_pods(node_set(replicas=200), {}, sidecar_image=SIDECAR)
    assert lines(partial(next, made)) < 5_000


@pytest.mark.criterion("H-C7")
def test_h_c7_another_default_image_for_scripts_is_held_back() -> None:
    """Also that of a manager that knows one, where scripts ran in its own image before."""
    nodes = node_set(chain__genesisScript="true")
    before = next(build_pods(nodes, {}, sidecar_image=SIDECAR))
    after = next(build_pods(nodes, {}, sidecar_image=SIDECAR, script_image="tools:v1"))
    assert before.revision != after.revision
    assert before.inputs == after.inputs
    without = (
        next(build_pods(node_set(), {}, sidecar_image=SIDECAR, script_image=image)).revision
        for image in ("", "tools:v1")
    )
    assert len(set(without)) == 1, "a set without scripts is as it was"


@pytest.mark.criterion("H-C7")
def test_h_c7_the_default_image_for_scripts_is_documented_and_has_their_tools() -> None:
    root = Path(__file__).parents[3]
    image = CosmosOptions().node_script_image
    recipe = (root / "Dockerfile.node-tools").read_text()
    command = f"podman build -f Dockerfile.node-tools -t {image} ."
    assert command in recipe
    assert command in (root / "docs" / "cosmos.md").read_text()
    for tool in ("curl", "wget", "jq", "lz4", "zstd"):
        assert f" {tool} " in recipe


@pytest.mark.criterion("N-A21")
@pytest.mark.parametrize("kebab", [False, True], ids=["snake", "kebab"])
def test_listen_addresses_of_overrides_are_the_ports_of_the_pod(kebab: bool) -> None:
    """So Services and probes, which go by the port's name, and polls lead there."""
    signer = '[priv-validator]\nladdr = ":1"' if kebab else 'priv_validator_laddr = ":1"'
    metrics = "prometheus-listen-addr" if kebab else "prometheus_listen_addr"
    tables = f'[rpc]\nladdr = "tcp://0.0.0.0:2"\n[p2p]\nladdr = ":3"\n[instrumentation]\n{metrics} = ":4"'
    text = f"{tables}\n{signer}" if kebab else f"{signer}\n{tables}"
    app = '[api]\naddress = "tcp://0.0.0.0:5"\n[grpc]\naddress = ":6"\n[grpc-web]\naddress = ":7"'
    made = spec(type="Sentry", chain__config={"overrides": text}, chain__app__overrides=app)
    ports = {each["name"]: each["containerPort"] for each in container(made, "node")["ports"]}
    moved = {"privval": 1, "rpc": 2, "p2p": 3, "prometheus": 4, "api": 5, "grpc": 6, "grpc-web": 7}
    assert ports == {**moved, "rosetta": 8080}
    assert "--rpc-url=http://127.0.0.1:2" in container(made, "healthcheck")["args"]
