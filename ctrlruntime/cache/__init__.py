"""Informers and the store behind them: declared watches, indexes, read your own writes."""

from ctrlruntime.cache.cache import Cache, InformerHandle
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.cache.entry import Entry, Owner
from ctrlruntime.cache.errors import (
    CacheError,
    CacheNotStarted,
    NotSynced,
    OnlyMetadata,
    OutsideCache,
    UndeclaredKind,
    UnsupportedRead,
)
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, GenericEvent, UpdateEvent
from ctrlruntime.cache.informer import Informer, InformerOptions
from ctrlruntime.cache.options import CacheOptions, KindCacheOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.cache.registration import Registration
from ctrlruntime.cache.store import Store, UnknownIndex

__all__ = [
    "Cache",
    "CacheError",
    "CacheNotStarted",
    "CacheOptions",
    "CachedClient",
    "CreateEvent",
    "DeleteEvent",
    "Entry",
    "Event",
    "GenericEvent",
    "Informer",
    "InformerHandle",
    "InformerOptions",
    "KindCacheOptions",
    "NotSynced",
    "OnlyMetadata",
    "OutsideCache",
    "Owner",
    "ReflectorOptions",
    "Registration",
    "Store",
    "UndeclaredKind",
    "UnknownIndex",
    "UnsupportedRead",
    "UpdateEvent",
]
