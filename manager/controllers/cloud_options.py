"""Options of the cloud system. Imports little of it: the command line reads the defaults of every system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ctrlruntime import outbound_addresses
from ctrlruntime.clock import utc_now
from internal.cloud.pace import Pace
from manager.controllers.health_check_options import HealthCheckOptions
from manager.flags.groups import POSITIVE, flag

if TYPE_CHECKING:
    from internal.cloud.subresource import Subresource
    from internal.cloud.tasks.task import TaskDefinition

Provider = Literal["local", "jobs", "cloudrun"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsOptions:
    """The provider of runs, and its options."""

    provider: Provider = "local"
    """Processes of this machine, Jobs of the cluster, or jobs of Google Cloud Run."""
    folder: Path = Path(".run/runs")
    """local: where the folders of runs are. Runs outlive the manager, and are found there again."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for every task, such as what a cloud's tools need."""
    allowed_environment: tuple[str, ...] = ()
    """Prefixes of variables that Secrets beside an instance may set, besides the usual ones."""
    environment_file: Path | None = None
    """local: file with lines NAME=VALUE for every task, such as credentials."""
    command: Sequence[str] = ()
    """local: the program in place of this manager's own; the name of the task is added."""
    job_environment_from: tuple[str, ...] = field(
        default=(),
        metadata=flag(
            "--job-environment-from",
            "jobs: Secret in the namespaces of instances whose keys are variables of every task. Repeatable.",
            multiple=True,
            metavar="SECRET",
        ),
    )
    job_image: str = field(
        default="",
        metadata=flag("--job-image", "jobs, cloudrun: image of runs. Default: the manager's own."),
    )
    job_service_account: str = field(
        default="",
        metadata=flag(
            "--job-service-account",
            "jobs: ServiceAccount in the namespaces of instances whose token tasks get. Default: they get none.",
        ),
    )
    job_priority_class: str = field(
        default="",
        metadata=flag("--job-priority-class", "jobs: PriorityClass. Default: none."),
    )
    job_pull_secrets: tuple[str, ...] = field(
        default=(),
        metadata=flag(
            "--job-pull-secret",
            "jobs: Secret with credentials for the image, in the namespaces of instances. Repeatable.",
            multiple=True,
        ),
    )
    job_annotations: Mapping[str, str] = field(default_factory=dict)
    """jobs: annotations of the Pods."""

    cloud_run_project: str = field(
        default="", metadata=flag("--cloud-run-project", "cloudrun: the project.")
    )
    cloud_run_location: str = field(
        default="",
        metadata=flag("--cloud-run-location", "cloudrun: the location, such as us-central1."),
    )
    cloud_run_bucket: str = field(
        default="",
        metadata=flag("--cloud-run-bucket", "cloudrun: bucket for inputs and results of runs."),
    )
    cloud_run_service_account: str = field(
        default="",
        metadata=flag(
            "--cloud-run-service-account",
            "cloudrun: email address of the account that tasks run as.",
        ),
    )

    def variables(self) -> dict[str, str]:
        """Return the variables of every task, the same for every provider."""
        from internal.cloud.runs import wire

        allowed = {wire.ALLOWED: ",".join(self.allowed_environment)}
        named = allowed if self.allowed_environment else {}
        return {**outbound_addresses.allowed_environment(), **self.environment, **named}


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudOptions:
    """Options of the cloud system."""

    instance_concurrency: int = field(
        default=20,
        metadata=flag("--instance-concurrency", "Instances worked on at once.", type=POSITIVE),
    )
    subresource_concurrency: int = field(
        default=10,
        metadata=flag(
            "--subresource-concurrency",
            "Subresources of one type worked on at once; no limit on runs.",
            type=POSITIVE,
        ),
    )
    limits: Mapping[str, int] = field(default_factory=dict)
    """By task, runs at once; what is not named keeps its definition's. 0 is without limit."""
    starts_per_minute: Mapping[str, int] = field(default_factory=dict)
    """By task, starts in any 60 seconds; what is not named keeps its definition's. 0: no limit."""
    timeouts: Mapping[str, float] = field(default_factory=dict)
    """By task, seconds that a run may take; what is not named keeps its definition's."""
    attempts: Mapping[str, int] = field(default_factory=dict)
    """By task, attempts for one set of inputs; what is not named keeps its definition's. 0: no limit."""
    settings_file: Path | None = None
    """File whose settings take the place of those above, and may change while the manager runs."""
    terraform_types_file: Path | None = None
    """File with the types of infrastructure, which may change while the manager runs."""
    file_period: float = 5.0
    """Seconds between two looks at these files: a mounted ConfigMap changes without a signal."""
    runs: RunsOptions = field(default_factory=RunsOptions)
    """Where runs execute."""
    health_checks: HealthCheckOptions = field(default_factory=HealthCheckOptions)
    """Where health checks of FleetRollouts may send requests."""
    pace: Pace = field(default_factory=Pace)
    """How long the driver waits for what."""
    clock: Callable[[], datetime] = utc_now
    """The time by which the driver schedules runs."""

    def limited(self, subresources: Sequence[Subresource[Any]]) -> list[Subresource[Any]]:
        """Return the subresources with the limits that the options give them."""
        return [replace(item, definition=self._definition(item)) for item in subresources]

    def _definition(self, item: Subresource[Any]) -> TaskDefinition:
        from internal.cloud.tasks.settings import TaskSettings, with_settings

        name = item.definition.name
        settings = TaskSettings(
            limit=self.limits.get(name),
            starts_per_minute=self.starts_per_minute.get(name),
            timeout_seconds=self.timeouts.get(name),
            attempts=self.attempts.get(name),
        )
        return with_settings(item.definition, settings)
