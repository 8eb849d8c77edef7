"""A manager process that competes for a Lease and, while it leads, never stops writing.

SIGUSR1 blocks its loop in a system call, SIGUSR2 in Python code, both for `--block` seconds. A write
that is refused or fails is simply tried again: nothing but the manager's fence keeps it from going on.
"""

from __future__ import annotations

import asyncio
import signal
import time
from datetime import datetime, timedelta, tzinfo
from itertools import count
from pathlib import Path

import click

import ctrlruntime.manager.election as election_module
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.envtest.process import report_ready
from ctrlruntime.manager import ElectionOptions, Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
LEASE = "contest"
TIMES = ElectionOptions(lease_duration=12.0, renew_deadline=10.0, retry_period=0.5)
"""Long enough for renewals on a machine that has much else to do."""
SLOW = ElectionOptions(lease_duration=900.0, renew_deadline=800.0, retry_period=300.0)
"""A candidate that misses a change learns of it after more time than any test waits."""
WRITERS = 4
PAUSE = 0.05


class Writing:
    """A runnable of the leader: each of its writers patches a ConfigMap of its own again and again."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def start(self) -> None:
        await asyncio.gather(*(self._write(f"beat-{n}") for n in range(WRITERS)))

    async def _write(self, name: str) -> None:
        for turn in count():
            patch = {"data": {"turn": str(turn)}}
            try:
                await self._client.patch(CONFIG_MAP, name, patch, namespace=self._namespace)
            except Exception as error:  # noqa: BLE001 - whatever it was, it tries again
                print("refused:", repr(error), flush=True)
            await asyncio.sleep(PAUSE)


def shift_wall_clock(seconds: float) -> None:
    """Have the election of this process read a wall clock that is wrong."""

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=seconds)

    vars(election_module)["datetime"] = Wrong


def spin(seconds: float) -> None:
    """Python code that gives nothing back to the loop."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass


async def compete(
    kubeconfig: Path, namespace: str, times: ElectionOptions, block: float, ready: str
) -> None:
    config = await Config.load(kubeconfig)
    options = ManagerOptions(
        name="contest",
        leader_election=True,
        leader_election_id=LEASE,
        leader_election_namespace=namespace,
        leader_election_identity=kubeconfig.stem,
        election=times,
        metrics_bind_address="127.0.0.1:0",
        health_bind_address="0",
        handle_signals=True,
    )
    manager = Manager(config, options)
    manager.add(Writing(manager.client, namespace))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, time.sleep, block)
    loop.add_signal_handler(signal.SIGUSR2, spin, block)
    report_ready(ready, {"metrics": manager.metrics_port})
    await manager.start()


@click.command()
@click.option("--kubeconfig", type=Path, required=True)
@click.option("--namespace", required=True)
@click.option("--wall-clock", default=0.0)
@click.option("--block", default=0.0)
@click.option("--slow-times", is_flag=True, help="Long waits instead of short ones.")
@click.option("--ready", required=True)
def main(
    kubeconfig: Path,
    namespace: str,
    wall_clock: float,
    block: float,
    slow_times: bool,
    ready: str,
) -> None:
    """Compete until told to stop; exits with 1 when the lease is lost."""
    shift_wall_clock(wall_clock)
    times = SLOW if slow_times else TIMES
    run_on_uvloop(compete(kubeconfig, namespace, times, block, ready))


if __name__ == "__main__":
    main()
