"""Claims that are being deleted while their Pod runs: the disk goes when the Pod does. Pure.

Kubernetes keeps such a claim until no Pod uses it (its finalizer kubernetes.io/pvc-protection). So whatever takes
the Pod down, be it for a moment, takes the disk.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.api import Condition
from ctrlruntime.cache.entry import Entry

LOSING: Final = "DisksBeingDeleted"
"""Condition: claims of running Pods are being deleted; it is there only while that is so."""
SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class LosingDisk:
    """A Pod whose claim is being deleted."""

    pod: str
    claim: str
    namespace: str
    volume: str
    """The PersistentVolume; empty if it has none yet."""

    @property
    def words(self) -> str:
        """Why the Pod stays."""
        return f"claim {self.claim} is being deleted, and its disk goes with Pod {self.pod}"

    @property
    def advice(self) -> str:
        """What it means, and what to do."""
        keep = (
            f" To keep the data, run `kubectl patch pv {self.volume} -p "
            """'{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`."""
            if self.volume
            else ""
        )
        return (
            f"{self.words}: the Pod is neither replaced nor taken away.{keep} To let the disk go, run "
            f"`kubectl delete pod {self.pod} -n {self.namespace}`: a node that is wanted starts on a new disk then."
        )


def losing_disk(pod: Entry, claim_of: Callable[[str, str], Entry | None]) -> LosingDisk | None:
    """Return what a Pod would lose if it ended; None if nothing. `claim_of`: a claim by namespace and name."""
    if pod.deletion_timestamp is not None:
        return None
    for name in sorted(_claims_of(pod.field("spec"))):
        claim = claim_of(pod.namespace, name)
        if claim is not None and claim.deletion_timestamp is not None:
            volume = str((claim.field("spec") or {}).get("volumeName") or "")
            return LosingDisk(pod.name, name, pod.namespace, volume)
    return None


def losing_disks(pods: Iterable[Entry], claims: Iterable[Entry]) -> dict[str, LosingDisk]:
    """Return the same for many Pods, by name."""
    known = {(claim.namespace, claim.name): claim for claim in claims}
    found = {pod.name: losing_disk(pod, lambda *key: known.get(key)) for pod in pods}
    return {name: each for name, each in found.items() if each is not None}


def _claims_of(spec: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the claims that a Pod mounts."""
    volumes = (spec or {}).get("volumes") or ()
    sources = [(each.get("persistentVolumeClaim") or {}).get("claimName") for each in volumes]
    return {str(name) for name in sources if name}


def condition_of(losing: Mapping[str, LosingDisk]) -> Condition | None:
    """Return the condition that names them; None if there are none."""
    if not losing:
        return None
    shown: Sequence[LosingDisk] = [losing[name] for name in sorted(losing)]
    texts = [each.advice for each in shown[:SHOWN]]
    if len(shown) > SHOWN:
        texts.append(
            f"And {len(shown) - SHOWN} more: {', '.join(each.pod for each in shown[SHOWN:])}."
        )
    message = " ".join(text[0].upper() + text[1:] for text in texts)
    return Condition(type=LOSING, status="True", reason="ClaimTerminating", message=message)
