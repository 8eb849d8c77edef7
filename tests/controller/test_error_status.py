"""Unexpected exceptions of a reconciler are seen in the object's status."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from apis.tenancy import TenantTemplate
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.errors import ServiceUnavailable
from ctrlruntime.controller import ErrorStatus, TerminalError
from ctrlruntime.controller.error_status import where
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.queue import Request
from tests.controller.support import A, Script

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TEMPLATE = {
    "apiVersion": TenantTemplate.gvk().api_version,
    "kind": "TenantTemplate",
    "metadata": {"name": A.name, "namespace": A.namespace},
    "spec": {"registryId": "r"},
}


@asynccontextmanager
async def cached(environment: Environment) -> AsyncIterator[Cache]:
    """A cache that has the template."""
    await environment.install_crds(TenantTemplate)
    await environment.client("admin").create(TEMPLATE)
    cache = Cache(environment.client("admin"))
    cache.declare(TenantTemplate)
    await cache.start()
    try:
        await cache.wait_synced(60.0)
        yield cache
    finally:
        await cache.stop()


def reporting(cache: Cache, environment: Environment, *errors: BaseException) -> ErrorStatus:
    return ErrorStatus(
        reconciler=Script(*errors),
        entries=cache.informer(TenantTemplate).store,
        client=environment.client("admin"),
        mapping=TenantTemplate.mapping(),
        field_manager="me",
        clock=lambda: NOW,
        condition="Valid",
    )


async def test_an_unexpected_exception_is_a_condition_of_this_generation() -> None:
    """Its text, which may hold a secret, is not in it; a second one with the same place writes nothing."""
    async with Environment(proxy=True) as environment, cached(environment) as cache:
        errors = [KeyError("hunter2"), KeyError("hunter2")]
        reconciler = reporting(cache, environment, *errors)
        with pytest.raises(KeyError):
            await reconciler.reconcile(A)
        found = await environment.client("admin").get(TenantTemplate, A.name, namespace=A.namespace)
        (condition,) = found.status.conditions
        assert (condition.type, condition.status, condition.reason) == (
            "Valid",
            "False",
            "ReconcileError",
        )
        assert condition.message.startswith("KeyError at support.py:")
        assert "hunter2" not in condition.message
        assert found.status.observed_generation == found.metadata.generation == 1

        def has_arrived() -> bool:
            entry = cache.entry(TenantTemplate, A.name, namespace=A.namespace)
            return entry is not None and bool(entry.field("status"))

        await eventually_holds(has_arrived, timeout=60.0)
        mark = environment.proxy.log.mark()
        with pytest.raises(KeyError):
            await reconciler.reconcile(A)
        assert [each.verb for each in environment.proxy.log.entries(mark)] == []


async def test_an_object_that_cannot_be_read_is_invalid_by_field() -> None:
    with pytest.raises(ValidationError) as invalid:
        TenantTemplate.from_manifest({**TEMPLATE, "spec": {"registryId": 7}})
    async with Environment(proxy=True) as environment, cached(environment) as cache:
        with pytest.raises(TerminalError, match="registryId"):
            await reporting(cache, environment, invalid.value).reconcile(A)
        found = await environment.client("admin").get(TenantTemplate, A.name, namespace=A.namespace)
        (condition,) = found.status.conditions
        assert condition.reason == "InvalidSpec"
        assert "spec.registryId" in condition.message


@pytest.mark.parametrize(
    "error",
    [ServiceUnavailable("no"), TimeoutError(), ConnectionResetError(), TerminalError("x")],
)
async def test_errors_of_a_server_are_left_to_the_retry(error: Exception) -> None:
    async with Environment(proxy=True) as environment, cached(environment) as cache:
        mark = environment.proxy.log.mark()
        with pytest.raises(type(error)):
            await reporting(cache, environment, error).reconcile(A)
        assert [each for each in environment.proxy.log.entries(mark) if each.verb == "patch"] == []


async def test_an_object_that_is_gone_has_no_status() -> None:
    async with Environment(proxy=True) as environment, cached(environment) as cache:
        with pytest.raises(ValueError, match="bad"):
            await reporting(cache, environment, ValueError("bad")).reconcile(
                Request("y", namespace="x")
            )


def test_a_place_is_named_without_the_text() -> None:
    assert where(ValueError("secret")) == "ValueError"
