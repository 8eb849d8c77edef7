"""The demo's table is broken as people break theirs: what is held is shown by commands, approved, and brought back."""

from __future__ import annotations

import re
import signal
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from ctrlruntime.envtest.eventually import eventually_holds
from manager.demo.tenants import REGISTRY, TABLE, TABLE_FILE
from tests.manager_cli.program import Program

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo"), pytest.mark.criterion("G-T6")]

HELD = "TenantRegistry"
"""What `approve --list` begins a line with."""


@dataclass(frozen=True)
class Demo:
    """The demo's folder, and the commands of its user."""

    folder: Path

    def execute(
        self, statement: str, rows: Sequence[Sequence[object]] = ()
    ) -> list[tuple[object, ...]]:
        """Change the table."""
        with sqlite3.connect(self.folder / TABLE_FILE) as table:
            if rows:
                table.executemany(statement, rows)
                return []
            return table.execute(statement).fetchall()

    async def run(self, *command: str, code: int = 0) -> str:
        """Return what a command of the manager prints, which ends with the code."""
        kubeconfig = self.folder / "admin.kubeconfig"
        async with await Program.start(*command, "--kubeconfig", kubeconfig) as program:
            assert await program.wait() == code, program.output
        return program.output

    async def shows(self, command: Sequence[str], holds: Callable[[str], bool]) -> str:
        """Return what a command prints once it `holds`."""
        seen = ""

        async def look() -> bool:
            nonlocal seen
            seen = await self.run(*command)
            return holds(seen)

        assert await eventually_holds(look, timeout=60), seen
        return seen

    async def counts(self, tenants: int) -> None:
        """Wait until `top` shows so many tenants, all of them ready."""
        await self.shows(
            ["top"],
            lambda text: (
                re.search(rf"^Tenant +Good +Ready +{tenants} *$", text, re.MULTILINE) is not None
            ),
        )


async def test_five_mistakes_in_the_table_of_the_demo(tmp_path: Path) -> None:
    demo, listed = Demo(tmp_path), ("approve", "--list")
    async with await Program.start("demo", "--rows", "10", "--folder", tmp_path) as program:
        await program.prints("all 20 tenants are ready")
        rows = demo.execute(f"SELECT * FROM {TABLE}")

        async def bring_back(tenants: int = 20) -> None:
            demo.execute(f"DELETE FROM {TABLE}")
            demo.execute(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?, ?)", rows)
            await demo.counts(tenants)

        demo.execute(f"DELETE FROM {TABLE}")
        text = await demo.shows(listed, lambda found: "returned no rows" in found)
        assert "20 of 20 tenants would be deleted, none was" in text
        assert "DeletionsHeld" in await demo.run("top")
        options = ("--allow-sqlite", str(tmp_path), "--allow-foreign-namespaces", "own")
        text = await demo.run("plan", "--registry", REGISTRY, *options, code=1)
        assert "Plan: 20 held; 0 writes." in text
        await demo.counts(20)
        await bring_back()
        await demo.shows(listed, lambda found: HELD not in found)

        demo.execute(f"UPDATE {TABLE} SET subscription_plan = NULL")
        await demo.counts(20)
        assert HELD not in await demo.run(*listed), "a value that selects nothing removes nothing"
        await bring_back()

        demo.execute(f"ALTER TABLE {TABLE} RENAME COLUMN tenant_id TO id")
        await demo.shows(["top"], lambda found: "has no column 'tenant_id'" in found)
        await demo.counts(20)
        demo.execute(f"ALTER TABLE {TABLE} RENAME COLUMN id TO tenant_id")
        await demo.shows(["top"], lambda found: "has no column" not in found)

        demo.execute(f"DELETE FROM {TABLE} WHERE tenant_id > 'tenant-07'")
        text = await demo.shows(listed, lambda found: "3 of 10 rows are gone" in found)
        await demo.counts(20)
        digest = re.search(rf"{REGISTRY} +([0-9a-f]{{16}})", text)
        assert digest is not None
        await demo.run("approve", f"tenantregistry/{REGISTRY}", "--digest", digest[1])
        await demo.counts(14)
        await bring_back()

        demo.execute(f"UPDATE {TABLE} SET tenant_id = 'x-' || tenant_id")
        text = await demo.shows(listed, lambda found: "10 of 20 rows are gone" in found)
        assert "tenant-01-data" in text
        await demo.counts(40)
        demo.execute(f"UPDATE {TABLE} SET tenant_id = substr(tenant_id, 3)")
        text = await demo.shows(listed, lambda found: "x-tenant-01-data" in found)
        digest = re.search(rf"{REGISTRY} +([0-9a-f]{{16}})", text)
        assert digest is not None
        await demo.run("approve", f"tenantregistry/{REGISTRY}", "--digest", digest[1])
        await demo.counts(20)

        program.send(signal.SIGINT)
        assert await program.wait(30) == 0
