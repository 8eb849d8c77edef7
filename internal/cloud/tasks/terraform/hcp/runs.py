"""Runs of HCP Terraform: what their states mean, and which of them are own ones. Pure.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs/run, Run States
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from internal.cloud.tasks.terraform.events import Summary
from internal.cloud.tasks.terraform.hcp.api import Document, Resource, relation

SUCCEEDED: Final = frozenset({"applied", "planned_and_finished"})
FAILED: Final[Mapping[str, str]] = {
    "errored": "errored",
    "discarded": "was discarded by a person",
    "canceled": "was cancelled",
    "force_canceled": "was cancelled by force: look at the state before anything else",
    "policy_soft_failed": "broke a policy in a run that only plans",
}
STOPPED_BY_PEOPLE: Final = frozenset({"discarded", "force_canceled"})
"""A person decided: it is not for the control plane to try again."""
APPLYING: Final = frozenset({"confirmed", "apply_queued", "pre_apply_running", "applying"})
_DOING: Final[Mapping[str, str]] = {
    "pending": "is queued in its workspace",
    "plan_queued": "waits for capacity to plan",
    "queuing": "is being queued",
    "planning": "plans",
    "cost_estimating": "has its costs estimated",
    "cost_estimated": "has had its costs estimated",
    "policy_checking": "is checked against policies",
    "policy_override": "broke a policy: a person has to override or discard it",
    "policy_checked": "has passed the policies",
    "planned": "is planned",
    "confirmed": "is confirmed",
    "apply_queued": "waits for capacity to apply",
    "applying": "applies",
}
_OURS: Final = re.compile(r"\((terraform-[0-9a-f]{12})\)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as the API shows it."""

    identity: str
    status: str
    message: str
    created_at: str
    """RFC 3339, UTC, so that texts compare as times."""
    confirmable: bool
    cancelable: bool
    discardable: bool
    may_apply: bool = True
    """Whether the token may confirm it."""
    plan: Mapping[str, Any] | None = None
    """Attributes of the plan, if they were included."""
    apply: Mapping[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing more happens."""
        return self.status in SUCCEEDED or self.status in FAILED

    @property
    def ours(self) -> str | None:
        """The run id of the control plane that it was made for; None for a run of others."""
        found = _OURS.search(self.message)
        return found.group(1) if found else None

    @property
    def summary(self) -> Summary | None:
        """What the plan changes, once there is one."""
        if self.plan is None or self.plan.get("status") != "finished":
            return None
        return Summary(
            add=self.plan.get("resource-additions") or 0,
            change=self.plan.get("resource-changes") or 0,
            destroy=self.plan.get("resource-destructions") or 0,
        )

    @property
    def doing(self) -> str:
        """What it is at, for people."""
        said = _DOING.get(self.status) or FAILED.get(self.status) or self.status.replace("_", " ")
        summary = self.summary
        return said if summary is None else f"{said}: {summary.planned()}"

    @property
    def plan_log_url(self) -> str | None:
        """The log of the plan, a signed address."""
        return None if self.plan is None else self.plan.get("log-read-url")

    @property
    def log_url(self) -> str | None:
        """The log of what errored, a signed address."""
        for part in (self.apply, self.plan):
            if part is not None and part.get("status") == "errored":
                return part.get("log-read-url")
        return None


def message_of(run_id: str, about: str) -> str:
    """Return the message of an own run: it ends with the run id, by which it is found again."""
    return f"{about} ({run_id})"


def run_of(resource: Resource, document: Document | None = None) -> Run:
    """From a resource object; `document` holds what was included."""
    attributes = resource["attributes"]
    actions = attributes.get("actions") or {}
    return Run(
        identity=resource["id"],
        status=attributes["status"],
        message=attributes.get("message") or "",
        created_at=attributes.get("created-at") or "",
        confirmable=bool(actions.get("is-confirmable")),
        cancelable=bool(actions.get("is-cancelable")),
        discardable=bool(actions.get("is-discardable")),
        may_apply=(attributes.get("permissions") or {}).get("can-apply", True),
        plan=_included(resource, document, "plan", "plans"),
        apply=_included(resource, document, "apply", "applies"),
    )


def _included(
    resource: Resource, document: Document | None, name: str, kind: str
) -> Mapping[str, Any] | None:
    pointer = relation(resource, name)
    if document is None or pointer is None:
        return None
    found = document.included(kind, pointer["id"])
    return None if found is None else found["attributes"]
