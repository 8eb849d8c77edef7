"""Instances that several managers share on the loop of a test, with runs that execute elsewhere."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from apis.cloud import FleetRollout
from apis.operations import ChangeFreeze
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import User, administrator
from internal.cloud.pace import Pace
from internal.cloud.runs import Run, RunRequest
from manager.controllers.cloud_options import CloudOptions
from tests.backends import SharedServer
from tests.cloud.instance.e2e_harness import E2EHarness, Elsewhere
from tests.cloud.instance.harness import KINDS
from tests.cloud.rbac import SUITE
from tests.cosmos.sharded.members import USERS
from tests.rbac import grant

KINDS_SHARED = (*KINDS, FleetRollout, ChangeFreeze)


@dataclass
class CountedRuns(Elsewhere):
    """Runs, and how many of each task there were at once."""

    most: Counter[str] = field(default_factory=Counter)

    def live(self, task: str) -> list[str]:
        """The runs of a task that are under way."""
        return [
            run_id
            for run_id, run in self.runs.items()
            if run_id.startswith(f"{task}-") and not run.state.finished
        ]

    async def start(self, request: RunRequest) -> Run:
        found = await super().start(request)
        task = request.input.task
        self.most[task] = max(self.most[task], len(self.live(task)))
        return found

    def identities(self) -> Counter[tuple[str, str, str]]:
        """How often each thing was carried out."""
        return Counter(
            (each.input.instance, each.input.task, each.input.inputs_version)
            for each in self.started
        )


@dataclass(slots=True)
class SharedInstances(E2EHarness):
    """What runs; no manager by itself."""

    elsewhere: CountedRuns = field(default_factory=CountedRuns)
    options: CloudOptions = field(
        default_factory=lambda: CloudOptions(
            limits={"terraform": 2}, pace=Pace(settle=0.0, waiting=1.0)
        )
    )

    @classmethod
    @contextlib.asynccontextmanager
    async def with_members(
        cls, folder: Path, server: SharedServer | None = None, members: Sequence[str] = USERS
    ) -> AsyncIterator[Self]:
        """A server for several managers. On a real one they are administrators."""
        if server is None:
            users = (administrator("admin"), *(User(name=each) for each in members))
            env = Environment(users=users, authorization="RBAC", proxy=True, folder=folder)
        else:
            users = tuple(administrator(each) for each in ("admin", *members))
            env = server.environment(users=users, proxy=True, folder=folder)
        async with env:
            await env.install_crds(*KINDS_SHARED)
            if server is None:
                await grant(env, members, SUITE)
                await grant(env, members, "leases")
            yield cls(env, folder)
