"""What a plan destroys, and its refusal under deletion protection. Pure.

https://developer.hashicorp.com/terraform/internals/json-format, Plan and Change Representation
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.resources.revision import canonical
from internal.cloud.tasks.terraform.events import event_of

_SHOWN: Final = 20
"""Addresses that a message lists."""
_COLORS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x02\x03]")
_TEXT: Final = re.compile(
    r"^\s*# (?P<address>\S.*?) (?:\(deposed object \S+\) )?"
    r"(?:(?P<delete>will be destroyed)|(?P<tainted>is tainted, so )?(?P<replace>must be replaced)"
    r"|(?P<asked>will be replaced, as requested))"
)


class UnreadablePlan(ValueError):
    """The plan is not what Terraform documents, so nothing is known of what it destroys."""


@dataclass(frozen=True, slots=True, order=True)
class Destruction:
    """One resource that would not survive the plan."""

    address: str
    replaced: bool
    """Whether another one takes its place."""
    tainted: bool = False
    """Whether it is replaced only since it was left half-made, by an apply that failed or was interrupted."""

    def __str__(self) -> str:
        why = " (tainted)" if self.tainted else ""
        return f"{'replace' if self.replaced else 'destroy'} {self.address}{why}"


def destructions_of(plan: Mapping[str, Any]) -> list[Destruction]:
    """Return what the output of `terraform show -json PLAN` destroys. Raises UnreadablePlan."""
    changes = plan.get("resource_changes", [])
    if "format_version" not in plan or not isinstance(changes, list):
        raise UnreadablePlan("it has no format_version, or its resource_changes are no list")
    try:
        found = [
            (item["address"], item["change"]["actions"], item.get("action_reason"))
            for item in changes
        ]
    except (KeyError, TypeError) as error:
        raise UnreadablePlan("one of its resource_changes has no address or no actions") from error
    return sorted(
        Destruction(
            str(address),
            replaced="create" in actions,
            tainted="create" in actions and reason == "replace_because_tainted",
        )
        for address, actions, reason in found
        if "delete" in actions
    )


_DECIDES: Final = ("before", "after", "after_unknown", "replace_paths", "importing")
"""What of a change belongs to it, besides its actions."""


def content_of(plan: Mapping[str, Any]) -> str:
    """Return a hash of what the output of `terraform show -json PLAN` would do: equal for plans that do the same.

    Times, versions and what does not change are no part of it. Raises UnreadablePlan.
    """
    try:
        changes = [_doing(item) for item in plan.get("resource_changes", [])]
        outputs = plan.get("output_changes") or {}
        named = sorted((name, _change(each)) for name, each in outputs.items())
    except (AttributeError, KeyError, TypeError) as error:
        raise UnreadablePlan("one of its changes has no address or no actions") from error
    kept = sorted((item for item in changes if item is not None), key=lambda item: item[:2])
    actions = plan.get("action_invocations")
    return hashlib.sha256(canonical([kept, named, actions])).hexdigest()


def _doing(item: Mapping[str, Any]) -> list[Any] | None:
    change, moved = _change(item["change"]), item.get("previous_address")
    if change[0] == ["no-op"] and change[-1] is None and moved is None:
        return None
    return [str(item["address"]), str(item.get("deposed", "")), change, moved]


def _change(change: Mapping[str, Any]) -> list[Any]:
    return [change["actions"], *(change.get(name) for name in _DECIDES)]


def destructions_in_log(log: bytes) -> list[Destruction]:
    """Return what will be destroyed by the log of a plan, whether it is JSON lines or text."""
    found: set[Destruction] = set()
    for line in log.splitlines():
        event = event_of(line)
        item = _in_text(line) if event is None else _in_event(event)
        if item is not None:
            found.add(item)
    return sorted(found)


def _in_event(event: Mapping[str, Any]) -> Destruction | None:
    change = event.get("change") or {}
    if event.get("type") != "planned_change" or change.get("action") not in ("delete", "replace"):
        return None
    address = (change.get("resource") or {}).get("addr", "a resource")
    replaced = change["action"] == "replace"
    return Destruction(
        str(address), replaced=replaced, tainted=replaced and change.get("reason") == "tainted"
    )


def _in_text(line: bytes) -> Destruction | None:
    match = _TEXT.match(_COLORS.sub("", line.decode("utf-8", "replace")))
    if match is None:
        return None
    return Destruction(
        match["address"],
        replaced=match["delete"] is None,
        tainted=match["tainted"] is not None,
    )


def refusal(found: Sequence[Destruction], count: int, instance: str) -> str:
    """Return why a plan is not applied, with the addresses, and what to do.

    `count`: how many it destroys, which may be more than are known by address.
    """
    listed = _listed([str(item) for item in found], max(count, len(found)))
    return (
        f"deletion protection is on, and the plan destroys or replaces {listed}. Nothing was applied."
        " Take the change back; or set spec.debug.enableDeletionProtection of the Instance to false"
        " (or spec.deletionProtection, where that is set)"
        f" and run `manager instance retry {instance}`, approve its plan, and set it back to true afterwards"
    )


def _listed(items: Iterable[str], count: int) -> str:
    shown = list(items)[:_SHOWN]
    if not shown:
        return f"{count} resources"
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f"{count} resources: {', '.join(shown)}{more}"
