"""A hook that is a Job in the instance's cluster: one Job a step, made anew only for a new attempt."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from apis.cloud import GROUP, JobHook
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest
from ctrlruntime.client import AlreadyExists, Client, Conflict, NotFound
from ctrlruntime.gate import Permit
from ctrlruntime.resources import delete_permitted
from ctrlruntime.resources.readiness import Phase, assess
from internal import scratch
from internal.cloud.keys import instance_key
from internal.cloud.tasks.kubernetes.applying import UPGRADES
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.task import TaskError

JOB: Final = BUILTIN[GroupVersionKind("batch", "v1", "Job")]
ATTEMPT: Final = f"{GROUP}/attempt"
"""Annotation of the Job: the attempt of the upgrade that made it."""
STEP_UID: Final = f"{GROUP}/upgrade-uid"
"""Annotation of the Job: the UpgradeInstanceTask that made it."""
CHANGE: Final = f"{GROUP}/change-id"
"""Annotation of the Job: the change of version that it is a step of."""
_LONGEST: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """Runs the Jobs of one upgrade."""

    client: Client
    owner: str
    """Namespace of the instance."""
    instance: str
    """Name of the instance."""
    namespace: str
    change: str
    """Identifies the change of version."""
    uid: str
    """UID of the UpgradeInstanceTask that carries it out."""
    attempt: int
    places: Places
    pause: Callable[[], Awaitable[None]]
    """Between two looks."""
    expired: Callable[[], bool]
    """Whether the time of the step is over."""

    async def run(self, step: str, hook: JobHook, key: str) -> None:
        """Run the Job of a step. `key` identifies it: another key is another Job.

        Raises TaskError if the Job fails, or does not end in time.
        """
        manifest = self._manifest(step, hook, key)
        name = manifest["metadata"]["name"]
        while True:
            job = await self._present(manifest)
            readiness = assess(job)
            if readiness.phase is Phase.READY:
                return
            if readiness.phase is Phase.FAILED and not self._older(job):
                raise TaskError(
                    f"{step}: {readiness.reason}; look at `kubectl logs job/{name} -n"
                    f" {self.namespace}` in the instance's cluster"
                )
            if readiness.phase is Phase.FAILED:
                await self._delete(job)
            if self.expired():
                raise TaskError(f"{step}: job {name} has not completed in time")
            await self.pause()

    async def _present(self, manifest: Manifest) -> Manifest:
        """Return the Job, made if there is none."""
        name = manifest["metadata"]["name"]
        try:
            found = await self.client.get(JOB, name, namespace=self.namespace)
        except NotFound:
            try:
                return await self.client.create(manifest)
            except AlreadyExists:
                found = await self.client.get(JOB, name, namespace=self.namespace)
        marks = _annotations(found)
        if marks.get(CHANGE, marks.get(STEP_UID)) != self.change:
            raise TaskError(
                f"job {self.namespace}/{name} is there and is not this upgrade's: delete it"
            )
        return found

    def _older(self, job: Manifest) -> bool:
        """Whether an earlier attempt made it, or another UpgradeInstanceTask, so that it may be made anew."""
        if _annotations(job).get(STEP_UID) != self.uid:
            return True
        made = str(_annotations(job).get(ATTEMPT, ""))
        return not made.isdecimal() or int(made) < self.attempt

    async def _delete(self, job: Manifest) -> None:
        metadata = job["metadata"]
        permit = Permit.scratch(
            scratch.UPGRADE_STEP,
            metadata["name"],
            namespace=self.namespace,
            uid=metadata["uid"],
        )
        try:
            await delete_permitted(self.client, JOB, permit, propagation="Background")
        except (NotFound, Conflict):
            return

    def _manifest(self, step: str, hook: JobHook, key: str) -> Manifest:
        digest = hashlib.sha256(key.encode()).hexdigest()[:8]
        name = f"{instance_key(self.owner, self.instance, limit=_LONGEST)}-{step}-{digest}"
        container: dict[str, Any] = {"name": step, "image": self.places.fill(hook.image)}
        if hook.command:
            container["command"] = self.places.fill_data(hook.command, keep_unknown=True)
        if hook.env:
            env = self.places.fill_data(hook.env, keep_unknown=True)
            container["env"] = [{"name": key, "value": env[key]} for key in sorted(env)]
        pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if hook.service_account_name:
            pod["serviceAccountName"] = hook.service_account_name
        own = {CHANGE: self.change, STEP_UID: self.uid, ATTEMPT: str(self.attempt)}
        marks = {**own, **hook.pod_annotations}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {UPGRADES: instance_key(self.owner, self.instance)},
                "annotations": marks,
            },
            "spec": {
                "backoffLimit": 0,
                "template": {"metadata": {"annotations": hook.pod_annotations}, "spec": pod},
            },
        }


def _annotations(obj: Manifest) -> dict[str, Any]:
    return obj["metadata"].get("annotations") or {}
