"""CRDs: accepted without a warning by a real server, every field explained."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import Transport
from ctrlruntime.envtest.crds import install_crds
from tests.backends import SharedServer
from tests.limits import CRD_SECONDS
from tests.manifests.conftest import Kubectl
from tests.manifests.installation import Manifest, of_kind
from tests.support.waiting import eventually

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("manifests"),
]

DEFINITION = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
GROUP = "manifests.example.com"


def in_group(crd: Manifest, group: str) -> Manifest:
    """The definition in a group of the test's own, so that a server judges its creation."""
    name = f"{crd['spec']['names']['plural']}.{group}"
    return {**crd, "metadata": {"name": name}, "spec": {**crd["spec"], "group": group}}


async def warnings_of(config: Config, crds: Iterable[Manifest]) -> list[str]:
    """What a server warns of when definitions are created and updated.

    By dry run: a definition that is deleted stays until the server has removed its storage, which takes
    a busy one minutes. Those that are updated are the installed ones, which stay in place.
    """
    warnings: list[str] = []
    async with Client(Transport(config, on_warning=warnings.append)) as client:
        strict = client.dry_run().field_validation("Strict")
        for crd in crds:
            await strict.create(in_group(crd, GROUP))
            live = await client.get(DEFINITION, crd["metadata"]["name"])
            version = {"resourceVersion": live["metadata"]["resourceVersion"]}
            await strict.update({**crd, "metadata": {**crd["metadata"], **version}})
    return warnings


async def install(config: Config) -> list[Manifest]:
    """Every definition, served by the server."""
    crds = of_kind("CustomResourceDefinition")
    async with Client(Transport(config)) as client:
        await install_crds(client, crds, timeout=CRD_SECONDS)
    return crds


@pytest.mark.criterion("crd-warnings")
async def test_a_real_server_takes_them_without_a_warning(
    apiextensions_server: SharedServer,
) -> None:
    crds = await install(apiextensions_server.config)
    assert await warnings_of(apiextensions_server.config, crds) == []


@pytest.mark.criterion("crd-warnings")
async def test_a_warning_would_be_seen(apiextensions_server: SharedServer) -> None:
    crd = (await install(apiextensions_server.config))[0]
    version = crd["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["format"] = "unheard-of"
    warnings = await warnings_of(apiextensions_server.config, [crd])
    assert len(warnings) == 2, "one for its creation, one for its update"
    assert all("unheard-of" in each for each in warnings)


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
async def test_kubectl_explains_them(kubectl: Kubectl, installation: Client) -> None:
    texts = explained()
    await published(installation)
    for path in SAMPLE:
        said = plain(await kubectl("explain", f"--api-version={API}", path))
        assert plain(texts[path]) in said, path


API = "tenancy.ctrlruntime.dev/v1"


async def published(client: Client) -> None:
    """Until the server's OpenAPI document, which kubectl reads, tells of our kinds."""
    specs = [crd["spec"] for crd in of_kind("CustomResourceDefinition")]
    paths = [f'"/apis/{s["group"]}/v1/{s["names"]["plural"]}"'.encode() for s in specs]
    await eventually(
        lambda: client.transport.request("GET", "/openapi/v2"),
        lambda answer: all(path in answer.body for path in paths),
        timeout=CRD_SECONDS,
    )


def plain(text: str) -> str:
    """Without line breaks, which kubectl puts where it likes."""
    return re.sub(r"\s+", " ", text)
