"""The table of causes and parents: whole, true to the code, and with a test for each cell."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ctrlruntime.gate import Cause
from tests.gate.causes import PAGE, ROOT, Cell, cells, page_with_table

_USED = re.compile(r"\bCause\.([A-Z_]+)\b")
SYSTEMS = {
    "internal/tenancy": {"TenantRegistry", "TenantTemplate", "Tenant", "CustomResourceDefinition"},
    "internal/cloud": {"Instance", "Instance subresource"},
    "internal/cosmos": {"CosmosFullNode", "ScheduledVolumeSnapshot", "StatefulJob"},
    "internal/fleet": {"FleetConfig", "Data plane"},
    "ctrlruntime/lifecycle": {"Data plane"},
    "manager": {"FleetConfig", "Data plane", "CustomResourceDefinition", "Command"},
}


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_cause_that_a_system_removes_for_is_in_the_table(system: str) -> None:
    used = {
        Cause[name]
        for path in (ROOT / system).rglob("*.py")
        for name in _USED.findall(path.read_text())
    }
    shown = {each.cause for each in cells() if each.parent in SYSTEMS[system]}
    assert used
    assert used <= shown


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: f"{cell.parent}-{cell.cause}")
def test_every_cell_has_a_test(cell: Cell) -> None:
    assert f"def {cell.function}(" in cell.file.read_text()
    assert cell.parent in set().union(*SYSTEMS.values())


def test_every_cause_is_shown_and_no_cell_twice() -> None:
    assert {each.cause for each in cells()} == set(Cause)
    assert max(Counter((each.parent, each.cause) for each in cells()).values()) == 1


def test_the_page_has_the_table() -> None:
    assert PAGE.read_text() == page_with_table(), "run `python -m tests.gate.causes --write`"
