"""Run a command beside processes that keep cores busy: `hack/busy.py [-n 2] -- COMMAND...`.

Exit with the code of the command. The busy processes end with it, and by themselves when this process is killed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from multiprocessing import Process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2, help="busy processes (default: 2)")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    busy = [Process(target=_compute, args=(os.getpid(),)) for _ in range(arguments.n)]
    for process in busy:
        process.start()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        return _run(arguments.command)
    finally:
        for process in busy:
            process.kill()


def _compute(parent: int) -> None:
    """Keep a core busy until the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while os.getppid() == parent:
        sum(range(1_000_000))


def _run(command: list[str]) -> int:
    """Return the exit code of a command as a shell does; end the command when this process is to end."""
    pid = os.posix_spawnp(command[0], command, os.environ)
    try:
        _, status = os.waitpid(pid, 0)
    except BaseException:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
