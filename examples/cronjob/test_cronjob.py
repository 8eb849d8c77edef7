"""On the API server of the test environment, with a clock of the test's own."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from cronjob import JOB, ConcurrencyPolicy, CronJob, setup

from ctrlruntime.envtest.eventually import eventually, eventually_gone
from ctrlruntime.envtest.idle import idle


class Clock:
    """The present, moved on by the test."""

    ahead = timedelta()

    def __call__(self):
        return datetime.now(UTC) + self.ahead


def cron(namespace, **spec):
    pod = {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}
    template = {"spec": {"template": {"spec": pod}}}
    return CronJob.from_manifest(
        {
            "metadata": {"name": "hourly", "namespace": namespace},
            "spec": {"schedule": "0 * * * *", "jobTemplate": template, **spec},
        }
    )


async def jobs(client, namespace, count):
    """Wait until there are so many, and return them by age."""
    async with asyncio.timeout(60):
        while True:
            found = await client.list(JOB, namespace)
            live = [job for job in found if "deletionTimestamp" not in job["metadata"]]
            if len(live) == count:
                return sorted(live, key=lambda job: job["metadata"]["name"])
            await asyncio.sleep(0.02)


async def running_job(client, namespace):
    """Wait until one has not ended, and return it."""
    async with asyncio.timeout(60):
        while True:
            for job in await client.list(JOB, namespace):
                if not (job.get("status") or {}).get("conditions"):
                    return job
            await asyncio.sleep(0.02)


def name_of(job):
    return job["metadata"]["name"]


async def poke(client, namespace):
    """Have it look again: its timers run by the machine's clock, not by the test's."""
    annotations = {"poked": str(datetime.now(UTC).timestamp())}
    patch = {"metadata": {"annotations": annotations}}
    await client.patch(CronJob, "hourly", patch, namespace=namespace)


async def end(client, job, outcome):
    conditions = [{"type": outcome, "status": "True"}]
    times = {}
    if outcome == "Complete":
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        conditions.insert(0, {"type": "SuccessCriteriaMet", "status": "True"})
        times = {"startTime": now, "completionTime": now}
    status = {"conditions": conditions, **times}
    meta = job["metadata"]
    await client.patch_status(JOB, meta["name"], {"status": status}, namespace=meta["namespace"])


async def test_a_job_is_made_for_each_time_once(run_manager, envtest_client, namespace):
    clock = Clock()
    await run_manager(lambda manager: setup(manager, clock), CronJob)
    await envtest_client.create(cron(namespace))
    await eventually(
        envtest_client,
        CronJob,
        "hourly",
        {"status": {"conditions": [{"reason": "Scheduled"}]}},
        namespace=namespace,
    )
    for count in (1, 2):
        clock.ahead += timedelta(hours=1)
        await poke(envtest_client, namespace)
        found = await jobs(envtest_client, namespace, count)
    await eventually(
        envtest_client,
        CronJob,
        "hourly",
        {"status": {"active": [job["metadata"]["name"] for job in found]}},
        namespace=namespace,
    )


@pytest.mark.parametrize("policy", [ConcurrencyPolicy.FORBID, ConcurrencyPolicy.REPLACE])
async def test_policy_decides_while_a_job_runs(run_manager, envtest_client, namespace, policy):
    clock = Clock()
    manager = await run_manager(lambda manager: setup(manager, clock), CronJob)
    await envtest_client.create(cron(namespace, concurrencyPolicy=policy))
    clock.ahead += timedelta(hours=1)
    await poke(envtest_client, namespace)
    (first,) = await jobs(envtest_client, namespace, 1)
    clock.ahead += timedelta(hours=1)
    await poke(envtest_client, namespace)
    if policy is ConcurrencyPolicy.FORBID:
        waits = {"status": {"conditions": [{"reason": "WaitsForJob"}]}}
        await eventually(envtest_client, CronJob, "hourly", waits, namespace=namespace)
        await idle(manager, envtest_client)
        await jobs(envtest_client, namespace, 1)
        await end(envtest_client, first, "Complete")
        await jobs(envtest_client, namespace, 2)
        return
    second = int(name_of(first).rpartition("-")[2]) + 3600
    await eventually(envtest_client, JOB, f"hourly-{second}", {}, namespace=namespace)
    await eventually_gone(envtest_client, JOB, name_of(first), namespace=namespace)


async def test_of_jobs_that_ended_a_few_are_kept(run_manager, envtest_client, namespace):
    clock = Clock()
    await run_manager(lambda manager: setup(manager, clock), CronJob)
    await envtest_client.create(cron(namespace, successfulJobsHistoryLimit=1))
    for _ in range(2):
        clock.ahead += timedelta(hours=1)
        await poke(envtest_client, namespace)
        last = await running_job(envtest_client, namespace)
        await end(envtest_client, last, "Complete")
    (kept,) = await jobs(envtest_client, namespace, 1)
    assert name_of(kept) == name_of(last)


async def test_a_schedule_that_cannot_be_read_is_in_the_status(
    run_manager, envtest_client, namespace
):
    await run_manager(setup, CronJob)
    await envtest_client.create(cron(namespace, schedule="61 * * * *"))
    await eventually(
        envtest_client,
        CronJob,
        "hourly",
        {"status": {"conditions": [{"status": "False", "reason": "InvalidSchedule"}]}},
        namespace=namespace,
    )
