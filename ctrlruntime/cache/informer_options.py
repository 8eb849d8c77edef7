"""What all informers of a cache share: their times, and what changes an object before it is kept."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, KindT
from ctrlruntime.cache.reflector import ReflectorOptions

Transform = Callable[[Entry[KindT]], Entry[KindT]]
"""Changes an entry before store and handlers see it.

Where it raises, or returns no entry, that state of the object is left out, which is logged and counted: the
last state that it could change stays. Nothing that it did not change is ever kept.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerOptions:
    """What all informers of a cache share. Times in seconds."""

    reflector: ReflectorOptions = field(default_factory=ReflectorOptions)
    missing_retry: float = 10.0
    """How often a kind that the server lacks is looked for again."""
    resync: float | None = 36_000.0
    """Periodic resync: every object is reported again, from the store, as Updated(old is new): this often, +-10 %, at
    least 1 s. None: never."""
    on_error: Callable[[GroupVersionKind, Exception], None] | None = None
    """Called for every failure of a list or watch, and of every object that cannot be kept."""
    failure_threshold: int = 5
    """After how many unexpected errors in a row an informer counts as failed, and with it the manager's
    liveness check. Errors are in a row until one is ``backoff.reset_after`` seconds past."""
