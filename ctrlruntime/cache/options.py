"""Options of a cache."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.clock import wall


@dataclass(frozen=True, slots=True, kw_only=True)
class KindCacheOptions:
    """Defaults of one kind, for declarations that do not say otherwise."""

    namespaces: Collection[str] | None = None
    labels: str | None = None
    fields: str | None = None
    unselected: bool = False
    """Leave the cache's own ``labels`` out, and slots: for kinds whose objects are shared by all who select by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheOptions:
    """A declaration's own arguments win over ``kinds``, and those over ``namespaces``."""

    namespaces: Collection[str] | None = None
    """Where namespaced kinds are watched; None: everywhere."""
    labels: str | None = None
    """Label selector that every declaration has besides its own: no object without these labels is
    cached, but those of kinds that are ``unselected``."""
    sharded: bool = False
    """Whether declarations are of the slots that were taken (`Cache.take_slots`), but for kinds that are ``unselected``."""
    kinds: Mapping[GroupVersionKind, KindCacheOptions] = field(default_factory=dict)
    live_kinds: Collection[GroupVersionKind] = ()
    """Kinds that the cached client always reads from the server."""
    informers: InformerOptions = field(default_factory=InformerOptions)
    clock: Callable[[], float] = wall
    """For ``missing()``: seconds since the epoch."""
