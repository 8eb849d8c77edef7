"""Runs of HCP Terraform: what their states mean, which are own ones, their outputs and failures.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs/run, Run States
https://developer.hashicorp.com/terraform/cloud-docs/api-docs/state-version-outputs
"""

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from internal.cloud.tasks.task import TaskError
from internal.cloud.tasks.terraform.configuration import Configuration
from internal.cloud.tasks.terraform.events import (
    Output,
    Outputs,
    Summary,
    error_of,
    event_of,
    split,
)
from internal.cloud.tasks.terraform.hcp.api import (
    HCP,
    Document,
    Missing,
    Resource,
    relation,
    segment,
)
from internal.cloud.tasks.terraform.protection import Destruction, destructions_in_log

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
_LOOKS: Final = 6
"""How often to look for outputs, which are taken from a state some time after it was stored."""
_PASSED: Final = frozenset({"passed", "overridden", "pending", "running", "unreachable"})
_COLORS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x02\x03]")
_LINES: Final = 8
_MOST: Final = 1200


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


async def outputs(
    api: HCP, workspace: str, wanted: frozenset[str], sensitive: frozenset[str]
) -> Outputs:
    """Return the outputs of the current state. Raises TaskError if some are missing."""
    found: list[Output] = []
    for look in range(_LOOKS if wanted else 0):
        found = [each async for each in _found(api, workspace, wanted)]
        if wanted <= {each.name for each in found}:
            break
        await api.sleep(min(2.0**look, 10.0))
    missing = wanted - {each.name for each in found}
    if missing:
        raise TaskError(f"the state has no output {', '.join(sorted(missing))} (yet)")
    return split(found, wanted, sensitive)


async def outputs_of(api: HCP, workspace: str, configuration: Configuration) -> Outputs:
    """Return the outputs that the configuration declares."""
    return await outputs(api, workspace, configuration.outputs, configuration.sensitive)


async def _found(api: HCP, workspace: str, wanted: frozenset[str]) -> AsyncIterator[Output]:
    path = f"/workspaces/{segment(workspace)}/current-state-version-outputs"
    try:
        async for page in api.pages(path):
            for each in page.many:
                if each["attributes"]["name"] in wanted:
                    yield await _revealed(api, each)
    except Missing:
        return


async def _revealed(api: HCP, resource: Resource) -> Output:
    """List hide the values of sensitive outputs; each shows its own."""
    attributes = resource["attributes"]
    if attributes.get("sensitive"):
        document = await api.get(f"/state-version-outputs/{segment(resource['id'])}")
        attributes = document.one["attributes"]
    return Output(
        name=attributes["name"],
        value=attributes.get("value"),
        sensitive=bool(attributes.get("sensitive")),
    )


async def failure(api: HCP, run: Run, link: str) -> str:
    """Why a run did not succeed, with the end of its log where there is one."""
    text = f"run {run.identity} {FAILED[run.status]} ({link})"
    if run.status != "errored":
        return text
    try:
        if run.log_url is not None:
            said = tail(await api.read(run.log_url))
            return f"{text}: {said}" if said else text
        gates = [*await _checks(api, run), *await _stages(api, run)]
    except TaskError:
        return f"{text}; its log cannot be read"
    return f"{text}: {'; '.join(gates)}" if gates else text


async def planned_destructions(api: HCP, run: Run) -> list[Destruction]:
    """Return what a finished plan destroys, by address; empty where its log cannot be read.

    The log takes no more rights than the run; the plan as JSON takes those of an administrator.
    """
    if run.plan_log_url is None:
        return []
    try:
        return destructions_in_log(await api.read(run.plan_log_url))
    except TaskError:
        return []


async def _checks(api: HCP, run: Run) -> list[str]:
    """Policy checks that were not passed."""
    try:
        document = await api.get(f"/runs/{segment(run.identity)}/policy-checks")
    except Missing:
        return []
    states = [each["attributes"]["status"] for each in document.many]
    return [f"policy check {state}" for state in states if state not in _PASSED]


async def _stages(api: HCP, run: Run) -> list[str]:
    """Stages of run tasks and policy evaluations that were not passed."""
    try:
        document = await api.get(f"/runs/{segment(run.identity)}/task-stages")
    except Missing:
        return []
    found = [each["attributes"] for each in document.many]
    return [
        f"stage {each.get('stage')} {each['status']}"
        for each in found
        if each["status"] not in _PASSED
    ]


def tail(log: bytes) -> str:
    """Return the errors of a log of JSON lines, or else the last lines that say something."""
    lines = [_COLORS.sub("", line).rstrip() for line in log.decode("utf-8", "replace").splitlines()]
    events = [event for event in map(event_of, lines) if event is not None]
    errors = [text for text in map(error_of, events) if text]
    if errors:
        return _last(errors)
    if events:
        lines = [str(event.get("@message", "")) for event in events]
    return _last([line for line in lines if line.strip(" │╷╵")])


def _last(lines: list[str]) -> str:
    text = "\n".join(lines[-_LINES:])
    return text if len(text) <= _MOST else "…" + text[-_MOST:]
