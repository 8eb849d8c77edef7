"""The row of a Pod: its readiness, restarts and the status in one word."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    Cells,
    Printer,
    age,
    columns,
    items,
    part,
    since,
)

_COLUMNS: Final = columns(
    "Name | Ready | Status | Restarts | Age | IP+ | Node+ | Nominated Node+ | Readiness Gates+"
)
_DONE: Final = {
    "Succeeded": ("Succeeded", "The pod has completed successfully."),
    "Failed": ("Failed", "The pod failed."),
}


class _Summary:
    """Walks the container statuses of a Pod as the API server's printer does."""

    def __init__(self, pod: Manifest) -> None:
        self.spec, self.status = part(pod, "spec"), part(pod, "status")
        self.metadata = pod["metadata"]
        self.phase = str(self.status.get("phase") or "")
        self.reason = str(self.status.get("reason") or self.phase)
        self.ready = 0
        self.restarts = 0
        self.restarted = ""
        self.sidecars = {
            each.get("name")
            for each in items(self.spec, "initContainers")
            if each.get("restartPolicy") == "Always"
        }
        self.total = len(items(self.spec, "containers")) + len(self.sidecars)

    def walk(self) -> None:
        if self._condition("PodScheduled").get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        waiting = self._init()
        if not waiting or self._condition("Initialized").get("status") == "True":
            statuses = items(self.status, "initContainerStatuses")
            self._count(each for each in statuses if each.get("name") in self.sidecars)
            self._containers()
        if self.metadata.get("deletionTimestamp"):
            if self.status.get("reason") == "NodeLost":
                self.reason = "Unknown"
            elif self.phase not in {"Succeeded", "Failed"}:
                self.reason = "Terminating"

    def _condition(self, kind: str) -> dict[str, Any]:
        found = (c for c in items(self.status, "conditions") if c.get("type") == kind)
        return next(found, {})

    def _count(self, statuses: Iterable[dict[str, Any]]) -> None:
        """Start counting restarts anew, with these containers."""
        self.restarts, self.restarted = 0, ""
        for status in statuses:
            self._restart(status)

    def _restart(self, status: dict[str, Any]) -> None:
        self.restarts += int(status.get("restartCount") or 0)
        ended = part(part(status, "lastState"), "terminated").get("finishedAt") or ""
        self.restarted = max(self.restarted, ended)

    def _init(self) -> bool:
        """Whether an init container still holds the Pod up."""
        for index, status in enumerate(items(self.status, "initContainerStatuses")):
            self._restart(status)
            state = part(status, "state")
            terminated = state.get("terminated")
            if terminated is not None and terminated.get("exitCode", 0) == 0:
                continue
            if status.get("name") in self.sidecars and status.get("started"):
                self.ready += bool(status.get("ready"))
                continue
            self.reason = self._init_reason(index, state)
            return True
        return False

    def _init_reason(self, index: int, state: dict[str, Any]) -> str:
        terminated, waiting = state.get("terminated"), part(state, "waiting")
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(items(self.spec, 'initContainers'))}"

    def _containers(self) -> None:
        running = False
        for status in reversed(items(self.status, "containerStatuses")):
            self._restart(status)
            state = part(status, "state")
            terminated = state.get("terminated")
            if reason := part(state, "waiting").get("reason"):
                self.reason = reason
            elif terminated is not None:
                self.reason = _ended(terminated)
            elif status.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed" and running:
            ready = self._condition("Ready").get("status") == "True"
            self.reason = "Running" if ready else "NotReady"


def _ended(terminated: dict[str, Any]) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _cells(pod: Manifest, now: datetime) -> Cells:
    summary = _Summary(pod)
    summary.walk()
    restarts = str(summary.restarts)
    if summary.restarts and summary.restarted:
        restarts += f" ({since(summary.restarted, now)} ago)"
    return [
        pod["metadata"]["name"],
        f"{summary.ready}/{summary.total}",
        summary.reason,
        restarts,
        age(pod, now),
        _address(summary.status),
        summary.spec.get("nodeName") or NONE,
        summary.status.get("nominatedNodeName") or NONE,
        _gates(summary),
    ]


def _address(status: dict[str, Any]) -> str:
    addresses = [each.get("ip") for each in items(status, "podIPs")]
    return str((addresses[0] if addresses else status.get("podIP")) or NONE)


def _gates(summary: _Summary) -> str:
    gates = [gate.get("conditionType") for gate in items(summary.spec, "readinessGates")]
    if not gates:
        return NONE
    true = {c.get("type") for c in items(summary.status, "conditions") if c.get("status") == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"


def _conditions(pod: Manifest) -> list[dict[str, str]]:
    done = _DONE.get(part(pod, "status").get("phase") or "")
    if done is None:
        return []
    reason, message = done
    return [{"type": "Completed", "status": "True", "reason": reason, "message": message}]


POD_PRINTER: Final = Printer(_COLUMNS, _cells, _conditions)
