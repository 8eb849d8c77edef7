"""Manifests as another operator of such nodes has them work with their apiVersion changed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cosmos import ScheduledVolumeSnapshot
from ctrlruntime.api import find_condition
from ctrlruntime.client.errors import Invalid
from tests.cosmos.fullnode.harness import (
    CLAIM,
    CONFIG_MAP,
    POD,
    SERVICE,
    NodeSetHarness,
    Place,
    laid_over,
)
from tests.cosmos.servers.snapshotcrds import SNAPSHOT, SNAPSHOT_CRDS

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
    pytest.mark.criterion("H-C7"),
]

SAMPLES = Path(__file__).parents[1] / "peer"


def manifest(place: Place, name: str, **spec: object) -> dict[str, Any]:
    """One of them, in the test's namespace. `spec` is laid over."""
    found: dict[str, Any] = yaml.safe_load((SAMPLES / f"{name}.yaml").read_text())
    found["metadata"]["namespace"] = place.namespace
    return laid_over(found, {"spec": spec})


def answering(place: Place) -> dict[str, Any]:
    """Where the nodes of the tests answer; the only thing that differs from a cluster."""
    port = place.harness.comet.port
    return {"chain": {"config": {"rpcListenAddress": f"tcp://0.0.0.0:{port}"}}}


async def config_of(place: Place, pod: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.toml and app.toml of a node, as laid over."""
    data = (await place.object(CONFIG_MAP, pod))["data"]
    config, app = (tomllib.loads(data[f"{name}-overlay.toml"]) for name in ("config", "app"))
    return config, app


async def test_h_c7_a_minimal_set(place: Place) -> None:
    given = manifest(place, "minimal", service={"maxP2PExternalAddresses": 0}, **answering(place))
    await place.apply(given)
    await place.settled("atlas-mainnet")
    config, app = await config_of(place, "atlas-mainnet-0")
    assert config["instrumentation"] == {
        "prometheus": True,
        "prometheus_listen_addr": ":26660",
    }
    assert "db_backend" not in config
    assert "app-db-backend" not in app


async def test_h_c7_a_full_set_whose_named_source_wins(
    harness: NodeSetHarness, place: Place
) -> None:
    await harness.environment.install_crds(*SNAPSHOT_CRDS)
    for name, labels in (("named", {}), ("newest", {"label": "value"})):
        await place.client.create(
            {
                "apiVersion": SNAPSHOT.api_version,
                "kind": SNAPSHOT.kind,
                "metadata": {"name": name, "namespace": place.namespace, "labels": labels},
                "spec": {"source": {"persistentVolumeClaimName": "other"}},
            }
        )
        taken = {"readyToUse": True, "creationTime": "2026-05-01T00:00:00Z", "restoreSize": "3Gi"}
        await place.client.patch_status(
            SNAPSHOT, name, {"status": taken}, namespace=place.namespace
        )
    await place.apply(manifest(place, "full", **answering(place)))
    found = await place.phase("Complete", "atlas-full")
    assert found.status.ready_replicas == 1
    claim = await place.object(CLAIM, "pvc-atlas-full-0")
    assert claim["spec"]["dataSource"]["name"] == "named"
    assert (await place.object(SERVICE, "atlas-full-p2p-0"))["spec"]["type"] == "NodePort"
    assert await place.names(POD) == ["atlas-full-0"]


async def test_h_c7_sentries_without_app_and_template_image(place: Place) -> None:
    await place.apply(manifest(place, "sidechain", **answering(place)))
    await place.until_object(POD, "umbra-sentry-1", lambda pod: pod is not None)
    spec = (await place.object(POD, "umbra-sentry-0"))["spec"]
    images = {each["name"]: each["image"] for each in spec["containers"]}
    assert images["node"] == "registry.example.com/cometbft:v0.37.5"
    assert images["pd"] == "registry.example.com/umbra:v0.77.2"
    first = {each["name"]: each["image"] for each in spec["initContainers"]}
    assert first["chain-init"] == "registry.example.com/cometbft:v0.37.5"
    config, app = await config_of(place, "umbra-sentry-0")
    assert config["moniker"] == "umbra"
    assert app == {}
    await place.settled("umbra-sentry")


async def test_h_c7_without_any_image_the_field_is_named(place: Place) -> None:
    """The server refuses it; one that was made before is in Error with the field's name."""
    none = manifest(place, "sidechain")
    none["spec"]["chain"]["versions"] = []
    with pytest.raises(Invalid, match=r"podTemplate\.image"):
        await place.apply(none)
    later = manifest(place, "sidechain", **answering(place))
    later["spec"]["chain"]["versions"] = later["spec"]["chain"]["versions"][1:]
    await place.apply(later)
    found = await place.phase("Error", "umbra-sentry")
    assert "spec.podTemplate.image" in found.status.status


async def test_h_c7_a_schedule_that_names_a_namespace_is_warned_about(place: Place) -> None:
    await place.apply(manifest(place, "scheduledvolumesnapshot"))
    await place.until_event("DeprecatedField")
    found = await place.client.get(ScheduledVolumeSnapshot, "hourly", namespace=place.namespace)
    condition = find_condition(found.status.conditions, "DeprecatedFields")
    assert condition is not None
    assert "fullNodeRef.namespace" in condition.message
    assert found.status.observed_generation == found.metadata.generation
