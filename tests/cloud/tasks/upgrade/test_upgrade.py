"""SG-72: the steps of an upgrade in order, each once, and the workload last but one."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import TaskOperation
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client import Client
from ctrlruntime.client.errors import AlreadyExists, NotFound
from ctrlruntime.envtest import Environment
from internal.cloud.keys import instance_key
from internal.cloud.tasks import TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.kubernetes import KubernetesTask
from internal.cloud.tasks.kubernetes.applying import UPGRADES
from internal.cloud.tasks.kubernetes.changes import MIGRATION
from internal.cloud.tasks.task import RECORDED
from internal.cloud.tasks.upgrade import UpgradeTask
from tests.cloud.servers.site import Asked, Say, Site
from tests.cloud.tasks.kubeconfigs import inline
from tests.cloud.tasks.workbench import Workbench
from tests.support.waiting import eventually

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
JOB = GroupVersionKind("batch", "v1", "Job")

pytestmark = pytest.mark.criterion("SG-72")

WEB: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "web"},
    "data": {"version": "${version}"},
}
Run = Callable[..., Awaitable[TaskResult]]


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as site:
        for path in ("/healthz", "/backup/state", "/version"):
            site.answers[f"GET {path}"] = Say(json={"state": "done", "version": "5.3.0"})
        for path in ("/backup", "/migrate"):
            site.answers[f"POST {path}"] = Say(status=202)
        yield site


@pytest.fixture
async def environment() -> AsyncIterator[Environment]:
    async with Environment(tls=True, users=("admin",)) as environment:
        yield environment


@pytest.fixture
def client(environment: Environment) -> Client:
    return environment.client("admin")


@pytest.fixture
def bench(environment: Environment, tmp_path: Path) -> Workbench:
    kubeconfig = inline(Path(environment.kubeconfig("admin")))
    return Workbench(tmp_path, secrets={("cluster", "kubeconfig"): kubeconfig})


@dataclass
class Clock:
    """Time that moves only when a test moves it."""

    now: datetime = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def fail_before_migration(run: Run, client: Client, **more: object) -> None:
    """An attempt that takes the backup, has no migration, and fails to roll the workload out."""
    with contextlib.suppress(AlreadyExists):
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}})
    fixed = {**WEB, "metadata": {**WEB["metadata"], "namespace": "acme"}}
    await client.create({**fixed, "data": {"version": "5.2.0"}})
    with pytest.raises(TaskError, match="was not made by this control plane"):
        await run(migrate=None, **more)
    await client.delete(CONFIG_MAP, "web", namespace="acme")


async def interrupt_migration(run: Run, site: Site, **more: object) -> None:
    """An attempt that ends while the migration is requested, as if its process were killed."""
    attempt = asyncio.ensure_future(run(**more))

    def migrate(_asked: Asked) -> Say:
        attempt.cancel()
        return Say(status=202)

    site.answers["POST /migrate"] = migrate
    with pytest.raises(asyncio.CancelledError):
        await attempt
    site.answers["POST /migrate"] = Say(status=202)


def steps(site: Site) -> dict[str, Any]:
    def post(path: str) -> dict[str, Any]:
        request = {
            "url": f"{site.url}{path}",
            "method": "POST",
            "statusCodes": [202],
            "body": {"instance": "${instance}", "from": "${fromVersion}", "to": "${version}"},
        }
        return {"http": request, "timeoutSeconds": 60}

    def get(path: str, at: str, value: str) -> dict[str, Any]:
        return {"url": f"{site.url}{path}", "expect": [{"path": at, "equals": value}]}

    return {
        "healthCheck": {"url": f"{site.url}/healthz"},
        "backup": {**post("/backup"), "until": get("/backup/state", "$.state", "done")},
        "migrate": post("/migrate"),
        "verify": get("/version", "$.version", "${version}"),
        "verifyTimeoutSeconds": 1,
    }


@pytest.fixture
def run(bench: Workbench, site: Site, clock: Clock) -> Run:
    async def run(
        attempt: int = 1,
        uid: str = "u-1",
        to: str = "5.3.0",
        record: Mapping[str, str] | None = None,
        **more: object,
    ) -> TaskResult:
        spec = {
            "instanceName": "acme",
            "fromVersion": "5.2.0",
            "toVersion": to,
            "cluster": {
                "kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"},
                "namespace": "acme",
                "readyTimeoutSeconds": 60,
                "bundle": {"manifests": [WEB]},
            },
            "steps": {**steps(site), **more},
        }
        context = bench.context(
            "upgrade", spec, kind="UpgradeInstanceTask", uid=uid, attempt=attempt
        )
        context = replace(context, input=replace(context.input, record=record or {}))
        return await UpgradeTask(poll=0.02, clock=clock).run(context)

    return run


async def deployed(client: Client) -> str | None:
    try:
        return str((await client.get(CONFIG_MAP, "web", namespace="acme"))["data"]["version"])
    except NotFound:
        return None


WHOLE = [
    "GET /healthz",
    "POST /backup",
    "GET /backup/state",
    "POST /migrate",
    "GET /version",
]


async def test_the_steps_in_order(run: Run, client: Client, site: Site, bench: Workbench) -> None:
    result = await run()
    assert site.paths() == WHOLE
    assert await deployed(client) == "5.3.0"
    assert result.outputs == {"version": "5.3.0"}
    assert result.message == (
        "5.2.0 -> 5.3.0: health-check done, backup done, migrate done, roll done, verify done."
    )
    assert [said for said in bench.said if said.startswith("step")] == [
        "step 1/5: health-check",
        "step 2/5: backup",
        "step 3/5: migrate",
        "step 4/5: roll",
        "step 5/5: verify",
    ]


async def test_hooks_receive_what_is_upgraded(run: Run, site: Site) -> None:
    await run()
    backup, migrate = (each for each in site.asked if each.method == "POST")
    assert backup.body == {"instance": "acme", "from": "5.2.0", "to": "5.3.0"}
    keys = {each.headers["Idempotency-Key"] for each in (backup, migrate)}
    assert keys == {"u-1/backup", "u-1/migrate"}


async def test_an_instance_that_is_not_healthy_is_not_touched(
    run: Run, client: Client, site: Site
) -> None:
    site.answers["GET /healthz"] = Say(status=500)
    with pytest.raises(TaskError, match="nothing was touched"):
        await run()
    assert set(site.paths()) == {"GET /healthz"}
    assert await deployed(client) is None


async def test_the_workload_is_not_rolled_until_the_migration_has_succeeded(
    run: Run, client: Client, site: Site
) -> None:
    seen: list[str | None] = []

    def migrate(asked: Asked) -> Say:
        seen.append(asked.body["to"])
        return Say(status=500 if len(seen) == 1 else 202)

    site.answers["POST /migrate"] = migrate
    with pytest.raises(TaskError, match="migrate: "):
        await run()
    assert await deployed(client) is None
    await run(attempt=2)
    assert await deployed(client) == "5.3.0"


async def test_what_an_earlier_attempt_did_is_not_done_again(run: Run, site: Site) -> None:
    site.answers["GET /version"] = Say(json={"version": "5.2.0"})
    with pytest.raises(TaskError, match=r"5\.3\.0 was rolled out and is not well: "):
        await run()
    site.asked.clear()
    site.answers["GET /version"] = Say(json={"version": "5.3.0"})
    result = await run(attempt=2)
    assert site.paths() == ["GET /version"]
    assert "backup was done, migrate was done, roll was done, verify done" in result.message


async def test_a_backup_that_takes_too_long_is_asked_for_with_the_same_key(
    run: Run, site: Site
) -> None:
    site.answers["GET /backup/state"] = Say(json={"state": "running"})
    with pytest.raises(TaskError, match="backup: not finished in time"):
        await run(backup={**steps(site)["backup"], "timeoutSeconds": 1})
    site.answers["GET /backup/state"] = Say(json={"state": "done"})
    await run(attempt=2)
    keys = [each.headers["Idempotency-Key"] for each in site.asked if each.path == "/backup"]
    assert keys == ["u-1/backup", "u-1/backup"]


def posts(site: Site, path: str) -> list[str]:
    return [each.headers["Idempotency-Key"] for each in site.asked if each.path == path]


@pytest.mark.criterion("H-B5")
@pytest.mark.parametrize(("minutes", "repeated"), [(59, False), (61, True)])
async def test_h_b5_an_old_health_check_and_backup_are_repeated(
    run: Run, site: Site, client: Client, clock: Clock, minutes: int, repeated: bool
) -> None:
    await fail_before_migration(run, client)
    assert posts(site, "/backup") == ["u-1/backup"]
    site.asked.clear()
    clock.now += timedelta(minutes=minutes)
    result = await run(attempt=2)
    assert site.paths() == (WHOLE if repeated else ["POST /migrate", "GET /version"])
    assert posts(site, "/backup") == (["u-1/backup/2"] if repeated else [])
    assert posts(site, "/migrate") == ["u-1/migrate"]
    assert ("backup was done" in result.message) is not repeated


@pytest.mark.criterion("H-B5")
async def test_h_b5_the_age_is_a_field(run: Run, site: Site, client: Client, clock: Clock) -> None:
    await fail_before_migration(run, client, maxCheckAgeSeconds=60)
    clock.now += timedelta(seconds=61)
    await run(attempt=2, maxCheckAgeSeconds=60)
    assert posts(site, "/backup") == ["u-1/backup", "u-1/backup/2"]


@pytest.mark.criterion("H-B5", "G-C2")
async def test_h_b5_after_a_failed_migration_health_is_checked_and_the_first_backup_stays(
    run: Run, site: Site, clock: Clock
) -> None:
    site.answers["POST /migrate"] = Say(status=500)
    for attempt in (1, 2):
        with pytest.raises(TaskError, match="migrate: "):
            await run(attempt=attempt)
        clock.now += timedelta(days=2)
    site.answers["POST /migrate"] = Say(status=202)
    await run(attempt=3)
    assert posts(site, "/backup") == ["u-1/backup"]
    assert set(posts(site, "/migrate")) == {"u-1/migrate"}
    assert site.paths().count("GET /healthz") == 3


@pytest.mark.criterion("H-B5")
async def test_h_b5_after_a_failed_migration_an_unhealthy_instance_stops_the_upgrade(
    run: Run, site: Site
) -> None:
    site.answers["POST /migrate"] = Say(status=500)
    with pytest.raises(TaskError, match="migrate: "):
        await run()
    site.answers["GET /healthz"] = Say(status=500)
    with pytest.raises(TaskError, match="the upgrade does not go on, since the instance is not"):
        await run(attempt=2)


@pytest.mark.criterion("H-B5")
async def test_h_b5_once_migrated_nothing_old_is_repeated(
    run: Run, site: Site, clock: Clock
) -> None:
    """A backup of the migrated data would take the place of the one from before."""
    site.answers["GET /version"] = Say(json={"version": "5.2.0"})
    with pytest.raises(TaskError, match="is not well"):
        await run()
    clock.now += timedelta(days=2)
    site.answers["GET /version"] = Say(json={"version": "5.3.0"})
    await run(attempt=2)
    assert posts(site, "/backup") == ["u-1/backup"]


async def test_the_next_upgrade_begins_anew(run: Run, site: Site, client: Client) -> None:
    await run()
    site.asked.clear()
    site.answers["GET /version"] = Say(json={"version": "5.4.0"})
    await run(uid="u-2", to="5.4.0")
    assert site.paths() == WHOLE
    assert await deployed(client) == "5.4.0"


async def fail_to_verify(run: Run, site: Site, **more: object) -> None:
    """An upgrade to 5.3.0 that migrates, rolls out and is not well, as by a mistake in the bundle."""
    site.answers["GET /version"] = Say(json={"version": "5.2.0"})
    with pytest.raises(TaskError, match="is not well"):
        await run(**more)
    site.answers["GET /version"] = Say(json={"version": "5.3.0"})


async def fail_to_migrate(run: Run, site: Site) -> None:
    """An upgrade to 5.3.0 whose migration is refused."""
    site.answers["POST /migrate"] = Say(status=500)
    with pytest.raises(TaskError, match="migrate: "):
        await run()
    site.answers["POST /migrate"] = Say(status=202)


async def roll_out(bench: Workbench, version: str, **annotations: str) -> TaskResult:
    """The task of InstanceKubernetes rolls out a version."""
    spec = {
        "version": version,
        "cluster": {
            "kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"},
            "namespace": "acme",
            "bundle": {"manifests": [WEB]},
        },
    }
    context = bench.context("kubernetes", spec)
    given = replace(context.input, annotations=annotations)
    return await KubernetesTask(poll=0.02).run(replace(context, input=given))


def restored(message: object) -> dict[str, str]:
    """The annotation that a hold names."""
    [(name, digest)] = re.findall(
        r"(cloud\.ctrlruntime\.dev/database-restored)=(\w+)", str(message)
    )
    return {name: digest}


@pytest.mark.criterion("G-C2")
async def test_g_c2_an_upgrade_in_the_place_of_a_failed_one_goes_on(
    run: Run, site: Site, client: Client, clock: Clock
) -> None:
    """The mended spec is another object: no second backup, no second migration, and the workload is rolled out anew."""
    await fail_to_verify(run, site)
    clock.now += timedelta(days=2)
    await client.delete(CONFIG_MAP, "web", namespace="acme")
    backup = {**steps(site)["backup"], "timeoutSeconds": 3}
    result = await run(uid="u-2", backup=backup)
    assert posts(site, "/backup") == ["u-1/backup"]
    assert posts(site, "/migrate") == ["u-1/migrate"]
    assert "backup was done, migrate was done, roll done, verify done" in result.message
    assert await deployed(client) == "5.3.0"


@pytest.mark.criterion("G-C2")
async def test_g_c2_a_migration_that_was_cut_short_keeps_its_key(run: Run, site: Site) -> None:
    await interrupt_migration(run, site)
    await run(uid="u-2")
    assert posts(site, "/backup") == ["u-1/backup"]
    assert set(posts(site, "/migrate")) == {"u-1/migrate"}


@pytest.mark.criterion("G-C2")
@pytest.mark.parametrize("begun", [False, True], ids=["before", "after"])
async def test_g_c2_a_mended_backup_is_taken_anew_before_the_migration_alone(
    run: Run, site: Site, client: Client, begun: bool
) -> None:
    """Of what another UpgradeInstanceTask would carry out in another way; not over the one from before a migration."""
    if begun:
        await fail_to_migrate(run, site)
    else:
        await fail_before_migration(run, client)
    backup = {**steps(site)["backup"], "timeoutSeconds": 3}
    await run(uid="u-2", backup=backup)
    assert posts(site, "/backup") == ["u-1/backup", "u-1/backup/2"][: 2 - begun]


@pytest.mark.criterion("G-C2")
@pytest.mark.parametrize("undone", [False, True])
async def test_g_c2_another_version_after_a_failed_migration_keeps_the_backup(
    run: Run, site: Site, bench: Workbench, undone: bool
) -> None:
    """Until the change was undone: then the next one takes its own."""
    await fail_to_migrate(run, site)
    if undone:
        await roll_out(bench, "5.2.0")
    site.answers["GET /version"] = Say(json={"version": "5.4.0"})
    await run(uid="u-2", to="5.4.0")
    assert posts(site, "/backup") == ["u-1/backup", "u-2/backup"][: 1 + undone]


@pytest.mark.criterion("G-C2")
async def test_g_c2_the_same_change_after_it_succeeded_begins_anew(run: Run, site: Site) -> None:
    await run()
    await run(attempt=2)
    assert posts(site, "/backup") == ["u-1/backup"], "its result was lost"
    await run(uid="u-2")
    assert posts(site, "/backup") == ["u-1/backup", "u-2/backup"]


@pytest.mark.criterion("G-C2")
async def test_g_c2_the_old_version_is_held_on_migrated_data(
    run: Run, site: Site, client: Client, bench: Workbench
) -> None:
    await fail_to_verify(run, site)
    with pytest.raises(
        TaskRejected, match=r"held: the migration from 5\.2\.0 to 5\.3\.0 has succe"
    ) as held:
        await roll_out(bench, "5.2.0")
    assert await deployed(client) == "5.3.0"
    wrong = dict.fromkeys(restored(held.value), "0" * 16)
    with pytest.raises(TaskRejected, match="held"):
        await roll_out(bench, "5.2.0", **wrong)
    await roll_out(bench, "5.2.0", **restored(held.value))
    assert await deployed(client) == "5.2.0"
    await roll_out(bench, "5.2.0")

    await fail_to_verify(run, site, uid="u-2")
    assert posts(site, "/backup") == ["u-1/backup", "u-2/backup"], "it was undone"
    with pytest.raises(TaskRejected, match="held"):
        await roll_out(bench, "5.2.0", **restored(held.value))


@pytest.mark.criterion("G-C2")
async def test_g_c2_the_old_version_is_held_while_the_end_of_a_migration_is_unknown(
    run: Run, site: Site, client: Client, bench: Workbench
) -> None:
    await interrupt_migration(run, site)
    with pytest.raises(TaskRejected, match="was begun, and how it ended is unknown"):
        await roll_out(bench, "5.2.0")
    assert await deployed(client) is None


@pytest.mark.criterion("G-C2")
async def test_g_c2_without_a_migration_the_old_version_closes_the_change(
    run: Run, site: Site, client: Client, bench: Workbench
) -> None:
    none = dict.fromkeys(("migrate",))
    await fail_to_verify(run, site, **none)
    await roll_out(bench, "5.2.0")
    assert await deployed(client) == "5.2.0"
    await run(uid="u-2", **none)
    assert posts(site, "/backup") == ["u-1/backup", "u-2/backup"]


@pytest.mark.criterion("G-C2")
async def test_g_c2_a_newer_version_after_a_failed_one_keeps_the_backup(
    run: Run, site: Site, bench: Workbench
) -> None:
    await fail_to_verify(run, site)
    site.answers["GET /version"] = Say(json={"version": "5.4.0"})
    await interrupt_migration(run, site, uid="u-2", to="5.4.0")
    with pytest.raises(TaskRejected, match=r"held: the migration from 5\.2\.0 to 5\.4\.0"):
        await run(uid="u-3", to="5.3.0")
    with pytest.raises(TaskRejected, match="held"):
        await roll_out(bench, "5.2.0")
    await run(uid="u-4", to="5.4.0")
    assert posts(site, "/backup") == ["u-1/backup"]
    assert posts(site, "/migrate") == ["u-1/migrate", "u-2/migrate", "u-2/migrate"]


@pytest.mark.criterion("G-C2")
async def test_g_c2_the_failed_version_is_finished_though_a_newer_one_was_tried(
    run: Run, site: Site
) -> None:
    await fail_to_verify(run, site)
    site.answers["POST /migrate"] = Say(status=500)
    with pytest.raises(TaskError, match="migrate"):
        await run(uid="u-2", to="5.4.0")
    await run(uid="u-3", to="5.3.0")
    assert posts(site, "/backup") == ["u-1/backup"]
    assert posts(site, "/migrate") == ["u-1/migrate", "u-2/migrate"]


@pytest.mark.criterion("G-C2")
async def test_g_c2_without_the_record_of_a_migration_that_was_begun_nothing_is_done(
    run: Run, site: Site, client: Client, bench: Workbench
) -> None:
    """It was deleted by hand, or the cluster was restored from before: absence of a record is no absence."""
    await interrupt_migration(run, site)
    known = {MIGRATION: bench.kept[f"{RECORDED}{MIGRATION}"]}
    [found] = await client.list(CONFIG_MAP, namespace="acme", labels=UPGRADES)
    name = found["metadata"]["name"]
    await client.delete(CONFIG_MAP, name, namespace="acme")
    for again in ({"uid": "u-1", "attempt": 2}, {"uid": "u-2"}, {"uid": "u-3", "to": "5.4.0"}):
        with pytest.raises(TaskRejected, match=r"5\.2\.0 -> 5\.3\.0 was begun, and the ConfigMap"):
            await run(record=known, **again)
    assert posts(site, "/backup") == ["u-1/backup"]
    metadata = {"name": name, "namespace": "acme"}
    await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    result = await run(uid="u-2", record=known)
    assert result.record == {MIGRATION: ""}
    assert posts(site, "/backup") == ["u-1/backup", "u-2/backup"]


@pytest.mark.criterion("G-C2")
async def test_g_c2_a_third_version_that_is_older_is_held(run: Run, site: Site) -> None:
    await fail_to_verify(run, site)
    with pytest.raises(TaskRejected, match=r"5\.2\.5 is not rolled out"):
        await run(uid="u-2", to="5.2.5")
    assert posts(site, "/backup") == ["u-1/backup"]
    assert posts(site, "/migrate") == ["u-1/migrate"]


async def test_steps_that_are_not_given_are_left_out(run: Run, client: Client, site: Site) -> None:
    none = dict.fromkeys(("healthCheck", "backup", "migrate", "verify"))
    result = await run(**none)
    assert result.message == "5.2.0 -> 5.3.0: roll done."
    assert site.asked == []


class TestJobs:
    HOOK = (
        ("image", "example.com/migrate:${version}"),
        ("command", ["migrate", "--to", "${version}"]),
    )

    async def end(self, client: Client, kind: str) -> None:
        """What the cluster does: the Job completes, or fails."""
        job = (await eventually(lambda: client.list(JOB, "acme")))[0]
        now = "2026-01-02T03:04:05Z"
        conditions = [{"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": now}]
        if kind == "Complete":
            conditions.insert(
                0,
                {
                    "type": "SuccessCriteriaMet",
                    "status": "True",
                    "reason": "Test",
                    "lastTransitionTime": now,
                },
            )
        status: Manifest = {"conditions": conditions, "startTime": now}
        if kind == "Complete":
            status |= {"completionTime": now, "succeeded": 1}
        else:
            failed = {**conditions[0], "type": "FailureTarget"}
            status |= {"failed": 1, "conditions": [failed, *conditions]}
        await client.patch_status(
            JOB, job["metadata"]["name"], {"status": status}, namespace="acme"
        )

    async def test_a_hook_can_be_a_job(self, run: Run, client: Client) -> None:
        running = asyncio.ensure_future(run(migrate={"job": dict(self.HOOK)}))
        await self.end(client, "Complete")
        await running
        [job] = await client.list(JOB, "acme")
        [container] = job["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "example.com/migrate:5.3.0"
        assert container["command"] == ["migrate", "--to", "5.3.0"]

    async def test_a_job_that_failed_is_made_anew_only_by_the_next_attempt(
        self, run: Run, client: Client
    ) -> None:
        running = asyncio.ensure_future(run(migrate={"job": dict(self.HOOK)}))
        await self.end(client, "Failed")
        with pytest.raises(TaskError, match="migrate: the job failed"):
            await running
        [first] = await client.list(JOB, "acme")
        with pytest.raises(TaskError, match="migrate: the job failed"):
            await run(migrate={"job": dict(self.HOOK)})
        assert [job["metadata"]["uid"] for job in await client.list(JOB, "acme")] == [
            first["metadata"]["uid"]
        ]
        running = asyncio.ensure_future(run(attempt=2, migrate={"job": dict(self.HOOK)}))
        await eventually(
            lambda: client.list(JOB, "acme"),
            lambda jobs: {job["metadata"]["uid"] for job in jobs} - {first["metadata"]["uid"]},
        )
        await self.end(client, "Complete")
        await running

    @pytest.mark.criterion("G-C2")
    async def test_g_c2_a_mended_job_takes_the_place_of_the_one_that_failed(
        self, run: Run, client: Client
    ) -> None:
        """Whatever the number of the attempt that made it; one that runs is awaited, and no other is made beside it."""
        running = asyncio.ensure_future(run(attempt=3, migrate={"job": dict(self.HOOK)}))
        await self.end(client, "Failed")
        with pytest.raises(TaskError, match="migrate: the job failed"):
            await running
        [first] = await client.list(JOB, "acme")
        mended = {**dict(self.HOOK), "image": "example.com/mended:1"}
        running = asyncio.ensure_future(run(uid="u-2", migrate={"job": mended}))
        await eventually(
            lambda: client.list(JOB, "acme"),
            lambda jobs: {job["metadata"]["uid"] for job in jobs} - {first["metadata"]["uid"]},
        )
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        running = asyncio.ensure_future(run(uid="u-3", migrate={"job": mended}))
        await self.end(client, "Complete")
        await running
        [job] = await client.list(JOB, "acme")
        [container] = job["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "example.com/mended:1"

    async def test_they_go_with_the_workload(
        self, run: Run, client: Client, bench: Workbench
    ) -> None:
        """Jobs and the record of what is done; not those of another instance."""
        running = asyncio.ensure_future(run(migrate={"job": dict(self.HOOK)}))
        await self.end(client, "Complete")
        await running
        [job] = await client.list(JOB, "acme")
        await client.create(of_another_instance(job))
        assert (
            await client.list(CONFIG_MAP, "acme", labels={UPGRADES: instance_key("prod", "acme")})
            != []
        )

        cluster = {"kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"}, "namespace": "acme"}
        spec = {"version": "5.3.0", "cluster": cluster}
        context = bench.context("kubernetes", spec, operation=TaskOperation.TEARDOWN)
        await KubernetesTask(poll=0.02).run(context)
        assert [each["metadata"]["name"] for each in await client.list(JOB, "acme")] == ["other"]
        assert (
            await client.list(CONFIG_MAP, "acme", labels={UPGRADES: instance_key("prod", "acme")})
            == []
        )


def of_another_instance(job: Manifest) -> Manifest:
    pod = job["spec"]["template"]["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "other",
            "namespace": "acme",
            "labels": {UPGRADES: instance_key("dev", "acme")},
        },
        "spec": {"template": {"spec": pod}},
    }
