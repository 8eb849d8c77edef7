"""Instances of a data plane, whose runs are on the hub: who has which name there, and what its errors mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.cache import Entry, OutsideCache
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.gate import Cause
from ctrlruntime.lifecycle.remote import ClusterTrouble, Remote
from ctrlruntime.resources import Action, Control, Desired, Owner
from internal.cloud.labels import INSTANCE

CONFIG_MAP: Final = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
PREFIX: Final = "cloud-instance-"
"""Before the name of an instance: the ConfigMap that stands for it."""
CONFLICTED: Final = "Conflicted"
"""Reason: another data plane has an instance of that namespace and name."""
HUB_ERRORS: Final = (APIError, TransportError, OutsideCache)
"""What a request to the hub may raise."""


def name_holder(namespace: str, name: str) -> Desired:
    """Return the ConfigMap that stands for an instance on the hub."""
    return Desired(
        mapping=CONFIG_MAP,
        manifest={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{PREFIX}{name}", "namespace": namespace},
        },
        labels={INSTANCE: name},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HubInstances:
    """Holds the names of instances on the hub, so that two data planes never run tasks for one name.

    What runs make outside, such as workspaces, is named by namespace and name alone.
    """

    hub: Remote
    control: Control
    """Writes what instances own on the hub."""
    period: float
    """Seconds between two looks at a hub that does not take what is on it."""

    def is_unknown(self) -> bool:
        """Whether it is not known yet what the hub has, and not either that it is unreachable."""
        return not self.hub.is_usable() and self.hub.trouble() is None

    def trouble(self) -> ClusterTrouble | None:
        """Return why the hub cannot be used; None where it can."""
        return self.hub.trouble()

    def explain(self, error: Exception, namespace: str) -> ClusterTrouble | None:
        """Return what is wrong with the hub, from an error of a request; None: the request is."""
        return self.hub.explain(error, namespace)

    def holds_name(self, instance: Entry) -> bool:
        """Whether the hub is known to keep the name for this very instance."""
        found = self._look(instance) if self.hub.is_read() else None
        return found is not None and self.control.holds(found, Owner.of(instance))

    async def hold_name(self, instance: Entry) -> ClusterTrouble | None:
        """Have the hub keep the name. Return why it does not. Raises errors that are not the hub's."""
        trouble = self.trouble()
        if trouble is not None:
            return trouble
        desired = name_holder(instance.namespace, instance.name)
        try:
            outcome = await self.control.ensure(desired, Owner.of(instance))
        except HUB_ERRORS as error:
            return self._explained(error, instance.namespace)
        if outcome.action is not Action.CONFLICT:
            return None
        return ClusterTrouble(
            CONFLICTED,
            f"The hub's ConfigMap {desired.name} stands for the name of this instance, and {outcome.conflict}: "
            "nothing is run. It goes on when that one is gone; or give this instance another name",
        )

    async def free_name(self, instance: Entry) -> ClusterTrouble | None:
        """Give the name up. Return why the hub does not let it go. Raises errors that are not the hub's."""
        trouble = self.trouble()
        if trouble is not None:
            return trouble
        try:
            found = self._look(instance)
            if found is not None:
                await self.control.remove(
                    CONFIG_MAP, found, Owner.of(instance), Cause.PARENT_DELETED
                )
        except HUB_ERRORS as error:
            return self._explained(error, instance.namespace)
        return None

    def _look(self, instance: Entry) -> Entry | None:
        return self.control.look(name_holder(instance.namespace, instance.name))

    def _explained(self, error: Exception, namespace: str) -> ClusterTrouble:
        """Return what the error means. Raises it if it is not the hub's."""
        trouble = self.explain(error, namespace)
        if trouble is None:
            raise error
        return trouble
