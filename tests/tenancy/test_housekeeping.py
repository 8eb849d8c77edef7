"""Tenants that came and went leave nothing behind: not in the cluster, not in the manager's memory.

Everything reachable from the manager is looked at: no container may hold the name, the UID or the key
of a tenant that is gone, and none may be larger than before but by what is bounded on purpose.
"""

from __future__ import annotations

import dataclasses
import gc
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from apis.tenancy import Tenant
from ctrlruntime.manager import Manager
from internal.tenancy.registry.reconciler import RegistryReconciler
from internal.tenancy.template.reconciler import TemplateReconciler
from internal.tenancy.tenant.reconciler import TenantReconciler
from tests.tenancy.fault_scenario import sample_lists
from tests.tenancy.harness import TABLE, TenancyHarness, permissive

TENANTS, FEWER = 200, 60
"""On an embedded server, and on a real one, which takes its time over each."""
BOUNDED = {"_tombstones", "_floors", "_gone", "_recent", "_idle", "_by_reference"}
"""What goes by itself after a while: notes on objects that are gone (see `Ledger`), idle connections, and
what a cache remembers of references to kinds (at most `REFERENCES`)."""


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.criterion("housekeeping")
@pytest.mark.criterion("FAULT-B29")
async def test_tenants_that_are_gone_are_forgotten(tmp_path: Path) -> None:
    async with TenancyHarness.start(
        tmp_path, options=permissive(tmp_path, status_period=1.0)
    ) as harness:
        harness.rows("stays")
        await harness.registry(deletionGuard={"allowEmpty": True, "maxDeletePercent": 100})
        await harness.template("app", **sample_lists(ordered=False))
        await harness.ready("stays-app")
        await harness.idle()
        before = sizes(harness)
        made = FEWER if harness.is_real else TENANTS
        numbers = (
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {made})"
        )
        values = "SELECT 'gone' || i, 'https://x.example.com', 1, 'basic', 'nginx:1', 1 FROM n"
        harness.sql(f"{numbers} INSERT INTO {TABLE} {values}")
        await harness.eventually(lambda: count(harness), lambda n: n == made + 1, timeout=150)
        await harness.idle()
        assert grown(before, sizes(harness)), "the looks see something"
        harness.sql(f"DELETE FROM {TABLE} WHERE uid <> 'stays'")
        await harness.eventually(lambda: count(harness), lambda n: n == 1, timeout=150)
        await harness.idle()
        assert grown(before, sizes(harness)) == {}
        assert series(harness) == []


async def count(harness: TenancyHarness) -> int:
    return len(await harness.client.list(Tenant, harness.namespace))


def series(harness: TenancyHarness) -> list[str]:
    """Metric series that name a tenant that is gone."""
    assert harness.manager is not None
    return [
        f"{sample.name}{sample.labels}"
        for metric in harness.manager.metrics.registry.collect()
        for sample in metric.samples
        if any("gone" in value for value in sample.labels.values())
    ]


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """Containers that got larger by more than a few."""
    return {
        name: (before.get(name, 0), size)
        for name, size in after.items()
        if size > before.get(name, 0) + 20
    }


def sizes(harness: TenancyHarness) -> dict[str, int]:
    """The size of every container that the manager and its reconcilers hold on to, by path."""
    gc.collect()
    found: dict[str, int] = {}
    kinds = (Manager, TenantReconciler, RegistryReconciler, TemplateReconciler)
    roots = [
        thing for thing in gc.get_objects() if type(thing) in kinds and belongs(thing, harness)
    ]
    seen: set[int] = set()
    # The collector's order changes from look to look, and what is reached first has the path.
    for root in sorted(roots, key=lambda thing: kinds.index(type(thing))):
        for path, size in walk(root, type(root).__name__, seen, depth=0):
            found[path] = max(size, found.get(path, 0))
    return found


def belongs(thing: object, harness: TenancyHarness) -> bool:
    return not isinstance(thing, Manager) or thing is harness.manager


def walk(thing: object, path: str, seen: set[int], *, depth: int) -> Iterator[tuple[str, int]]:
    """Containers below an object of ours, and their sizes; entries of containers are not entered."""
    if id(thing) in seen or depth > 12:
        return
    seen.add(id(thing))
    if isinstance(thing, dict | set | list | deque):
        yield path, len(thing)
        values = list(thing.values()) if isinstance(thing, Mapping) else list(thing)
        for value in values[:50]:
            if is_ours(value) or isinstance(value, dict | set | list):
                yield from walk(value, f"{path}[]", seen, depth=depth + 1)
        return
    if not is_ours(thing):
        return
    for name in names(thing):
        if name in BOUNDED:
            continue
        yield from walk(getattr(thing, name, None), f"{path}.{name}", seen, depth=depth + 1)


def is_ours(thing: object) -> bool:
    module = type(thing).__module__
    return module.startswith(("ctrlruntime.", "internal.", "manager."))


def names(thing: object) -> list[str]:
    """Attributes that hold state."""
    slots = [slot for kind in type(thing).__mro__ for slot in getattr(kind, "__slots__", ())]
    found = [*getattr(thing, "__dict__", ()), *slots]
    if dataclasses.is_dataclass(thing):
        found += [field.name for field in dataclasses.fields(thing)]
    return list(dict.fromkeys(found))
