"""One pass over the subresources of an instance, in their order."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from apis.cloud import Instance, TerraformSettings
from ctrlruntime.api import ApiModel
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Owner, revision
from internal.cloud.instance.children import Children, desired_child, inputs_for, protection_of
from internal.cloud.instance.order import Child, Object, kind_of, outputs, outputs_secret, unmet
from internal.cloud.instance.upgrades import (
    Plan,
    Upgrade,
    deployed,
    is_upgraded,
    plan,
    rolled_back,
    upgrade_of,
)
from internal.cloud.labels import ALLOW_VERSION, PAUSED, ROLLED_BACK, SUPERSEDED
from internal.cloud.subresource import ObjectStrategy, Subresource, Upstream
from internal.cloud.taskdriver.inputs import content, is_ready, may_have_applied
from internal.cloud.tasks.task import VERSION
from internal.cloud.terraform_types import TerraformTypes, UnknownType


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What a pass over one instance rests on."""

    instance: Instance
    owner: Owner
    act: bool
    """Whether anything may be written; otherwise it is a look around."""
    deployed: str = ""
    """The version that runs, as far as is known; empty before anything does."""
    upgrades: Sequence[Upgrade] = ()
    begun: str = ""
    """The version of a first roll-out that has begun and not ended: the data may have it, and it comes first."""
    bundle_revision: str = ""
    terraform: TerraformSettings | None = None
    """The Terraform settings with those of its type; None: those of the spec count."""

    @property
    def name(self) -> str:
        return self.instance.metadata.name or ""

    @property
    def wanted(self) -> str:
        """The version to bring about now."""
        return self.begun or self.instance.spec.wanted_version

    @property
    def runs(self) -> str:
        """The version that the workload should have now: at first the one that is wanted."""
        return self.deployed or self.wanted

    @property
    def shared_inputs(self) -> str:
        """Digest of what the instance shares with others: its bundle, and the settings of its type of infrastructure."""
        terraform = None if self.terraform is None else content(self.terraform)
        return revision({"bundle": self.bundle_revision, "terraform": terraform})

    def upstream(self, before: Sequence[Child]) -> Upstream:
        """Return what the subresource after those may build on."""
        return Upstream(
            version=self.runs,
            outputs=outputs(before),
            outputs_secret_name=outputs_secret(before),
            bundle_revision=self.bundle_revision,
            terraform=self.terraform,
        )


@dataclass(slots=True)
class Walk:
    """Brings each subresource about once those before it are ready for their current inputs."""

    subresources: Sequence[Subresource[Any]]
    children: Children
    types: TerraformTypes = field(default_factory=TerraformTypes)
    """What the types of infrastructure stand for."""

    def prepare(
        self, instance: Instance, owner: Owner, *, act: bool, bundle_revision: str = ""
    ) -> Pass:
        """Find out which version runs, and which upgrades there were."""
        upgrading = [
            item for item in self.subresources if item.strategy is ObjectStrategy.ONE_PER_UPGRADE
        ]
        upgrades = [upgrade_of(item) for item in self._found(upgrading, owner)]
        recorded = self.running(instance, owner)
        begun = "" if recorded else self._begun(instance, owner)
        if is_upgraded(begun, upgrades):
            recorded, begun = begun, ""
        return Pass(
            instance=instance,
            owner=owner,
            act=act,
            deployed=deployed(recorded, upgrades),
            begun="" if is_permitted(instance) else begun,
            upgrades=upgrades,
            bundle_revision=bundle_revision,
            terraform=self._terraform(instance),
        )

    def _terraform(self, instance: Instance) -> TerraformSettings | None:
        """Return the settings of the type; of one that is unknown, the preconditions tell and nothing is done."""
        with contextlib.suppress(UnknownType):
            return self.types.settings_of(instance)
        return None

    def _found(self, subresources: Iterable[Subresource[Any]], owner: Owner) -> list[Any]:
        return [item for each in subresources for item in self.children.find(each, owner)]

    def running(self, instance: Instance, owner: Owner) -> str:
        """Return the version that is on record, or that the workload reports where the status is lost: all of it was carried out."""
        if instance.status.version:
            return instance.status.version
        deploying = [item for item in self.subresources if item.deploys_version]
        done = (item.spec.version for item in self._found(deploying, owner) if is_ready(item))
        return next(iter(done), "")

    def _begun(self, instance: Instance, owner: Owner) -> str:
        """Return the version of which something may have been rolled out, whatever became of it; empty if nothing was."""
        for each in self.subresources:
            if not each.deploys_version:
                continue
            for item in self._found([each], owner):
                if may_have_applied(item.status):
                    return str(item.spec.version)
            record = instance.status.records.get(kind_of(each), {})  # of an object that is gone
            if VERSION in record:
                return record[VERSION]
        return ""

    async def through(self, at: Pass) -> list[Child]:
        """All subresources, each after those it waits for. Raises the client's errors."""
        walked: list[Child] = []
        steps = {
            ObjectStrategy.UPDATE: self._update,
            ObjectStrategy.ONE_PER_UPGRADE: self._upgrade,
        }
        for subresource in self.subresources:
            walked.append(await steps[subresource.strategy](at, subresource, walked))
        return walked

    async def _update(
        self, at: Pass, subresource: Subresource[Any], before: Sequence[Child]
    ) -> Child:
        found = self.children.look(subresource, at.name, at.owner)
        waits_for = unmet(subresource, before)
        if waits_for:
            return Child(subresource=subresource, object=found, waits_for=waits_for)
        spec = subresource.desired(at.instance, at.upstream(before))
        if spec is None:
            return await self._remove(at, subresource, found)
        written, problem = False, ""
        if at.act and found is not None:
            problem = subresource.refusal(found, spec)
        if at.act and not problem:
            kept = await self.children.keep(
                subresource,
                desired_child(
                    subresource,
                    at.instance,
                    spec,
                    annotations=_annotations(at, subresource),
                    over=_judged(at, subresource, found),
                ),
                at.owner,
            )
            found, written, problem = kept.object, kept.written, kept.problem
        return Child(
            subresource=subresource,
            object=found,
            ready=not written and not problem and found is not None and is_ready_for(found, spec),
            written=written,
            problem=problem,
        )

    async def _remove(self, at: Pass, subresource: Subresource[Any], found: Object | None) -> Child:
        """Remove what is no longer wanted, unless something precious would go with it."""
        problem = ""
        if found is not None and at.act:
            protected = at.instance.spec.protected
            if subresource.definition.teardown and protected:
                problem = _precious(subresource)
            else:
                await self.children.delete(subresource, at.owner, [at.name], Cause.SPEC_CHANGED)
                problem = await self.children.mend(
                    subresource, found, None, leaving_annotations(subresource, at.instance)
                )
        return Child(subresource=subresource, object=found, wanted=False, problem=problem)

    async def mend(self, instance: Instance, owner: Owner, subresource: Subresource[Any]) -> str:
        """Pass what the instance has now to an object that is being deleted: its teardown uses that.

        Returns why it cannot; empty if it could, or nothing differs. Raises the client's errors.
        """
        found = self.children.look(subresource, owner.name, owner)
        if found is None or subresource.strategy is not ObjectStrategy.UPDATE:
            return ""
        upstream = self._upstream_of(found, instance)
        spec = subresource.desired(instance, upstream)
        problem = "" if spec is None else subresource.refusal(found, spec)
        untyped = upstream.terraform is None and instance.spec.infrastructure.terraform is not None
        wanted = None if problem or untyped else spec
        annotations = leaving_annotations(subresource, instance)
        return problem or await self.children.mend(subresource, found, wanted, annotations)

    def _upstream_of(self, found: Object, instance: Instance) -> Upstream:
        """Return what an object builds on by its own spec: those before it may be gone, or have lost their outputs."""
        spec = found.spec
        return Upstream(
            version=getattr(spec, "version", instance.spec.wanted_version),
            outputs=getattr(spec, "outputs", {}),
            outputs_secret_name=getattr(spec, "outputs_secret_name", ""),
            bundle_revision=getattr(spec, "bundle_revision", ""),
            terraform=self._terraform(instance),
        )

    # -- changes of version -----------------------------------------------------------------

    async def _upgrade(
        self, at: Pass, subresource: Subresource[Any], before: Sequence[Child]
    ) -> Child:
        """At most one at a time; the workload waits for it."""
        waits_for = unmet(subresource, before)
        spec = subresource.desired(at.instance, at.upstream(before))
        known = None if spec is None or waits_for else content(spec)
        todo = plan(at.name, at.runs, at.wanted, at.upgrades, known)
        if at.act:
            await self._put_in_order(at, subresource, todo)
        if not todo.current:
            return Child(subresource=subresource, wanted=False)
        found = self.children.look(subresource, todo.current, at.owner)
        if found is not None or waits_for or spec is None or not at.act:
            return Child(subresource=subresource, object=found, waits_for=waits_for)
        wanted = desired_child(subresource, at.instance, spec, name=todo.current)
        kept = await self.children.keep(subresource, wanted, at.owner)
        return Child(
            subresource=subresource, object=kept.object, written=kept.written, problem=kept.problem
        )

    async def _put_in_order(self, at: Pass, subresource: Subresource[Any], todo: Plan) -> None:
        """Supersede and delete what is to be; restore what was changed by hand of the others' metadata."""
        staying = [
            found
            for found in self.children.find(subresource, at.owner)
            if found.metadata.name not in todo.prune and found.metadata.deletion_timestamp is None
        ]
        desired = [
            desired_child(subresource, at.instance, found.spec, name=found.metadata.name or "")
            for found in staying
        ]
        await self.children.reconcile(subresource, desired, at.owner, drop=todo.prune)
        for found in staying:
            if found.metadata.name in todo.supersede:
                await self.children.annotate(
                    subresource, found, {SUPERSEDED: "true", PAUSED: "true"}
                )


def is_permitted(instance: Instance) -> bool:
    """Whether a person permits the version that is wanted after any other one."""
    permitted = (instance.metadata.annotations or {}).get(ALLOW_VERSION)
    return permitted == instance.spec.wanted_version


def _judged(at: Pass, subresource: Subresource[Any], found: Object | None) -> str:
    """Return the resourceVersion that a write must find; empty: any.

    Before a version runs, that of the workload changes only while no run has begun: one that is recorded meanwhile wins.
    """
    if found is None or at.deployed or not subresource.deploys_version:
        return ""
    return found.metadata.resource_version or "" if found.spec.version != at.runs else ""


def _annotations(at: Pass, subresource: Subresource[Any]) -> dict[str, str]:
    more: dict[str, str] = {}
    given_up = rolled_back(at.runs, at.wanted, at.upgrades)
    if given_up and subresource.deploys_version:
        more[ROLLED_BACK] = given_up
    return inputs_for(subresource, at.instance, more)


def leaving_annotations(subresource: Subresource[Any], instance: Instance) -> dict[str, str]:
    """Return the annotations of an instance that reach the teardown of a subresource."""
    return inputs_for(subresource, instance, protection_of(instance))


def _precious(subresource: Subresource[Any]) -> str:
    kind = subresource.kind.gvk().kind
    return (
        f"The spec no longer has {kind}, and all that it made would go. Set "
        "spec.deletionProtection to false (it wins over spec.debug.enableDeletionProtection) if that is meant, or restore the spec."
    )


def is_ready_for(child: Object, wanted: ApiModel) -> bool:
    """Whether the child has the spec that is wanted and is ready for it."""
    return content(child.spec) == content(wanted) and is_ready(child)
