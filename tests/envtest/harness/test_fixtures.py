"""The fixtures that other projects' suites use."""

from __future__ import annotations

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.fixtures import (  # noqa: F401 - fixtures are used by name
    envtest,
    envtest_client,
    envtest_config,
    envtest_options,
    namespace,
)
from ctrlruntime.envtest.fixtures import proxy as envtest_proxy  # noqa: F401 - as above
from ctrlruntime.envtest.proxy import Fail, Match, Proxy

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@pytest.mark.parametrize("run", [1, 2])
async def test_each_test_has_its_own_namespace(
    run: int,
    envtest_client: Client,  # noqa: F811
    namespace: str,  # noqa: F811
) -> None:
    assert await envtest_client.list(CONFIG_MAP, namespace) == []
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "only-mine"}}
    manifest["metadata"]["namespace"] = namespace  # type: ignore[index]
    await envtest_client.create(manifest)


@pytest.mark.parametrize("run", [1, 2])
async def test_each_test_has_its_own_log_and_faults(
    run: int,
    envtest: Environment,  # noqa: F811
    envtest_proxy: Proxy,  # noqa: F811
) -> None:
    assert envtest_proxy.log.counts().total == 0
    envtest_proxy.add(Fail(404), Match(verb="get"))
    async with Client.connect(envtest_config(envtest, envtest_proxy, "manager")) as client:
        await client.list(NAMESPACE)
    assert envtest_proxy.log.counts().select(user="manager").reads == 1
