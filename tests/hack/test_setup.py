"""hack/setup.sh on machines that lack this and that: programs it needs are stood in for on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.packages import from_wheels

ROOT = Path(__file__).parents[2]
TOOLS = (
    *("awk", "bash", "cat", "chmod", "cut", "dirname", "env", "find", "ln", "mkdir", "mv"),
    *("rm", "sha256sum", "touch"),
)
PYTHON = shutil.which("python3.11", path="/usr/bin") or sys.executable
WITHOUT_VENV = """#!/bin/bash
# Debian's python3 before python3-venv is installed.
case "$*" in *ensurepip*) [ -e "$(dirname "$0")/../installed" ] || exit 1 ;; esac
exec {python} "$@"
"""
APT_GET = """#!/bin/bash
echo "apt-get $*" >>"$(dirname "$0")/../apt.log"
case "$1" in install) touch "$(dirname "$0")/../installed" ;; esac
"""


@dataclass
class Machine:
    """A checkout with an empty lock file, and a PATH that has just what the machine has."""

    folder: Path

    def has(self, name: str, text: str) -> None:
        """A program of this machine."""
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)

    def setup(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            ["/bin/bash", str(self.folder / "checkout" / "hack" / "setup.sh")],
            env={"PATH": str(self.folder / "bin"), "HOME": str(self.folder), **variables},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    @property
    def venv(self) -> Path:
        return self.folder / "checkout" / ".venv"

    @property
    def installed(self) -> str:
        log = self.folder / "apt.log"
        return log.read_text() if log.exists() else ""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "checkout" / "hack").mkdir(parents=True)
    shutil.copy(ROOT / "hack" / "setup.sh", tmp_path / "checkout" / "hack")
    (tmp_path / "checkout" / "requirements.lock").write_text("")
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / "bin" / tool).symlink_to(found)
    made = Machine(tmp_path)
    made.has("id", "#!/bin/bash\necho 0\n")
    return made


def test_it_makes_a_working_environment_and_is_silent_afterwards(machine: Machine) -> None:
    first = machine.setup(PYTHON=PYTHON)
    assert (first.returncode, first.stderr) == (0, "")
    assert "making .venv with Python 3." in first.stdout
    code = "import sys; print(sys.path[-1])"
    last = subprocess.run(
        [machine.venv / "bin" / "python", "-c", code], check=True, capture_output=True, text=True
    )
    assert last.stdout.strip() == str(machine.folder / "checkout")
    second = machine.setup(PYTHON=PYTHON)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    (machine.folder / "checkout" / "requirements.lock").write_text(locked("iniconfig"))
    (machine.venv / "wheels").unlink()
    (machine.venv / "wheels").mkdir()  # where they were kept before
    third = machine.setup(PYTHON=PYTHON, **from_wheels())
    assert third.returncode == 0
    assert "making" not in third.stdout
    assert "installing the locked packages" in third.stdout
    it_keeps_packages_for_the_next_environment(machine)


def it_keeps_packages_for_the_next_environment(machine: Machine) -> None:
    kept = machine.folder / ".cache" / "ctrlruntime" / "wheels"
    [wheel] = (machine.venv / "wheels").glob("iniconfig-*.whl")
    assert wheel.resolve().parent.parent == kept
    # It is installed from there, without any index. What old lock files asked for goes some day.
    for folder in kept.iterdir():
        os.utime(folder, (0, 0))
    (machine.venv / ".lock.sha256").unlink()
    assert machine.setup(PYTHON=PYTHON, PIP_NO_INDEX="1").returncode == 0
    assert [*kept.iterdir()] == [wheel.resolve().parent]
    # Damaged, it is fetched again.
    (machine.venv / ".lock.sha256").unlink()
    wheel.write_bytes(wheel.read_bytes() + b"damage")
    shutil.rmtree(next(machine.venv.glob("lib/*/site-packages/iniconfig")))
    shutil.rmtree(next(machine.venv.glob("lib/*/site-packages/iniconfig-*")))
    again = machine.setup(PYTHON=PYTHON, **from_wheels())
    assert again.returncode == 0, again.stderr
    assert "fetching the packages again" in again.stdout
    assert "DO NOT MATCH THE HASHES" in again.stderr
    assert [*machine.venv.glob("lib/*/site-packages/iniconfig")]


def locked(package: str) -> str:
    """Its entry in the lock file."""
    lines = (ROOT / "requirements.lock").read_text().splitlines(keepends=True)
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"{package}=="))
    ends = (n for n in range(begin + 1, len(lines)) if not lines[n].startswith(" "))
    return "".join(lines[begin : next(ends, len(lines))])


def test_debian_without_venv_gets_it(machine: Machine) -> None:
    machine.has("python3.11", WITHOUT_VENV.format(python=PYTHON))
    machine.has("apt-get", APT_GET)
    result = machine.setup(PYTHON="python3.11")
    assert result.returncode == 0, result.stderr
    assert machine.installed.splitlines() == [
        "apt-get update -q",
        "apt-get install -y -q --no-install-recommends python3 python3-venv",
    ]
    assert (machine.venv / "bin" / "python").exists()


def test_who_is_not_root_uses_sudo(machine: Machine) -> None:
    machine.has("python3.11", WITHOUT_VENV.format(python=PYTHON))
    machine.has("apt-get", APT_GET)
    machine.has("id", "#!/bin/bash\necho 1000\n")
    machine.has("sudo", '#!/bin/bash\necho "by sudo: $*" >&2\n')  # and then it fails
    result = machine.setup(PYTHON="python3.11")
    assert "by sudo: env DEBIAN_FRONTEND=noninteractive apt-get install" in result.stderr
    assert result.returncode == 1


def test_without_root_and_sudo_it_reports_what_to_install(machine: Machine) -> None:
    machine.has("apt-get", APT_GET)
    machine.has("id", "#!/bin/bash\necho 1000\n")
    result = machine.setup(PYTHON="python3.11")
    assert result.returncode == 1
    assert "as root: apt-get install python3 python3-venv" in result.stderr
    assert machine.installed == ""


def test_where_there_is_no_debian_it_reports_what_is_missing(machine: Machine) -> None:
    result = machine.setup(PYTHON="python3.11")
    assert result.returncode == 1
    assert "no Python 3.11 or newer with venv" in result.stderr


def test_a_python_that_is_too_old_is_not_taken(machine: Machine) -> None:
    machine.has("python3", "#!/bin/bash\nexit 1\n")
    machine.has("apt-get", "#!/bin/bash\n")
    result = machine.setup(PYTHON="python3")
    assert result.returncode == 1
    assert "set PYTHON=" in result.stderr


def test_an_environment_that_was_half_made_is_made_anew(machine: Machine) -> None:
    broken = machine.venv / "bin"
    broken.mkdir(parents=True)
    (broken / "python").symlink_to(PYTHON)
    result = machine.setup(PYTHON=PYTHON)
    assert result.returncode == 0, result.stderr
    assert (machine.venv / ".lock.sha256").exists()
    assert (machine.venv / "pyvenv.cfg").exists()


def test_without_network_it_reports_what_to_do(machine: Machine) -> None:
    (machine.folder / "checkout" / "requirements.lock").write_text(locked("iniconfig"))
    result = machine.setup(PYTHON=PYTHON, PIP_NO_INDEX="1")
    assert result.returncode != 0
    assert "iniconfig" in result.stderr  # pip's own reason
    for advice in ("HTTPS_PROXY", "PIP_INDEX_URL", str(machine.folder / ".cache")):
        assert advice in result.stderr
    assert machine.setup(PYTHON=PYTHON, **from_wheels()).returncode == 0
