"""A cluster that does not answer delays no other one, and ends nothing."""

from __future__ import annotations

import asyncio
import os
import signal

import aiohttp
import pytest
import structlog

from ctrlruntime.cache.errors import CacheSyncTimeout
from ctrlruntime.client.config import Config
from ctrlruntime.cluster import ClusterOptions, ClusterSet
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.envtest import Environment
from ctrlruntime.manager import Manager
from tests.manager.support import CONFIG_MAP, LONG, manager, running
from tests.support.waiting import eventually

from .support import Reconciled, config_map, create, servers, silent_server

pytestmark = pytest.mark.criterion("MG-20")


def watching(subject: Manager, reconciled: Reconciled) -> None:
    options = ControllerOptions(max_concurrent_reconciles=1)
    builder = Builder(subject).for_(CONFIG_MAP, labels="test=clusters", cluster=ClusterSet.ALL)
    builder.options(options).named("clusters").build(reconciled)


async def readiness(subject: Manager) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as http,
        http.get(f"http://127.0.0.1:{subject.health_port}/readyz") as answer,
    ):
        return answer.status, await answer.text()


async def test_a_silent_cluster_delays_neither_start_nor_readiness_nor_the_others(
    config: Config,
) -> None:
    async with servers(1) as (east,), silent_server() as silent:
        await create(config, config_map("a"))
        await create(east, config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        watching(subject, reconciled)
        await subject.engage(subject.new_cluster("silent", silent))
        await subject.engage(subject.new_cluster("east", east))
        async with running(subject):
            await reconciled.until(":a", "east:a")
            assert await readiness(subject) == (200, "ok")
            assert not subject.get_cluster("silent").cache.synced
            await subject.disengage("silent")


async def test_a_cluster_that_has_not_synced_in_time_is_reported_and_waited_for(
    config: Config,
) -> None:
    async with silent_server() as silent:
        await create(config, config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        watching(subject, reconciled)
        with structlog.testing.capture_logs() as logs:
            options = ClusterOptions(sync_timeout=0.05)
            async with running(subject):
                await subject.engage(subject.new_cluster("silent", silent, options))
                await eventually(lambda: any("has not synced" in each["event"] for each in logs))
                await create(config, config_map("b"))
                await reconciled.until(":b")
                assert subject.get_cluster("silent").name == "silent"
        line = next(each for each in logs if "has not synced" in each["event"])
        assert line["cluster"] == "silent"
        assert line["kinds"] == {"v1, Kind=ConfigMap": "no answer"}


async def test_a_required_cluster_is_waited_for_and_its_silence_is_an_error(config: Config) -> None:
    async with silent_server() as silent:
        subject = manager(config)
        watching(subject, Reconciled())
        options = ClusterOptions(sync_timeout=0.2, required=True)
        await subject.engage(subject.new_cluster("silent", silent, options))
        with pytest.raises(CacheSyncTimeout, match="cluster 'silent', which is required"):
            await subject.start()


async def test_a_required_cluster_counts_in_readiness_until_it_is_disengaged(
    config: Config,
) -> None:
    async with silent_server() as silent:
        subject = manager(config)
        watching(subject, Reconciled())
        async with running(subject):
            options = ClusterOptions(required=True)
            await subject.engage(subject.new_cluster("silent", silent, options))
            status, text = await readiness(subject)
            assert status == 500
            assert "silent: v1, Kind=ConfigMap (no answer)" in text
            await subject.disengage("silent")
            assert await readiness(subject) == (200, "ok")


async def test_a_server_that_is_stopped_is_taken_up_again_when_it_goes_on(config: Config) -> None:
    async with Environment("embedded-process") as env, servers(1) as (west,):
        await create(env.config(), config_map("a"))
        subject, reconciled = manager(config), Reconciled()
        watching(subject, reconciled)
        await subject.engage(subject.new_cluster("east", env.config()))
        await subject.engage(subject.new_cluster("west", west))
        async with running(subject):
            await reconciled.until("east:a")
            pid = env.backend.child.pid  # type: ignore[attr-defined]
            os.kill(pid, signal.SIGSTOP)
            try:
                writing = asyncio.create_task(create(env.config(), config_map("b")))
                await create(west, config_map("c"))
                await reconciled.until("west:c")
                assert await readiness(subject) == (200, "ok")
                assert "east:b" not in reconciled.seen
            finally:
                os.kill(pid, signal.SIGCONT)
            await asyncio.wait_for(writing, LONG)
            await reconciled.until("east:b")
