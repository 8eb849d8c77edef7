"""A package registers a kind of data source: the worked example of docs/sources.md."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from apis.tenancy import SecretKeyRef, TenantRegistry
from ctrlruntime.client.errors import APIError
from ctrlruntime.envtest import Environment
from internal.tenancy.rows.row import Reading, RowReader, columns
from internal.tenancy.sources import SourceContext, SourceTypes, UnusableSourceType, secret_refs
from internal.tenancy.sources.crd import registry_crd
from internal.tenancy.sources.errors import AccessDenied, UnknownColumn
from tests.docs.blocks import runnable

pytestmark = pytest.mark.criterion("SOURCE-PLUGIN")

TOKEN = "the-token"
ROWS = "id,active,plan\nacme,1,gold\nglobex,0,\n,1,\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package of the example, as `pip install` leaves it."""
    [block] = [block for block in runnable("docs/sources.md") if block.language == "python"]
    (tmp_path / "csv_source.py").write_text(block.text)
    folder = tmp_path / "csv_source-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: csv-source\nVersion: 1.0\n")
    entry = "[ctrlruntime.tenancy.sources]\ncsv = csv_source:CSV\n"
    (folder / "entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("csv_source", None)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    """A web server that has the file, for those with the token."""

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.Response(status=401)
        return web.Response(text=ROWS)

    app = web.Application()
    app.router.add_get("/rows.csv", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/rows.csv"
    await runner.cleanup()


def registry(**source: object) -> dict[str, Any]:
    return {
        "apiVersion": "tenancy.ctrlruntime.dev/v1",
        "kind": "TenantRegistry",
        "metadata": {"name": "rows", "namespace": "default"},
        "spec": {
            "source": {"type": "csv", **source},
            "valueMappings": {"uid": "id", "activate": "active"},
            "extraValueMappings": {"plan": "plan"},
        },
    }


async def read(types: SourceTypes, found: TenantRegistry, token: str) -> Reading:
    async def secret(ref: SecretKeyRef | None) -> str | None:
        return None if ref is None else token

    source_type = types.get(found.spec.source.type)
    assert source_type is not None
    fields = source_type.fields.model_validate(found.spec.source.described)
    assert [ref.name for ref in secret_refs(fields)] == ["csv-token"]
    settings = await source_type.settings(fields, SourceContext(secret))
    source = settings.open(lambda: None)
    reader = RowReader(found.spec)
    async for page in source.pages(columns(found.spec)):
        for row in page:
            reader.take(row)
    await source.close()
    return reader.reading()


async def test_the_worked_example_is_found_described_to_the_server_and_read(
    installed: Path, url: str
) -> None:
    types = SourceTypes.installed()
    assert types.names == ["csv", "mysql", "postgresql", "sqlite"]
    described = {"url": url, "tokenRef": {"name": "csv-token", "key": "token"}}
    async with Environment() as env:
        client = env.client()
        await env.install_crds(registry_crd(types))
        with pytest.raises(APIError, match="csv is required when type is csv"):
            await client.create(registry())
        with pytest.raises(APIError, match="url"):
            await client.create(registry(csv={**described, "url": "ftp://x"}))
        await client.create(registry(csv=described), field_validation="Strict")
        found = await client.get(TenantRegistry, "rows", namespace="default")
    reading = await read(types, found, TOKEN)
    assert [(row.uid, row.variables["plan"]) for row in reading.active] == [("acme", "gold")]
    assert reading.inactive == {"globex"}
    assert reading.unidentified == 1
    with pytest.raises(AccessDenied):
        await read(types, found, base64.b64encode(b"x").decode())
    found.spec.value_mappings.uid = "nope"
    with pytest.raises(UnknownColumn, match="'nope'"):
        await read(types, found, TOKEN)
    assert types.location(registry(csv=described)["spec"]["source"]) == ("csv", url)


def test_without_packages_the_crd_is_the_one_that_is_shipped() -> None:
    assert registry_crd(SourceTypes()) == TenantRegistry.crd()


def test_an_entry_point_that_cannot_be_loaded_is_named(installed: Path) -> None:
    (installed / "csv_source.py").write_text("import a_module_that_is_not_there\n")
    with pytest.raises(UnusableSourceType, match=r"'csv'.*a_module_that_is_not_there"):
        SourceTypes.installed()


def test_two_types_of_one_name_are_refused(installed: Path) -> None:
    (csv,) = SourceTypes.installed().registered
    with pytest.raises(UnusableSourceType, match="two source types are called 'csv'"):
        SourceTypes((csv, csv))
