"""Runs of Instances that members share while two of them are killed, the leader among them: none may be carried out twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import orjson

from apis.cloud import Instance
from benchmarks.cloud.__main__ import instance
from benchmarks.frame import NAMESPACE, ManagerProcess, report_progress
from benchmarks.shards.counting import RunFigures
from benchmarks.shards.member import RECORD
from benchmarks.shards.membership import Membership, until
from ctrlruntime.envtest import Environment
from ctrlruntime.generate.discovery import find_kinds, load
from manager.options import CLOUD_GROUP

LIMIT = 300.0
"""Seconds until every Instance is ready."""


async def count_runs(members: int, instances: int, lease: float) -> RunFigures:
    """Make Instances, kill members while their tasks run, and count what was carried out."""
    users = [f"m{number}" for number in range(members)]
    with tempfile.TemporaryDirectory(prefix="bench-shards-runs-") as name:
        folder = Path(name)
        around = Environment("embedded-process", folder=folder, users=("admin", *users))
        async with around as environment:
            await environment.install_crds(*find_kinds(load(("apis.cloud", "apis.operations"))))
            client = environment.client("envtest")
            membership = Membership(client, CLOUD_GROUP)
            managers = {}
            try:
                for user in users:  # the first one leads
                    managers[user] = member_process(environment, folder, user, "cloud", lease)
                    await managers[user].start()
                    await membership.shared_by({*managers})
                for number in range(instances):
                    await client.create(instance(number))

                async def under_way() -> bool:
                    return len(begun(folder)) >= instances  # of three times as many

                await until(under_way, LIMIT)
                for user in users[: max(1, members - 2)][:2]:
                    managers[user].kill()
                await until(partial(_all_ready, environment), LIMIT)
            finally:
                await asyncio.gather(*(each.stop() for each in managers.values()))
        found = Counter(map(tuple, begun(folder)))
    report_progress(f"{found.total()} runs of {instances} Instances")
    return RunFigures(found.total(), sum(count - 1 for count in found.values()))


def member_process(
    environment: Environment, folder: Path, user: str, system: str, lease: float, name: str = ""
) -> ManagerProcess:
    """Return a manager that shares as its user, or as nothing where `name` is `-`."""
    place = folder / user
    place.mkdir()
    command = ["-m", "benchmarks.shards.member", str(environment.kubeconfig(user)), str(folder)]
    command += [system, str(lease)]
    return ManagerProcess(place, command if name == "-" else [*command, name or user])


def begun(folder: Path) -> list[list[str]]:
    """Return what each task was for that began."""
    path = folder / RECORD
    return [orjson.loads(each) for each in path.read_bytes().splitlines()] if path.exists() else []


async def _all_ready(environment: Environment) -> bool:
    found = await environment.client("envtest").list(Instance, namespace=NAMESPACE)
    return {each.status.phase for each in found} == {"Ready"}
