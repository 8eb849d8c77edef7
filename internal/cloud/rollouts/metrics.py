"""Series of FleetRollouts: by version, state, wave, phase and health check."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from apis.cloud import FleetRolloutPhase, FleetRolloutStatus
from ctrlruntime.queue import Request
from ctrlruntime.rollout.health_checks import HealthCheckState
from internal.cloud.rollouts.status import is_halted

STATES: Final = {
    "Updated": "updated",
    "Changing": "changing",
    "Failed": "failed",
    "Waiting": "waiting",
    "RolledBack": "rolled_back",
    "Skipped": "skipped",
}


class RolloutMetrics:
    """The series of all rollouts in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        key = ("namespace", "rollout")
        self._known: dict[Request, set[tuple[Gauge, tuple[str, ...]]]] = {}
        self.instances = Gauge(
            "cloud_rollout_instances",
            "Instances of a FleetRollout by target version and state.",
            (*key, "version", "state"),
            registry=registry,
        )
        self.waves = Gauge(
            "cloud_rollout_wave_instances",
            "Instances of a wave of a FleetRollout by state: Selected, Updated, Ready.",
            (*key, "wave", "state"),
            registry=registry,
        )
        self.phase = Gauge(
            "cloud_rollout_phase",
            "1 for the phase of a FleetRollout.",
            (*key, "phase"),
            registry=registry,
        )
        self.halted = Gauge(
            "cloud_rollout_halted",
            "1 while a FleetRollout is halted by failures, else 0.",
            key,
            registry=registry,
        )
        self.checks = Gauge(
            "cloud_rollout_health_check",
            "1 for the state of a health check of a FleetRollout.",
            (*key, "check", "state"),
            registry=registry,
        )

    def record(self, request: Request, status: FleetRolloutStatus, *, requested: bool) -> None:
        """Set the series of one rollout; `requested` is whether an undo or abort was requested."""
        key = (request.namespace, request.name)
        values: dict[tuple[Gauge, tuple[str, ...]], float] = {
            (self.halted, key): float(is_halted(status) and not requested)
        }
        for name, field in STATES.items():
            values[self.instances, (*key, status.target_version, name)] = getattr(status, field)
        for wave in status.waves:
            counts = (
                ("Selected", wave.instances),
                ("Updated", wave.updated),
                ("Ready", wave.ready),
            )
            for name, count in counts:
                values[self.waves, (*key, wave.name, name)] = count
        for phase in FleetRolloutPhase:
            values[self.phase, (*key, phase.value)] = float(phase is status.phase)
        for check in status.health_checks:
            for state in HealthCheckState:
                is_now = float(state is check.state)
                values[self.checks, (*key, check.name, state.value)] = is_now
        for gauge, labels in self._known.get(request, set()) - values.keys():
            gauge.remove(*labels)
        for (gauge, labels), value in values.items():
            gauge.labels(*labels).set(value)
        self._known[request] = set(values)

    def forget(self, request: Request) -> None:
        """Drop the series of a rollout that is gone."""
        for gauge, labels in self._known.pop(request, set()):
            gauge.remove(*labels)
