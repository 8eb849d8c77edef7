"""An informer that is declared while a write is under way learns of the object by its own list."""

from __future__ import annotations

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import Cache, InformerHandle
from ctrlruntime.cache.events import Event
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.transport import Response

pytestmark = pytest.mark.criterion("PF-2")

CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
NAME = "declared-during-write"


async def test_the_answer_goes_to_the_informers_that_there_were_when_it_was_sent(
    api_config: Config,
) -> None:
    declared: list[InformerHandle] = []
    heard: list[Event] = []

    async def declare_then_answer(call: Call, execute: Execute) -> Response:
        response = await execute(call)
        if call.verb == "create":
            declared.append(cache.declare(CLUSTER_ROLE, labels="lot=a"))
            declared[0].informer.add_handler(heard.append)
        return response

    async with Client.connect(api_config) as live:
        cache = Cache(live.intercepted(declare_then_answer))
        cache.declare(CLUSTER_ROLE)
        await cache.start()
        try:
            await cache.wait_synced(60.0)
            await cache.client().create(
                {
                    "apiVersion": CLUSTER_ROLE.api_version,
                    "kind": "ClusterRole",
                    "metadata": {"name": NAME, "labels": {"lot": "a"}},
                }
            )
            assert not heard
            await declared[0].informer.wait_synced(60.0)
            assert [(event.new.name, event.initial) for event in heard] == [(NAME, True)]  # type: ignore[union-attr]
        finally:
            await cache.stop()
            await live.delete(CLUSTER_ROLE, NAME)
