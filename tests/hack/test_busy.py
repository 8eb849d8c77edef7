"""hack/busy.py runs a command beside busy processes, which never outlive it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import eventually

SCRIPT = Path(__file__).parents[2] / "hack" / "busy.py"
SIBLINGS = """
import os, sys
from pathlib import Path
task = Path("/proc") / str(os.getppid()) / "task"
pids = {pid for one in task.iterdir() for pid in (one / "children").read_text().split()}
print(*sorted(pids - {str(os.getpid())}), flush=True)
sys.exit(int(sys.stdin.readline() or 0))
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    """Start the script with a command that prints its siblings and exits with the code that it reads."""
    command = [sys.executable, str(SCRIPT), *arguments, "--", sys.executable, "-c", SIBLINGS]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def siblings(process: subprocess.Popen[str]) -> list[str]:
    assert process.stdout is not None
    return process.stdout.readline().split()


def run(pids: list[str]) -> list[str]:
    """Return those of the processes that exist and are no zombies."""
    return [pid for pid in pids if state(pid) not in ("", "Z")]


def state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.parametrize(("arguments", "count"), [((), 2), (("-n", "3"), 3)], ids=str)
def test_the_command_runs_beside_busy_processes_and_its_exit_code_is_passed_on(
    arguments: tuple[str, ...], count: int
) -> None:
    with start(*arguments) as process:
        pids = siblings(process)
        assert run(pids) == pids
        assert len(pids) == count
        process.communicate("7\n")
    assert process.returncode == 7
    assert run(pids) == []


def test_a_command_that_a_signal_ends_gives_the_exit_code_of_a_shell() -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    command = [sys.executable, str(SCRIPT), "-n", "1", "--", sys.executable, "-c", code]
    assert subprocess.run(command, check=False).returncode == 137


@pytest.mark.parametrize("end", ["terminate", "kill"])
async def test_busy_processes_end_with_the_script(end: str) -> None:
    with start() as process:
        pids = siblings(process)
        assert len(pids) == 2
        getattr(process, end)()
        await eventually(lambda: not run(pids))
