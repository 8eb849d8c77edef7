"""Single Secrets that settings refer to: each watched by itself, whole, and nothing else.

Only Secrets with the label of the purpose are read: whoever may write a registry names the server that gets
them. The watch selects by it, so that the content of another Secret never reaches the manager.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from ctrlruntime.cache.cache import Cache, InformerHandle
from internal.named_secrets import Purpose, allow_command
from internal.tenancy.objects.values import SECRET, decoded_text

Place = tuple[str, str]


class SecretUnavailable(Exception):
    """A Secret, or a key of it, that is referred to is not there."""


@dataclass(slots=True)
class _Watched:
    handle: InformerHandle
    users: set[Hashable] = field(default_factory=set)


class WatchedSecrets:
    """Reads keys of Secrets by a watch of exactly these Secrets, so that a change is seen at once."""

    def __init__(self, cache: Cache, on_change: Callable[[frozenset[Hashable]], None]) -> None:
        """`on_change` gets the users of a Secret that was changed, made or deleted."""
        self._cache = cache
        self._on_change = on_change
        self._watched: dict[Place, _Watched] = {}

    async def read(self, user: Hashable, namespace: str, name: str, key: str) -> str:
        """Return the value of one key. Raises SecretUnavailable."""
        watched = self._watched.get((namespace, name)) or self._watch((namespace, name))
        watched.users.add(user)
        await watched.handle.informer.wait_synced()
        entry = watched.handle.informer.store.get(name, namespace=namespace)
        if entry is None:
            raise SecretUnavailable(
                f"there is no Secret {name!r} with the label {Purpose.DATABASE.selector} in namespace "
                f"{namespace!r}; {allow_command(namespace, name, [Purpose.DATABASE])}"
            )
        data = entry.field("data") or {}
        if key not in data:
            raise SecretUnavailable(f"the Secret {name!r} has no key {key!r}")
        return decoded_text(data[key])

    async def keep_only(self, user: Hashable, places: frozenset[Place]) -> None:
        """Release every Secret that `user` refers to no more."""
        for place in [p for p, w in self._watched.items() if user in w.users and p not in places]:
            watched = self._watched[place]
            watched.users.discard(user)
            if not watched.users:
                del self._watched[place]
                await watched.handle.release()

    def _watch(self, place: Place) -> _Watched:
        namespace, name = place
        handle = self._cache.declare(
            SECRET,
            namespaces=[namespace],
            labels=Purpose.DATABASE.selector,
            fields=f"metadata.name={name}",
            metadata_only=False,
        )
        watched = self._watched[place] = _Watched(handle)
        handle.informer.add_handler(lambda _event: self._on_change(frozenset(watched.users)))
        return watched
