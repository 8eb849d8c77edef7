"""The shell scripts of init containers, carried out by a shell: cut off anywhere, they go on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from internal.cosmos.fullnode.containers import containers
from internal.cosmos.fullnode.init_containers import Images, init_containers

from .samples import SIDECAR, node_set

CHAIN = """\
#!/bin/sh
# A chain's binary: init refuses to go over a genesis file that is there.
[ "$1" = init ] || { echo "$@"; exit; }
echo "$@" >> "$LOG"
shift; for home; do :; done
[ ! -e "$home/config/genesis.json" ] || { echo "genesis.json exists" >&2; exit 1; }
mkdir -p "$home/config" "$home/data"
echo '{"made": "by init"}' > "$home/config/genesis.json"
"""


class Disk:
    """The folders that an init container sees."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "operator"
        self.chain = self.home / "cosmos"
        self.base = self.home / ".tmp"
        for each in (self.chain, self.base, folder / "bin"):
            each.mkdir(parents=True)
        binary = folder / "bin" / "chaind"
        binary.write_text(CHAIN)
        binary.chmod(0o755)
        self.log = folder / "log"
        self.environment = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.home),
            "CHAIN_HOME": str(self.chain),
            "CONFIG_DIR": str(self.chain / "config"),
            "DATA_DIR": str(self.chain / "data"),
            "GENESIS_FILE": str(self.chain / "config" / "genesis.json"),
            "ADDRBOOK_FILE": str(self.chain / "config" / "addrbook.json"),
            "LOG": str(self.log),
        }

    def run(self, name: str, *, fails: bool = False, **changes: object) -> str:
        """Carry out one init container."""
        made = init_containers(node_set(**changes), 0, Images(SIDECAR, SIDECAR))
        (found,) = [each for each in made if each["name"] == name]
        return self.carry_out([*found["command"], *found.get("args", [])], fails=fails)

    def carry_out(self, command: list[str], *, fails: bool = False) -> str:
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode != 0) is fails, done
        return done.stdout


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


def test_what_was_made_at_the_last_start_is_removed(disk: Disk) -> None:
    (disk.base / "config").mkdir()
    (disk.base / ".hidden").touch()
    (disk.base / "config" / "a b").touch()
    disk.run("clean-init")
    assert list(disk.base.iterdir()) == []
    disk.run("clean-init")


def test_a_disk_is_made_a_chains_once(disk: Disk) -> None:
    disk.run("chain-init", chain__additionalInitArgs=["--a", "b c; exit 1"])
    assert (disk.chain / "config" / "genesis.json").exists()
    assert (disk.base / "config" / "genesis.json").exists()
    assert disk.log.read_text().splitlines() == [
        f"init test-0 --chain-id test-1 --a b c; exit 1 --home {disk.chain}",
        f"init test-0 --chain-id test-1 --a b c; exit 1 --home {disk.base}",
    ]
    (disk.chain / "config" / "genesis.json").write_text("the chain's")
    disk.run("chain-init")
    assert (disk.chain / "config" / "genesis.json").read_text() == "the chain's"
    assert len(disk.log.read_text().splitlines()) == 3


@pytest.mark.criterion("COSMOS-A2-25")
def test_an_init_that_was_cut_off_goes_on(disk: Disk) -> None:
    (disk.chain / "config").mkdir()
    (disk.chain / "config" / "genesis.json").touch()
    (disk.base / "config").mkdir()
    (disk.base / "config" / "genesis.json").touch()
    disk.run("chain-init")
    assert (disk.chain / "data").is_dir()


def test_the_genesis_file_of_init_is_taken_where_there_is_no_other(disk: Disk) -> None:
    disk.run("chain-init")
    genesis = disk.chain / "config" / "genesis.json"
    genesis.unlink()
    disk.run("genesis-init")
    assert "by init" in genesis.read_text()
    genesis.write_text("kept")
    disk.run("genesis-init")
    assert genesis.read_text() == "kept"


def test_a_genesis_script_runs_until_the_chain_has_begun(disk: Disk) -> None:
    disk.run("chain-init")
    script = 'echo "made with $0 by script" > "$GENESIS_FILE"'
    genesis = disk.chain / "config" / "genesis.json"
    disk.run("genesis-init", chain__genesisScript=script)
    assert "by script" in genesis.read_text()
    (disk.chain / "data" / "state.db").mkdir()
    disk.run("genesis-init", chain__genesisScript="exit 1")
    genesis.unlink()
    disk.run("genesis-init", chain__genesisScript=script)
    assert "by script" in genesis.read_text()
    genesis.unlink()
    disk.run("genesis-init", chain__genesisScript="exit 1", fails=True)


def test_an_addrbook_script_runs_once(disk: Disk) -> None:
    script = 'echo "{}" > "$ADDRBOOK_FILE"'
    disk.run("addrbook-init", chain__addrbookScript=script)
    disk.run("addrbook-init", chain__addrbookScript="exit 1")
    assert "No address book" in disk.run("addrbook-init")


def test_a_snapshot_script_runs_until_it_has_ended_well(disk: Disk) -> None:
    fill = 'mkdir -p "$DATA_DIR/state.db"'
    disk.run("snapshot-restore", chain__snapshotScript=f"{fill}; exit 1", fails=True)
    assert (disk.chain / ".restoring").exists()
    disk.run("snapshot-restore", chain__snapshotScript=fill)
    assert not (disk.chain / ".restoring").exists()
    disk.run("snapshot-restore", chain__snapshotScript="exit 1")


@pytest.mark.criterion("COSMOS-A7-2")
def test_a_sentry_sleeps_and_becomes_its_node(disk: Disk) -> None:
    """`exec`: the node gets the signals that are meant for it."""
    nodes = node_set(
        type="Sentry", chain__privvalSleepSeconds=1, chain__additionalStartArgs=["--a", "b  $HOME"]
    )
    made = containers(nodes, 0, SIDECAR)[0]
    command = ["0" if part == "1" else part for part in made["command"]]
    said = disk.carry_out([*command, *made["args"]])
    assert said == "start --home /home/operator/cosmos --a b  $HOME\n"
    assert 'exec "$@"' in made["command"][2]
