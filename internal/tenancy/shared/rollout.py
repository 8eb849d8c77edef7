"""What the last plan of a registry found for each template: tenants to be made, and the rollout."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime

from ctrlruntime.queue import Request
from ctrlruntime.rollout import Decision
from ctrlruntime.rollout.health import Assessment


@dataclass(slots=True)
class Rollouts:
    """Tenants that plans want and that do not exist yet, and where rollouts stand.

    `exists` gets the namespace and name of a tenant and the name of its registry.
    """

    exists: Callable[[str, str, str], bool]
    on_change: Callable[[Request], None]
    """Receives a template whose number of missing tenants may have changed."""
    _missing: dict[Request, dict[str, set[str]]] = field(default_factory=dict)
    _uncounted: dict[Request, frozenset[str]] = field(default_factory=dict)
    """Tenants that were to be made when rollouts were decided, which do not count them."""
    _decisions: dict[Request, dict[str, Decision]] = field(default_factory=dict)
    _health: dict[Request, dict[str, Assessment]] = field(default_factory=dict)

    def decided(
        self,
        registry: Request,
        decisions: Mapping[str, Decision],
        health: Mapping[str, Assessment],
    ) -> None:
        """Record the decisions of a registry's last plan by template, and what health checks mean for them."""
        before, earlier = self._decisions.get(registry, {}), self._health.get(registry, {})
        self._decisions[registry], self._health[registry] = dict(decisions), dict(health)
        for template, decision in decisions.items():
            if before.get(template) != decision or earlier.get(template) != health.get(template):
                self.on_change(Request(template, namespace=registry.namespace))

    def decision(self, registry: Request, template: str) -> Decision | None:
        """Return the last decision for a template; None if there is none."""
        return self._decisions.get(registry, {}).get(template)

    def health(self, registry: Request, template: str) -> Assessment | None:
        """Return what the health checks of a template mean; None if it has none, or no plan was made yet."""
        return self._health.get(registry, {}).get(template)

    def is_staging(self, registry: Request, now: datetime) -> bool:
        """Return whether a rollout of the registry's templates is not complete, or may still halt.

        Neither is one that was decided before tenants were there which are made by now: it counts them.
        """
        return self._has_grown(registry) or any(
            not item.is_complete or (item.watched_until or now) > now
            for item in self._decisions.get(registry, {}).values()
        )

    def _has_grown(self, registry: Request) -> bool:
        names = self._uncounted.get(registry, frozenset())
        return any(self.exists(registry.namespace, name, registry.name) for name in names)

    def planned(self, registry: Request, missing: Mapping[str, Set[str]]) -> None:
        """Record a plan: the names of the tenants to make, by template, with an empty set for none."""
        before = self._missing.get(registry, {})
        self._missing[registry] = {name: set(names) for name, names in missing.items()}
        decided = self._decisions.get(registry, {})
        self._uncounted[registry] = frozenset().union(
            *(names for template, names in missing.items() if template in decided)
        )
        for template, names in missing.items():
            if names or before.get(template) != set():
                self.on_change(Request(template, namespace=registry.namespace))

    def missing(self, registry: Request, template: str) -> int | None:
        """Return how many tenants are to be made; None if no plan for the template was made yet."""
        names = self._missing.get(registry, {}).get(template)
        if names is None:
            return None
        made = [n for n in names if self.exists(registry.namespace, n, registry.name)]
        names.difference_update(made)
        return len(names)

    def forget(self, registry: Request) -> None:
        """Forget a registry that is gone."""
        self._missing.pop(registry, None)
        self._uncounted.pop(registry, None)
        self._decisions.pop(registry, None)
        self._health.pop(registry, None)
