"""The task `upgrade`: the steps in order, each recorded when it is done, none done twice."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from apis.cloud import Hook, UpgradeInstanceTaskSpec, UpgradeSettings
from ctrlruntime.client import Client
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.resources.revision import revision
from internal.cloud.tasks.kubernetes.access import cluster, identity_of, kubeconfig_ref
from internal.cloud.tasks.kubernetes.changes import (
    BACKUP,
    HEALTH_CHECK,
    MIGRATE,
    MIGRATION,
    ROLL,
    VERIFY,
    ChangeRecord,
)
from internal.cloud.tasks.kubernetes.cluster_record import check_upgrade
from internal.cloud.tasks.kubernetes.documents import Document
from internal.cloud.tasks.kubernetes.rollout import Rollout
from internal.cloud.tasks.kubernetes.task import Workload, documents_of, rollout_of
from internal.cloud.tasks.placeholders import Places
from internal.cloud.tasks.requests import Requests
from internal.cloud.tasks.task import RECORDED, TaskContext, TaskError, TaskResult
from internal.cloud.tasks.upgrade.checkpoint import PRECAUTIONS, Checkpoint
from internal.cloud.tasks.upgrade.jobs import Jobs

STEPS: Final = (HEALTH_CHECK, BACKUP, MIGRATE, ROLL, VERIFY)
"""The order. The workload is not touched until the migration has succeeded."""

_Step = Callable[[], Awaitable[None]]


class UpgradeTask:
    """Carries an instance from one version to another."""

    name = "upgrade"

    def __init__(
        self,
        *,
        poll: float = 5.0,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """`poll`: seconds between two looks at what is under way."""
        self._poll = poll
        self._clock = clock

    async def run(self, context: TaskContext) -> TaskResult:
        """See :class:`internal.cloud.tasks.task.Task`."""
        spec = UpgradeInstanceTaskSpec.model_validate(context.input.spec)
        workload = Workload(
            version=spec.to_version, domain=spec.domain, cluster=spec.cluster, outputs=spec.outputs
        )
        documents = await documents_of(context, workload)
        ref = kubeconfig_ref(spec.cluster.kubeconfig_from, spec.outputs_secret_name)
        places = self._places(context, spec)
        async with cluster(context, ref) as client, Requests(places, context.secret) as requests:
            check_upgrade(context.input, await identity_of(client), spec.from_version)
            rollout = rollout_of(context, client, spec.cluster, poll=self._poll)
            checkpoint = _checkpoint(context, spec, client)
            await rollout.ensure_namespace()
            given = context.input
            migration = given.record.get(MIGRATION, "")
            await checkpoint.load(given.instance, given.owner.namespace, migration)
            max_age = timedelta(seconds=spec.steps.max_check_age_seconds)
            inputs = _inputs_of(spec.steps)
            for step in await checkpoint.reopen(self._clock(), max_age, inputs):
                context.log.info("step is repeated", step=step)
            upgrade = _Upgrade(
                context=context,
                spec=spec,
                client=client,
                places=places,
                requests=requests,
                rollout=rollout,
                documents=documents,
                poll=self._poll,
                change=checkpoint.change,
                round=checkpoint.round,
            )
            done = await self._walk(upgrade, checkpoint, inputs)
            await checkpoint.close()
        return TaskResult(
            message=f"{spec.from_version or 'nothing'} -> {spec.to_version}: {', '.join(done)}.",
            outputs={"version": spec.to_version},
            record={MIGRATION: ""} if spec.steps.migrate is not None or migration else {},
        )

    async def _walk(
        self, upgrade: "_Upgrade", checkpoint: Checkpoint, inputs: Mapping[str, str]
    ) -> list[str]:
        steps, context = upgrade.steps(), upgrade.context
        said = []
        for number, (step, do) in enumerate(steps.items(), start=1):
            if checkpoint.done(step):
                said.append(f"{step} was done")
                continue
            context.progress(f"step {number}/{len(steps)}: {step}")
            context.log.info("step begins", step=step)
            if step == MIGRATE:
                change = f"{upgrade.spec.from_version} -> {upgrade.spec.to_version}"
                await checkpoint.begin_migration(self._clock())
                context.keep(f"{RECORDED}{MIGRATION}", change)
            try:
                await do()
            except TaskError:
                if step == MIGRATE:
                    await checkpoint.record_failed_migration(self._clock())
                raise
            await checkpoint.record(step, self._clock(), inputs.get(step, ""))
            said.append(f"{step} done")
        return said

    def _places(self, context: TaskContext, spec: UpgradeInstanceTaskSpec) -> Places:
        values = {
            "instance": context.input.instance,
            "version": spec.to_version,
            "fromVersion": spec.from_version,
            "domain": spec.domain,
        }
        return Places(values=values, outputs=spec.outputs)


def _checkpoint(context: TaskContext, spec: UpgradeInstanceTaskSpec, client: Client) -> Checkpoint:
    uid = context.input.owner.uid
    return Checkpoint(
        client,
        key=context.input.key,
        namespace=spec.cluster.namespace,
        begun=ChangeRecord(
            change=uid, uid=uid, from_version=spec.from_version, to_version=spec.to_version
        ),
    )


def _inputs_of(steps: UpgradeSettings) -> dict[str, str]:
    """Return a digest of what each precaution is carried out with."""
    given = {HEALTH_CHECK: steps.health_check, BACKUP: steps.backup}
    return {
        step: "" if (each := given[step]) is None else revision(each.to_wire())
        for step in PRECAUTIONS
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Upgrade:
    """The steps of one upgrade."""

    context: TaskContext
    spec: UpgradeInstanceTaskSpec
    client: Client
    places: Places
    requests: Requests
    rollout: Rollout
    documents: list[Document]
    poll: float
    change: str
    """Identifies the change in keys, whichever UpgradeInstanceTask carries it out."""
    round: int = 1
    """How often the precautions were begun."""

    def steps(self) -> dict[str, _Step]:
        """Those that the spec gives, in order."""
        steps = self.spec.steps
        wanted: dict[str, tuple[object, _Step]] = {
            HEALTH_CHECK: (steps.health_check, self._health_check),
            BACKUP: (steps.backup, lambda: self._hook(BACKUP, steps.backup, self._backup_key())),
            MIGRATE: (
                steps.migrate,
                lambda: self._hook(MIGRATE, steps.migrate, self._key(MIGRATE)),
            ),
            ROLL: (True, self._roll),
            VERIFY: (steps.verify, self._verify),
        }
        return {name: wanted[name][1] for name in STEPS if wanted[name][0] is not None}

    async def _health_check(self) -> None:
        check = self.spec.steps.health_check
        if check is None:
            return
        answer = await self.requests.send(check)
        if not answer.good:
            what = "nothing was touched" if self.round == 1 else "the upgrade does not go on"
            raise TaskError(f"{what}, since the instance is not healthy: {answer.text}")

    def _key(self, step: str) -> str:
        """Return the same for every attempt at the step."""
        return f"{self.change}/{step}"

    def _backup_key(self) -> str:
        """Return the key of a backup: one that is repeated is another one, and must not be answered with the first."""
        return self._key(BACKUP) if self.round == 1 else f"{self._key(BACKUP)}/{self.round}"

    async def _roll(self) -> None:
        await self.rollout.apply(self.documents)

    async def _verify(self) -> None:
        check = self.spec.steps.verify
        if check is None:
            return
        answer = await self.requests.until_good(
            check, within=float(self.spec.steps.verify_timeout_seconds), every=self.poll
        )
        if not answer.good:
            raise TaskError(f"{self.spec.to_version} was rolled out and is not well: {answer.text}")

    async def _hook(self, step: str, hook: Hook | None, key: str) -> None:
        if hook is None:
            return
        end = monotonic() + hook.timeout_seconds
        if hook.http is not None:
            answer = await self.requests.send(hook.http, idempotency_key=key)
            if not answer.good:
                raise TaskError(f"{step}: {answer.text}")
        if hook.job is not None:
            await Jobs(
                client=self.client,
                owner=self.context.input.owner.namespace,
                instance=self.context.input.instance,
                namespace=self.spec.cluster.namespace,
                change=self.change,
                uid=self.context.input.owner.uid,
                attempt=self.context.input.attempt,
                places=self.places,
                pause=lambda: asyncio.sleep(self.poll),
                expired=lambda: monotonic() > end,
            ).run(step, hook.job, key)
        if hook.until is not None:
            within = max(0.0, end - monotonic())
            answer = await self.requests.until_good(hook.until, within=within, every=self.poll)
            if not answer.good:
                raise TaskError(f"{step}: not finished in time: {answer.text}")
