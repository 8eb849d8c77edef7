"""A source of requests that other parts of the program enqueue."""

from ctrlruntime.controller.event_dispatch import EventDispatcher
from ctrlruntime.queue import Request


class RequestSource:
    """Adds requests to the queue of the controller that watches it. ``str()`` names it in messages."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._intake: EventDispatcher | None = None

    def __str__(self) -> str:
        return self._name

    def enqueue(self, request: Request, reason: str, *, after: float | None = None) -> None:
        """Add a request at once, or after that many seconds. Do nothing before the controller runs."""
        if self._intake is not None:
            self._intake.queue.add(request, after=after, reason=reason)

    async def start(self, intake: EventDispatcher) -> None:
        """Begin to add requests."""
        self._intake = intake

    async def wait_synced(self) -> None:
        """Return at once: there is no initial list."""

    async def stop(self) -> None:
        """Add no more requests."""
        self._intake = None
