"""Workspaces, configuration versions, runs and states: what the server knows."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from typing import Any

from .clock import Clock

CHANGED = ["plan_queued", "planning", "planned"]
APPLY = ["apply_queued", "applying", "applied"]
FINAL = {
    "applied", "planned_and_finished", "errored", "discarded", "canceled", "force_canceled",
    "policy_soft_failed",
}  # fmt: skip
"""Run States, page `run`."""


@dataclass(slots=True)
class Version:
    """A configuration version."""

    identity: str
    workspace: str
    status: str = "pending"
    auto_queue: bool = True
    content: bytes = b""
    looks: int = 0
    """How often it will be looked at before it is processed."""

    def document(self) -> dict[str, Any]:
        """The configuration that was uploaded."""
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(self.content))) as tar:
            member = tar.extractfile("main.tf.json")
            assert member is not None
            found: dict[str, Any] = json.load(member)
            return found


@dataclass(slots=True)
class Run:
    """A run."""

    identity: str
    workspace: Workspace
    version: Version
    message: str
    destroy: bool
    created_at: str
    plan_only: bool = False
    status: str = "pending"
    additions: int = 0
    changes: int = 0
    destructions: int = 0
    applies: int = 0
    """How often it was applied; more than once is a catastrophe."""
    confirmed: int = 0
    plan_status: str = "pending"
    apply_status: str = "pending"
    todo: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.status in FINAL

    @property
    def confirmable(self) -> bool:
        """Page `run`, Apply a Run: paused waiting for confirmation after a plan."""
        return self.status in ("planned", "cost_estimated", "policy_checked") and not self.todo

    @property
    def discardable(self) -> bool:
        """Page `run`, Discard a Run: pending, needs confirmation, policy checked, policy override."""
        return self.confirmable or self.status in ("pending", "policy_override")

    @property
    def cancelable(self) -> bool:
        """Page `run`, Cancel a Run: currently planning or applying."""
        return self.status in ("plan_queued", "planning", "confirmed", "apply_queued", "applying")


@dataclass(slots=True)
class Workspace:
    """A workspace."""

    identity: str
    name: str
    attributes: dict[str, Any]
    project: str
    locked_by: tuple[str, str, str] | None = None
    """Type, id and name of who locked it."""
    reason: str = ""
    digest: str = ""
    """Of the configuration that is applied."""
    resources: int = 0
    outputs: dict[str, tuple[Any, bool]] | None = None
    """Values, and whether they are sensitive; None as long as there is no state."""
    processing: int = 0
    """How often outputs are not ready yet when asked for."""
    current: Run | None = None


class FakeState:
    """Everything of one organization. Switches for tests are plain attributes."""

    def __init__(self, clock: Clock, organization: str = "acme") -> None:
        self.clock = clock
        self.organization = organization
        self.workspaces: dict[str, Workspace] = {}
        self.versions: dict[str, Version] = {}
        self.runs: dict[str, Run] = {}
        self.logs: dict[str, bytes] = {}
        self.plan_log = b""
        """The log of plans that did not error."""
        self.values: dict[str, Any] = {}
        self.applied: list[str] = []
        """Messages of the runs that were applied, in order."""
        self.deleted: list[str] = []
        self.fail: str = ""
        """`plan` or `apply`: where runs error; `policy`: a mandatory policy fails."""
        self.gates: list[str] = []
        """States between planned and confirmable, such as cost_estimating and cost_estimated."""
        self.replaces = 0
        """How many resources a change of the configuration replaces."""
        self.lock_refuses_runs = False
        self.upload_looks = 1
        self.output_looks = 1
        self.sticky: str = ""
        """A state that runs do not leave."""
        self.may_apply = True
        """Whether the token's user may apply runs."""
        self.late_lists = 0
        """How many lists of runs do not show the newest run yet."""
        self._count = 0

    def new_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}-{self._count:016d}"

    def named(self, name: str) -> Workspace | None:
        return next((each for each in self.workspaces.values() if each.name == name), None)

    def of_workspace(self, workspace: Workspace) -> list[Run]:
        """Its runs, newest first."""
        found = [run for run in self.runs.values() if run.workspace is workspace]
        return list(reversed(found))

    def add_run(
        self,
        workspace: Workspace,
        version: Version,
        message: str,
        *,
        destroy: bool = False,
        plan_only: bool = False,
    ) -> Run:
        run = Run(
            identity=self.new_id("run"),
            workspace=workspace,
            version=version,
            message=message,
            destroy=destroy,
            created_at=self.clock.stamp(),
            plan_only=plan_only,
        )
        self.runs[run.identity] = run
        return run

    def advance(self, run: Run) -> None:
        """One step, if it is this run's turn: a workspace has one run at a time."""
        if run.ended or run.status == self.sticky or not self._has_turn(run):
            return
        if run.status == "pending":
            self._plan(run)
        elif run.todo:
            self._enter(run, run.todo.pop(0))

    def _has_turn(self, run: Run) -> bool:
        if run.plan_only:
            return True
        workspace = run.workspace
        if workspace.current is None or workspace.current.ended:
            waiting = [each for each in reversed(self.of_workspace(workspace)) if not each.ended]
            if workspace.locked_by is None and waiting:
                workspace.current = waiting[0]
        return workspace.current is run

    def _plan(self, run: Run) -> None:
        workspace = run.workspace
        digest = hashlib.sha256(run.version.content).hexdigest()
        size = _size(run.version.document())
        if run.destroy:
            run.destructions = workspace.resources
        elif workspace.outputs is None or not workspace.resources:
            run.additions = size
        elif digest != workspace.digest:
            run.changes = size - self.replaces
            run.additions = run.destructions = self.replaces
        quiet = not (run.additions or run.changes or run.destructions)
        run.todo = CHANGED[:-1] + (
            ["planned_and_finished"] if quiet else [CHANGED[-1], *self.gates]
        )
        if run.plan_only:
            run.todo = [*CHANGED[:-1], "planned_and_finished"]
        if self.fail == "plan":
            run.todo = ["plan_queued", "planning", "errored"]
        if self.fail == "policy":
            run.todo = [*CHANGED, "policy_checking", "errored"]
        self._enter(run, run.todo.pop(0))

    def _enter(self, run: Run, status: str) -> None:
        before, run.status = run.status, status
        if status == "planned" or (before == "planning" and status == "planned_and_finished"):
            run.plan_status = "finished"
        if status == "errored":
            if before == "planning":
                run.plan_status = "errored"
            elif before == "applying":
                run.apply_status = "errored"
            self.logs[run.identity] = self.logs.get("next", b"Error: it went wrong\n")
        if status == "applied":
            run.apply_status = "finished"
            self._store(run)

    def confirm(self, run: Run) -> None:
        run.confirmed += 1
        run.status = "confirmed"
        run.todo = [*APPLY[:-1], "errored" if self.fail == "apply" else "applied"]

    def _store(self, run: Run) -> None:
        workspace = run.workspace
        run.applies += 1
        self.applied.append(run.message)
        document = run.version.document()
        workspace.digest = hashlib.sha256(run.version.content).hexdigest()
        workspace.resources = 0 if run.destroy else _size(document)
        declared = {} if run.destroy else document.get("output", {})
        workspace.outputs = {
            name: (
                self.values.get(name, f"{name} of {workspace.name}"),
                bool(each.get("sensitive")),
            )
            for name, each in declared.items()
        }
        workspace.processing = self.output_looks


def _size(document: dict[str, Any]) -> int:
    """How many resources a configuration has: a module counts as three."""
    return sum(len(each) for each in document.get("resource", {}).values()) + 3 * len(
        document.get("module", {})
    )
