"""The controller of docs/first-controller.md does what the page says."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest import Environment
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

T = TypeVar("T")

pytestmark = pytest.mark.criterion("documents")

PAGE = Path(__file__).parents[2] / "docs" / "first-controller.md"
DEPLOYMENT = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]


@pytest.fixture(scope="module")
def website() -> ModuleType:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    module = types.ModuleType("website")
    sys.modules["website"] = module
    exec(compile(found[1], "website.py", "exec"), module.__dict__)
    return module


@pytest.fixture
async def client(website: ModuleType) -> AsyncIterator[Client]:
    async with Environment() as env:
        await env.install_crds(website.Website)
        manager = make_manager(env.config("manager"), name="website")
        website.setup(manager)
        async with manager.running():
            yield env.client("admin")


async def test_a_website_gets_a_deployment_and_a_status(
    website: ModuleType, client: Client
) -> None:
    site = website.Website.from_manifest(
        {"metadata": {"name": "hello", "namespace": "default"}, "spec": {"image": "nginx:1.27"}}
    )
    await client.create(site)

    async def deployed() -> Manifest:
        return await client.get(DEPLOYMENT, "hello", namespace="default")

    deployment = await eventually(deployed, despite=NotFound)
    assert deployment["metadata"]["ownerReferences"][0]["name"] == "hello"
    patch = {"status": {"replicas": 1, "readyReplicas": 1}}
    await client.patch_status(DEPLOYMENT, "hello", patch, namespace="default")

    async def ready() -> list[Any]:
        found = await client.get(website.Website, "hello", namespace="default")
        return [c for c in found.status.conditions if c.type == "Ready" and c.status == "True"]

    (condition,) = await eventually(ready, despite=NotFound)
    assert condition.message == "1 of 1 are ready"

    change = {"spec": {"replicas": 5}}
    await client.patch(DEPLOYMENT, "hello", change, namespace="default")

    async def reverted() -> bool:
        found = await client.get(DEPLOYMENT, "hello", namespace="default")
        return bool(found["spec"]["replicas"] == 1)

    await eventually(reverted, despite=NotFound)
