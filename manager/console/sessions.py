"""Sessions of users who signed in: the browser keeps a random id, the token stays in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.clock import monotonic, random_hex

SECONDS: Final = 8 * 3600.0
"""How long a session lasts, whatever it is used for."""
MOST: Final = 1000
"""Sessions that are kept; the oldest end first."""
MOST_EACH: Final = 10
"""Sessions of one user; the user's oldest end first, so that one user's sign-ins end no session of others."""


@dataclass(frozen=True, slots=True)
class Session:
    """A sign-in that lasts."""

    username: str
    token: str = field(repr=False)
    until: float
    """On the clock of the sessions, in seconds."""


class Sessions:
    """The sessions of a console, by their ids. Bounded in number and time; another replica has others."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, username: str, token: str) -> str:
        """Return the id of a new session: 256 random bits."""
        self._forget_ended()
        own = [key for key, each in self._sessions.items() if each.username == username]
        for key in own[: max(0, len(own) - MOST_EACH + 1)]:
            self.close(key)
        while len(self._sessions) >= MOST:
            self._sessions.popitem(last=False)
        key = random_hex(32)
        self._sessions[key] = Session(username, token, self._clock() + SECONDS)
        return key

    def token(self, key: str) -> str:
        """Return the token of a session; empty for an id that is unknown, or whose session has ended."""
        self._forget_ended()
        found = self._sessions.get(key)
        return found.token if found is not None else ""

    def close(self, key: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(key, None)

    def _forget_ended(self) -> None:
        """Drop what has ended: all last equally long, so these are the first."""
        now = self._clock()
        while self._sessions and next(iter(self._sessions.values())).until <= now:
            self._sessions.popitem(last=False)
