"""A program with all that a manager can declare: two versions, admission, what it owns, the lead, metrics for a few."""

from __future__ import annotations

from typing import Self

from ctrlruntime import (
    BUILTIN,
    ApiModel,
    Builder,
    Control,
    Desired,
    GroupVersionKind,
    Manager,
    ManagerOptions,
    Owner,
    Resource,
    as_reconciler,
)
from ctrlruntime.manager import MetricsServing, WebhookOptions
from ctrlruntime.webhook import Review, defaults, validates

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
GROUP = "gadgets.example.com"


class GadgetSpec(ApiModel):
    """What a gadget is; its text may have {{ braces }}."""

    color: str = ""
    size: int = 1


class GadgetStatus(ApiModel):
    """How it is."""

    made: str = ""


class Gadget(Resource[GadgetSpec, GadgetStatus], group=GROUP, version="v1"):
    """A gadget."""

    @defaults
    def paint(self, _review: Review[Gadget]) -> None:
        self.spec.color = self.spec.color or "grey"

    @validates("create", "update")
    def check(self, review: Review[Gadget]) -> None:
        if self.spec.size > 9:
            review.invalid("spec.size", self.spec.size, "must be at most 9")


class OldSpec(ApiModel):
    """A gadget in one word, as in red-3."""

    look: str = "-1"


class OldGadget(
    Resource[OldSpec, GadgetStatus], group=GROUP, version="v1alpha1", kind="Gadget", storage=False
):
    """A gadget, as it was described before."""

    def to_hub(self) -> Gadget:
        color, _, size = self.spec.look.rpartition("-")
        return Gadget(spec=GadgetSpec(color=color, size=int(size)), status=self.status)

    @classmethod
    def from_hub(cls, hub: Gadget) -> Self:
        look = f"{hub.spec.color}-{hub.spec.size}"
        return cls(spec=OldSpec(look=look), status=hub.status)


OPTIONS = ManagerOptions(
    name="gadgets",
    leader_election=True,
    leader_election_id="gadgets",
    metrics_bind_address=":8443",
    metrics=MetricsServing(secure=True, authorize=True),
    webhook=WebhookOptions(
        secret_name="gadgets-webhooks",
        service_name="gadgets-webhooks",
        mutating_configurations=("gadgets-defaults",),
        validating_configurations=("gadgets-checks",),
    ),
)


def setup(manager: Manager) -> None:
    """Add the controller, and the webhooks of the kind."""
    control = Control(manager.cache, field_manager="gadgets")

    async def reconcile(gadget: Gadget) -> None:
        meta = gadget.metadata
        if meta.deletion_timestamp:
            return
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "data": {"color": gadget.spec.color},
        }
        await control.ensure(Desired(mapping=CONFIG_MAP, manifest=manifest), Owner.of(gadget))
        if gadget.status.made != meta.name:
            await manager.client.patch_status(
                Gadget, meta.name, {"status": {"made": meta.name}}, namespace=meta.namespace
            )

    builder = Builder(manager).for_(Gadget).owns(CONFIG_MAP, track_manager="gadgets")
    builder.build(as_reconciler(manager.client, Gadget, reconcile))
    manager.webhooks.register(Gadget)
    manager.webhooks.convert(Gadget, OldGadget)
