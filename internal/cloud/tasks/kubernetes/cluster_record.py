"""The cluster that a workload was applied to, by its id: another one is no place to apply it to or to look for it. Pure."""

from collections.abc import Mapping
from typing import Final

from apis.references import SecretKeyRef
from internal.cloud.labels import FORMER_CLUSTER
from internal.cloud.runs import RunInput
from internal.cloud.tasks.task import RECORDED, TaskHeld

CLUSTER: Final = "cluster"
"""Of a record: the UID of the namespace kube-system where the workload is."""
ELSEWHERE: Final = "OtherCluster"
"""Reason of a hold: the workload is in another cluster than the one that is opened."""
KUBECONFIG: Final = "kubeconfig"
"""Of a record: Secret and key of the kubeconfig that opened the cluster."""


def written_ref(ref: SecretKeyRef | None) -> dict[str, str]:
    """Return the part of a record that names a kubeconfig."""
    return {} if ref is None else {KUBECONFIG: f"{ref.name}/{ref.key}"}


def recorded_ref(record: Mapping[str, str]) -> SecretKeyRef | None:
    """Return the kubeconfig that a record names."""
    name, _, key = record.get(KUBECONFIG, "").partition("/")
    return SecretKeyRef(name=name, key=key) if name and key else None


def is_elsewhere(given: RunInput, found: str) -> bool:
    """Whether the workload is in another cluster than the one with the id `found`; an unknown id is another one."""
    recorded = given.record.get(CLUSTER)
    return recorded is not None and found != recorded


def is_left(given: RunInput) -> bool:
    """Whether a person decided that the workload stays in the cluster where it is recorded."""
    recorded = given.record.get(CLUSTER)
    return recorded is not None and given.annotations.get(FORMER_CLUSTER) == f"leave-{recorded}"


def reports_of(record: Mapping[str, str]) -> dict[str, str]:
    """Return what a run reports before its first write, so that the cluster is recorded however the run ends."""
    return {f"{RECORDED}{name}": text for name, text in record.items()}


def check_cluster(given: RunInput, found: str, *, teardown: bool) -> None:
    """Raise TaskHeld where the workload is in another cluster, unless a person decided to leave it there."""
    if not is_elsewhere(given, found) or is_left(given):
        return
    name, namespace = given.instance, given.owner.namespace
    raise _held(
        given,
        found,
        "nothing was deleted" if teardown else "nothing was applied",
        f"or, to leave the workload there to itself, run `kubectl annotate instance {name}"
        f" -n {namespace} --overwrite {FORMER_CLUSTER}=leave-{given.record[CLUSTER]}`",
    )


def check_upgrade(given: RunInput, found: str, from_version: str) -> None:
    """Raise TaskHeld where the workload is in another cluster: one step moves it, another one changes its version."""
    if is_elsewhere(given, found):
        raise _held(
            given,
            found,
            "no step of the upgrade was begun",
            "or move the workload first, with the version that it has: set spec.version to"
            f" {from_version}",
        )


def _held(given: RunInput, found: str, what: str, otherwise: str) -> TaskHeld:
    opened = f"opens cluster {found}" if found else "opens no cluster whose id can be read"
    return TaskHeld(
        f"the workload is in cluster {given.record[CLUSTER]}, and the kubeconfig {opened}: {what}. Set"
        f" spec.cluster.kubeconfigFrom to the former cluster and run `manager instance retry"
        f" {given.instance} -n {given.owner.namespace}`; {otherwise}",
        ELSEWHERE,
    )
