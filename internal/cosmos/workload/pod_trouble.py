"""Why a Pod does not run, by its own status, in words that name the container and the cause. Pure.

A node that cannot be polled is silent for a reason that its Pod often has: an image that cannot be pulled, a
container that runs out of memory, no machine with room. What other operators show of a StatefulSet's Pods is shown here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ctrlruntime.cache.entry import Entry
from internal.cosmos.workload.pod_failure import STUCK

OF_POD: Final = "Its Pod "
"""How a text begins that is about the Pod of a node, and not about an answer of the node."""
_LONGEST: Final = 200
"""Characters of a message of the kubelet or the scheduler: whole logs may be in it."""
_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff"})
"""They alternate for one cause, and so do their messages."""
_NO_SPACE: Final = "no space left on device"
_TROUBLES: Final = ("has no machine: ", "does not start: ", "keeps ending: ", "has ended: ")


def pod_trouble(entry: Entry) -> str:
    """Return what is wrong, such as `does not start: container node cannot pull image gaia:v9 (ImagePullBackOff)`; empty: nothing is seen.

    The text stays the same from attempt to attempt, so that it is written once.
    """
    status: Mapping[str, Any] = entry.field("status") or {}
    if status.get("phase") == "Failed":
        return f"has ended: {_cause(status)}"
    for condition in status.get("conditions") or ():
        if (condition.get("type"), condition.get("status")) == ("PodScheduled", "False"):
            return f"has no machine: {_cause(condition)}"
    found = [text for each in _containers(status) if (text := _of_container(each))]
    return found[0] if found else ""


def keeps_ending(entry: Entry) -> str:
    """Return the trouble of a Pod of which a container ends again and again; else empty."""
    trouble = pod_trouble(entry)
    return trouble if trouble.startswith("keeps ending: ") else ""


def lacks_space(entry: Entry) -> bool:
    """Whether a container ended for want of space, by its last words."""
    return _NO_SPACE in keeps_ending(entry).lower()


def names_trouble(text: str) -> bool:
    """Whether a text quotes a trouble of a Pod."""
    return any(trouble in text for trouble in _TROUBLES)


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for field, kind in (("initContainerStatuses", "init container"), ("containerStatuses", "")):
        for each in status.get(field) or ():
            yield {**each, "kind": kind or "container"}


def _of_container(container: Mapping[str, Any]) -> str:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason, name = waiting.get("reason"), f"{container['kind']} {container.get('name')}"
    if reason == "CrashLoopBackOff":
        ended = (container.get("lastState") or {}).get("terminated") or {}
        return f"keeps ending: {name}: {_ending(ended)}"
    if reason in _IMAGE:
        return (
            f"does not start: {name} cannot pull image {container.get('image')} (ImagePullBackOff)"
        )
    if reason in STUCK:
        return f"does not start: {name}: {_cause(waiting)}"
    return ""


def _ending(ended: Mapping[str, Any]) -> str:
    parts = [ended.get("reason"), f"exit code {ended['exitCode']}" if "exitCode" in ended else ""]
    message = _short(ended.get("message"))
    return ", ".join(filter(None, parts)) + (f": {message}" if message else "")


def _cause(source: Mapping[str, Any]) -> str:
    return ": ".join(filter(None, (source.get("reason"), _short(source.get("message")))))


def _short(message: object) -> str:
    text = " ".join(message.split()) if isinstance(message, str) else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
