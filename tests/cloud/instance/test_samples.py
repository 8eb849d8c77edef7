"""The samples, with everything as `manager run --embedded` has it: local runs of the real tasks."""

from __future__ import annotations

from pathlib import Path

import yaml

from apis.cloud import Instance
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.demo.embedded import EmbeddedCluster
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

SAMPLES = Path(__file__).parents[3] / "config" / "samples"
CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]


async def test_the_sample_becomes_ready_on_the_embedded_server(tmp_path: Path) -> None:
    sample = yaml.safe_load((SAMPLES / "instance.yaml").read_text())
    sample["metadata"]["namespace"] = "default"
    async with EmbeddedCluster(tmp_path) as cluster:
        manager = make_manager(await Config.load(cluster.kubeconfig("manager")), name="manager")
        add_cloud(manager, CloudOptions(runs=RunsOptions(folder=tmp_path / "runs")))
        admin = await Config.load(cluster.kubeconfig("admin"))
        async with manager.running(), Client.connect(admin) as client:
            await client.apply(sample, field_manager="people")
            ready = await until_ready(client)
            assert ready.status.version == "5.1.0"
            made = await client.get(CONFIG_MAP, "app-1234-site", namespace="default")
            assert made["data"]["externalURL"] == "https://app-1234.example.com"


async def until_ready(client: Client) -> Instance:
    """The instance, once it is ready; fails at once when it says that it never will be."""

    def is_ready(found: Instance) -> bool:
        assert found.status.phase != "Failed", found.status.message
        return found.status.phase == "Ready"

    return await eventually(lambda: client.get(Instance, "app-1234", namespace="default"), is_ready)


def test_the_larger_sample_wants_every_subresource_but_an_upgrade() -> None:
    from internal.cloud.subresource import Upstream

    sample = Instance.from_manifest(yaml.safe_load((SAMPLES / "instance-gcp.yaml").read_text()))
    upstream = Upstream(version=sample.spec.wanted_version)
    wanted = {item.definition.name for item in SUBRESOURCES if item.desired(sample, upstream)}
    assert wanted == {"terraform", "kubernetes", "resize", "invariants"}
