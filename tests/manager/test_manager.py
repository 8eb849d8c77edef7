"""Starting, running and stopping: requirements MG-* against the embedded API server."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest
import structlog
from structlog.testing import capture_logs

from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.cache import CacheOptions
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.cluster import ClusterOptions
from ctrlruntime.controller import Builder, ControllerOptions, Request
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.manager import (
    FuncRunnable,
    GracePeriodExceeded,
    Group,
    LeaderElectionLost,
    Manager,
    ManagerOptions,
    ServerRequest,
    ServerResponse,
    StoppingError,
)
from ctrlruntime.manager.http import AddressError
from tests.support.waiting import eventually, eventually_succeeds

from .support import CONFIG_MAP, EVENT, LEASE, LONG, Failing, Recorded, manager, running, starting

UNREACHABLE = Config(host="http://127.0.0.1:9")


async def get(port: int | None, path: str) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as response,
    ):
        return response.status, await response.text()


@pytest.mark.criterion("MG-01")
async def test_a_missing_config_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Config.load\(\)"):
        Manager(None)  # type: ignore[arg-type]


@pytest.mark.criterion("MG-01")
@pytest.mark.parametrize("option", ["metrics_bind_address", "health_bind_address"])
async def test_a_port_in_use_fails_when_the_manager_is_made(option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(AddressError, match=f"cannot listen on {address}"):
            manager(UNREACHABLE, **{option: address})


@pytest.mark.parametrize("address", ["8080", "localhost:http", ":99999"])
async def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(AddressError, match="is not"):
        manager(UNREACHABLE, metrics_bind_address=address)


@pytest.mark.criterion("MG-02")
@pytest.mark.criterion("MG-03")
async def test_groups_start_in_order_and_stop_in_the_reverse(config: Config) -> None:
    log: list[str] = []
    gates = {group: asyncio.Event() for group in Group}
    subject = manager(config)
    runnables = {  # what stops early takes its time: the next group has to wait for it
        group: Recorded(group.value, log, group, ready=gates[group], slow_end=0.05 * number)
        for number, group in reversed(list(enumerate(Group)))
    }
    for runnable in runnables.values():
        subject.add(runnable)
    async with starting(subject) as task:
        for count, group in enumerate(Group, 1):
            await asyncio.wait_for(runnables[group].began.wait(), LONG)
            assert log == [f"start {g.value}" for g in list(Group)[:count]]
            assert not subject.elected.is_set()
            gates[group].set()
        await asyncio.wait_for(subject.elected.wait(), LONG)
        log.clear()
        subject.stop()
        await task
        assert sorted(log[:2]) == ["stop others", "stop warm-up"]
        assert log[2:] == [
            "stop leader election",
            "stop caches",
            "stop webhooks",
            "stop http servers",
        ]


@pytest.mark.criterion("MG-02")
async def test_caches_are_synced_before_what_comes_later(config: Config) -> None:
    subject = manager(config)
    subject.cache.declare(CONFIG_MAP)
    seen: list[bool] = []

    async def look() -> None:
        seen.append(subject.cache.synced)

    subject.add(FuncRunnable(look, needs_leader_election=False))
    subject.add(FuncRunnable(look))
    async with running(subject):
        await eventually(lambda: len(seen) == 2)
    assert seen == [True, True]


@pytest.mark.criterion("MG-04")
async def test_an_error_of_a_runnable_is_raised_after_all_others_stopped(config: Config) -> None:
    log: list[str] = []
    failing = Failing(OSError("disk is gone"))
    subject = manager(config)
    subject.add(failing)
    subject.add(Recorded("leader", log))
    subject.add(Recorded("other", log, Group.OTHERS))
    async with starting(subject) as task:
        await asyncio.wait_for(subject.elected.wait(), LONG)
        failing.now.set()
        with pytest.raises(OSError, match="disk is gone"):
            await task
        assert log[-2:] == ["stop other", "stop leader"]


@pytest.mark.criterion("MG-04")
@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), BaseExceptionGroup("both", [asyncio.CancelledError()])],
    ids=["cancelled", "group"],
)
async def test_a_runnable_that_is_cancelled_from_within_stops_the_manager(
    config: Config, error: BaseException
) -> None:
    failing = Failing(error)
    subject = manager(config)
    subject.add(failing)
    async with starting(subject) as task:
        await asyncio.wait_for(subject.elected.wait(), LONG)
        failing.now.set()
        with pytest.raises(RuntimeError, match="cancelled from within"):
            await task


@pytest.mark.criterion("MG-05")
async def test_an_exceeded_grace_period_is_named_and_keeps_the_first_error(config: Config) -> None:
    failing = Failing(OSError("disk is gone"))
    subject = manager(config, graceful_shutdown_timeout=0.1)
    subject.add(failing)
    let_go = asyncio.Event()
    slow = Recorded("slow", [], held=let_go)
    subject.add(slow)
    async with starting(subject) as task:
        await asyncio.wait_for(slow.began.wait(), LONG)
        failing.now.set()
        with pytest.raises(GracePeriodExceeded, match=r"grace period of 0.1 s.*slow") as caught:
            await task
        assert isinstance(caught.value.__cause__, OSError)
        let_go.set()


@pytest.mark.criterion("MG-06")
async def test_a_timeout_of_0_does_not_wait_and_a_negative_one_has_no_bound(config: Config) -> None:
    log: list[str] = []
    hasty = manager(config, graceful_shutdown_timeout=0)
    let_go = asyncio.Event()
    stuck = Recorded("stuck", log, held=let_go)
    hasty.add(stuck)
    async with starting(hasty) as task:
        await asyncio.wait_for(stuck.began.wait(), LONG)
        hasty.stop()
        await task
        assert log == ["start stuck"]
        let_go.set()
        patient = manager(config, graceful_shutdown_timeout=-1)
        slow = Recorded("slow", log, slow_end=0.3)
        patient.add(slow)
        async with starting(patient) as task:
            await asyncio.wait_for(slow.began.wait(), LONG)
            patient.stop()
            await task
            assert "stop slow" in log
            await eventually(lambda: "stop stuck" in log)


@pytest.mark.criterion("MG-07")
async def test_a_runnable_added_late_runs_at_once_and_after_stop_is_refused(config: Config) -> None:
    subject = manager(config)
    late = Recorded("late", [])
    async with running(subject):
        subject.add(late)
        await asyncio.wait_for(late.began.wait(), LONG)
    with pytest.raises(StoppingError, match="takes no new runnables"):
        subject.add(Recorded("too late", []))


@pytest.mark.criterion("MG-08")
async def test_a_second_start_is_an_error(config: Config) -> None:
    subject = manager(config)
    async with running(subject):
        with pytest.raises(RuntimeError, match="started already"):
            await subject.start()
        with pytest.raises(RuntimeError, match="after the manager was started"):
            subject.add_healthz_check("late", lambda: None)


@pytest.mark.criterion("MG-09")
@pytest.mark.criterion("MG-12")
@pytest.mark.criterion("LV-1")
async def test_healthz_fails_when_an_informer_keeps_failing(config: Config) -> None:
    quick = ReflectorOptions(
        watch_timeout=cast("Any", ()),  # an error that no server gives
        backoff=BackoffOptions(initial=0.01, cap=0.01),
    )
    subject = Manager(
        config,
        ManagerOptions(metrics_bind_address="0", health_bind_address="127.0.0.1:0"),
        logger=structlog.get_logger(),
        cache_options=CacheOptions(informers=InformerOptions(reflector=quick)),
    )
    informer = subject.cache.declare(CONFIG_MAP).informer
    with capture_logs() as logs:
        async with starting(subject):
            await eventually(lambda: informer.failed)
            port = subject.health_port
            assert (await get(port, "/healthz"))[0] == 500
            assert (await get(port, "/healthz/informers"))[0] == 500
            assert (await get(port, "/readyz/caches"))[0] == 500
            restarts = subject.metrics.registry.get_sample_value(
                "ctrlruntime_informer_restarts_total", {"kind": "ConfigMap"}
            )
            assert restarts is not None
            assert restarts >= InformerOptions().failure_threshold == 5
    assert any("v1, Kind=ConfigMap" in str(line.get("error")) for line in logs)


@pytest.mark.criterion("A2")
async def test_a2_the_metrics_endpoint_serves_metrics(config: Config) -> None:
    subject = manager(config)
    async with running(subject):
        status, text = await get(subject.metrics_port, "/metrics")
    assert subject.metrics_port, "it is known after the stop"
    assert status == 200
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert [line for line in samples if line.startswith("process_")], samples


@pytest.mark.criterion("MG-15")
async def test_only_the_leader_runs_what_needs_leadership(config: Config) -> None:
    first, second = (manager(config, leader_election=True) for _ in range(2))
    waiting, free = Recorded("leader", []), Recorded("free", [], Group.OTHERS)
    second.add(waiting)
    second.add(free)
    assert b'leader_election_master_status{name="tests"} 0.0' in second.metrics.render()
    async with running(first):
        assert first.elected.is_set()
        async with starting(second) as task:
            await asyncio.wait_for(free.began.wait(), LONG)
            status, text = await get(second.metrics_port, "/metrics")
            assert status == 200
            assert 'leader_election_master_status{name="tests"} 0.0' in text
            second.stop()
            await task
            assert not waiting.began.is_set()
            assert not second.elected.is_set()
    third = manager(config, leader_election=True)
    heir = Recorded("heir", [])
    third.add(heir)
    async with running(third):
        assert third.elected.is_set()
        assert heir.began.is_set()


@pytest.mark.criterion("MG-10")
@pytest.mark.criterion("LE-04")
async def test_a_lost_lease_ends_the_manager_without_waiting(config: Config) -> None:
    subject = manager(config, leader_election=True, graceful_shutdown_timeout=60)
    log: list[str] = []
    let_go = asyncio.Event()
    slow = Recorded("slow", log, held=let_go)
    subject.add(slow)
    async with starting(subject) as task:
        await asyncio.wait_for(slow.began.wait(), LONG)
        async with Client.connect(config) as client:
            lease = await client.get(LEASE, "tests", namespace="default")
            lease["spec"]["holderIdentity"] = "thief"
            await client.update(lease)
            with pytest.raises(LeaderElectionLost, match="leader election lost"):
                await asyncio.wait_for(task, LONG)
            assert log == ["start slow"]
            let_go.set()
            lease = await client.get(LEASE, "tests", namespace="default")
            assert lease["spec"]["holderIdentity"] == "thief"
        await eventually(lambda: "stop slow" in log)


@pytest.mark.criterion("MG-11")
async def test_the_lease_is_kept_until_leader_runnables_ended(config: Config) -> None:
    holders: list[str] = []
    began = asyncio.Event()
    async with Client.connect(config) as client:

        async def work() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1.5)
                lease = await client.get(LEASE, "tests", namespace="default")
                holders.append(lease["spec"]["holderIdentity"])

        subject = manager(config, leader_election=True, leader_election_identity="me")
        subject.add(FuncRunnable(work))
        async with starting(subject) as task:
            await asyncio.wait_for(began.wait(), LONG)
            subject.stop()
            await task
            assert holders == ["me"]
            released = await client.get(LEASE, "tests", namespace="default")
            assert released["spec"]["holderIdentity"] == ""
            assert released["spec"]["leaseDurationSeconds"] == 1


@pytest.mark.criterion("LE-05")
@pytest.mark.criterion("LE-12")
async def test_the_next_candidate_takes_over_a_released_lease(config: Config) -> None:
    first, second = (manager(config, leader_election=True) for _ in range(2))
    async with starting(first) as leading:
        await asyncio.wait_for(first.elected.wait(), LONG)
        _, text = await get(first.metrics_port, "/metrics")
        assert 'leader_election_master_status{name="tests"} 1.0' in text
        async with asyncio.TaskGroup() as group:
            group.create_task(second.start())
            await asyncio.sleep(0.5)
            assert not second.elected.is_set()
            first.stop()
            await leading
            await asyncio.wait_for(second.elected.wait(), LONG)
            second.stop()


@pytest.mark.criterion("LE-09")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leader_election_id": ""}, "needs leader_election_id"),
        ({"leader_election_shared_id": "tests"}, "name of another Lease"),
        ({"leader_election_resource_lock": "configmaps"}, "use leases"),
    ],
)
async def test_incomplete_leader_election_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        manager(UNREACHABLE, leader_election=True, **options)


@pytest.mark.criterion("LE-09")
async def test_leader_election_without_a_namespace_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="needs leader_election_namespace"):
        manager(UNREACHABLE, leader_election=True, leader_election_namespace="")


@pytest.mark.criterion("MG-13")
async def test_elected_is_set_without_an_election_too(config: Config) -> None:
    subject = manager(config)
    assert not subject.elected.is_set()
    async with running(subject):
        assert subject.elected.is_set()


@pytest.mark.criterion("MG-14")
async def test_health_and_readiness(config: Config) -> None:
    subject = manager(config)
    healthy = True

    def database() -> bool:
        return healthy

    async def broken() -> None:
        raise OSError("secret detail")

    subject.add_healthz_check("database", database)
    subject.add_readyz_check("broken", broken)
    with pytest.raises(ValueError, match="a check 'database'"):
        subject.add_healthz_check("database", database)
    async with running(subject):
        port = subject.health_port
        assert await get(port, "/healthz") == (200, "ok")
        for path in ("/healthz/", "/healthz/database", "/healthz/database/"):
            assert (await get(port, path))[0] == 200
        assert (await get(port, "/healthz/unknown"))[0] == 404
        status, text = await get(port, "/readyz")
        assert status == 500
        assert "[+]caches ok" in text
        assert "[-]broken failed: reason withheld" in text
        assert "secret detail" not in text
        assert (await get(port, "/readyz?exclude=broken"))[0] == 200
        _, text = await get(port, "/readyz?exclude=broken&exclude=typo&verbose")
        assert "cannot be excluded: no matches for typo" in text
        healthy = False
        assert (await get(port, "/healthz"))[0] == 500
        assert (await get(port, "/healthz/database"))[0] == 500


@pytest.mark.criterion("MG-14")
async def test_ready_only_when_caches_are_synced(server: APIServer, config: Config) -> None:
    server.options.latency.read = 1.0
    subject = manager(config)
    subject.cache.declare(CONFIG_MAP)
    async with starting(subject) as task:
        status, _ = await eventually_succeeds(
            lambda: get(subject.health_port, "/readyz"), despite=aiohttp.ClientError
        )
        assert status == 500
        await asyncio.wait_for(subject.elected.wait(), LONG)
        assert (await get(subject.health_port, "/readyz"))[0] == 200
        subject.stop()
        await task


@pytest.mark.criterion("MG-15")
async def test_metrics_with_extra_handlers_stop_at_shutdown(config: Config) -> None:
    async def hello(_request: ServerRequest) -> ServerResponse:
        return ServerResponse.text("hello")

    subject = manager(config)
    subject.add_metrics_handler("/extra", hello)
    with pytest.raises(ValueError, match="cannot be replaced"):
        subject.add_metrics_handler("/metrics", hello)
    async with running(subject):
        status, text = await get(subject.metrics_port, "/metrics")
        assert status == 200
        assert "ctrlruntime_loop_stall_seconds_bucket" in text
        assert "process_resident_memory_bytes" in text
        assert await get(subject.metrics_port, "/extra") == (200, "hello")
        port = subject.metrics_port
    with pytest.raises(aiohttp.ClientError):
        await get(port, "/metrics")


@pytest.mark.criterion("MG-16")
async def test_diagnostics_only_when_asked_for(config: Config) -> None:
    off = manager(config, metrics_bind_address="0", health_bind_address="0")
    assert (off.diagnostics_port, off.metrics_port, off.health_port) == (None, None, None)
    on = manager(config, diagnostics_bind_address="127.0.0.1:0")
    async with running(on):
        status, text = await get(on.diagnostics_port, "/debug/stacks")
        assert status == 200
        assert "CacheRunnable" in text
        assert "tasks" in (await get(on.diagnostics_port, "/debug/tasks"))[1]
    off.close()


@pytest.mark.criterion("MG-17")
async def test_an_event_recorded_during_shutdown_is_delivered(config: Config) -> None:
    subject = manager(config)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            subject.recorder.event(namespace, "Normal", "Leaving", "Stop", "good bye")

    subject.add(FuncRunnable(work))
    async with running(subject):
        await asyncio.sleep(0)
    async with Client.connect(config) as client:
        events = await client.list(EVENT, "default")
    assert [event["note"] for event in events if event["reason"] == "Leaving"] == ["good bye"]


@pytest.mark.criterion("MG-18")
async def test_errors_while_stopping_are_logged_and_cancellation_is_none(config: Config) -> None:
    async def fails_at_the_end() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("while stopping")

    with capture_logs() as logs:
        subject = manager(config)
        subject.add(FuncRunnable(fails_at_the_end))
        async with starting(subject) as task:
            await asyncio.wait_for(subject.elected.wait(), LONG)
            await asyncio.sleep(0)
            subject.stop()
            await task
    errors = [line for line in logs if line["log_level"] == "error"]
    assert [line["event"] for line in errors] == ["Error while stopping"]


@pytest.mark.criterion("MG-18")
async def test_cancelling_start_stops_everything_first(config: Config) -> None:
    log: list[str] = []
    subject = manager(config)
    subject.add(Recorded("leader", log))
    async with starting(subject) as task:
        await asyncio.wait_for(subject.elected.wait(), LONG)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert log == ["start leader", "stop leader"]


PROGRAM = """
    import asyncio, sys
    from ctrlruntime.client.config import Config
    from ctrlruntime.manager import FuncRunnable, Manager, ManagerOptions, run

    async def main():
        manager = Manager(Config(host="http://127.0.0.1:9"), ManagerOptions(
            metrics_bind_address="0", health_bind_address="0", handle_signals=True))
        async def work():
            print("ready", flush=True)
            try:
                await asyncio.Event().wait()
            finally:
                print("stopping", flush=True)
                await asyncio.sleep({linger})
        manager.add(FuncRunnable(work))
        await manager.start()
        print("clean", flush=True)

    run(main())
"""


@pytest.mark.criterion("MG-19")
@pytest.mark.parametrize(("linger", "second", "status"), [(0, False, 0), (60, True, 1)])
async def test_the_first_signal_stops_and_the_second_exits_with_1(
    linger: int, second: bool, status: int
) -> None:
    program = textwrap.dedent(PROGRAM).replace("{linger}", str(linger))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert process.stdout is not None
    async with asyncio.timeout(LONG):
        assert await process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert await process.stdout.readline() == b"stopping\n"
        if second:
            process.send_signal(signal.SIGINT)
        rest = await process.stdout.read()
        assert await process.wait() == status
    assert rest == (b"" if second else b"clean\n")


LEADER = """
    import asyncio, sys
    from ctrlruntime.client.config import Config
    from ctrlruntime.manager import ElectionOptions, FuncRunnable, Manager, ManagerOptions, run

    async def main():
        manager = Manager(Config(host=sys.argv[1]), ManagerOptions(
            metrics_bind_address="0", health_bind_address="0", leader_election=True,
            leader_election_id="tests", leader_election_namespace="default",
            election=ElectionOptions(retry_period=0.2)))
        async def stubborn():
            print("leading", flush=True)
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    print("ignored", flush=True)
        manager.add(FuncRunnable(stubborn))
        await manager.start()

    run(main())
"""


@pytest.mark.criterion("MG-10")
async def test_a_program_that_lost_its_lease_exits_whatever_still_runs(config: Config) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        textwrap.dedent(LEADER),
        config.host,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert process.stdout is not None
    async with asyncio.timeout(LONG), Client.connect(config) as client:
        assert await process.stdout.readline() == b"leading\n"
        lease = await client.get(LEASE, "tests", namespace="default")
        lease["spec"]["holderIdentity"] = "thief"
        await client.update(lease)
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"leader election lost" in errors


@pytest.mark.criterion("MG-20")
async def test_a_second_cluster_is_synced_before_controllers_start(config: Config) -> None:
    from ctrlruntime.controller import KindSource, enqueue_object

    async with APIServer(ServerOptions()) as other:
        there = Client.connect(Config(host=other.url))
        await there.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "far", "namespace": "default"},
            }
        )
        subject = manager(config)
        east = subject.new_cluster("east", Config(host=other.url), ClusterOptions(required=True))
        await subject.engage(east)
        with pytest.raises(ValueError, match="needs a name"):
            await subject.engage(subject.new_cluster("", Config(host=other.url)))
        seen: asyncio.Queue[tuple[Request, bool]] = asyncio.Queue()

        async def reconcile(request: Request) -> None:
            seen.put_nowait((request, east.cache.synced))

        source = KindSource(east, CONFIG_MAP, enqueue_object)
        Builder(subject).watches_raw(source).named("far").build(reconcile)
        async with running(subject):
            found = await asyncio.wait_for(seen.get(), LONG)
        assert found == (Request("far", namespace="default", cluster="east"), True)
        await there.close()


@pytest.mark.criterion("LV-5")
async def test_lv_5_a_further_cluster_counts_in_readyz(config: Config) -> None:
    async with APIServer(ServerOptions()) as other:
        subject = manager(config)
        east = subject.new_cluster("east", Config(host=other.url), ClusterOptions(required=True))
        await subject.engage(east)
        with pytest.raises(ValueError, match="a cluster 'east' already"):
            await subject.engage(subject.new_cluster("east", Config(host=other.url)))
        async with running(subject):
            assert (await get(subject.health_port, "/readyz"))[0] == 200
            other.options.latency.read = LONG
            east.cache.declare(CONFIG_MAP)
            status, text = await get(subject.health_port, "/readyz")
            assert status == 500
            assert "[-]caches failed" in text
            assert "east" in text
            assert subject.cache.synced


@pytest.mark.criterion("LE-11")
async def test_a_leader_has_a_health_check_of_its_renewals(config: Config) -> None:
    subject = manager(config, leader_election=True)
    async with running(subject):
        assert await get(subject.health_port, "/healthz/leader-election") == (200, "ok")


async def test_permissions_of_all_controllers_events_and_election(config: Config) -> None:
    subject = manager(config, leader_election=True)

    async def nothing(request: Request) -> None: ...

    Builder(subject).for_(CONFIG_MAP).build(nothing)
    resources = [f"{plural}.{group}" for group, plural, _ in subject.permissions()]
    assert resources == [
        "configmaps.",
        "configmaps/finalizers.",
        "configmaps/status.",
        "leases.coordination.k8s.io",
        "events.events.k8s.io",
    ]
    subject.close()


async def test_the_manager_gives_controllers_their_defaults(config: Config) -> None:
    subject = manager(config, controller=ControllerOptions(group_kind_concurrency={"ConfigMap": 7}))

    async def nothing(request: Request) -> None: ...

    controller = Builder(subject).for_(CONFIG_MAP).build(nothing)
    assert controller.settings.workers == 7
    subject.close()


async def test_documented_defaults() -> None:
    options = ManagerOptions()
    assert (options.metrics_bind_address, options.health_bind_address) == (":8080", ":8081")
    assert options.graceful_shutdown_timeout == 10.0
    election = options.election
    assert (election.lease_duration, election.renew_deadline, election.retry_period) == (15, 10, 2)
