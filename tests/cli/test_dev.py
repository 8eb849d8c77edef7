"""`ctrlruntime dev`: changed code runs on the caches that are filled, and a broken change stops nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.controller import ControllerOptions
from ctrlruntime.manager import ManagerOptions
from tests.cli.dev_support import CODE, CONFIG_MAP, HEAD, PROBE, VERSION_2, Development, developing
from tests.support.waiting import eventually

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

CHANGES = {
    "reconcile": (),
    "index": (("return [entry.name]", "return [entry.name, 'x']"),),
    "predicate": (('named("copy")', 'named("copy").event_filter(lambda event: True)'),),
    "workers": (
        ('named("copy")', 'named("copy").options(ControllerOptions(max_concurrent_reconciles=3))'),
    ),
    "name": (('named("copy")', 'named("other")'),),
    "a second controller": (
        (
            "    builder.build(reconcile)\n",
            "    builder.build(reconcile)\n    Builder(manager).for_(CONFIG_MAP).named('b').build(reconcile)\n",
        ),
    ),
}
"""Edits besides that of the version."""


def reads(dev: Development, since: object) -> list[str]:
    """Return the lists and watches that the manager sent since a mark."""
    entries = dev.environment.proxy.log.entries(since)  # type: ignore[arg-type]
    return [f"{each.verb} {each.resource}" for each in entries if each.verb in ("list", "watch")]


@pytest.mark.criterion("D-10")
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
async def test_changed_code_runs_on_the_cache_that_is_filled(
    tmp_path: Path, changes: tuple[tuple[str, str], ...]
) -> None:
    async with developing(tmp_path, objects=5000) as dev:
        await dev.make_probe()
        await dev.version("1")
        informers = dev.session.manager.cache.informers()
        mark = dev.environment.proxy.log.mark()
        dev.edit(VERSION_2, *changes)
        await dev.version("2")
        assert reads(dev, mark) == []
        assert dev.session.manager.cache.informers() == informers
        assert ("1", "probe") not in PROBE.passes[PROBE.passes.index(("2", "probe")) :]
