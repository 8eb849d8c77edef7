"""Pods: scheduled, started, ready, finished, deleted; by simulation or as local processes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, Conflict, NotFound
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes import podstatus
from ctrlruntime.envtest.nodes.cluster import Cluster
from ctrlruntime.envtest.nodes.containers import CannotStart, Command, command_of, references
from ctrlruntime.envtest.nodes.kinds import (
    CLAIM,
    CONFIG_MAP,
    NODE_NAME,
    POD,
    RUN_LOCAL,
    RUN_SECONDS,
    SECRET,
    Manifest,
)
from ctrlruntime.envtest.nodes.local import LocalRunner, PodRun
from ctrlruntime.envtest.nodes.podstatus import Exit
from ctrlruntime.envtest.nodes.status import parse_timestamp
from ctrlruntime.envtest.nodes.volumes import Files, volume_files, volume_references
from ctrlruntime.queue import Request

FINISHED = ("Succeeded", "Failed")
RETRY_CONFIG = 0.5
"""Seconds until a Pod that lacks a ConfigMap or Secret is looked at again."""
CONFIG_ERROR = "CreateContainerConfigError"


class PodReconciler:
    """Scheduler and kubelet of the one node."""

    def __init__(self, cluster: Cluster, runner: LocalRunner | None = None) -> None:
        self._cluster = cluster
        self._runner = runner

    async def reconcile(self, request: Request) -> Result | None:
        entry = self._cluster.cache.entry(POD, request.name, namespace=request.namespace)
        await self._stop_old(request, entry)
        if entry is None:
            self._cluster.addresses.release((request.namespace, request.name))
            return None
        if entry.deletion_timestamp is not None:
            if not entry.finalizers:
                await self._cluster.delete(POD, entry, now=True)
            return None
        pod = entry.decode()
        if pod["spec"].get("nodeName", NODE_NAME) != NODE_NAME:
            return None
        if phase_of(pod) in FINISHED:
            return None
        if not pod["spec"].get("nodeName"):
            if missing := self._missing_claims(pod):
                message = f'persistentvolumeclaim "{missing[0]}" not found'
                status = podstatus.unschedulable(pod, self._cluster.now(), message)
                await self._cluster.set_status(POD, pod, status)
                return Result(requeue_after=RETRY_CONFIG)
            if not await self._bind(pod):
                return None
        if self._runs_here(pod):
            return await self._run(pod)
        return await self._simulate(pod)

    async def _stop_old(self, request: Request, entry: Entry | None) -> None:
        """End the processes of a Pod that is gone, replaced, being deleted or finished."""
        if self._runner is None:
            return
        key = (request.namespace, request.name)
        run = self._runner.run(key)
        if run is None:
            return
        if entry is None or entry.uid != run.uid or phase_of(entry.decode()) in FINISHED:
            await self._runner.stop(key, grace=0)
        elif entry.deletion_timestamp is not None:
            await self._runner.stop(key, grace=_grace(entry.decode()))

    def _runs_here(self, pod: Manifest) -> bool:
        annotations = pod["metadata"].get("annotations") or {}
        return self._runner is not None and annotations.get(RUN_LOCAL) == "true"

    def _missing_claims(self, pod: Manifest) -> list[str]:
        """Names of claims that the Pod mounts and that do not exist."""
        namespace = pod["metadata"]["namespace"]
        return [
            name
            for volume in pod["spec"].get("volumes") or ()
            if (name := (volume.get("persistentVolumeClaim") or {}).get("claimName"))
            and self._cluster.cache.entry(CLAIM, name, namespace=namespace) is None
        ]

    async def _bind(self, pod: Manifest) -> bool:
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
        }
        try:
            await self._cluster.client.create_subresource(
                POD, metadata["name"], "binding", binding, namespace=metadata["namespace"]
            )
        except (Conflict, NotFound):
            return False
        pod["spec"]["nodeName"] = NODE_NAME
        return True

    # By simulation

    async def _simulate(self, pod: Manifest) -> Result | None:
        now, word = self._cluster.now(), podstatus.simulated(pod)
        if phase_of(pod) == "Pending":
            wait = self._start_delay(pod)
            if wait > 0:
                return Result(requeue_after=wait)
        if word in ("ImagePullBackOff", "CrashLoopBackOff"):
            await self._write(pod, podstatus.waiting(pod, now, word))
            return None
        if podstatus.runs_to_completion(pod):
            return await self._complete(pod, word)
        await self._write(pod, podstatus.running(pod, now, ready=word != "Unready"))
        return None

    def _start_delay(self, pod: Manifest) -> float:
        created = parse_timestamp(pod["metadata"]["creationTimestamp"])
        due = created + timedelta(seconds=self._cluster.options.start_delay)
        return (due - self._cluster.now()).total_seconds()

    async def _complete(self, pod: Manifest, word: str) -> Result | None:
        now = self._cluster.now()
        if phase_of(pod) == "Pending":
            await self._write(pod, podstatus.running(pod, now))
            return None
        if word == "Hang":
            return None
        annotations = pod["metadata"].get("annotations") or {}
        seconds = float(annotations.get(RUN_SECONDS, "0"))
        started = parse_timestamp(pod["status"]["startTime"])
        left = (started + timedelta(seconds=seconds) - now).total_seconds()
        if left > 0:
            return Result(requeue_after=left)
        end = Exit(code=1 if word == "Failed" else 0)
        exits = {c["name"]: end for c in pod["spec"]["containers"]}
        await self._write(pod, podstatus.finished(pod, now, exits))
        return None

    # As local processes

    async def _run(self, pod: Manifest) -> Result | None:
        assert self._runner is not None  # noqa: S101 - _runs_here has seen to it
        now = self._cluster.now()
        run = self._runner.run(_key(pod))
        if run is None:
            if phase_of(pod) == "Running" and podstatus.runs_to_completion(pod):
                # Its process went with an earlier run of the nodes and must not start twice.
                lost = Exit(code=137, message="the node was restarted")
                exits = {c["name"]: lost for c in pod["spec"]["containers"]}
                await self._write(pod, podstatus.finished(pod, now, exits))
                return None
            try:
                run = self._runner.start(pod, *await self._needs(pod))
            except CannotStart as error:
                await self._write(pod, podstatus.waiting(pod, now, CONFIG_ERROR, str(error)))
                return Result(requeue_after=RETRY_CONFIG)
        if run.exits is not None:
            await self._write(pod, podstatus.finished(pod, now, run.exits))
            return None
        left = _time_left(pod, now)
        if left is not None and left <= 0:
            exits = await self._runner.end(_key(pod), _grace(pod))
            await self._write(pod, podstatus.overdue(pod, self._cluster.now(), exits))
            return None
        await self._write(pod, _with_restarts(podstatus.running(pod, now), run))
        return None if left is None else Result(requeue_after=left)

    async def _needs(self, pod: Manifest) -> tuple[dict[str, Command], dict[str, Files]]:
        wanted = sorted(references(pod) | volume_references(pod))
        found = await asyncio.gather(
            *(self._source(kind, name, pod["metadata"]["namespace"]) for kind, name in wanted)
        )
        sources = dict(zip(wanted, found, strict=True))
        address = self._cluster.addresses.of(pod)
        commands = {
            c["name"]: command_of(pod, c, sources, address=address)
            for c in pod["spec"]["containers"]
        }
        return commands, volume_files(pod, sources)

    async def _source(self, kind: str, name: str, namespace: str) -> Manifest | None:
        gvk = SECRET if kind == "Secret" else CONFIG_MAP
        try:
            return await self._cluster.client.live.get(gvk, name, namespace=namespace)
        except NotFound:
            return None
        except APIError as error:
            raise CannotStart(f"{kind} {name!r} cannot be read: {error}") from error

    async def _write(self, pod: Manifest, status: Manifest) -> None:
        addressed = podstatus.with_address(status, self._cluster.addresses.of(pod))
        await self._cluster.set_status(POD, pod, addressed)


def phase_of(pod: Manifest) -> str:
    """Return the phase; Pending where the status is still empty."""
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _key(pod: Manifest) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _grace(pod: Manifest) -> float:
    """Seconds between SIGTERM and SIGKILL: from the deletion, or else the Pod."""
    asked = pod["metadata"].get("deletionGracePeriodSeconds")
    own = pod["spec"].get("terminationGracePeriodSeconds", 30)
    return float(own if asked is None else asked)


def _time_left(pod: Manifest, now: datetime) -> float | None:
    """Seconds until activeDeadlineSeconds are over; None without."""
    seconds = pod["spec"].get("activeDeadlineSeconds")
    if seconds is None:
        return None
    text = (pod.get("status") or {}).get("startTime")
    began = now if text is None else parse_timestamp(text)
    return (began + timedelta(seconds=seconds) - now).total_seconds()


def _with_restarts(status: Manifest, run: PodRun) -> Manifest:
    for container in status["containerStatuses"]:
        container["restartCount"] = run.containers[container["name"]].restarts
    return status
