"""Finalizers by name: HE-04."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from pydantic import Field

from ctrlruntime.api import ApiModel, Resource, meta
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller import Finalizers
from tests.client.support import CONFIG_MAP, config_map

pytestmark = pytest.mark.criterion("HE-04")

NAMES = ["example.com/zone", "example.com/bucket", "example.com/account"]


class VaultSpec(ApiModel):
    rooms: int = 1


class VaultStatus(ApiModel):
    open: list[str] = Field(default_factory=list)


class Vault(Resource[VaultSpec, VaultStatus], group="finalizers.example.com", version="v1"):
    """A vault."""


def calls(
    log: list[str], name: str, outcome: str | Exception | None = None
) -> Callable[[Manifest], Awaitable[None]]:
    """A finalizer that fails, or puts something into the status."""

    async def finalizer(obj: Manifest) -> None:
        log.append(name)
        if isinstance(outcome, Exception):
            raise outcome
        if outcome is not None:
            obj.setdefault("status", {})[outcome] = "gone"

    return finalizer


def registry(log: list[str], **outcomes: str | Exception) -> Finalizers[Manifest]:
    finalizers: Finalizers[Manifest] = Finalizers()
    for name in NAMES:
        finalizers.register(name, calls(log, name, outcomes.get(name.rpartition("/")[2])))
    return finalizers


async def test_a_live_object_gets_what_is_missing() -> None:
    log: list[str] = []
    finalizers = registry(log)
    obj = config_map("a", finalizers=["example.com/bucket"])
    assert (await finalizers.run(obj)).changed
    assert meta.finalizers(obj) == ("example.com/bucket", "example.com/zone", "example.com/account")
    again = await finalizers.run(obj)
    assert (again.changed, again.status_changed, again.errors) == (False, False, ())
    assert log == []


async def test_they_run_in_order_and_what_fails_stays_while_the_others_go_on() -> None:
    log: list[str] = []
    failures = {"zone": OSError("in use"), "account": PermissionError("no")}
    finalizers = registry(log, **failures, bucket="bucket")
    obj = config_map("a", finalizers=[*reversed(NAMES), "example.com/of-another"])
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    done = await finalizers.run(obj)
    assert log == NAMES
    assert (done.changed, done.status_changed) == (True, True)
    assert meta.finalizers(obj) == (
        "example.com/account",
        "example.com/zone",
        "example.com/of-another",
    )
    with pytest.raises(ExceptionGroup) as raised:
        done.check()
    assert raised.value.exceptions == tuple(failures.values())
    assert failures["zone"].__notes__ == ["finalizer example.com/zone"]


async def test_names_are_unique_and_have_a_domain() -> None:
    finalizers = registry([])
    with pytest.raises(ValueError, match="registered already"):
        finalizers.register(NAMES[0], calls([], "again"))
    with pytest.raises(ValueError, match="needs a domain"):
        finalizers.register("cleanup", calls([], "cleanup"))


async def test_an_object_goes_when_the_last_one_is_done(config: Config) -> None:
    log: list[str] = []
    finalizers = registry(log)
    async with Client.connect(config) as client:
        obj = await client.create(config_map("a"))
        assert (await finalizers.run(obj)).changed
        await client.update(obj)
        await client.delete(CONFIG_MAP, "a", namespace="default")
        deleting = await client.get(CONFIG_MAP, "a", namespace="default")
        done = await finalizers.run(deleting)
        done.check()
        await client.update(deleting)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", namespace="default")
    assert log == NAMES


@pytest.mark.criterion("DX-6")
async def test_a_finalizer_that_fails_reports_status() -> None:
    async def drain(obj: Manifest) -> None:
        obj.setdefault("status", {})["message"] = "3 volumes are in use"
        raise OSError("in use")

    async def unaware(obj: Manifest) -> None:
        return None

    finalizers: Finalizers[Manifest] = Finalizers()
    finalizers.register("example.com/unaware", unaware)
    finalizers.register("example.com/volumes", drain)
    names = ["example.com/unaware", "example.com/volumes"]
    obj = {**config_map("a", finalizers=names), "status": {"volumes": 3}}
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    done = await finalizers.run(obj)
    assert done.status_changed
    assert [str(error) for error in done.errors] == ["in use"]
    assert obj["status"] == {"volumes": 3, "message": "3 volumes are in use"}
    again = await finalizers.run(obj)
    assert not again.status_changed


@pytest.mark.criterion("DX-6")
async def test_a_typed_objects_status_is_compared_by_value() -> None:
    async def close(vault: Vault) -> None:
        vault.status.open.append("north")
        raise OSError("stuck")

    finalizers: Finalizers[Vault] = Finalizers()
    finalizers.register("example.com/doors", close)
    vault = Vault.from_manifest(
        {
            "metadata": {
                "name": "v",
                "finalizers": ["example.com/doors"],
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {},
        }
    )
    assert (await finalizers.run(vault)).status_changed
