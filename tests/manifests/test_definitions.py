"""CRDs: accepted without a warning by an old and by the current server, every field explained."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import Transport
from tests.backends import SharedServer
from tests.manifests.conftest import VERSIONS, Kubectl
from tests.manifests.installation import Manifest, of_kind

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("manifests"),
]

DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
GROUP = "manifests.example.com"


def in_group(crd: Manifest, group: str) -> Manifest:
    """The definition in a group of the test's own, so that it is created and not only compared."""
    name = f"{crd['spec']['names']['plural']}.{group}"
    return {**crd, "metadata": {"name": name}, "spec": {**crd["spec"], "group": group}}


async def warnings_of(config: Config) -> list[str]:
    """What a server warns of when it is given all definitions, and given them again."""
    warnings: list[str] = []
    async with Client(Transport(config, on_warning=warnings.append)) as client:
        for crd in of_kind("CustomResourceDefinition"):
            own = in_group(crd, GROUP)
            try:
                await client.create(own, field_validation="Strict")
                live = await established(client, own["metadata"]["name"])
                version = {"resourceVersion": live["metadata"]["resourceVersion"]}
                again = {**own, "metadata": {**own["metadata"], **version}}
                await client.update(again, field_validation="Strict")
            finally:
                await client.delete(DEFINITION, own["metadata"]["name"])
    return warnings


async def established(client: Client, name: str) -> Manifest:
    """Until the definition is served. AssertionError for one that has no structural schema."""
    async with asyncio.timeout(20):
        while True:
            live = await client.get(DEFINITION, name)
            found = {
                c["type"]: c["status"] for c in (live.get("status") or {}).get("conditions") or ()
            }
            assert found.get("NonStructuralSchema") != "True"
            if found.get("Established") == "True":
                return live
            await asyncio.sleep(0.05)


@pytest.mark.criterion("crd-warnings")
async def test_the_old_server_takes_them_without_a_warning(real_server: SharedServer) -> None:
    assert await warnings_of(real_server.config) == []


@pytest.mark.criterion("crd-warnings")
async def test_the_current_server_takes_them_without_a_warning(
    apiextensions_server: SharedServer,
) -> None:
    assert await warnings_of(apiextensions_server.config) == []


async def test_a_warning_would_be_seen(apiextensions_server: SharedServer) -> None:
    warnings: list[str] = []
    crd = in_group(of_kind("CustomResourceDefinition")[0], GROUP)
    version = crd["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["format"] = "unheard-of"
    transport = Transport(apiextensions_server.config, on_warning=warnings.append)
    async with Client(transport) as client:
        await client.create(crd, dry_run=True)
    assert warnings


def fields(schema: Manifest, path: str) -> Iterator[tuple[str, Manifest]]:
    """Every field below a schema with its dotted path; lists and maps are looked into."""
    for name, child in (schema.get("properties") or {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    for inner in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(inner, dict):
            yield from fields(inner, path)


def explained() -> dict[str, str]:
    """The description of every field of every kind by what ``kubectl explain`` calls it."""
    found: dict[str, str] = {}
    for crd in of_kind("CustomResourceDefinition"):
        plural = crd["spec"]["names"]["plural"]
        for version in crd["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            found[plural] = schema.get("description", "")
            for path, child in fields(schema, plural):
                found[path] = child.get("description", "")
    return found


@pytest.mark.criterion("explain")
async def test_every_field_of_every_kind_has_a_text() -> None:
    texts = explained()
    assert len(texts) > 600
    # The server has its own words for metadata, whatever a definition says.
    empty = [path for path, text in texts.items() if not text and path.count(".metadata") == 0]
    assert empty == []


SAMPLE = (
    "tenantregistries.spec.source.mysql.tls.mode",
    "tenanttemplates.spec.deployments.dependIds",
    "tenants.status.appliedResources",
)


@pytest.mark.criterion("explain")
@pytest.mark.parametrize("version", VERSIONS)
async def test_kubectl_explains_them(version: str, kubectl: Kubectl, installation: Client) -> None:
    texts = explained()
    await published(installation)
    for path in SAMPLE:
        said = plain(await kubectl(version, "explain", f"--api-version={API}", path))
        assert plain(texts[path]) in said, path


API = "tenancy.ctrlruntime.dev/v1"


async def published(client: Client) -> None:
    """Until the server's OpenAPI document, which kubectl reads, tells of our kinds."""
    specs = [crd["spec"] for crd in of_kind("CustomResourceDefinition")]
    paths = [f'"/apis/{s["group"]}/v1/{s["names"]["plural"]}"'.encode() for s in specs]
    async with asyncio.timeout(30):
        while True:
            answer = await client.transport.request("GET", "/openapi/v2")
            if all(path in answer.body for path in paths):
                return
            await asyncio.sleep(0.2)


def plain(text: str) -> str:
    """Without line breaks, which kubectl puts where it likes."""
    return re.sub(r"\s+", " ", text)
