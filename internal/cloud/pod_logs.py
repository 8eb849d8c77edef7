"""The log of a run that is a Job: that of its Pod, read through the API server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client.errors import BadRequest, NotFound
from internal.cloud.runs.jobs.manifest import CONTAINER

if TYPE_CHECKING:
    from ctrlruntime.client.client import Client

__all__ = ["POD", "NoLog", "find_pod", "pod_log_lines"]

POD: Final = BUILTIN[GroupVersionKind("", "v1", "Pod")]
JOB_LABEL: Final = "job-name"


class NoLog(Exception):
    """There is no log to read; the message names the reason, and what to do."""


async def find_pod(client: Client, namespace: str, run_id: str) -> str:
    """Return the name of the Pod of a run. Raises NoLog before its container has begun, and what the client raises."""
    pods = await client.list(POD, namespace, labels=f"{JOB_LABEL}={run_id}")
    pod = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)
    if pod is None or not _has_begun(pod):
        reason = "its Pod was deleted" if pod is None else "its container has not begun"
        raise NoLog(f"run {run_id} has no log: {reason}; `kubectl describe job {run_id}`")
    return str(pod["metadata"]["name"])


async def pod_log_lines(
    client: Client,
    namespace: str,
    pod: str,
    *,
    tail: int,
    follow: bool = False,
    inactivity: float,
    limit: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the last `tail` lines of a Pod's log, then with `follow` further ones until its container has ended.

    `inactivity`: seconds without a line after which it fails; `limit`: bytes after which the server ends
    the answer. Raises NoLog, and what the client raises.
    """
    path = POD.path(pod, "log", namespace=namespace)
    params = {"container": CONTAINER, "tailLines": str(tail)}
    if follow:
        params["follow"] = "true"
    if limit is not None:
        params["limitBytes"] = str(limit)
    lines = client.transport.watch_lines(
        path, params, inactivity=inactivity, headers={"Accept": "text/plain, application/json"}
    )
    try:
        async with aclosing(lines):
            async for line in lines:
                yield line
    except (BadRequest, NotFound) as error:
        raise NoLog(f"Pod {pod} has no log: {error}") from error


def _has_begun(pod: dict[str, Any]) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [each.get("state") or {} for each in statuses if each.get("name") == CONTAINER]
    return any("running" in state or "terminated" in state for state in states)
