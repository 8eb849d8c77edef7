"""What the controller of sets of nodes keeps in memory between passes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from apis.cosmos import CosmosFullNode
from ctrlruntime.queue import Request
from internal.cosmos.cache.observation import Observation
from internal.cosmos.fullnode.phase import Found
from internal.cosmos.fullnode.plausible import Believed
from internal.cosmos.fullnode.upgrade_gate import Admitted, Crossings


@dataclass(slots=True)
class NodeSetMemory:
    """Lost with the process: each entry is found out again, or only delays."""

    crossings: Crossings
    waiting: set[Request] = field(default_factory=set)
    """Sets with a claim that waits for what it is to be filled from."""
    created: dict[Request, set[str]] = field(default_factory=dict)
    """Pods that were created, and not polled since."""

    def admit(self, request: Request, node_set: CosmosFullNode, reported: Believed) -> Admitted:
        """Return the heights that may be recorded, by the versions of the chain."""
        boundaries = [version.height for version in node_set.spec.chain.versions]
        self.crossings.forget(request, reported.rejected)
        return self.crossings.admit(request, node_set.status.height, reported.heights, boundaries)

    def record_waiting(self, request: Request, found: Found) -> None:
        """Record whether a claim of the set waits for its source."""
        waits = found.claims is not None and bool(found.claims.waiting)
        (self.waiting.add if waits else self.waiting.discard)(request)

    def unpolled(
        self, request: Request, found: Found, said: Sequence[Observation]
    ) -> Collection[str]:
        """Return the Pods that this manager created, and that were not polled since."""
        pods = found.pods
        created = self.created.setdefault(request, set())
        created |= {*pods.created, *pods.deleted, *pods.replaced} if pods is not None else set()
        created -= {each.pod for each in said if each.at is not None}
        return created

    def forget(self, request: Request) -> None:
        """Forget a set that is gone."""
        self.waiting.discard(request)
        self.created.pop(request, None)
        self.crossings.forget(request)
