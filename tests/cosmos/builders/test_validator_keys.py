"""A disk that is made from a copy never starts with the validator key of the node that was copied."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.cache.entry import Entry
from internal.cosmos.fullnode.init_containers import Images, init_containers
from internal.cosmos.fullnode.toml_overlay import CONFIG_OVERLAY
from internal.cosmos.fullnode.validator_key import VALIDATOR_KEY, has_own_disk
from tests.resources.ordinal_factories import claim, existing, pod

from .samples import SIDECAR, node_set
from .test_scripts import Disk

OWN, OTHER = '{"address": "own"}', '{"address": "other"}'
KEEP = {"test-1": {"keepValidatorKey": True}}
CASES = ["a moved key", "a table of its own"]


class NodeDisk(Disk):
    """A disk whose node is started by its init containers, as far as they matter for the key."""

    def start(
        self, ordinal: int, namespace: str = "chains", *, own: bool = False, **changes: object
    ) -> str:
        """Start the node of that number on this disk. Returns the key that it signs with; `{}` is a new one.

        `own`: the node's claim is known to have been made empty.
        """
        nodes = node_set(**changes)
        nodes.metadata.namespace = namespace
        made = {
            each["name"]: each
            for each in init_containers(nodes, ordinal, Images(SIDECAR, SIDECAR), own_disk=own)
        }
        assert list(made).index(VALIDATOR_KEY) < list(made).index("chain-init")
        self.carry_out([*made[VALIDATOR_KEY]["command"], *made[VALIDATOR_KEY]["args"]])
        self.carry_out([*made["chain-init"]["command"], *made["chain-init"]["args"]])
        if (found := made.get("snapshot-restore")) is not None:
            self.carry_out([*found["command"], *found["args"]])
        moniker = str(changes.get("moniker", f"test-{ordinal}"))
        (self.chain / "config" / "config.toml").write_text(f'moniker = "{moniker}"\n')
        key = self.file("config/priv_validator_key.json")
        if not key.exists():
            key.write_text("{}")
            self.file("data/priv_validator_state.json").write_text("{}")
        return key.read_text()

    def file(self, name: str) -> Path:
        found = self.chain / name
        found.parent.mkdir(parents=True, exist_ok=True)
        return found

    def sign_with(self, key: str, height: int = 100) -> None:
        self.file("config/priv_validator_key.json").write_text(key)
        self.file("data/priv_validator_state.json").write_text(str(height))
        (self.chain / "data" / "state.db").mkdir(parents=True, exist_ok=True)

    def copy_to(self, folder: Path) -> NodeDisk:
        """Return a disk that is made from this one, as a snapshot or a claim as `dataSource` makes it."""
        made = NodeDisk(folder)
        shutil.copytree(self.chain, made.chain, dirs_exist_ok=True)
        return made


@pytest.fixture
def disk(tmp_path: Path) -> NodeDisk:
    return NodeDisk(tmp_path / "first")


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize(
    ("older", "ordinal", "namespace"),
    [(False, 1, "chains"), (False, 0, "others"), (True, 1, "chains")],
    ids=["marked", "of another namespace", "of an older manager"],
)
def test_a_copy_starts_with_a_key_of_its_own(
    disk: NodeDisk, tmp_path: Path, older: bool, ordinal: int, namespace: str
) -> None:
    disk.start(0)
    disk.sign_with(OTHER)
    if older:
        (disk.chain / ".disk-of").unlink()
    copy = disk.copy_to(tmp_path / "second")
    assert copy.start(ordinal, namespace) == "{}"
    assert copy.file("data/priv_validator_state.json").read_text() == "{}"
    aside = copy.file("config/priv_validator_key.json.set-aside-1")
    assert aside.read_text() == OTHER, "nothing is lost"
    copy.sign_with(OWN)
    assert [copy.start(ordinal, namespace) for _ in range(2)] == [OWN, OWN]
    again = copy.copy_to(tmp_path / "third")
    assert again.start(2) == "{}", "a copy of a copy"
    assert again.file("config/priv_validator_key.json.set-aside-2").read_text() == OWN
    assert disk.start(0, own=older) == OTHER


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("moniker", ["test-0", "my-validator"])
def test_a_node_that_starts_again_keeps_its_key_also_after_an_upgrade(
    disk: NodeDisk, moniker: str
) -> None:
    overlay = disk.home / ".config" / CONFIG_OVERLAY
    overlay.parent.mkdir()
    overlay.write_text(f'moniker = "{moniker}"\n')
    disk.sign_with(OWN, 777)
    disk.file("config/config.toml").write_text(f'# of init\nmoniker = "{moniker}"\n')
    assert [disk.start(0, own=True) for _ in range(3)] == [OWN] * 3
    assert disk.file("data/priv_validator_state.json").read_text() == "777"


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("moniker", ["test-0", "my-validator"])
def test_a_copy_without_the_record_never_starts_with_a_key_whatever_it_resembles(
    disk: NodeDisk, moniker: str
) -> None:
    """Made by hand, by an older manager or by another tool, of a node of that name, or with one moniker for all."""
    overlay = disk.home / ".config" / CONFIG_OVERLAY
    overlay.parent.mkdir()
    overlay.write_text(f'moniker = "{moniker}"\n')
    disk.sign_with(OTHER)
    disk.file("config/config.toml").write_text(f'moniker = "{moniker}"\n')
    assert [disk.start(0), disk.start(0, own=True)] == ["{}", "{}"]
    assert disk.file("config/priv_validator_key.json.set-aside-1").read_text() == OTHER


def claim_of(annotations: dict[str, str] | None = None, **spec: object) -> Entry:
    metadata: dict[str, Any] = {"uid": "1"}
    if annotations:
        metadata["annotations"] = annotations
    return existing(claim(0, spec=spec), **metadata)


SNAPSHOT = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "copy"}
BOUND = {"pv.kubernetes.io/bound-by-controller": "yes"}


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize(
    ("found", "own"),
    [
        (claim_of(), True),
        (claim_of(BOUND, volumeName="pv-1"), True),
        (claim_of(volumeName="pv-of-a-copy"), False),
        (claim_of(dataSource=SNAPSHOT), False),
        (claim_of(BOUND, volumeName="pv-1", dataSourceRef=SNAPSHOT), False),
        (None, False),
    ],
    ids=["empty", "provisioned", "given its volume", "source", "source by reference", "unknown"],
)
def test_only_a_claim_that_was_made_empty_is_taken_for_the_nodes_own(
    found: Entry | None, own: bool
) -> None:
    assert has_own_disk(None, found) is own
    for first in (False, True):
        before = pod_with(first)
        assert has_own_disk(before, found) is first, "a Pod that is there stays as it is"


def pod_with(own: bool) -> Entry:
    made = init_containers(node_set(), 0, Images(SIDECAR, SIDECAR), own_disk=own)
    desired = pod(0)
    desired.manifest["spec"]["initContainers"] = made
    return existing(desired)


@pytest.mark.criterion("G-N5")
def test_a_disk_that_names_no_node_is_taken_for_a_copy(disk: NodeDisk) -> None:
    disk.sign_with(OTHER)
    assert disk.start(0) == "{}"
    disk.sign_with(OTHER)
    disk.file(".disk-of").write_text("")
    disk.file("config/config.toml").write_text('moniker = ""\n')
    assert disk.start(0) == "{}", "a mark that was cut off names none"


@pytest.mark.criterion("G-N5")
def test_who_moves_a_validator_keeps_its_key_and_state(disk: NodeDisk, tmp_path: Path) -> None:
    disk.start(0)
    disk.sign_with(OWN, 777)
    copy = disk.copy_to(tmp_path / "second")
    assert copy.start(1, instanceOverrides=KEEP) == OWN
    assert copy.file("data/priv_validator_state.json").read_text() == "777"
    assert copy.start(1) == OWN, "from then on it is this node's"
    assert disk.copy_to(tmp_path / "third").start(2, instanceOverrides=KEEP) == "{}"


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize(
    "config",
    ['priv_validator_key_file = "keys/mine.json"', "[priv-validator]\nkey-file = 'keys/mine.json'"],
    ids=CASES,
)
@pytest.mark.parametrize("overlaid", [False, True])
def test_a_key_at_another_place_is_set_aside_too(
    disk: NodeDisk, config: str, overlaid: bool
) -> None:
    disk.sign_with(OTHER)
    disk.file("keys/mine.json").write_text(OTHER)
    overlay = disk.home / ".config" / CONFIG_OVERLAY
    overlay.parent.mkdir()
    (overlay if overlaid else disk.file("config/config.toml")).write_text(f"{config}\n")
    assert disk.start(0) == "{}"
    assert not disk.file("keys/mine.json").exists()
    assert disk.file("keys/mine.json.set-aside-1").exists()


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("cut_off", [False, True])
def test_a_script_that_fills_a_disk_brings_no_key(disk: NodeDisk, cut_off: bool) -> None:
    bring = (
        f"mkdir -p $CHAIN_HOME/data/state.db; echo '{OTHER}' > $CONFIG_DIR/priv_validator_key.json"
    )
    disk.file("config/priv_validator_key.json").write_text(OWN)
    disk.file(".disk-of").write_text("chains/test-1\n")
    if cut_off:
        script: dict[str, Any] = {"chain__snapshotScript": f"{bring}; exit 1"}
        with pytest.raises(AssertionError):
            disk.start(1, **script)
    assert disk.start(1, chain__snapshotScript=bring) == OWN
    assert disk.start(1, chain__snapshotScript=bring) == OWN


@pytest.mark.criterion("G-N5")
def test_a_script_brings_the_key_of_a_validator_that_moves(disk: NodeDisk) -> None:
    bring = f"mkdir -p $CHAIN_HOME/data/a.db; echo '{OTHER}' > $CONFIG_DIR/priv_validator_key.json"
    disk.file("config/priv_validator_key.json").write_text(OWN)
    started = disk.start(1, chain__snapshotScript=bring, instanceOverrides=KEEP)
    assert started.strip() == OTHER


@pytest.mark.criterion("G-N5")
def test_a_script_that_brings_a_key_where_there_is_none_has_it_set_aside(disk: NodeDisk) -> None:
    bring = f"mkdir -p $CHAIN_HOME/data/a.db; echo '{OTHER}' > $CONFIG_DIR/priv_validator_key.json"
    assert disk.start(1, chain__snapshotScript=bring) == "{}"
