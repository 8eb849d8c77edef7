"""Runs as Kubernetes Jobs: the API server keeps them, and the manager may come and go."""

import asyncio
import base64
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.cache.cache import Cache, InformerHandle
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, GenericEvent, UpdateEvent
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
)
from ctrlruntime.clock import utc_now
from ctrlruntime.gate import Permit
from ctrlruntime.resources import RemotePlacement, delete_permitted
from internal import scratch
from internal.cloud import labels as label_keys
from internal.cloud.runs.files import SEAL_KEY
from internal.cloud.runs.jobs.manifest import (
    JOB,
    POD,
    SECRET,
    JobOptions,
    edited_input,
    edited_metadata,
    input_of,
    is_job_of,
    job_of,
    owner_from,
)
from internal.cloud.runs.jobs.status import (
    finished_by_now,
    is_over,
    is_sealed,
    is_suspended,
    run_of,
)
from internal.cloud.runs.provider import Run, RunName, RunOwner, RunRefused, RunRequest
from internal.cloud.runs.sealing import CannotOpen, new_key, open_sealed
from internal.cloud.runs.wire import BadInput, encode_input

__all__ = ["JobRuns"]

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LARGEST_INPUT: Final = 900_000
"""Bytes; a Secret holds 1 MiB with everything around."""
EVENT: Final = GroupVersionKind("", "v1", "Event")
_REFUSALS: Final = {"involvedObject.kind": "Job", "reason": "FailedCreate"}
"""Events of Jobs whose Pods are refused: by a quota, an admission policy, or for want of an account."""
_REFUSALS_SECONDS: Final = 5.0
"""How long a start waits for these events, which an account may lack the right to."""
_LONGEST_REFUSAL: Final = 1000
_NOW: Final = 1
"""Seconds of activeDeadlineSeconds of a Job that is to end: the least there is."""


class JobRuns:
    """Each run is a Job of its name in the namespace of the object that drives it, which owns it.

    Reads go to the server, so that what is returned is never older than what was written; nothing is
    read while nothing changes, given a `cache`: its watches of Jobs, of Pods, and of the events of Pods
    that could not be created say when to look. With a
    `placement` the Jobs are in another cluster than the objects: that of the client and the cache.
    """

    def __init__(
        self,
        client: Client,
        options: JobOptions,
        cache: Cache | None = None,
        clock: Callable[[], datetime] = utc_now,
        placement: RemotePlacement | None = None,
    ) -> None:
        self._client = client
        self._placement = placement
        self._options = options
        self._cache = cache
        self._now = clock
        self._handles: list[InformerHandle] = []
        self._refusals: InformerHandle | None = None
        self._edited: set[tuple[str, str]] = set()
        """Secrets with an input that were changed since the run was looked at."""

    async def start(self, request: RunRequest) -> Run:
        """Raise Conflict while an earlier Job of that name is still being deleted."""
        data = _checked_input(request)
        try:
            job = await self._client.create(
                job_of(request, self._options, self._placement),
                field_manager=label_keys.FIELD_MANAGER,
            )
        except AlreadyExists:
            job = await self._adopted(request)
        except (Invalid, BadRequest) as error:
            raise RunRefused(
                f"the API server refuses the Job of run {request.run_id}; look at the options of "
                f"runs: {error.message}"
            ) from error
        if not finished_by_now(job):
            await self._give_input(request, job, data)
        return await self._run(job)

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        job = await self._job(owner, run_id)
        return None if job is None else await self._run(job)

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        labels = {label_keys.OWNER_UID: owner.uid}
        jobs, pods = await asyncio.gather(
            self._client.list(JOB, owner.namespace, labels=labels),
            self._client.list(POD, owner.namespace, labels=labels),
        )
        runs = [await self._reported(job, _pods_of(job, pods)) for job in jobs]
        return sorted(runs, key=lambda run: (str(run.created_at), run.run_id))

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        """By the Job's deadline: it ends its Pods, stays, and never starts another."""
        job = await self._job(owner, run_id)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        if finished_by_now(job) or is_over(job, await self._pods(job)):
            return
        if label_keys.CANCELLED in (job["metadata"].get("annotations") or {}):
            return
        patch = {
            "metadata": {
                "uid": job["metadata"]["uid"],
                "annotations": {label_keys.CANCELLED: self._now().isoformat(timespec="seconds")},
            },
            "spec": {"activeDeadlineSeconds": _NOW},
        }
        try:
            await self._client.patch(
                JOB,
                run_id,
                patch,
                namespace=owner.namespace,
                field_manager=label_keys.FIELD_MANAGER,
            )
        except (NotFound, Conflict):  # gone meanwhile, or another one by now
            return

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        """Delete the Job; `get` returns the run until its Pod has ended."""
        job = await self._job(owner, run_id)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return
        uid = job["metadata"]["uid"]
        permit = Permit.scratch(scratch.RUN, run_id, namespace=owner.namespace, uid=uid)
        try:
            await delete_permitted(self._client, JOB, permit, propagation="Foreground")
        except (NotFound, Conflict):
            return

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        """Return True with a cache: what becomes of Jobs of runs is watched, metadata alone."""
        if self._cache is None:
            return False

        def notify(event: Event) -> None:
            for owner in _owners_of(event):
                changed(owner)

        for kind in (JOB, POD):
            handle = self._cache.declare(kind, labels=label_keys.RUN_ID, metadata_only=True)
            handle.informer.add_handler(notify)
            self._handles.append(handle)
        jobs = self._handles[0].informer.store

        def note_input(event: Event) -> None:
            if not isinstance(event, UpdateEvent | DeleteEvent):
                return
            job = jobs.get(event.old.name, namespace=event.old.namespace)
            owner = None if job is None else owner_from(job.decode()["metadata"])
            if owner is not None:
                self._edited.add(event.old.key)
                changed(owner)

        handle = self._cache.declare(SECRET, labels=label_keys.RUN_ID, metadata_only=True)
        handle.informer.add_handler(note_input)
        self._handles.append(handle)

        def note_refusal(event: Event) -> None:
            if not isinstance(event, CreateEvent | UpdateEvent):
                return
            job = jobs.get(_job_of(event.new.name), namespace=event.new.namespace)
            owner = None if job is None else owner_from(job.decode()["metadata"])
            if owner is not None:
                changed(owner)

        handle = self._cache.declare(
            EVENT,
            fields=_REFUSALS,
            metadata_only=True,
            optional=True,
            sync_timeout=_REFUSALS_SECONDS,
        )
        handle.informer.add_handler(note_refusal)
        self._handles.append(handle)
        self._refusals = handle
        return True

    async def aclose(self) -> None:
        """End the watches; the client is its owner's to close."""
        for handle in self._handles:
            await handle.release()
        self._handles.clear()
        self._refusals = None

    async def _job(self, owner: RunOwner, run_id: RunName) -> Manifest | None:
        """Return the Job of the run; one of that name with another owner is none."""
        try:
            job = await self._client.get(JOB, run_id, namespace=owner.namespace)
        except NotFound:
            return None
        if not is_job_of(job, owner, run_id):
            return None
        if (owner.namespace, run_id) in self._edited:
            self._edited.discard((owner.namespace, run_id))
            await self._restore_input(job)
        return await self._whole(job, owner)

    async def _restore_input(self, job: Manifest) -> None:
        """Restore what was changed by hand of the metadata of the Secret with the input."""
        namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
        try:
            found = await self._client.get(SECRET, name, namespace=namespace, metadata_only=True)
            if edited := edited_input(found, job, self._placement):
                await self._client.patch(
                    SECRET,
                    name,
                    {"metadata": {"uid": found["metadata"]["uid"], **edited}},
                    namespace=namespace,
                    field_manager=label_keys.FIELD_MANAGER,
                    metadata_only=True,
                )
        except (NotFound, Conflict):  # gone meanwhile, or another one by now
            return

    async def _whole(self, job: Manifest, owner: RunOwner) -> Manifest:
        """Return the Job, after restoring what was changed by hand of its metadata."""
        edited = edited_metadata(job, owner, self._placement)
        if not edited or "deletionTimestamp" in job["metadata"]:
            return job
        metadata = job["metadata"]
        try:
            return dict(
                await self._client.patch(
                    JOB,
                    metadata["name"],
                    {"metadata": {"uid": metadata["uid"], **edited}},
                    namespace=metadata["namespace"],
                    field_manager=label_keys.FIELD_MANAGER,
                )
            )
        except (NotFound, Conflict):  # gone meanwhile, or another one by now
            return job

    async def _adopted(self, request: RunRequest) -> Manifest:
        """Return what was there already: started before, maybe by a manager that is no more."""
        owner, run_id = request.input.owner, request.run_id
        job = await self._client.get(JOB, run_id, namespace=owner.namespace)
        if not is_job_of(job, owner, run_id):
            raise RunRefused(
                f"there is a Job {run_id!r} in namespace {owner.namespace!r} that no run of "
                f"{owner.kind} {owner.name!r} made: delete or rename it, and ask for a retry"
            )
        if "deletionTimestamp" in job["metadata"] and not finished_by_now(job):
            raise Conflict(f"Job {run_id!r} is being deleted; start it again when it is gone")
        return job

    async def _give_input(self, request: RunRequest, job: Manifest, data: str) -> None:
        """After the Job, so that it goes with it; the Pod waits for it."""
        secret = input_of(request, job, data, new_key(), self._placement)
        try:
            await self._client.create(secret, field_manager=label_keys.FIELD_MANAGER)
        except AlreadyExists:
            await self._replace_foreign_input(request, job, secret)

    async def _replace_foreign_input(
        self, request: RunRequest, job: Manifest, secret: Manifest
    ) -> None:
        """Remove leftovers: what an earlier Job of that name left is its garbage; anything else is left alone."""
        namespace, name = request.input.owner.namespace, request.run_id
        found = await self._client.get(SECRET, name, namespace=namespace)
        metadata = found["metadata"]
        if _controller_uid(metadata) == job["metadata"]["uid"]:
            return
        if not _is_ours(found, request.input.owner, name):
            raise RunRefused(
                f"there is a Secret {name!r} in namespace {namespace!r} that no run made: delete or "
                "rename it, and ask for a retry"
            )
        uid = metadata["uid"]
        permit = Permit.scratch(scratch.RUN_INPUT, name, namespace=namespace, uid=uid)
        await delete_permitted(self._client, SECRET, permit)
        await self._client.create(secret, field_manager=label_keys.FIELD_MANAGER)

    async def _run(self, job: Manifest) -> Run:
        return await self._reported(job, await self._pods(job))

    async def _pods(self, job: Manifest) -> Sequence[Manifest]:
        metadata = job["metadata"]
        labels = {label_keys.RUN_ID: metadata["name"]}
        return _pods_of(job, await self._client.list(POD, metadata["namespace"], labels=labels))

    async def _reported(self, job: Manifest, pods: Sequence[Manifest]) -> Run:
        sealed = is_over(job, pods) and is_sealed(pods)
        key = await self._seal_key(job) if sealed else ""

        def unseal(text: str) -> Mapping[str, str]:
            if not key:
                raise CannotOpen(
                    "the key of its secret outputs is gone, with the Secret of its input"
                )
            return open_sealed(text, key, job["metadata"]["name"])

        return run_of(job, pods, unseal, await self._refusal(job, pods))

    async def _refusal(self, job: Manifest, pods: Sequence[Manifest]) -> str:
        """Return why the cluster creates no Pod for a Job, as its last event has it; "" where nothing is known."""
        metadata = job["metadata"]
        if pods or is_over(job, pods) or is_suspended(job) or not self._may_be_refused(metadata):
            return ""
        fields = {**_REFUSALS, "involvedObject.uid": metadata["uid"]}
        try:
            events = await self._client.list(EVENT, metadata["namespace"], fields=fields)
        except Forbidden:  # roles from before; the Job itself is named instead
            return ""
        last = max(events, key=_event_time, default={})
        return str(last.get("message") or "").removeprefix("Error creating: ")[:_LONGEST_REFUSAL]

    def _may_be_refused(self, metadata: Manifest) -> bool:
        """Return whether there is an event of the Job by the watch; without a watch there may be one."""
        if self._refusals is None:
            return True
        entries = self._refusals.informer.store.list(metadata["namespace"])
        return any(_job_of(entry.name) == metadata["name"] for entry in entries)

    async def _seal_key(self, job: Manifest) -> str:
        metadata = job["metadata"]
        try:
            found = await self._client.get(
                SECRET, metadata["name"], namespace=metadata["namespace"]
            )
        except NotFound:
            return ""
        return base64.b64decode((found.get("data") or {}).get(SEAL_KEY, "")).decode()


def _job_of(event_name: str) -> str:
    """Return the name of the object that an event is about: the event's is that, a dot and a hash."""
    return event_name.rpartition(".")[0]


def _event_time(event: Manifest) -> str:
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )


def _checked_input(request: RunRequest) -> str:
    if _NAME.fullmatch(request.run_id) is None:
        raise RunRefused(f"{request.run_id!r} is no name that a Job and its Pods can have")
    try:
        data = encode_input(request.input)
    except BadInput as error:
        raise RunRefused(str(error)) from error
    if len(data) > _LARGEST_INPUT:
        raise RunRefused(
            f"the input of run {request.run_id} has {len(data)} bytes; a Secret holds "
            f"{_LARGEST_INPUT}: shorten the spec"
        )
    return data.decode()


def _is_ours(obj: Manifest, owner: RunOwner, run_id: RunName) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return labels.get(label_keys.OWNER_UID) == owner.uid and labels.get(label_keys.RUN_ID) == run_id


def _pods_of(job: Manifest, pods: Sequence[Manifest]) -> list[Manifest]:
    uid = job["metadata"]["uid"]
    return [pod for pod in pods if _controller_uid(pod["metadata"]) == uid]


def _controller_uid(metadata: Manifest) -> str:
    for reference in metadata.get("ownerReferences") or []:
        if reference.get("controller"):
            return str(reference["uid"])
    return ""


def _owners_of(event: Event) -> list[RunOwner]:
    """Return whom an event concerns: the owner that is recorded, and the one before an edit."""
    if isinstance(event, GenericEvent):
        return []
    entries = [] if isinstance(event, DeleteEvent) else [event.new]
    entries += [] if isinstance(event, CreateEvent) else [event.old]
    found: list[RunOwner] = []
    for entry in entries:
        owner = owner_from(entry.decode()["metadata"])
        if owner is not None and owner not in found:
            found.append(owner)
    return found
