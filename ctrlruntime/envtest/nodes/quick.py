"""Workloads without Pods: ready by one status write each, for measurements at scale."""

from __future__ import annotations

from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.daemonsets import daemon_status
from ctrlruntime.envtest.nodes.deployments import deployment_conditions
from ctrlruntime.envtest.nodes.kinds import DAEMON_SET, DEPLOYMENT, JOB, STATEFUL_SET, Manifest
from ctrlruntime.envtest.nodes.podshape import fails_to_pull, template_hash
from ctrlruntime.envtest.nodes.statefulsets import revision_of
from ctrlruntime.envtest.nodes.status import condition, conditions, timestamp, without_zeros
from ctrlruntime.queue import Request


class QuickDeployment(OfCluster):
    """A Deployment with all its replicas at once, or none if its image does not exist."""

    async def reconcile(self, request: Request) -> Result | None:
        deployment = self._cluster.live(DEPLOYMENT, request)
        if deployment is not None:
            await self._cluster.set_status(DEPLOYMENT, deployment, self._status(deployment))
        return None

    def _status(self, deployment: Manifest) -> Manifest:
        metadata, spec = deployment["metadata"], deployment["spec"]
        replicas, failing = spec.get("replicas", 1), fails_to_pull(spec["template"])
        ready = 0 if failing else replicas
        counts = {
            "observedGeneration": metadata["generation"],
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": replicas - ready,
        }
        name = f"{metadata['name']}-{template_hash(spec['template'])}"
        now = self._cluster.now()
        wanted = deployment_conditions(deployment, now, ready, not failing, name)
        return without_zeros(counts) | {"conditions": wanted}


class QuickStatefulSet(OfCluster):
    """A StatefulSet with all its replicas at once; no claims are made."""

    async def reconcile(self, request: Request) -> Result | None:
        stateful_set = self._cluster.live(STATEFUL_SET, request)
        if stateful_set is None:
            return None
        spec = stateful_set["spec"]
        replicas, revision = spec.get("replicas", 1), revision_of(stateful_set)
        ready = 0 if fails_to_pull(spec["template"]) else replicas
        status: Manifest = {
            "observedGeneration": stateful_set["metadata"]["generation"],
            "replicas": replicas,
            "availableReplicas": ready,
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        counts = {
            "readyReplicas": ready,
            "currentReplicas": replicas,
            "updatedReplicas": replicas,
        }
        await self._cluster.set_status(STATEFUL_SET, stateful_set, status | without_zeros(counts))
        return None


class QuickDaemonSet(OfCluster):
    """A DaemonSet that is ready at once."""

    async def reconcile(self, request: Request) -> Result | None:
        daemon_set = self._cluster.live(DAEMON_SET, request)
        if daemon_set is not None:
            ready = 0 if fails_to_pull(daemon_set["spec"]["template"]) else 1
            status = daemon_status(daemon_set, 1, 1, ready)
            await self._cluster.set_status(DAEMON_SET, daemon_set, status)
        return None


class QuickJob(OfCluster):
    """A Job that completes at once."""

    async def reconcile(self, request: Request) -> Result | None:
        job = self._cluster.live(JOB, request)
        if job is None or job["spec"].get("suspend") or (job.get("status") or {}).get("conditions"):
            return None
        now = self._cluster.now()
        reason = "CompletionsReached"
        wanted = [
            condition("SuccessCriteriaMet", True, reason),
            condition("Complete", True, reason),
        ]
        status: Manifest = {
            "startTime": timestamp(now),
            "completionTime": timestamp(now),
            "succeeded": job["spec"].get("completions") or 1,
            "ready": 0,
            "terminating": 0,
            "uncountedTerminatedPods": {},
            "conditions": conditions(None, wanted, now),
        }
        await self._cluster.set_status(JOB, job, status)
        return None
