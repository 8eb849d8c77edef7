"""Claims of numbered instances: they grow, they are kept, and what cannot be changed is told."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.control import Control
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.diff import Foreign
from ctrlruntime.resources.ownership import Owner


def requested_size(
    template: str,
    scaled: str | None = None,
    capacity: str | None = None,
    source: str | None = None,
    *,
    requested: str | None = None,
    max_size: str | None = None,
) -> str:
    """The size to request, as a quantity. Pure; ValueError for what is no quantity.

    A new claim that is filled from a source has the size of the `source`, any other new one that of the
    `template`. An existing one has `requested` already, and `capacity` if it is bound: it gets the
    largest of these, of the template and of `scaled`, a request to grow, to which 2 % are added and which
    then is cut to `max_size`. It never shrinks.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Source:
    """What a new claim is filled from."""

    reference: Manifest
    """`spec.dataSource`: apiGroup, kind and name."""
    size: str | None = None
    """The source's own size, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim as it is wanted. The manifest has the template's size and no data source."""

    desired: Desired
    scaled: str | None = None
    """A request to grow to this size."""
    max_size: str | None = None
    """What such a request may not pass."""
    source: Source | None = None
    """Looked at only when the claim is made."""
    waiting: str = ""
    """Why it cannot be made yet, in words; an existing one is kept all the same."""


class Immutable(NamedTuple):
    """A field that a claim has otherwise than wanted, and keeps."""

    claim: str
    field: str
    wanted: Any
    has: Any


@dataclass(slots=True, kw_only=True)
class ClaimProgress:
    """What one pass did. Names are those of claims."""

    requeue: bool = False
    """Something is under way: look again soon."""
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    resized: list[str] = field(default_factory=list)
    """Those for which a larger size was requested."""
    updated: list[str] = field(default_factory=list)
    """Those otherwise changed: labels, annotations, what somebody else changed."""
    retained: list[str] = field(default_factory=list)
    """Those no longer wanted that are kept."""
    waiting: dict[str, str] = field(default_factory=dict)
    """Those that cannot be made yet, and why."""
    immutable: list[Immutable] = field(default_factory=list)
    """Fields that differ and cannot be changed."""
    cannot_expand: list[str] = field(default_factory=list)
    """Those that should grow, and whose StorageClass does not allow it."""
    conflicts: list[Foreign] = field(default_factory=list)
    """Claims of a wanted name that are not ours."""
    held: list[str] = field(default_factory=list)
    """Claims that only a new builder would make in another way."""
    errors: list[Exception] = field(default_factory=list)
    """What failed; all else was done nevertheless."""


class StorageClasses:
    """Which StorageClasses let claims grow, read from the cache. The kind has to be declared."""

    def __init__(self, cache: Cache) -> None:
        raise NotImplementedError

    def __call__(self, name: str) -> bool | None:
        """Whether claims of the class can grow; None if there is no class of that name."""
        raise NotImplementedError


class ClaimControl:
    """Brings the claims of numbered instances about. It keeps no state."""

    def __init__(
        self,
        control: Control,
        *,
        expandable: Callable[[str], bool | None] = lambda _name: None,
    ) -> None:
        """`expandable(name)`: whether claims of a StorageClass can grow; None where it is not known: it is tried."""
        raise NotImplementedError

    async def reconcile(
        self,
        claims: Iterable[Claim],
        current: Iterable[Entry],
        owner: Owner,
        *,
        retain: bool = False,
    ) -> ClaimProgress:
        """One pass. `current`: the claims that exist, from the cache. `retain`: keep those no longer wanted."""
        raise NotImplementedError
