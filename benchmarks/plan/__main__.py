"""`make bench-plan ROWS=n`: what the plan of a changed template costs for n tenants of five resources.

Server, simulated nodes and the manager that makes the fleet are processes of their own, and so is the command
that is measured. Every resource changes. The last line is one JSON object.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import orjson
import uvloop
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from benchmarks.frame import NAMESPACE, Fleet, ManagerProcess, print_figures, report_progress
from benchmarks.tenancy.fleet import REGISTRY, TABLE, manager_command, sample
from ctrlruntime.envtest import Environment

USER = "admin"
CHANGES = 1


@dataclass(slots=True)
class PlanFigures:
    """The last line. `mib` is the largest resident size of the command's process, `cpu_seconds` its processor time."""

    rows: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    mib: float = 0.0
    groups: int = 0
    writes: int = 0
    requests: int = 0


def fill(folder: Path, rows: int) -> None:
    """Make the table."""
    columns = "tenant_id, domain, is_active, subscription_plan, container_image, replicas"
    with closing(sqlite3.connect(folder / "rows.sqlite")) as database, database:
        database.execute(f"CREATE TABLE {TABLE} ({columns})")
        database.executemany(
            f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?)",
            [
                (f"t{i:06}", f"https://t{i}.example.com", 1, "basic", "example.com/web:1", 1)
                for i in range(rows)
            ],
        )


def registry() -> dict[str, Any]:
    """The sample registry, with the table in a file."""
    manifest = sample("tenantregistry.yaml")
    sqlite = {"path": "rows.sqlite", "table": TABLE}
    manifest["spec"]["source"] = {"type": "sqlite", "sqlite": sqlite, "syncInterval": "5s"}
    return manifest


def changed_template() -> dict[str, Any]:
    """The sample template with a label more on each of its resources."""
    manifest = sample("tenanttemplate.yaml")
    for items in manifest["spec"].values():
        for item in items if isinstance(items, list) else ():
            item.setdefault("labelsTemplate", {})["release"] = "new"
    return manifest


async def converge(environment: Environment, folder: Path, rows: int) -> None:
    """Have a manager make the fleet, and stop it."""
    client = environment.client("envtest")
    await environment.install_crds(TenantRegistry, TenantTemplate, Tenant)
    await client.create(registry())
    await client.create(sample("tenanttemplate.yaml"))
    command = manager_command(environment.kubeconfig("manager"))
    manager = ManagerProcess(folder, [*command, "--allow-sqlite", str(folder)])

    async def missing() -> int:
        found = await client.get(TenantRegistry, REGISTRY, namespace=NAMESPACE)
        return rows - found.status.ready

    try:
        await manager.start()
        await Fleet(environment, manager).wait_until_done(
            missing, limit=120 + rows * 0.5, every=0.5
        )
    finally:
        await manager.stop()


def measure(command: list[str], output: Path) -> tuple[int, float, float, float]:
    """Run the command. Returns its exit code, seconds, processor time and largest resident size in MiB."""
    started = time.monotonic()
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    code = process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return code, time.monotonic() - started, cpu, usage.ru_maxrss / 1024


async def bench(rows: int) -> PlanFigures:
    """Make the fleet, plan the change, stop everything."""
    with tempfile.TemporaryDirectory(prefix="bench-plan-") as name:
        folder = Path(name)
        environment = Environment(
            "embedded-process", nodes=True, pods=False, proxy=True, folder=folder
        )
        async with environment:
            fill(folder, rows)
            report_progress(f"{rows} rows; starting the manager")
            await converge(environment, folder, rows)
            template = folder / "template.yaml"
            template.write_text(yaml.safe_dump(changed_template()))
            report_progress("planning")
            before = environment.proxy.log.counts()
            command = [sys.executable, "-m", "manager", "plan", "-o", "json", "-f", str(template)]
            command += ["--kubeconfig", str(environment.kubeconfig(USER)), "-n", NAMESPACE]
            measured = await asyncio.to_thread(measure, command, folder / "plan.json")
            code, seconds, cpu, mib = measured
            if code != CHANGES:
                raise SystemExit(f"the command ended with {code}")
            counts = (environment.proxy.log.counts() - before).select(user=USER)
            report_progress(str(counts))
            made = orjson.loads((folder / "plan.json").read_bytes())
            return PlanFigures(
                rows=rows,
                seconds=round(seconds, 1),
                cpu_seconds=round(cpu, 1),
                mib=round(mib, 1),
                groups=len(made["groups"]),
                writes=made["writes"],
                requests=counts.total - counts.watches,
            )


@click.command()
@click.option("--rows", default=1000, help="Active rows.")
def main(rows: int) -> None:
    """Measure the plan of a changed template."""
    print_figures(uvloop.run(bench(rows)))


if __name__ == "__main__":
    main()
