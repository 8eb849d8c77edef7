"""The manager's part in an election: what it starts when elected, and how it lets go.

The election has a thread, an event loop and a connection of its own, so that renewals never wait
for a busy loop; one that stands still for longer than the lease loses it. What may be sent is decided by the clock where it is sent, not by who hears first of
a loss: see :meth:`Leadership.fence`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.auth import Authenticator, ClientCertificate, ExecAuth, FileAuth, StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.clock import boottime
from ctrlruntime.events.recorder import EventRecorder
from ctrlruntime.manager.election import LeaderElector, Term, default_identity
from ctrlruntime.manager.health import CheckFailed
from ctrlruntime.manager.lease import LeaderLock, LeaseLock
from ctrlruntime.manager.loopthread import PERIOD, Heartbeat, LoopThread
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions, lease_namespace
from ctrlruntime.manager.shared_lease import SHARED_HOLDER, SharingLock
from ctrlruntime.side_by_side import as_failure

PATIENCE = 0.2
"""Seconds that the other loop has to answer before what it said last is used again."""

LAST_BYTES: Final = 0.5
"""Seconds between closing the fence and releasing the Lease of a loop that stands still: a write may have passed the fence."""


MakeLock = Callable[[Client, str], LeaseLock]
"""Makes the lock of a Lease by its name, with the election's own client."""


class LeaderElectionLost(RuntimeError):
    """The lease could not be renewed. The process must exit: another leader may be at work."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"leader election lost: {reason}" if reason else "leader election lost")


class Leadership:
    """Competes for the Lease.

    ``lead`` is run once elected; ``failed`` receives a lost lease and errors, both on the loop
    that called :meth:`start`.
    """

    def __init__(
        self,
        config: Config,
        options: ManagerOptions,
        metrics: Metrics,
        recorder: EventRecorder,
        logger: FilteringBoundLogger,
        lead: Callable[[], Awaitable[None]],
        failed: Callable[[Exception], None],
        *,
        clock: Callable[[], float] = boottime,
        make_lock: MakeLock | None = None,
        together: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        """Use ``make_lock`` in the place of that of the Lease that the options name.

        ``together``: namespaces and names of Leases that are held as well, with others who hold them under the same
        identity, and that; beside ``leader_election_shared_id``.
        """
        self._clock = clock
        self._make_lock = make_lock or self._lease
        self._together = list(together)
        if options.leader_election_shared_id:
            identity = options.leader_election_shared_identity or SHARED_HOLDER
            self._together.append(
                (lease_namespace(options), options.leader_election_shared_id, identity)
            )
        self._config = config
        self._options = options
        self._metrics = metrics
        self._recorder = recorder
        self._logger = logger
        self._lead = lead
        self._failed = failed
        self._lock: LeaseLock | None = None
        self._elector: LeaderElector | None = None
        self._thread: LoopThread | None = None
        self._call_owner: Callable[[Callable[[], None]], None] = lambda function: function()
        self._leading: asyncio.Task[None] | None = None
        self._led = False
        self._ending = False
        self._told = False
        self._stood_still = ""
        """Why the lead was given up; empty if it was not."""
        self.leading(False)  # whoever asks before the election has begun is told, too

    def start(self) -> None:
        """Enter the election."""
        self._thread = LoopThread(self._elect, "leader election")

    def step_down(self) -> None:
        """Record that this process leads no more. To be called before events can no longer be sent."""
        if self._leading is not None and not self._told:
            self._told = True
            self._report("stopped leading")

    async def end(self, *, release: bool) -> None:
        """Leave the election, giving the lease back if nothing needs it any more."""
        self._ending = True
        if self._elector is not None and not release:
            self._elector.keep()
        if self._leading is not None:
            self._leading.cancel()
            await asyncio.gather(self._leading, return_exceptions=True)
        if self._thread is not None:
            await self._thread.stop()

    def check(self) -> None:
        """Raise, as a health check, when the lead was given up (CheckFailed) or a renewal is overdue (RuntimeError)."""
        if self._stood_still:
            raise CheckFailed(self._stood_still)
        if self._elector is not None:
            self._elector.check()

    def fence(self) -> None:
        """Check the fence: a process that led writes only while it is sure to lead. Raises LeaderElectionLost.

        Asked wherever a write is sent, see ``ctrlruntime.client.fence``. A process that never led is
        free to write what needs no leadership.
        """
        if self._led and self._clock() > self.term.may_write_until:
            raise LeaderElectionLost

    def event_fence(self) -> None:
        """Check the same for events, which report the loss: they may be written until another can lead."""
        if self._led and self._clock() > self.term.expires:
            raise LeaderElectionLost

    def hurry(self) -> None:
        """Renew the Lease at once, in the election's thread."""
        if self._thread is not None and self._elector is not None:
            self._thread.call(self._elector.hurry)

    @property
    def term(self) -> Term:
        """How long the Lease is held, by the clock; readable in any thread."""
        return Term() if self._elector is None else self._elector.term

    # -- in the election's thread ------------------------------------------------------------------

    async def _elect(self, thread: LoopThread) -> None:
        self._call_owner = thread.call_owner
        try:
            async with Client.connect(
                replace(self._config, auth=shared(self._config.auth, thread.owner)),
                observer=self._metrics.requests,
                logger=self._logger,
            ) as client:
                await self._compete(client, thread)
        except BaseException as error:  # noqa: BLE001 - a mistake of ours; the manager must not go on
            failure = as_failure(error)
            self._call_owner(lambda: self._failed(failure))

    async def _compete(self, client: Client, thread: LoopThread) -> None:
        options = self._options
        lock = self._lock = self._make_lock(client, options.leader_election_id)
        written: LeaderLock = lock
        for namespace, name, identity in self._together:
            shared = self._lease(client, name, namespace)
            written = SharingLock(written, shared, options.election, self._clock, holder=identity)
        self._elector = LeaderElector(
            written,
            self._options.leader_election_identity or default_identity(),
            self._options.election,
            self,
            self._logger,
            metrics=self,
            changes=lock.changes,
            clock=self._clock,
        )
        await self._run(self._elector, lambda: thread.orphaned)

    def _lease(self, client: Client, name: str, namespace: str = "") -> LeaseLock:
        options = self._options
        return LeaseLock(
            client,
            name,
            namespace=namespace or lease_namespace(options),
            labels=options.leader_election_labels,
        )

    async def _run(self, elector: LeaderElector, orphaned: Callable[[], bool]) -> None:
        """Compete until the lease is lost, or until the owner's loop is `orphaned` or stood still for longer than the lease."""
        running = asyncio.create_task(elector.run())
        heartbeat = Heartbeat(self._call_owner, self._clock)
        try:
            while not running.done() and not self._stood_still:
                await asyncio.wait({running}, timeout=PERIOD)
                if orphaned():
                    elector.keep()
                    break
                still = heartbeat.measure()
                if elector.is_leader and still > self._options.election.lease_duration:
                    await self._give_up(elector, still)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if not running.cancelled():
            running.result()
            self._call_owner(self._lose)

    async def _give_up(self, elector: LeaderElector, still: float) -> None:
        """Close the fence, then wait for what passed it before the lease is released."""
        elector.give_up()
        self._stood_still = (
            f"the event loop stood still for {still:.0f} s, longer than the lease of "
            f"{self._options.election.lease_duration:g} s, and gave up the lead; this process ends and is to be started anew"
        )
        self._logger.error("Giving up the lead", reason=self._stood_still)
        self._call_owner(self._lose)
        await asyncio.sleep(LAST_BYTES)

    def started_leading(self) -> None:
        self._led = True
        self._call_owner(self._begin)

    def stopped_leading(self) -> None:
        return

    def new_leader(self, identity: str) -> None:
        self._logger.info("New leader", leader=identity)

    def leading(self, leading: bool) -> None:
        self._metrics.leader.labels(self._options.leader_election_id).set(leading)

    def slow_path(self) -> None:
        self._metrics.slow_renewals.labels(self._options.leader_election_id).inc()

    # -- on the manager's loop ---------------------------------------------------------------------

    def _begin(self) -> None:
        if self._ending:
            return
        self._report("became leader")
        self._leading = asyncio.create_task(self._start_leading(), name="leader start")

    async def _start_leading(self) -> None:
        try:
            await self._lead()
        except BaseException as error:  # noqa: BLE001 - the manager raises it
            self._failed(as_failure(error))

    def _lose(self) -> None:
        self._failed(LeaderElectionLost(self._stood_still))

    def _report(self, what: str) -> None:
        if self._elector is None or self._lock is None or not self._options.leader_election_events:
            return
        self._recorder.event(
            self._lock.reference,
            "Normal",
            "LeaderElection",
            "LeaderElection",
            f"{self._elector.identity} {what}",
        )


def shared(auth: Authenticator, owner: asyncio.AbstractEventLoop) -> Authenticator:
    """``auth``, which belongs to the loop ``owner``, for use on another loop.

    A known one is made anew, and so waits for none. Any other is called on its own loop; while
    that is busy, the last credentials are used.
    """
    match auth:
        case StaticAuth():
            return auth
        case FileAuth() | ExecAuth():
            return auth.renewed()
        case _:
            return RelayedAuth(auth, owner)


class RelayedAuth:
    """Credentials that are had on another loop."""

    def __init__(self, auth: Authenticator, owner: asyncio.AbstractEventLoop) -> None:
        self._auth = auth
        self._owner = owner
        self._headers: Mapping[str, str] | None = None

    @property
    def renewable(self) -> bool:
        return self._auth.renewable

    @property
    def generation(self) -> int:
        return self._auth.generation

    @property
    def certificate(self) -> ClientCertificate | None:
        return self._auth.certificate

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        asked = asyncio.run_coroutine_threadsafe(self._ask(refused), self._owner)
        answer = asyncio.wrap_future(asked)
        if refused is not None or self._headers is None:
            return await answer
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.shield(answer)
        except TimeoutError:
            return self._headers

    async def _ask(self, refused: Mapping[str, str] | None) -> Mapping[str, str]:
        self._headers = await self._auth.headers(refused=refused)
        return self._headers
