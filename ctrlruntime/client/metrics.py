"""Where the transport reports what it did. The manager's metrics implement it; the default drops it."""

from typing import Protocol


class RequestObserver(Protocol):
    """Hooks behind ``rest_client_requests_total`` and its fellows."""

    def requested(
        self, method: str, host: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        """One attempt ended. ``code`` is ``<error>`` where no answer came. Sizes in bytes of body."""

    def retried(self, method: str, host: str, code: str) -> None:
        """Count an attempt that ended with ``code`` and will be repeated."""

    def warning_lost(self) -> None:
        """Count a warning of the server whose handler raised."""


class NoObserver:
    """Drops everything."""

    def requested(
        self, method: str, host: str, code: str, seconds: float, sent: int, received: int
    ) -> None:
        return

    def retried(self, method: str, host: str, code: str) -> None:
        return

    def warning_lost(self) -> None:
        return
