"""The status of a simulated Pod. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ctrlruntime.envtest.nodes.kinds import SIMULATE, Manifest
from ctrlruntime.envtest.nodes.status import condition, conditions, timestamp

HOST_IP = "192.0.2.1"


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a container ended; `message` is the content of its termination message file."""

    code: int
    message: str = ""
    started: str = ""


def simulated(pod: Mapping[str, Any]) -> str:
    """Return what the Pod is to suffer: the annotation's word, or ImagePullBackOff by image name."""
    word: str = (pod["metadata"].get("annotations") or {}).get(SIMULATE, "")
    if word:
        return word
    images = (c.get("image", "") for c in pod["spec"].get("containers", []))
    return "ImagePullBackOff" if any(i.endswith(":does-not-exist") for i in images) else ""


def runs_to_completion(pod: Mapping[str, Any]) -> bool:
    policy: str = pod["spec"].get("restartPolicy", "Always")
    return policy != "Always"


def unschedulable(pod: Mapping[str, Any], now: datetime, message: str) -> Manifest:
    """Pending, and on no node."""
    current = pod.get("status") or {}
    wanted = [condition("PodScheduled", False, "Unschedulable", message)]
    kept = {key: current[key] for key in ("qosClass", "observedGeneration") if key in current}
    found = conditions(current.get("conditions"), wanted, now)
    return {**kept, "phase": "Pending", "conditions": found}


def waiting(pod: Mapping[str, Any], now: datetime, reason: str, message: str = "") -> Manifest:
    """Scheduled, and stuck: ImagePullBackOff or CrashLoopBackOff, or for the reason of the message."""
    crashed = reason == "CrashLoopBackOff"
    if not message:
        message = "back-off restarting failed container" if crashed else "Back-off pulling image"
    state = {"waiting": {"reason": reason, "message": message}}
    containers = [
        _container(c, state, ready=False, restarts=1 if crashed else 0)
        for c in pod["spec"].get("containers", [])
    ]
    return _status(pod, now, "Running" if crashed else "Pending", containers, ready=False)


def running(pod: Mapping[str, Any], now: datetime, *, ready: bool = True) -> Manifest:
    """Every container runs."""
    state = {"running": {"startedAt": _started(pod, now)}}
    containers = [_container(c, state, ready=ready) for c in pod["spec"].get("containers", [])]
    return _status(pod, now, "Running", containers, ready=ready)


def overdue(pod: Mapping[str, Any], now: datetime, exits: Mapping[str, Exit]) -> Manifest:
    """Every container was ended because activeDeadlineSeconds were over."""
    status = finished(pod, now, exits, failed=True)
    message = "Pod was active on the node longer than the specified deadline"
    return status | {"reason": "DeadlineExceeded", "message": message}


def finished(
    pod: Mapping[str, Any], now: datetime, exits: Mapping[str, Exit], *, failed: bool = False
) -> Manifest:
    """Every container has ended; `exits` by container name. Failed if one of them did, or as given."""
    failed = failed or any(exit_.code for exit_ in exits.values())
    containers = []
    for container in pod["spec"].get("containers", []):
        end = exits.get(container["name"], Exit(code=0))
        terminated = {
            "exitCode": end.code,
            "reason": "Error" if end.code else "Completed",
            "startedAt": end.started or _started(pod, now),
            "finishedAt": timestamp(now),
        }
        if end.message:
            terminated["message"] = end.message
        containers.append(_container(container, {"terminated": terminated}, ready=False))
    reason = "PodFailed" if failed else "PodCompleted"
    phase = "Failed" if failed else "Succeeded"
    return _status(pod, now, phase, containers, ready=False, reason=reason)


def with_address(status: Manifest, address: str) -> Manifest:
    """Return the status of a Pod that has an address as soon as it is no longer Pending."""
    if status["phase"] == "Pending":
        return status
    return status | {"podIP": address, "podIPs": [{"ip": address}]}


def _started(pod: Mapping[str, Any], now: datetime) -> str:
    return str((pod.get("status") or {}).get("startTime") or timestamp(now))


def _container(
    container: Mapping[str, Any], state: Manifest, *, ready: bool, restarts: int = 0
) -> Manifest:
    running_now = "running" in state
    waiting_now = "waiting" in state
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "" if waiting_now else f"simulated://{container.get('image', '')}",
        "ready": ready,
        "started": running_now,
        "restartCount": restarts,
        "state": state,
        "lastState": {},
    }


def _status(
    pod: Mapping[str, Any],
    now: datetime,
    phase: str,
    containers: list[Manifest],
    *,
    ready: bool,
    reason: str = "",
) -> Manifest:
    current = pod.get("status") or {}
    why = "" if ready else reason or "ContainersNotReady"
    wanted = [
        condition("PodReadyToStartContainers", phase in ("Pending", "Running"), ""),
        condition("Initialized", True, "PodCompleted" if phase == "Succeeded" else ""),
        condition("Ready", ready, why),
        condition("ContainersReady", ready, why),
        condition("PodScheduled", True, ""),
    ]
    status = {
        **{key: current[key] for key in ("qosClass", "observedGeneration") if key in current},
        "phase": phase,
        "conditions": conditions(current.get("conditions"), wanted, now),
        "containerStatuses": containers,
        "hostIP": HOST_IP,
        "hostIPs": [{"ip": HOST_IP}],
        "startTime": _started(pod, now),
    }
    init = pod["spec"].get("initContainers")
    if init:
        status["initContainerStatuses"] = [_init(c, _started(pod, now)) for c in init]
    return status


def _init(container: Mapping[str, Any], when: str) -> Manifest:
    done = {"exitCode": 0, "reason": "Completed", "startedAt": when, "finishedAt": when}
    return _container(container, {"terminated": done}, ready=True)
