"""Two candidates in front of one API server, and what the proxy's log says of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy.log import LEASES, LogEntry
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.envtest.users import User
from ctrlruntime.generate import Rule, leads, roles, writes_events
from tests.election_real.candidate import LEASE, WRITERS
from tests.support.waiting import eventually

NAMESPACE = GroupVersionKind("", "v1", "Namespace")
ROLE_BINDING = GroupVersionKind("rbac.authorization.k8s.io", "v1", "RoleBinding")
LEASE_KIND = GroupVersionKind("coordination.k8s.io", "v1", "Lease")
USERS = ("one", "two")
PATIENCE = 120.0
"""Seconds that a hand-over may take, the lease included. How soon it comes is shown on virtual time."""


def candidates() -> list[User]:
    """Users without any right but those that the contest gives them."""
    return [User(name=name) for name in USERS]


@dataclass(slots=True)
class Contest:
    """One Lease in a namespace of its own. Times are those of the proxy's log."""

    environment: Environment
    namespace: str = field(default_factory=lambda: f"contest-{uuid.uuid4().hex[:8]}")
    processes: dict[str, ChildProcess] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Namespace, objects to write, and a Role with exactly what is needed."""
        client = self.environment.client("envtest")
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": self._meta("")})
        for number in range(WRITERS):
            await client.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._meta(f"beat-{number}")}
            )
        rules = [
            *leads(LEASE, namespace=self.namespace),
            *writes_events(self.namespace),
            Rule(
                groups=("",), resources=("configmaps",), verbs=("patch",), namespace=self.namespace
            ),
        ]
        for manifest in roles(rules, "candidate"):
            await client.create(manifest)
        await client.create(
            {
                "apiVersion": ROLE_BINDING.api_version,
                "kind": ROLE_BINDING.kind,
                "metadata": self._meta("candidates"),
                "roleRef": {
                    "apiGroup": ROLE_BINDING.group,
                    "kind": "Role",
                    "name": "candidate",
                },
                "subjects": [
                    {"apiGroup": ROLE_BINDING.group, "kind": "User", "name": name} for name in USERS
                ],
            }
        )

    def _meta(self, name: str) -> dict[str, str]:
        return {"name": name, "namespace": self.namespace} if name else {"name": self.namespace}

    async def enter(self, user: str, *options: str) -> None:
        """Start a candidate. It leads, or stands by with its watch open, when this returns."""
        command = [sys.executable, "-m", "tests.election_real.candidate"]
        command += ["--kubeconfig", str(self.environment.kubeconfig(user))]
        command += ["--namespace", self.namespace, *options]
        log = self.environment.folder / f"{self.namespace}-{user}.log"
        self.processes[user] = await ChildProcess.start(command, log=log)
        await self.until(lambda: self.writes(user) or self.watches(user))

    async def enter_both(self, first: tuple[str, ...] = (), second: tuple[str, ...] = ()) -> None:
        """The first leads, the second stands by."""
        await self.enter("one", *first)
        await self.until(lambda: self.writes("one"))
        await self.enter("two", *second)
        assert not self.writes("two")

    async def end(self) -> None:
        for process in self.processes.values():
            if process.returncode is None:
                os.kill(process.pid, signal.SIGCONT)
            await process.stop(grace=0)
        await self.environment.client("envtest").delete(NAMESPACE, self.namespace)

    # What is done

    @property
    def now(self) -> float:
        return self.environment.proxy.log.now()

    def signal(self, user: str, number: signal.Signals) -> float:
        """Send a signal and return the time."""
        os.kill(self.processes[user].pid, number)
        return self.now

    async def until(self, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
        await eventually(condition, timeout=seconds)

    async def exit_of(self, user: str) -> int:
        return await asyncio.wait_for(self.processes[user].wait(), PATIENCE)

    # What the log says

    def entries(self, user: str) -> list[LogEntry]:
        return [
            entry
            for entry in self.environment.proxy.log.entries()
            if entry.user == user and entry.namespace == self.namespace
        ]

    def writes(self, user: str) -> list[LogEntry]:
        """What a candidate wrote, events included, renewals aside."""
        found = self.entries(user)
        return [entry for entry in found if entry.verb in WRITES and entry.resource != LEASES]

    def beats(self, user: str) -> list[LogEntry]:
        """Its writes as a leader."""
        return [entry for entry in self.writes(user) if entry.name.startswith("beat-")]

    def held(self, user: str) -> list[LogEntry]:
        """Its writes of the Lease that the server carried out."""
        found = self.entries(user)
        return [e for e in found if e.resource == LEASES and e.verb in WRITES and e.code < 300]

    def watches(self, user: str) -> list[LogEntry]:
        found = self.entries(user)
        return [entry for entry in found if entry.resource == LEASES and entry.verb == "watch"]

    async def handed_over(self, to: str) -> LogEntry:
        """The write with which another took the Lease, once it works as the leader."""
        await self.until(lambda: self.beats(to))
        return self.held(to)[0]

    def check_one_writer(self, before: str, after: str) -> None:
        """From the moment the new holder took the Lease, the old one began no write."""
        taken = self.held(after)[0].began
        assert self.beats(before)
        late = [
            (round(entry.began - taken, 3), entry.verb, entry.resource, entry.name, entry.code)
            for entry in [*self.writes(before), *self.held(before)]
            if entry.began >= taken
        ]
        assert late == [], "seconds after the hand-over, and what the old leader wrote"
        assert self.beats(after)[0].began >= taken

    def check_rights(self) -> None:
        """The generated Role sufficed."""
        refused = [e for user in USERS for e in self.entries(user) if e.code in (401, 403)]
        assert not refused, refused

    async def metric(self, user: str) -> float:
        """`leader_election_master_status` of a candidate."""
        url = f"http://127.0.0.1:{self.processes[user].facts['metrics']}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            text = await response.text()
        name = f'leader_election_master_status{{name="{LEASE}"}} '
        return float(next(line for line in text.splitlines() if line.startswith(name)).split()[1])


@asynccontextmanager
async def contest(environment: Environment) -> AsyncIterator[Contest]:
    """A contest in an environment that has a proxy and the users of `candidates`."""
    subject = Contest(environment)
    await subject.prepare()
    try:
        yield subject
        subject.check_rights()
    finally:
        await subject.end()
