"""The manager's part in an election: what it starts when elected, and how it lets go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.transport import Response
from ctrlruntime.events.recorder import EventRecorder
from ctrlruntime.manager.election import LeaderElector, default_identity
from ctrlruntime.manager.lease import LeaseLock
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions, lease_namespace


class LeaderElectionLost(RuntimeError):
    """The lease could not be renewed. The process must exit: another leader may be at work."""

    def __init__(self) -> None:
        super().__init__("leader election lost")


class Leadership:
    """Competes for the Lease with a client of its own.

    ``lead`` is run once elected; ``failed`` is told of a lost lease and of errors.
    """

    def __init__(
        self,
        client: Client,
        options: ManagerOptions,
        metrics: Metrics,
        recorder: EventRecorder,
        logger: FilteringBoundLogger,
        lead: Callable[[], Awaitable[None]],
        failed: Callable[[Exception], None],
    ) -> None:
        self.lost = False
        self._client = client
        self._options = options
        self._metrics = metrics
        self._recorder = recorder
        self._logger = logger
        self._lead = lead
        self._failed = failed
        self._lock = LeaseLock(
            client,
            options.leader_election_id,
            lease_namespace(options),
            options.leader_election_labels,
        )
        self._elector: LeaderElector | None = None
        self._election: asyncio.Task[None] | None = None
        self._leading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Enters the election."""
        self._elector = LeaderElector(
            self._lock,
            self._options.leader_election_identity or default_identity(),
            self._options.election,
            self,
            self._logger,
            metrics=self,
        )
        self._election = asyncio.create_task(self._elect(self._elector), name="leader election")

    async def end(self, *, release: bool) -> None:
        """Leaves the election, giving the lease back if nothing needs it any more."""
        if self._elector is not None and not release:
            self._elector.keep()
        tasks = [task for task in (self._leading, self._election) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    def check(self) -> None:
        """A health check: raises RuntimeError when a renewal is overdue."""
        if self._elector is not None:
            self._elector.check()

    async def fence(self, call: Call, execute: Execute) -> Response:
        """An interceptor: a process that led, and whose lease has lapsed, sends no more writes.

        A process that stood still hears of its loss only after others of its tasks have run. Raises
        LeaderElectionLost. Not for events, which tell of the loss.
        """
        lapsed = self._leading is not None and (self._elector is None or self._elector.has_lapsed)
        if lapsed and call.is_write:
            raise LeaderElectionLost
        return await execute(call)

    async def _elect(self, elector: LeaderElector) -> None:
        try:
            await elector.run()
        except Exception as error:  # noqa: BLE001 - a mistake of ours; the manager must not go on
            self._failed(error)
        else:
            self.lost = True
            self._failed(LeaderElectionLost())

    async def _start_leading(self) -> None:
        try:
            await self._lead()
        except Exception as error:  # noqa: BLE001 - the manager raises it
            self._failed(error)

    # -- what the elector reports ----------------------------------------------------------------

    def started_leading(self) -> None:
        self._tell("became leader")
        self._leading = asyncio.create_task(self._start_leading(), name="leader start")

    def stopped_leading(self) -> None:
        if self._leading is not None:
            self._tell("stopped leading")

    def new_leader(self, identity: str) -> None:
        self._logger.info("New leader", leader=identity)

    def leading(self, leading: bool) -> None:
        self._metrics.leader.labels(self._options.leader_election_id).set(leading)

    def slow_path(self) -> None:
        self._metrics.slow_renewals.labels(self._options.leader_election_id).inc()

    def _tell(self, what: str) -> None:
        if self._elector is None or not self._options.leader_election_events:
            return
        self._recorder.event(
            self._lock.reference,
            "Normal",
            "LeaderElection",
            "LeaderElection",
            f"{self._elector.identity} {what}",
        )
