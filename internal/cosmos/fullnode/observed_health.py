"""How nodes are, as a rollout sees it: by what they said themselves, not by the readiness of their Pods. Pure.

A sentry is ready only once a signer has found it, and the signer finds it only where it is listed: so
readiness in Kubernetes does not show whether it does its work.
"""

from collections.abc import Iterable

from ctrlruntime.cache.entry import Entry
from internal.cosmos.cache.observation import Observation
from internal.cosmos.cache.pods import target_of
from internal.cosmos.workload.pod_trouble import pod_trouble
from internal.cosmos.workload.probe import Health, Probe


def observed(observations: Iterable[Observation]) -> Probe:
    """Health by the last answer of the node in this very Pod.

    One that was not asked yet may work or not; one that cannot be asked, since its Pod has no address, is
    known not to.
    """
    known = {each.uid: each for each in observations}

    def probe(entry: Entry) -> Health:
        found = known.get(entry.uid)
        if target_of(entry) is None:
            why = f"its Pod {pod_trouble(entry) or 'does not run'}"
            return Health(available=False, reachable=False, detail=why)
        if found is None or found.at is None:
            return Health(available=False, reachable=False, detail="not asked yet", known=False)
        return Health(found.is_in_sync, found.is_reachable, _why(found))

    return probe


def _why(found: Observation) -> str:
    if found.is_in_sync:
        return ""
    if found.is_reachable:
        return f"catching up, at height {found.height}"
    return found.error or "no answer"
