"""When reconciles of one request are a loop: of writes, of one controller or between two."""

from typing import Final

WINDOW: Final = 10.0
"""Seconds in which reconciles of a request are counted."""
MANY: Final = 300
"""Reconciles of one request in that time that no wanted change explains."""
ADVICE: Final = (
    "One object is reconciled again and again. Either each reconcile writes something that the next one finds changed (a time, a "
    "field that the server or a webhook sets), or another program undoes it: a second manager with the same field manager, which "
    "leader election with one Lease prevents, or another controller of the object, which its managedFields name"
)
