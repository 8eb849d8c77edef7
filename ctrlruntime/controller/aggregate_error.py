"""What failed in a pass of many steps: separated by whether a retry is likely to help."""

from collections.abc import Iterator

from ctrlruntime.client.errors import APIError, Conflict, NoKindMatch, TransportError


class TransientError(Exception):
    """A failure that is likely to go away: try again soon."""


class UnrecoverableError(Exception):
    """A failure that stays until a person changes something."""


_TRANSIENT_CODES = frozenset({404, 408, 409, 410, 429})


def is_transient(error: BaseException) -> bool:
    """Whether a failure is likely to go away by itself.

    Timeouts, lost connections and the server's 404, 408, 409, 410, 429 and 5xx are; a conflict over a field that
    another manager owns, everything else that the server refuses, and all other errors are not.
    """
    if isinstance(error, TransientError | TransportError | TimeoutError | ConnectionError):
        return True
    if isinstance(error, UnrecoverableError | NoKindMatch):
        return False
    if isinstance(error, Conflict) and error.is_field_conflict:
        return False
    return isinstance(error, APIError) and (error.code in _TRANSIENT_CODES or error.code >= 500)


class AggregateError:
    """The failures of one pass, in the order they came. Every step runs; at the end the phase is chosen."""

    def __init__(self) -> None:
        self._failures: list[tuple[str, Exception]] = []

    def append(self, error: Exception, step: str = "") -> None:
        """Add a failure. `step` describes what was being done."""
        self._failures.append((step, error))

    def __iter__(self) -> Iterator[Exception]:
        return (error for _, error in self._failures)

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def any(self) -> bool:
        """Whether anything failed."""
        return bool(self._failures)

    @property
    def is_transient(self) -> bool:
        """Whether something failed, and all of it is likely to go away by itself."""
        return self.any and all(is_transient(error) for error in self)

    @property
    def message(self) -> str:
        """All failures in one line, each once."""
        told = (f"{step}: {error}" if step else str(error) for step, error in self._failures)
        return "; ".join(dict.fromkeys(told))
