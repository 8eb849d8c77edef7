"""The PodDisruptionBudget of a set: how many nodes evictions (`kubectl drain`, autoscalers) may take down at once.

Its number is that of rollouts, which delete Pods and ask no budget; both count what is down for whatever reason. A Pod
of two budgets cannot be evicted at all, so none is made beside one of another owner.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from apis.cosmos import CosmosFullNode
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.client.selectors import selector_matches
from ctrlruntime.lifecycle import PerUID
from ctrlruntime.resources import Desired, Owner
from internal.cosmos.fullnode.desired_objects import DISRUPTION_BUDGET, built, inputs_of
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.events import Note, Reason
from internal.cosmos.fullnode.metadata import default_labels, metadata, named, node_selector
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.labels import disruption_budget_name
from internal.cosmos.workload.rollout import tolerated

LOOK_AGAIN: Final = timedelta(minutes=10)
"""How long the budgets of others are taken to be as they were."""


def build_disruption_budgets(node_set: CosmosFullNode, nodes: int) -> list[Desired]:
    """One, if it keeps any of the `nodes` that are to exist: a set of one has none unless its spec requests it.

    It counts the nodes that stay, which works for Pods whose owner is in another cluster too.
    """
    given = node_set.spec.disruption_budget
    allowed = given.max_unavailable
    if allowed is None:
        allowed = tolerated(node_set.spec.strategy.max_unavailable, nodes)
    least = nodes - allowed
    if not given.enabled or least <= 0:
        return []
    labels, name = default_labels(node_set), disruption_budget_name(named(node_set))
    spec = {"minAvailable": least, "selector": {"matchLabels": node_selector(node_set)}}
    parts = {"metadata": metadata(node_set, name, labels), "spec": spec}
    return [built(node_set, DISRUPTION_BUDGET, parts, inputs_of(name, labels, least))]


@dataclass(frozen=True, slots=True)
class DisruptionBudgetControl:
    """Makes, updates and deletes it."""

    budgets: Objects
    list_all: Callable[[str], Awaitable[Iterable[Any]]]
    """Reads live the budgets of a namespace, those of others too; only where a set lacks its own."""
    now: Callable[[], datetime]
    others: PerUID[tuple[datetime, str]]
    """By set: when others were looked for, and the name of the one that was found."""

    async def reconcile(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        findings: Findings,
        pods: Collection[Entry],
        nodes: int,
    ) -> None:
        """One pass; `pods`: of the nodes that exist. Raises the client's errors."""
        desired = build_disruption_budgets(node_set, nodes)
        if desired and not self.budgets.known(owner, [each.name for each in desired]):
            if not pods:  # only they show which budgets of others select them
                desired = []
            elif await self._other(owner, findings, pods, desired):
                desired = []
                findings.waits.append(LOOK_AGAIN.total_seconds())
        else:
            self.others.forget(owner.uid)
        await self.budgets.reconcile(desired, owner, findings, deletes=True)

    async def _other(
        self,
        owner: Owner,
        findings: Findings,
        pods: Collection[Entry],
        desired: Collection[Desired],
    ) -> str:
        """Return the name of a budget of others that selects a Pod of the set; empty if there is none.

        One of a desired name may be the set's own, which the cache lacks without the label that it selects by.
        """
        at, known = self.others.get(owner.uid, (None, ""))
        if at is not None and self.now() - at < LOOK_AGAIN:
            return known
        names = {each.name for each in desired}
        found = [
            each["metadata"]["name"]
            for each in await self.list_all(owner.namespace)
            if not (each["metadata"]["name"] in names and self._holds(each, owner))
            and (selector := (each.get("spec") or {}).get("selector")) is not None
            and any(selector_matches(selector, pod.labels) for pod in pods)
        ]
        other = min(found, default="")
        self.others.put(owner.uid, (self.now(), other))
        if other and other != known:
            text = (
                f"PodDisruptionBudget {other} is of another owner and selects Pods of this set, so none is made: a Pod "
                "of two cannot be evicted. Delete it, or set disruptionBudget.enabled to false."
            )
            findings.notes.append(Note(Reason.DISRUPTION_BUDGET_EXISTS, text))
        return other

    def _holds(self, budget: Manifest, owner: Owner) -> bool:
        entry = EntryDecoder(DISRUPTION_BUDGET.gvk).decode_manifest(budget)
        return self.budgets.control.holds(entry, owner)
