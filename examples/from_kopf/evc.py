"""kopf's tutorial: an EphemeralVolumeClaim has a PersistentVolumeClaim of its size, which may grow.

There it is a handler for creation, one for updates with a diff of the labels, and one for the size. Here one function
says what there should be; who changed or deleted what, and whether the program ran then, makes no difference.
"""

from typing import Annotated

from pydantic import Field

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    Condition,
    Conditions,
    Config,
    Control,
    Desired,
    GroupVersionKind,
    Manager,
    ManagerOptions,
    Owner,
    Resource,
    as_reconciler,
    merge_patch,
    run,
    set_condition,
)
from ctrlruntime.clock import utc_now

CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]


class ClaimSpec(ApiModel):
    """A size, as Kubernetes writes it."""

    size: Annotated[str, Field(pattern=r"^[0-9]+(Mi|Gi|Ti)$")]


class ClaimStatus(ApiModel):
    """Whether the claim is there."""

    conditions: Conditions = Field(default_factory=list)


class EphemeralVolumeClaim(
    Resource[ClaimSpec, ClaimStatus], group="kopf.dev", version="v1", short_names=("evc",)
):
    """A volume that goes with its object."""


def claim(evc: EphemeralVolumeClaim) -> Desired:
    """Return the claim: labels of the object are its own too."""
    meta = evc.metadata
    return Desired(
        mapping=CLAIM,
        inherited=dict(meta.labels or {}),
        manifest={
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": evc.spec.size}},
            },
        },
    )


def setup(manager: Manager) -> None:
    """Add the controller."""
    control = Control(manager.cache, field_manager="evc")

    async def reconcile(evc: EphemeralVolumeClaim) -> None:
        if evc.metadata.deletion_timestamp:
            return  # the claim goes with it
        old, meta = evc.model_copy(deep=True), evc.metadata
        outcome = await control.ensure(claim(evc), Owner.of(evc))
        condition = Condition(
            type="Ready",
            status="False" if outcome.conflict else "True",
            reason="Conflict" if outcome.conflict else "Claimed",
            message=outcome.conflict,
        )
        set_condition(evc.status.conditions, condition, utc_now())
        if patch := merge_patch(old, evc):
            await manager.client.patch_status(
                EphemeralVolumeClaim, meta.name or "", patch, namespace=meta.namespace
            )

    builder = Builder(manager).for_(EphemeralVolumeClaim).owns(CLAIM, track_manager="evc")
    builder.build(as_reconciler(manager.client, EphemeralVolumeClaim, reconcile))


async def main() -> None:
    """Run it until it is stopped."""
    manager = Manager(await Config.load(), ManagerOptions(name="evc", handle_signals=True))
    setup(manager)
    await manager.start()


if __name__ == "__main__":
    run(main())
