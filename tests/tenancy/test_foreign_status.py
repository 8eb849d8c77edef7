"""A status that another process wrote, such as the leader before, is put right"""

from __future__ import annotations

import ast
from functools import partial
from operator import eq
from pathlib import Path

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from tests.tenancy.harness import REGISTRY, TenancyHarness, config_map

pytestmark = pytest.mark.criterion("SIM-F1")
CONTROLLERS = Path(__file__).parents[2] / "manager" / "controllers"


async def test_a_status_of_another_process_is_put_right(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a")
        await harness.registry()
        await harness.template(configMaps=[config_map("base", "{{ .uid }}-base")])
        await harness.ready("a-web-app")
        await harness.idle()
        kinds = {
            "a-web-app": Tenant.mapping(),
            "web-app": TenantTemplate.mapping(),
            REGISTRY: TenantRegistry.mapping(),
        }
        for name, mapping in kinds.items():
            before = await _conditions(harness, mapping, name)
            wrong = {"lastTransitionTime": "2026-01-01T00:00:00Z", "status": "Unknown"}
            await harness.client.patch(
                mapping,
                name,
                {"status": {"conditions": [each | wrong for each in before]}},
                namespace=harness.namespace,
                type=PatchType.MERGE,
                subresource="status",
            )
            look = partial(_conditions, harness, mapping, name)
            assert await harness.eventually(look, partial(eq, before)) == before


async def _conditions(
    harness: TenancyHarness, mapping: RESTMapping, name: str
) -> list[dict[str, str]]:
    """The conditions of one object, without their times."""
    live = await harness.client.get(mapping, name, namespace=harness.namespace)
    return [
        {key: value for key, value in each.items() if key != "lastTransitionTime"}
        for each in live["status"]["conditions"]
    ]


def test_no_controller_is_blind_for_the_status_of_its_own_kind() -> None:
    calls = [
        (path.name, node)
        for path in sorted(CONTROLLERS.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "for_"
    ]
    assert len(calls) > 10
    blind = {"more_than_status_changed", "generation_changed"}
    used = [
        (name, {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}) for name, node in calls
    ]
    assert [name for name, names in used if names & blind] == []
