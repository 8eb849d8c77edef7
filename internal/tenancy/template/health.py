"""Health checks of templates' rollouts: what their results mean, and what is known of them between plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from pydantic import ValidationError

from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Decision, Member, decide
from ctrlruntime.rollout.health import (
    Assessment,
    CheckedTarget,
    HealthEvaluator,
    NoHealthEvaluator,
    evaluate_health,
    with_health,
)
from ctrlruntime.rollout.health_checks import HealthCheckStatus
from internal.tenancy.shared.slices import beside_loop
from internal.tenancy.template.rollouts import StagedTemplate


@dataclass(frozen=True, slots=True)
class CheckedDecision:
    """A decision with the results of health checks; `health` is None for a rollout without any."""

    decision: Decision
    health: Assessment | None = None
    look_again: datetime | None = None
    """When time alone may change the decision, or the next result is expected."""


@dataclass(slots=True)
class TemplateHealth:
    """Decides rollouts with the results of their health checks.

    A failure is kept in the status of the template. Until the cache has that, the one of the last plan counts.
    """

    evaluator: HealthEvaluator = field(default_factory=NoHealthEvaluator)
    _known: dict[Request, dict[str, tuple[str, list[HealthCheckStatus]]]] = field(
        default_factory=dict
    )
    """By registry and template, its UID and what the last plan found."""

    async def decide(
        self,
        registry: Request,
        templates: Sequence[Entry],
        staged: Mapping[str, StagedTemplate],
        members: Mapping[str, Sequence[Member]],
        now: datetime,
    ) -> dict[str, CheckedDecision]:
        """Return the decision for each template with a rollout, and begin what has to be evaluated."""
        before = self._known.get(registry, {})
        found: dict[str, CheckedDecision] = {}
        known: dict[str, tuple[str, list[HealthCheckStatus]]] = {}
        for entry in templates:
            rollout = staged.get(entry.name)
            if rollout is None:
                continue
            uid, earlier = before.get(entry.name, ("", []))
            if uid != entry.uid:
                earlier = recorded_checks(entry)
            made = await self._decide(entry, rollout, members[entry.name], earlier, now)
            found[entry.name] = made
            if made.health is not None:
                known[entry.name] = (entry.uid, made.health.status)
        for name in before.keys() - known.keys():
            self.evaluator.forget(Request(name, namespace=registry.namespace))
        self._known.pop(registry, None)
        if known:
            self._known[registry] = known
        return found

    def forget(self, registry: Request) -> None:
        """Forget a registry that is gone."""
        for name in self._known.pop(registry, {}):
            self.evaluator.forget(Request(name, namespace=registry.namespace))

    async def _decide(
        self,
        entry: Entry,
        rollout: StagedTemplate,
        members: Sequence[Member],
        before: Sequence[HealthCheckStatus],
        now: datetime,
    ) -> CheckedDecision:
        strategy, version = rollout.strategy, rollout.version
        decision = await beside_loop(len(members), decide, version, members, strategy, now)
        if not strategy.health_checks:
            return CheckedDecision(decision, look_again=decision.look_again)
        subject = {"template": entry.name, "namespace": entry.namespace, "targetRevision": version}
        health = evaluate_health(
            self.evaluator,
            Request(entry.name, namespace=entry.namespace),
            CheckedTarget(version, subject),
            strategy,
            decision,
            before,
            now,
        )
        if health is None:
            names = {check.name for check in strategy.health_checks}
            kept = [item for item in before if item.name in names]
            return CheckedDecision(decision, Assessment(status=kept), decision.look_again)
        checked = with_health(strategy, health)
        decision = await beside_loop(len(members), decide, version, members, checked, now)
        shortest = min(check.period_seconds for check in strategy.health_checks)
        due = now + timedelta(seconds=shortest)
        return CheckedDecision(decision, health, min(due, decision.look_again or due))


def recorded_checks(template: Entry) -> list[HealthCheckStatus]:
    """Return the checks as the status of a template has them; none of a status that cannot be read."""
    status = template.field("status") or {}
    try:
        rollout = status.get("rollout") or {}
        return [HealthCheckStatus.model_validate(item) for item in rollout.get("healthChecks", ())]
    except (AttributeError, TypeError, ValidationError):
        return []
