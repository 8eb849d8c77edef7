"""The infrastructure of an instance by a binary of the task's image: init, plan, apply, output.

https://developer.hashicorp.com/terraform/cli/commands
"""

import os
import pwd
import re
import shutil
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from apis.cloud import InstanceTerraformSpec, TaskOperation, TerraformSettings
from internal.cloud.environment_names import parse_prefixes
from internal.cloud.runs import RunInput, wire
from internal.cloud.tasks.plans import is_rejected, plan_output, waits_for_approval
from internal.cloud.tasks.task import (
    DESTROYED,
    INTERRUPTIBLE,
    LOCK_HOLDER,
    LOCK_INFO,
    TaskContext,
    TaskError,
    TaskRejected,
    TaskResult,
)
from internal.cloud.tasks.terraform.backends import (
    TerraformOrder,
    drift_result,
    made_plan,
    rejected_result,
    waiting_result,
)
from internal.cloud.tasks.terraform.configuration import Configuration, configuration
from internal.cloud.tasks.terraform.events import (
    Event,
    Output,
    Outputs,
    Summary,
    error_of,
    event_of,
    split,
    summary_of,
)
from internal.cloud.tasks.terraform.local.binary import (
    Binary,
    Ended,
    LocalSettings,
    environment_from,
    local_settings,
)
from internal.cloud.tasks.terraform.prior_state import (
    NOTHING_KEPT,
    StateFacts,
    check_state,
    is_absent,
    is_built,
    is_torn_down,
    state_facts,
)
from internal.cloud.tasks.terraform.protection import (
    Destruction,
    UnreadablePlan,
    content_of,
    destructions_of,
    refusal,
)

WITH_LOCK: Final = frozenset(
    {
        "refresh_start",
        "refresh_complete",
        "resource_drift",
        "planned_change",
        "apply_start",
        "apply_progress",
        "apply_complete",
        "apply_errored",
        "provision_start",
        "provision_progress",
        "provision_complete",
        "provision_errored",
    }
)
"""Events that a command reports only while it holds the lock."""
_REFUSED: Final = "Error acquiring the state lock"
_FIELD: Final = re.compile(r"^\s*(ID|Who|Operation|Created):\s*(.*?)\s*$", re.MULTILINE)
_TIME: Final = re.compile(r"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d{1,6})?\d* ([+-]\d{4})")

_PLAN: Final = "plan.tfplan"
_STATE: Final = "terraform.tfstate"
_SHOWN_OF_BACKEND: Final = ("namespace", "secret_suffix", "bucket", "key", "path", "prefix")
"""Settings of a backend that say where a state is, and hold no secret."""
_LOCK: Final = "-lock-timeout=120s"
_MOST: Final = 1500
_HOST: Final = re.compile(r"https?://([^/:]+)")


class LocalEngine:
    """One instance, one folder."""

    def __init__(
        self,
        settings: LocalSettings,
        given: RunInput,
        spec: InstanceTerraformSpec,
        folder: Path,
        say: Callable[[str], None],
        keep: Callable[[str, str], None] = lambda _name, _value: None,
    ) -> None:
        """`keep`: see :class:`TaskContext`."""
        self._settings = settings
        self._keep = keep
        self._given = given
        self._spec = spec
        self._folder = folder
        self._say = say
        self._binary = Binary(path=settings.binary, folder=folder, environment=settings.environment)

    async def apply(self) -> TaskResult:
        """Bring the infrastructure about. Raises TaskError, TaskRejected."""
        if is_rejected(self._given.plan):
            return rejected_result(self._given)
        wanted, _ = await self._prepare_checked(teardown=False)
        summary = await self._plan()
        if summary is None and self._looks_for_drift:
            return drift_result(None)
        if summary is not None:
            result = await self._held(summary)
            if result is not None:
                return result
            summary = await self._apply()
        found = await self._outputs(wanted)
        said = "nothing to change" if summary is None else summary.done()
        left = await self._state()
        return TaskResult(
            message=said,
            outputs=found.plain,
            secret_outputs=found.secret,
            record=NOTHING_KEPT if left is None else left.record(self._place),
        )

    async def teardown(self) -> TaskResult:
        """Destroy everything, and the folder of the state. What was never built is no error.

        Raises TaskRejected where what was built has lost its state, until a person decides.
        """
        state = self._settings.state
        gone = is_torn_down(self._given) or not is_built(self._given)
        if state is not None and gone and self._in_folder(state) is None:
            return TaskResult(message="there is no state (any more)")
        _, goes_on = await self._prepare_checked(teardown=True)
        if not goes_on:
            return TaskResult(message=f"forgotten as approved; what was built stays: {self._place}")
        summary = await self._plan("-destroy")
        if summary is not None:
            summary = await self._apply()
        if state is not None:
            self._keep(DESTROYED, "true")  # without it the next attempt would miss the state
            shutil.rmtree(state)
        return TaskResult(message="nothing was left" if summary is None else summary.done())

    async def _prepare_checked(self, *, teardown: bool) -> tuple[Configuration, bool]:
        """Prepare, and compare the state with the recorded one, whatever keeps it.

        Returns whether the run goes on with it. Raises TaskError and TaskRejected.
        """
        in_folder = self._settings.state is not None
        goes_on = True
        if in_folder:  # before the folder is created
            goes_on = check_state(self._given, await self._state(), self._place, teardown=teardown)
        wanted = await self._prepare()
        if not in_folder and is_built(self._given):
            goes_on = check_state(self._given, await self._state(), self._place, teardown=teardown)
        return wanted, goes_on

    @property
    def _place(self) -> str:
        """Where the state is kept, for people."""
        if self._settings.state is not None:
            return str(self._settings.state / _STATE)
        name, body = next(iter(self._settings.backend.items()))
        known = ", ".join(f"{key} {body[key]}" for key in _SHOWN_OF_BACKEND if key in body)
        return f"backend {name} ({known})"

    async def _state(self) -> StateFacts | None:
        """Return what is known of the state; None if there is none. Raises TaskError if that cannot be found out."""
        if self._settings.state is not None:
            return self._in_folder(self._settings.state)
        lines: list[bytes] = []
        ended = await self._binary.run("state", "pull", line=lines.append)
        if ended.code != 0:
            raise TaskError(f"{self._name} state pull failed: {ended.error[:_MOST]}")
        return state_facts(b"".join(lines))

    @staticmethod
    def _in_folder(state: Path) -> StateFacts | None:
        try:
            return state_facts((state / _STATE).read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise TaskError(f"the state cannot be read, so nothing is changed: {error}") from error

    async def _prepare(self) -> Configuration:
        given = self._given
        wanted = configuration(
            given.owner.namespace,
            given.instance,
            self._spec,
            given.annotations,
            self._settings.backend,
        )
        for name, content in wanted.files().items():
            (self._folder / name).write_bytes(content)
        if self._settings.state is not None:
            self._settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._keep(INTERRUPTIBLE, "true")
        self._say("preparing modules and providers")
        ended = await self._binary.run("init", "-input=false", "-no-color")
        if ended.code != 0:
            raise TaskError(f"{self._name} init failed: {ended.error[:_MOST]}")
        if given.unlock:
            self._say(f"giving back the orphaned lock {given.unlock} of the state")
            # One that is gone or is another one by now stays: the plan reports it.
            await self._binary.run("force-unlock", "-force", "-no-color", given.unlock)
        return wanted

    async def _plan(self, *more: str) -> Summary | None:
        """Return what would change; None if nothing would, outputs included."""
        self._say("planning")
        progress = _Progress(self._say, self._keep)
        out = f"-out={_PLAN}"
        ended = await self._binary.run(
            "plan", "-json", "-input=false", "-detailed-exitcode", _LOCK, out, *more,
            line=progress.line,
        )  # fmt: skip
        progress.release(ended)
        if ended.code not in (0, 2):
            raise failure(f"{self._name} plan failed: {progress.trouble(ended)}")
        summary = progress.summary or Summary()
        self._say(f"planned: {summary.planned()}")
        return summary if ended.code == 2 else None

    @property
    def _looks_for_drift(self) -> bool:
        return self._given.operation in (TaskOperation.PLAN, TaskOperation.REPAIR)

    async def _held(self, summary: Summary) -> TaskResult | None:
        """Return the result of a run whose stored plan is not applied; None: it is applied.

        Raises TaskRejected for a plan that destroys or replaces anything under protection.
        """
        given, document = self._given, await self._shown()
        found = _destructions(document)
        plan = made_plan(_content(document), summary, found)
        if given.operation is TaskOperation.PLAN:
            result = drift_result(summary)
            return replace(result, outputs={**result.outputs, **plan_output(plan)})
        if given.protected and not all(each.tainted for each in found):
            if given.operation is TaskOperation.REPAIR:
                return drift_result(summary)
            raise TaskRejected(refusal(found, len(found), given.instance))
        if waits_for_approval(given, plan.content, destroys=bool(plan.destroy)):
            return waiting_result(plan)
        return None

    async def _shown(self) -> Mapping[str, Any]:
        """Return the stored plan, which is the one that is applied, as Terraform's JSON.

        Raises TaskError for one that cannot be read: it is not applied either.
        """
        lines: list[bytes] = []
        ended = await self._binary.run("show", "-json", "-no-color", _PLAN, line=lines.append)
        if ended.code != 0:
            raise TaskError(f"{self._name} show failed: {ended.error[:_MOST]}")
        try:
            document = orjson.loads(b"".join(lines))
        except orjson.JSONDecodeError as error:
            raise _unreadable(error) from error
        if not isinstance(document, dict):
            raise _unreadable("it is no object")
        return document

    async def _apply(self) -> Summary:
        progress = _Progress(self._say, self._keep)
        self._keep(INTERRUPTIBLE, "")
        ended = await self._binary.run(
            "apply",
            "-json",
            "-input=false",
            _LOCK,
            _PLAN,
            line=progress.line,
            interrupted=self._interrupted,
        )
        progress.release(ended)
        if ended.code > 0 and is_absent(await self._state()):
            self._keep(INTERRUPTIBLE, "true")  # it ended in good order, and nothing is there
        if ended.code != 0:
            raise failure(f"{self._name} apply failed: {progress.trouble(ended)}")
        return progress.summary or Summary()

    def _interrupted(self, code: int) -> None:
        """Report that nothing was built if an interrupted apply, which writes what it made, has written no state."""
        state = self._settings.state
        if code > 0 and state is not None and not (state / _STATE).exists():
            self._keep(INTERRUPTIBLE, "true")

    async def _outputs(self, wanted: Configuration) -> Outputs:
        lines: list[bytes] = []
        ended = await self._binary.run("output", "-json", "-no-color", line=lines.append)
        if ended.code != 0:
            raise TaskError(f"{self._name} output failed: {ended.error[:_MOST]}")
        return split(_found(orjson.loads(b"".join(lines))), wanted.outputs, wanted.sensitive)

    @property
    def _name(self) -> str:
        return self._settings.binary.name


def _destructions(document: Mapping[str, Any]) -> list[Destruction]:
    """Raise TaskError for a plan that cannot be read: it is not applied either."""
    try:
        return destructions_of(document)
    except UnreadablePlan as error:
        raise _unreadable(error) from error


def _content(document: Mapping[str, Any]) -> str:
    try:
        return content_of(document)
    except UnreadablePlan as error:
        raise _unreadable(error) from error


def _unreadable(why: object) -> TaskError:
    return TaskError(f"the plan cannot be read, so it is not applied: {why}")


class _Progress:
    """Tells people what the lines of a plan or an apply say."""

    def __init__(self, say: Callable[[str], None], keep: Callable[[str, str], None]) -> None:
        self._say = say
        self._keep = keep
        self._complete = 0
        self._errors: list[str] = []
        self.summary: Summary | None = None

    def line(self, line: bytes) -> None:
        event = event_of(line)
        if event is None:
            return
        self.summary = summary_of(event) or self.summary
        if event.get("type") in WITH_LOCK:
            self._keep(LOCK_HOLDER, holder())
        error = error_of(event)
        if error:
            self._errors.append(error)
        if event.get("type") == "apply_complete":
            self._complete += 1
            self._say(f"applying: {self._complete} done, last {_address(event)}")

    def release(self, ended: Ended) -> None:
        """Forget the lock of a command that ended in good order, which gives it back."""
        if ended.code >= 0:
            self._keep(LOCK_HOLDER, "")

    def trouble(self, ended: Ended) -> str:
        return "\n".join(self._errors)[:_MOST] or ended.error[:_MOST]


def _address(event: Event) -> str:
    resource = (event.get("hook") or {}).get("resource") or {}
    return str(resource.get("addr", "a resource"))


def _found(document: Mapping[str, Any]) -> list[Output]:
    return [
        Output(name=name, value=each.get("value"), sensitive=bool(each.get("sensitive")))
        for name, each in document.items()
    ]


async def run(order: TerraformOrder) -> TaskResult:
    """Apply or remove the infrastructure. Raises TaskError and TaskRejected; see LocalEngine."""
    context, spec = order.context, order.spec
    if spec.tfc_runs_mode == "vcs":
        raise TaskRejected(
            "tfcRunsMode vcs takes infrastructure.terraform.organization: a local binary has no runs"
            " to look at"
        )
    settings = local_settings(
        {
            **order.environment,
            **environment_from(
                spec.infrastructure.environment_from,
                context.secret_keys,
                parse_prefixes(order.environment.get(wire.ALLOWED, "")),
            ),
            **_registry_token(context, order.settings),
        },
        context.input.owner.namespace,
        context.input.instance,
    )
    engine = LocalEngine(
        settings, context.input, spec, context.folder, context.progress, context.keep
    )
    return await (engine.teardown() if order.teardown else engine.apply())


def _registry_token(context: TaskContext, settings: TerraformSettings) -> dict[str, str]:
    """Return the variable with the token of a private registry of modules.

    https://developer.hashicorp.com/terraform/cli/config/config-file, Environment Variable Credentials
    """
    host = _HOST.match(settings.address)
    if settings.token_from is None or host is None:
        return {}
    name = host.group(1).replace("-", "__").replace(".", "_")
    return {f"TF_TOKEN_{name}": context.secret(settings.token_from).strip()}


class StateLocked(TaskError):
    """The state is locked by another holder; the report has what the lock is."""

    def __init__(self, message: str, info: dict[str, str]) -> None:
        super().__init__(message)
        self.outputs = {LOCK_INFO: orjson.dumps(info).decode()}


def failure(message: str) -> TaskError:
    """Return the error of a command that failed with a text: StateLocked where it was refused for the lock."""
    if _REFUSED not in message:
        return TaskError(message)
    found = {name.lower(): value for name, value in _FIELD.findall(message)}
    return StateLocked(message, {**found, "created": _rfc3339(found.get("created", ""))})


def _rfc3339(text: str) -> str:
    """Return a time as Go writes it, as RFC 3339; another text as it is."""
    match = _TIME.match(text)
    if match is None:
        return text
    date, time, fraction, zone = match.groups()
    return f"{date}T{time}{fraction or ''}{zone[:3]}:{zone[3:]}"


def holder() -> str:
    """Return the holder that a lock of a command of this process names: user and host, as Go finds them."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = os.environ.get("USER", "")
    return f"{user}@{socket.gethostname()}"
