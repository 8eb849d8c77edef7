"""Options of a client, as a manager takes them for its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

from ctrlruntime.client.call import Defaults, FieldValidation
from ctrlruntime.client.transport import TransportOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What a client adds to its calls, and how it sends them. Times in seconds."""

    qps: float | None = None
    """Requests a second, on average; watches are not counted. None is no limit: the API server's own priority
    and fairness decides."""
    burst: int = 10
    """Requests at once before ``qps`` delays them."""
    transport: TransportOptions = field(default_factory=TransportOptions)
    """Requests under way at once, retries of 429 and 5xx, connections, compression."""
    field_owner: str = ""
    """The field manager of writes that name none."""
    field_validation: FieldValidation | None = None
    """How the server treats unknown and duplicate fields: ``Ignore``, ``Warn`` or ``Strict``; by default its own choice."""
    timeout: float = 30.0
    """For the answer to each attempt of a request."""
    warning_handler: Callable[[str], None] | None = None
    """Receives the text of each warning of the API server; by default it is logged. A plain function: what it
    raises is logged and counted, and costs the warning alone."""

    def __post_init__(self) -> None:
        """Raise ValueError for a limit that would let no request pass, TypeError for a handler that would not be awaited."""
        if inspect.iscoroutinefunction(self.warning_handler):
            raise TypeError(
                "warning_handler is a coroutine function, but is called without await: make it a plain `def`"
            )
        if self.qps is not None and self.qps <= 0:
            raise ValueError(f"qps is above 0, or None for no limit, not {self.qps}")
        if self.burst < 1:
            raise ValueError(f"burst is at least 1, not {self.burst}")

    def defaults(self) -> Defaults:
        """Return what the client adds to calls that do not say otherwise."""
        return Defaults(
            field_manager=self.field_owner or None,
            field_validation=self.field_validation,
            timeout=self.timeout,
        )
