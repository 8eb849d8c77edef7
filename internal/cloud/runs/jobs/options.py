"""How Jobs of runs look."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ctrlruntime.api.kinds import Manifest

__all__ = ["JobOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The parts of a Job that an installation decides. Times in seconds."""

    image: str
    """The manager's own image, or one with its program and more tools."""
    command: Sequence[str] = ()
    """The program; empty for the image's own entrypoint."""
    arguments: Sequence[str] = ("task", "run")
    """Before the name of the task."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for every task."""
    environment_from: Sequence[Manifest] = ()
    """More of them, as `envFrom` of a container."""
    service_account: str = ""
    """ServiceAccount in the namespace of the runs, whose token tasks get; empty: they get none."""
    resources: Manifest = field(default_factory=dict)
    """Requests and limits of the container."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Sequence[Manifest] = ()
    affinity: Manifest = field(default_factory=dict)
    priority_class: str = ""
    image_pull_policy: str = ""
    image_pull_secrets: Sequence[str] = ()
    """Names of Secrets in the namespace of the runs."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Of the Pods."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the Pods."""
    grace: int = 90
    """How long a run that was told to end may take."""
    patience: int = 600
    """How long a Pod may wait for its node, on top of the time its run may take."""
    keep: int = 7 * 86400
    """How long Jobs are kept whose manager never came back; it deletes them itself."""
