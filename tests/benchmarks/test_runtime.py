"""The counts that `make bench-runtime` promises, on a small scale and on both API servers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from benchmarks.runtime.__main__ import Round, bench
from benchmarks.runtime.target import USER, Target, by_proxy, by_server
from benchmarks.runtime.widget import Widget, widget
from benchmarks.runtime.witness import Witness
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.crds import CRD
from ctrlruntime.envtest.eventually import eventually_gone
from tests.backends import SharedServer

N = 100
WORKERS = 10

pytestmark = [pytest.mark.criterion("bench-runtime"), pytest.mark.slow]


@pytest.fixture(params=["embedded-process", "kube-apiserver"])
async def environment(request: pytest.FixtureRequest) -> AsyncIterator[Environment]:
    if request.param == "kube-apiserver":
        real = request.getfixturevalue("real_server")
        environment = real.environment(users=(USER,), proxy=True)
    else:
        environment = Environment(request.param, users=(USER,), proxy=True)
    async with environment:
        await environment.install_crds(Widget)
        yield environment
        await remove(environment)


async def remove(environment: Environment) -> None:
    """Take the kind away, and wait for it: the next test installs it again."""
    await environment.uninstall_crds(Widget)
    name = f"{Widget.mapping().plural}.{Widget.gvk().group}"
    await eventually_gone(environment.client("envtest"), CRD, name)


@pytest.fixture
def target(environment: Environment, tmp_path: Path) -> Target:
    client = environment.client("envtest")
    return Target(tmp_path, client, environment.kubeconfig(USER), by_proxy(environment))


async def test_each_widget_costs_two_writes_and_a_restart_none(target: Target) -> None:
    figures = await bench(target, N, WORKERS)
    assert figures["n"] == N
    assert (figures["writes"], figures["conflicts"], figures["restart_writes"]) == (2 * N, 0, 0)
    assert 0 < figures["p99_queue_seconds"] <= figures["seconds"]
    assert figures["cpu_seconds"] >= figures["first_reconcile_cpu_seconds"] > 0
    assert figures["seconds"] >= figures["first_reconcile_seconds"] > 0
    assert figures["restart_first_reconcile_seconds"] > 0
    assert figures["restart_first_reconcile_cpu_seconds"] > 0
    assert figures["import_cpu_seconds"] > 0
    assert figures["rss_mib"] > 0


async def test_killed_in_the_middle_it_repeats_nothing(target: Target) -> None:
    turn = Round(target, "bench-killed", N, WORKERS)
    await turn.load()
    async with Witness(target.client, turn.namespace) as witness:
        await turn.kill(witness)
        assert sorted(witness.config_maps.values()) == [1] * N
        assert sorted(witness.widgets.values()) == [2] * N, "created, and one status"
    await turn.remove()


async def test_a_real_server_counts_by_itself(real_server: SharedServer) -> None:
    async with real_server.environment() as environment:
        await environment.install_crds(Widget)
        client = environment.client("envtest")
        counted = by_server(client)
        await client.create(widget("default", 1), kind=Widget.mapping())
        before = await counted()
        for number in range(3):
            patch = {"status": {"ready": True, "configMap": str(number)}}
            await client.patch_status(Widget, "widget-00001", patch, namespace="default")
        await client.delete(Widget, "widget-00001", namespace="default")
        assert (await counted() - before).writes >= 4
        await remove(environment)
