"""Options of the manager's clients: a request rate, retries, a field owner, a handler of warnings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from ctrlruntime import (
    Client,
    ClientOptions,
    Config,
    Manager,
    ManagerOptions,
    Manifest,
    TooManyRequests,
)
from ctrlruntime.client.transport import Transport, TransportOptions
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Fail, Match
from ctrlruntime.queue.limiters import Bucket

pytestmark = pytest.mark.criterion("DX-5")


def manager(config: Config, **client: object) -> Manager:
    options: dict[str, Any] = client
    quiet = ManagerOptions(
        metrics_bind_address="0", health_bind_address="0", client=ClientOptions(**options)
    )
    return Manager(config, quiet, logger=structlog.get_logger())


def config_map(name: str) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


async def test_writes_carry_the_field_owner_and_the_field_validation(api_config: Config) -> None:
    subject = manager(api_config, field_owner="shop-operator", field_validation="Warn")
    async with subject.running():
        made = await subject.live_client.create(config_map("owned-by-the-operator"))
        assert [each["manager"] for each in made["metadata"]["managedFields"]] == ["shop-operator"]
        own = await subject.client.create(config_map("owned-by-another"), field_manager="another")
        assert [each["manager"] for each in own["metadata"]["managedFields"]] == ["another"]


async def test_warnings_of_the_server_reach_the_handler(api_config: Config) -> None:
    warnings: list[str] = []
    subject = manager(api_config, field_validation="Warn", warning_handler=warnings.append)
    async with subject.running():
        await subject.live_client.create({**config_map("warned"), "daat": {"a": "b"}})
        assert [text for text in warnings if "daat" in text] == ['unknown field "daat"']


async def test_requests_are_not_limited_unless_a_rate_is_set() -> None:
    assert ClientOptions().qps is None
    for wrong in ({"qps": 0.0}, {"qps": -1.0}, {"qps": 1.0, "burst": 0}):
        with pytest.raises(ValueError, match=r"qps is above 0|burst is at least 1"):
            ClientOptions(**wrong)  # type: ignore[arg-type]


async def test_a_rate_delays_every_request_beyond_the_burst(api_config: Config) -> None:
    slept: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    bucket = Bucket(2.0, 3, lambda: now)
    transport = Transport(api_config, sleep=sleep, delay=lambda: bucket.when(None))
    async with Client(transport) as client:
        for _ in range(5):
            await client.list("v1/Node")
    # one discovery request or none, by whether the kind is built in; then each waits half a second
    assert slept == [0.5, 0.5]


async def test_the_clients_of_a_manager_share_one_rate(api_config: Config) -> None:
    subject = manager(api_config, qps=1000.0, burst=1)
    async with subject.running():
        (first, second) = (subject.live_client.transport, subject.cluster._event_client.transport)
        assert first._delay is not None
        assert first._delay is second._delay
        await asyncio.gather(*(subject.live_client.list("v1/Node") for _ in range(5)))


@pytest.mark.parametrize("retries", [0, 3])
async def test_an_overloaded_server_is_asked_again_as_often_as_set(retries: int) -> None:
    async with Environment(proxy=True) as environment:
        assert environment.proxy is not None
        match = Match(verb="list", resource="nodes")
        environment.proxy.add(Fail(code=429), match, times=3)
        options = TransportOptions(retries=retries, max_retry_after=0.01)
        subject = manager(environment.config("manager"), transport=options)
        async with subject.running():
            if retries:
                await subject.live_client.list("v1/Node")
            else:
                with pytest.raises(TooManyRequests):
                    await subject.live_client.list("v1/Node")
