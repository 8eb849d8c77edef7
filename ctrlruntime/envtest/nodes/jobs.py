"""Jobs: Pods until enough have succeeded, or too many failed."""

from __future__ import annotations

from datetime import datetime, timedelta

from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.kinds import JOB, MOST_PODS, POD, Manifest
from ctrlruntime.envtest.nodes.podshape import PodView, pod_of, random_suffix
from ctrlruntime.envtest.nodes.status import condition, conditions, parse_timestamp, timestamp
from ctrlruntime.queue import Request

BACKOFF_MESSAGE = "Job has reached the specified backoff limit"
DEADLINE_MESSAGE = "Job was active longer than specified deadline"


class JobReconciler(OfCluster):
    """As the job controller: NonIndexed, without pod failure policies and back-off delays."""

    async def reconcile(self, request: Request) -> Result | None:
        job = self._cluster.live(JOB, request)
        if job is None:
            return None
        finished_at = finish_time(job)
        if finished_at is not None:
            return await self._expire(job, request, finished_at)
        pods = self._cluster.pods_of(job)
        outcome = self._outcome(job, pods)
        active = [pod for pod in pods if pod.active]
        if outcome or job["spec"].get("suspend"):
            for pod in active:
                await self._cluster.delete(POD, pod.entry)
        else:
            await self._create(job, missing(job["spec"], pods))
        status = self._status(job, self._cluster.pods_of(job), outcome)
        await self._cluster.set_status(JOB, job, status)
        return self._next(job, status)

    def _outcome(self, job: Manifest, pods: list[PodView]) -> Manifest | None:
        """Return the condition that ends the job, or None while it goes on."""
        spec = job["spec"]
        succeeded = sum(pod.phase == "Succeeded" for pod in pods)
        failed = failures(job, pods)
        if succeeded >= needed(spec):
            return condition(
                "Complete", True, "CompletionsReached", "Reached expected number of succeeded pods"
            )
        if failed > spec.get("backoffLimit", 6):
            return condition("Failed", True, "BackoffLimitExceeded", BACKOFF_MESSAGE)
        over = self._deadline(job)
        if over is not None and self._cluster.now() >= over:
            return condition("Failed", True, "DeadlineExceeded", DEADLINE_MESSAGE)
        return None

    def _deadline(self, job: Manifest) -> datetime | None:
        started = (job.get("status") or {}).get("startTime")
        seconds = job["spec"].get("activeDeadlineSeconds")
        if started is None or seconds is None:
            return None
        return parse_timestamp(started) + timedelta(seconds=seconds)

    async def _create(self, job: Manifest, count: int) -> None:
        metadata, spec = job["metadata"], job["spec"]
        labels = {
            "batch.kubernetes.io/job-name": metadata["name"],
            "job-name": metadata["name"],
            "batch.kubernetes.io/controller-uid": metadata["uid"],
            "controller-uid": metadata["uid"],
        }
        for _ in range(count):
            name = f"{metadata['name']}-{random_suffix()}"
            await self._cluster.client.create(pod_of(job, spec["template"], name, labels))

    def _status(self, job: Manifest, pods: list[PodView], outcome: Manifest | None) -> Manifest:
        before, now = job.get("status") or {}, self._cluster.now()
        suspended = bool(job["spec"].get("suspend"))
        active = 0 if outcome else sum(pod.active for pod in pods)
        counts = {
            "active": active,
            "succeeded": sum(pod.phase == "Succeeded" for pod in pods),
            "failed": failures(job, pods),
        }
        ready = 0 if outcome else sum(pod.ready for pod in pods)
        wanted = _outcome_conditions(outcome)
        if suspended and not outcome:
            wanted.append(condition("Suspended", True, "JobSuspended", "Job suspended"))
        elif any(c["type"] == "Suspended" for c in before.get("conditions", [])):
            wanted.append(condition("Suspended", False, "JobResumed", "Job resumed"))
        status: Manifest = {key: count for key, count in counts.items() if count}
        status |= {"ready": ready, "terminating": 0, "uncountedTerminatedPods": {}}
        if not suspended or outcome:
            status["startTime"] = before.get("startTime") or timestamp(now)
        if wanted:
            status["conditions"] = conditions(before.get("conditions"), wanted, now)
        if outcome and outcome["type"] == "Complete":
            status["completionTime"] = timestamp(now)
        return status

    def _next(self, job: Manifest, status: Manifest) -> Result | None:
        job = {**job, "status": status}
        finished = finish_time(job)
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        moment = self._deadline(job)
        if finished is not None:
            moment = None if ttl is None else finished + timedelta(seconds=ttl)
        return None if moment is None else self._at(moment)

    def _at(self, moment: datetime) -> Result:
        left = (moment - self._cluster.now()).total_seconds()
        return Result(requeue_after=max(left, 0) + 0.05)

    async def _expire(self, job: Manifest, request: Request, finished: datetime) -> Result | None:
        """Delete a finished job once its ttlSecondsAfterFinished are over."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        moment = finished + timedelta(seconds=ttl)
        if self._cluster.now() < moment:
            return self._at(moment)
        entry: Entry | None = self._cluster.cache.entry(
            JOB, request.name, namespace=request.namespace
        )
        if entry is not None:
            await self._cluster.delete(JOB, entry)
        return None


def needed(spec: Manifest) -> int:
    """How many Pods have to succeed; without `completions` the first one settles it."""
    return int(spec.get("completions") or 1)


def failures(job: Manifest, pods: list[PodView]) -> int:
    """How many Pods have failed: also those that were deleted before they could end.

    The job controller keeps such Pods by a finalizer until it has counted them; here they are what is
    missing from the count of the last status. A Job that is suspended deletes its Pods itself.
    """
    before = job.get("status") or {}
    failed = sum(p.phase == "Failed" or (p.deleting and p.phase != "Succeeded") for p in pods)
    if job["spec"].get("suspend") or any(
        c["type"] == "Suspended" and c["status"] == "True" for c in before.get("conditions", [])
    ):
        return failed
    active = int(before.get("active", 0))
    ended = int(before.get("succeeded", 0)) + int(before.get("failed", 0))
    gone = min(active, max(active + ended - len(pods), 0))
    return max(failed + gone, int(before.get("failed", 0)))


def missing(spec: Manifest, pods: list[PodView]) -> int:
    """How many Pods to create now: never more than MOST_PODS in all, those that have ended included."""
    succeeded = sum(pod.phase == "Succeeded" for pod in pods)
    active = sum(pod.active for pod in pods)
    wanted = int(spec.get("parallelism", 1))
    if spec.get("completions") is not None:
        wanted = min(wanted, needed(spec) - succeeded)
    elif succeeded:
        wanted = 0
    return max(min(wanted - active, MOST_PODS - len(pods)), 0)


def finish_time(job: Manifest) -> datetime | None:
    """When the job became Complete or Failed."""
    for item in (job.get("status") or {}).get("conditions", []):
        if item["type"] in ("Complete", "Failed") and item["status"] == "True":
            return parse_timestamp(item["lastTransitionTime"])
    return None


def _outcome_conditions(outcome: Manifest | None) -> list[Manifest]:
    """Return the criterion first, as the API server requires since 1.31, then the outcome."""
    if outcome is None:
        return []
    first = "SuccessCriteriaMet" if outcome["type"] == "Complete" else "FailureTarget"
    return [{**outcome, "type": first}, outcome]
