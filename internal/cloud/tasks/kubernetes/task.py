"""The task `kubernetes`: what runs in an instance's cluster matches its bundle."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apis.cloud import Cluster, InstanceKubernetesSpec, TaskOperation
from apis.fleet.labels import DATA_PLANE
from apis.references import SecretKeyRef
from ctrlruntime.client import Client, NotFound
from internal.cloud.labels import DATABASE_RESTORED
from internal.cloud.tasks.kubernetes.access import (
    cluster,
    identity_of,
    insecurity_of,
    kubeconfig_ref,
)
from internal.cloud.tasks.kubernetes.applying import Applied
from internal.cloud.tasks.kubernetes.changes import (
    MIGRATED,
    ChangeRecord,
    hold_message,
    manifest_of,
    migrated_hold,
    record_name,
    record_of,
    undone,
)
from internal.cloud.tasks.kubernetes.cluster_record import (
    CLUSTER,
    check_cluster,
    is_elsewhere,
    is_left,
    recorded_ref,
    reports_of,
    written_ref,
)
from internal.cloud.tasks.kubernetes.documents import Document, ObjectRef
from internal.cloud.tasks.kubernetes.inventory import FIELD_MANAGER
from internal.cloud.tasks.kubernetes.rendering import Rendering, render
from internal.cloud.tasks.kubernetes.rollout import CONFIG_MAP, PollOptions, Rollout
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.task import (
    VERSION,
    TaskContext,
    TaskError,
    TaskHeld,
    TaskRejected,
    TaskResult,
)

_SHOWN = 3


class KubernetesTask:
    """Applies the bundle, prunes what left it, and waits until all is ready."""

    name = "kubernetes"

    def __init__(self, *, poll: float = 2.0) -> None:
        """`poll`: seconds between two looks at objects that are not ready."""
        self._poll = poll

    async def run(self, context: TaskContext) -> TaskResult:
        """See :class:`internal.cloud.tasks.task.Task`."""
        spec = InstanceKubernetesSpec.model_validate(context.input.spec)
        teardown = context.input.operation is TaskOperation.TEARDOWN
        ref = kubeconfig_ref(spec.cluster.kubeconfig_from, spec.outputs_secret_name)
        if teardown:
            return await self._remove(context, spec.cluster, ref)
        documents = await documents_of(context, Workload.of(spec))
        async with cluster(context, ref) as client:
            found = await identity_of(client)
            check_cluster(context.input, found, teardown=False)
            rollout = rollout_of(context, client, spec.cluster, poll=self._poll)
            change = await _check_data(context, client, spec, found)
            record = {CLUSTER: found, **written_ref(ref)} if found else {}
            for name, text in reports_of({**record, VERSION: spec.version}).items():
                context.keep(name, text)
            applied = await rollout.apply(documents)
            await _close_undone(context, client, spec, change)
        done = summary(applied, len(documents), teardown=False)
        return TaskResult(message=done + insecurity_of(client), record=record)

    async def _remove(
        self, context: TaskContext, spec: Cluster, ref: SecretKeyRef | None
    ) -> TaskResult:
        """Delete the workload where it was applied: by the kubeconfig of the spec, else by the recorded one.

        Raises TaskError, and TaskRejected where neither opens that cluster, until a person decides.
        """
        given = context.input
        recorded = recorded_ref(given.record)
        if ref is None and recorded is None and CLUSTER not in given.record:
            if given.built:
                raise TaskRejected(
                    "the workload was applied before, and there is no kubeconfig now, so nothing was deleted:"
                    " set spec.cluster.kubeconfigFrom of the Instance, or set its spec.deletionPolicy to"
                    " Orphan to leave everything where it is"
                )
            return TaskResult(message="There was never a cluster, so nothing has to go.")
        if is_left(given):
            return TaskResult(message="The workload is left where it is, as approved.")
        found, there = "", False
        ways = [ref, recorded] if ref != recorded else [ref]
        for each in filter(None, ways):
            try:
                async with cluster(context, each) as client:
                    found = await identity_of(client)
                    there = not is_elsewhere(given, found)
                    if there:
                        rollout = rollout_of(context, client, spec, poll=self._poll)
                        applied = await rollout.remove()
                        return TaskResult(message=summary(applied, 0, teardown=True))
            except TaskError:
                if there or each == recorded or recorded is None:
                    raise
        check_cluster(given, found, teardown=True)
        raise TaskRejected("no kubeconfig: set spec.cluster.kubeconfigFrom of the Instance")


async def _check_data(
    context: TaskContext, client: Client, spec: InstanceKubernetesSpec, found: str
) -> ChangeRecord | None:
    """Return what is recorded of a change of version, here or in the cluster that the workload leaves.

    `found`: the id of the cluster. Raises TaskRejected if the data were migrated to another version than is to be
    rolled out, unless a person confirmed that the ones from before are restored.
    """
    given = context.input
    record = await _recorded_change(context, client, spec)
    former = recorded_ref(given.record)
    if record is None and former is not None and is_elsewhere(given, found):
        with contextlib.suppress(TaskError):  # a person left it: it may be gone
            async with cluster(context, former) as left:
                if not is_elsewhere(given, await identity_of(left)):
                    record = await _recorded_change(context, left, spec)
    restored = given.annotations.get(DATABASE_RESTORED, "")
    if record is not None and migrated_hold(record, spec.version, restored):
        place = given.owner.namespace
        raise TaskHeld(hold_message(record, spec.version, given.instance, place), MIGRATED)
    return record


async def _recorded_change(
    context: TaskContext, client: Client, spec: InstanceKubernetesSpec
) -> ChangeRecord | None:
    name, namespace = record_name(context.input.key), spec.cluster.namespace
    try:
        return record_of(await client.get(CONFIG_MAP, name, namespace=namespace))
    except NotFound:
        return None


async def _close_undone(
    context: TaskContext,
    client: Client,
    spec: InstanceKubernetesSpec,
    record: ChangeRecord | None,
) -> None:
    """Record that a change of version is undone: the version from before it is rolled out."""
    closed = undone(record, spec.version)
    if closed is not None:
        manifest = manifest_of(closed, context.input.key, spec.cluster.namespace)
        await client.apply(manifest, field_manager=FIELD_MANAGER, force=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is rendered into a bundle."""

    version: str
    domain: str | None
    cluster: Cluster
    outputs: Mapping[str, str]

    @classmethod
    def of(cls, spec: InstanceKubernetesSpec) -> "Workload":
        """Return the workload of a spec."""
        return cls(
            version=spec.version, domain=spec.domain, cluster=spec.cluster, outputs=spec.outputs
        )

    def places(self, instance: str) -> Places:
        """Return what its texts may refer to."""
        values = {"instance": instance, "version": self.version, "domain": self.domain}
        return Places(values=values, outputs=self.outputs)


async def documents_of(context: TaskContext, workload: Workload) -> list[Document]:
    """Return the manifests of a workload. Raises TaskRejected for what is wrong with the bundle."""
    folder = context.folder / "rendering"
    folder.mkdir()
    bundle = workload.cluster.bundle
    return await render(
        Rendering(
            bundle=bundle,
            values_files=workload.cluster.values.values_files,
            files=_files(context, bundle.config_map_names),
            release=context.input.instance,
            namespace=workload.cluster.namespace,
            folder=folder,
            places=workload.places(context.input.instance),
        )
    )


def _files(context: TaskContext, names: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        for key, text in context.config_map(name).items():
            if key in found:
                raise TaskRejected(f"two ConfigMaps of the bundle have the key {key}")
            found[key] = text
    return found


def rollout_of(context: TaskContext, client: Client, spec: Cluster, *, poll: float) -> Rollout:
    """Return the roll-out of an instance's bundle.

    What it applies has the label of the data plane: on the hub, the stack of that one sees it by the label alone.
    """
    data_plane = context.input.data_plane
    return Rollout(
        client=client,
        owner=f"{context.input.owner.namespace}/{context.input.instance}",
        key=context.input.key,
        namespace=spec.namespace,
        run_id=context.input.run_id,
        ready=PollOptions(timeout=spec.ready_timeout_seconds, interval=poll),
        progress=context.progress,
        labels={DATA_PLANE: data_plane} if data_plane else {},
    )


def summary(applied: Applied, count: int, *, teardown: bool) -> str:
    """Return what was done, in one sentence."""
    kept = f", {_listed(applied.kept)} kept" if applied.kept else ""
    if teardown:
        return f"{len(applied.pruned)} objects deleted{kept}."
    return f"{count} objects are ready; {applied.changed} changed, {len(applied.pruned)} deleted{kept}."


def _listed(refs: Sequence[ObjectRef]) -> str:
    more = f" and {len(refs) - _SHOWN} more" if len(refs) > _SHOWN else ""
    return ", ".join(str(ref) for ref in refs[:_SHOWN]) + more
