"""A disk that is made from a copy never starts with the validator key of the node that was copied."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.cache.entry import Entry
from internal.cosmos.fullnode import validator_key
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


STUB = """\
#!/bin/sh
read -r count < "$COUNT"
count=$((count - 1))
echo "$count" > "$COUNT"
[ "$count" -ne 0 ] || exit 1
exec "/bin/${0##*/}" "$@"
"""
"""Stands for a command, and fails where a counter comes to 0: what is cut off there."""


def bringing(key: str, state: int = 5) -> str:
    """A script that fills a disk, with the key and state of another node."""
    return (
        f"mkdir -p $CHAIN_HOME/data/state.db; echo '{key}' > $CONFIG_DIR/priv_validator_key.json; "
        f"echo {state} > $DATA_DIR/priv_validator_state.json"
    )


def all_keys(disk: NodeDisk) -> set[str]:
    """What all files with keys have, whatever their names."""
    found = disk.chain.glob("**/*priv_validator_key*")
    return {each.read_text().strip() for each in found}


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("keep", [False, True])
def test_a_script_that_fills_a_disk_loses_no_key_wherever_it_is_cut_off(
    disk: NodeDisk, keep: bool
) -> None:
    for command in ("cp", "mv", "touch", "rm"):
        stub = disk.home.parent / "bin" / command
        stub.write_text(STUB)
        stub.chmod(0o755)
    count = disk.home.parent / "count"
    disk.environment["COUNT"] = str(count)
    nodes = node_set(chain__snapshotScript=bringing(OTHER), instanceOverrides=KEEP if keep else {})
    (fill,) = [
        [*each["command"], *each["args"]]
        for each in init_containers(nodes, 1, Images(SIDECAR, SIDECAR))
        if each["name"] == "snapshot-restore"
    ]
    key, state = (disk.file(name) for name in (validator_key.KEY, validator_key.STATE))
    aside = disk.file("config/priv_validator_key.json.set-aside-1")
    aside.write_text("before")
    for cut_off in range(1, 20):
        shutil.rmtree(disk.chain / "data", ignore_errors=True)
        disk.sign_with(OWN, 777)
        (disk.chain / "data" / "state.db").rmdir()
        count.write_text(str(cut_off))
        whole = False
        with contextlib.suppress(AssertionError):
            disk.carry_out(fill)
            whole = True
        count.write_text("1000000")
        disk.carry_out(fill)
        used = key.read_text().strip(), state.read_text().strip()
        assert used == ((OTHER, "5") if keep else (OWN, "777"))
        assert all_keys(disk) == {OWN, OTHER, "before"}, "nothing is lost"
        assert aside.read_text() == "before"
        if whole:
            return
    raise AssertionError("it was cut off at each of so many commands")


@pytest.mark.criterion("G-N5")
def test_an_older_state_alone_never_takes_the_place_of_the_nodes(disk: NodeDisk) -> None:
    disk.sign_with(OWN, 777)
    (disk.chain / "data" / "state.db").rmdir()
    disk.file(".disk-of").write_text("chains/test-1\n")
    script: dict[str, Any] = {"chain__snapshotScript": bringing(OWN)}
    assert disk.start(1, instanceOverrides=KEEP, **script).strip() == OWN
    assert disk.file("data/priv_validator_state.json").read_text() == "777"


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("older", [False, True], ids=["now", "by an older manager"])
def test_a_script_that_brings_a_key_where_there_is_none_has_it_set_aside(
    disk: NodeDisk, older: bool
) -> None:
    aside = disk.file("config/priv_validator_key.json.set-aside-1")
    aside.symlink_to("of-before")
    disk.file(".disk-of").write_text("chains/test-1\n")
    if older:  # cut off in the midst
        disk.file(".own-validator-key").write_text(OWN)
        disk.file(".restoring").touch()
    script: dict[str, Any] = {"chain__snapshotScript": bringing(OTHER)}
    assert disk.start(1, **script) == (OWN if older else "{}")
    assert aside.is_symlink()
    second = disk.file("config/priv_validator_key.json.set-aside-2")
    assert second.read_text().strip() == OTHER


@pytest.mark.criterion("G-N5")
@pytest.mark.parametrize("before", ["true", 'rm -rf "$CHAIN_HOME/data"', 'rm -rf "$CHAIN_HOME"/*'])
def test_a_script_that_removes_what_was_there_leaves_key_and_state(
    disk: NodeDisk, before: str
) -> None:
    """The configuration names the usual places once more, as `init` writes it."""
    disk.sign_with(OWN, 777)
    (disk.chain / "data" / "state.db").rmdir()
    disk.file(".disk-of").write_text("chains/test-1\n")
    disk.file("config/config.toml").write_text(
        f'priv_validator_key_file = "{validator_key.KEY}"\n'
        f'priv_validator_state_file = "{validator_key.STATE}"\n'
    )
    script = f'{before}; mkdir -p "$CONFIG_DIR"; {bringing(OTHER)}'
    assert disk.start(1, chain__snapshotScript=script) == OWN
    assert disk.file(validator_key.STATE).read_text() == "777"
    assert not [*disk.chain.glob("**/*own*")]
    for name, brought in ((validator_key.KEY, OTHER), (validator_key.STATE, "5")):
        (aside,) = disk.chain.glob(f"{name}.set-aside-*")
        assert aside.read_text().strip() == brought


@pytest.mark.criterion("G-N5")
def test_a_copy_of_a_disk_that_was_being_filled_brings_no_key(
    disk: NodeDisk, tmp_path: Path
) -> None:
    disk.sign_with(OWN, 777)
    (disk.chain / "data" / "state.db").rmdir()
    disk.file(".disk-of").write_text("chains/test-1\n")
    disk.file(".own-validator-key").write_text(OWN)
    disk.file(".restoring").touch()
    copy = disk.copy_to(tmp_path / "second")
    assert copy.start(0, chain__snapshotScript=bringing(OTHER)) == "{}"
    assert not copy.file(".own-validator-key").exists()
