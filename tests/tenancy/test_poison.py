"""An object that cannot be read costs nothing but itself, also over a restart of the manager."""

from pathlib import Path

import orjson
import pytest

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.conditions import conditions_of
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.intake.shallow import split_members
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map

DEEP = b'{"a":' * 1_500 + b"1" + b"}" * 1_500


async def poison(harness: TenancyHarness, kind: RESTMapping, name: str) -> None:
    """Nest 1,500 mappings in the data of the first ConfigMap of a template or tenant."""
    body = b'[{"op":"replace","path":"/spec/configMaps/0/spec/data","value":%b}]' % DEEP
    path = kind.path(namespace=harness.namespace, name=name)
    send = harness.client.transport.request
    await send("PATCH", path, body=body, content_type=PatchType.JSON.value)


async def refused(harness: TenancyHarness, kind: RESTMapping, name: str) -> None:
    """Wait until a condition of an object that cannot be decoded as a whole says so."""

    async def reasons() -> list[str]:
        path = kind.path(namespace=harness.namespace, name=name)
        body = (await harness.client.transport.request("GET", path)).body
        status = orjson.loads(split_members(body)["status"])
        return [item.reason for item in conditions_of(status)]

    await harness.eventually(reasons, lambda found: "InvalidSpec" in found)


@pytest.mark.criterion("S-F2")
async def test_a_template_and_a_tenant_nested_too_deep_cost_nothing_else(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a", "b")
        await harness.registry()
        await harness.template("poor", configMaps=[config_map("cm", "{{ .uid }}-poor")])
        await harness.template("good", configMaps=[config_map("cm", "{{ .uid }}-good")])
        await harness.ready("a-poor", "b-poor", "a-good", "b-good")
        await poison(harness, TenantTemplate.mapping(), "poor")
        await poison(harness, Tenant.mapping(), "a-good")
        for uid in ("c", "d"):
            harness.row(uid)
            await harness.ready(f"{uid}-good")
            if uid == "d":
                harness.row("c", active=0)
                await harness.gone(Tenant.mapping(), "c-good")
            for name in ("a-poor", "b-poor", "a-good", "b-good"):
                assert await harness.get(CONFIG_MAP, name) is not None
            for name in ("a-poor", "b-poor", "b-good"):
                assert await harness.tenant(name) is not None
            await refused(harness, Tenant.mapping(), "a-good")
            await refused(harness, TenantTemplate.mapping(), "poor")
            await harness.restart_manager()
