"""Where and how Cloud Run jobs of runs are run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["CloudRunOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudRunOptions:
    """One project and location, and one bucket that only the manager and its tasks may read."""

    project: str
    location: str
    bucket: str
    """Cloud Storage bucket in which runs find their input and leave their result."""
    image: str
    service_account: str = ""
    """Email address of the account that tasks run as, with `roles/storage.objectUser` on the bucket."""
    command: Sequence[str] = ()
    """The program; empty for the image's own entrypoint."""
    arguments: Sequence[str] = ("task", "run")
    """Before the name of the task."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits: Mapping[str, str] = field(default_factory=dict)
    """Of the container: cpu and memory."""
    grace: float = 30.0
    """Seconds that `delete` waits for a run that it cancelled."""
    run_url: str = "https://run.googleapis.com"
    storage_url: str = "https://storage.googleapis.com"

    @property
    def parent(self) -> str:
        """Where the jobs are."""
        return f"projects/{self.project}/locations/{self.location}"
