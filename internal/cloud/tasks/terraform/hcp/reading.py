"""What is left of a run: outputs of the state, and the reasons of a failure.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs/state-version-outputs
"""

import re
from collections.abc import AsyncIterator
from typing import Final

from internal.cloud.tasks.task import TaskError
from internal.cloud.tasks.terraform.configuration import Configuration
from internal.cloud.tasks.terraform.events import Output, Outputs, error_of, event_of, split
from internal.cloud.tasks.terraform.hcp.api import HCP, Missing, Resource, segment
from internal.cloud.tasks.terraform.hcp.runs import FAILED, Run
from internal.cloud.tasks.terraform.protection import Destruction, destructions_in_log

_LOOKS: Final = 6
"""How often to look for outputs, which are taken from a state some time after it was stored."""
_PASSED: Final = frozenset({"passed", "overridden", "pending", "running", "unreachable"})


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


_COLORS: Final = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x02\x03]")
_LINES: Final = 8
_MOST: Final = 1200


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
