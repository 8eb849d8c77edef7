"""Finalizers by name: HE-04."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ctrlruntime.api import meta
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import NotFound
from ctrlruntime.controller import Finalizers
from tests.client.support import CONFIG_MAP, config_map

pytestmark = pytest.mark.criterion("HE-04")

NAMES = ["example.com/zone", "example.com/bucket", "example.com/account"]


def calls(
    log: list[str], name: str, outcome: bool | Exception | None = None
) -> Callable[[Manifest], Awaitable[bool | None]]:
    async def finalizer(obj: Manifest) -> bool | None:
        log.append(name)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return finalizer


def registry(log: list[str], **outcomes: Any) -> Finalizers[Manifest]:
    finalizers: Finalizers[Manifest] = Finalizers()
    for name in NAMES:
        finalizers.register(name, calls(log, name, outcomes.get(name.rpartition("/")[2])))
    return finalizers


async def test_an_object_that_lives_gets_what_is_missing() -> None:
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
    finalizers = registry(log, **failures, bucket=True)
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
        await client.delete(CONFIG_MAP, "a", "default")
        deleting = await client.get(CONFIG_MAP, "a", "default")
        done = await finalizers.run(deleting)
        done.check()
        await client.update(deleting)
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", "default")
    assert log == NAMES
