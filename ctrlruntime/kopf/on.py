"""The decorators: ``kopf.on.create`` and its kin, ``kopf.timer``, ``kopf.daemon``, ``kopf.index``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol, TypedDict, TypeVar

from typing_extensions import Unpack

from ctrlruntime.kopf.bodies import field_path
from ctrlruntime.kopf.errors import ErrorsMode, NotOffered
from ctrlruntime.kopf.registry import Handler, OperatorRegistry, Selector, default_registry

__all__ = [
    "cleanup",
    "create",
    "daemon",
    "delete",
    "event",
    "field",
    "index",
    "login",
    "mutate",
    "probe",
    "resume",
    "startup",
    "timer",
    "update",
    "validate",
]

F = TypeVar("F", bound=Callable[..., Any])


class Common(TypedDict, total=False):
    """Options of every decorator."""

    id: str | None
    param: Any
    errors: ErrorsMode | None
    timeout: float | None
    retries: int | None
    backoff: float | None
    registry: OperatorRegistry | None


class OfObjects(Common, total=False):
    """Options of decorators for objects."""

    labels: dict[str, Any] | None
    annotations: dict[str, Any] | None
    when: Callable[..., bool] | None
    field: str | Sequence[str] | None
    value: Any


class OfChanges(OfObjects, total=False):
    """Options of decorators for changes."""

    old: Any
    new: Any
    optional: bool | None
    deleted: bool | None


class OfTasks(OfObjects, total=False):
    """Options of daemons and timers. Times are seconds."""

    initial_delay: float | None
    interval: float
    sharp: bool
    idle: float
    cancellation_backoff: float | None
    cancellation_timeout: float | None
    cancellation_polling: float | None


class OfReviews(OfObjects, total=False):
    """Options of admission handlers."""

    operation: str | None
    operations: Sequence[str] | None
    subresource: str | None
    persistent: bool | None
    side_effects: bool | None
    ignore_failures: bool | None


class Decorator(Protocol):
    """Registers a function and returns it."""

    def __call__(self, fn: F, /) -> F: ...


OWN = frozenset({"errors", "timeout", "retries", "backoff", "param", "labels", "annotations"}) | {
    "when",
    "value",
    "old",
    "new",
}


def make_handler(
    fn: Callable[..., Any],
    reason: str,
    selector: Selector | None,
    options: dict[str, Any],
    prefix: str = "",
) -> Handler:
    """Return the handler of a function. Its ID is the function's name and field, unless one is given."""
    given = {name: value for name, value in options.items() if value is not None}
    path = field_path(given.pop("field", None))
    given.pop("registry", None)
    own_id = given.pop("id", None) or "/".join([fn.__name__, *([".".join(path)] if path else ())])
    return Handler(
        fn=fn,
        id=f"{prefix}/{own_id}" if prefix else own_id,
        reason=reason,
        selector=selector,
        field=path,
        options={name: value for name, value in given.items() if name not in OWN},
        **{name: value for name, value in given.items() if name in OWN},
    )


def _registers(reason: str, names: tuple[str, ...] | None, options: Any) -> Decorator:  # noqa: ANN401 - one of the TypedDicts
    selector = None if names is None else Selector.of(*names)

    def decorate(fn: F) -> F:
        registry = options.get("registry") or default_registry()
        registry.add(make_handler(fn, reason, selector, dict(options)))
        return fn

    return decorate


def create(*resource: str, **options: Unpack[OfChanges]) -> Decorator:
    """Call the function once for each new object."""
    return _registers("create", resource, options)


def update(*resource: str, **options: Unpack[OfChanges]) -> Decorator:
    """Call the function when an object was changed since it was last handled."""
    return _registers("update", resource, options)


def delete(*resource: str, **options: Unpack[OfChanges]) -> Decorator:
    """Call the function before an object goes: a finalizer keeps it until then, unless ``optional=True``."""
    return _registers("delete", resource, options)


def resume(*resource: str, **options: Unpack[OfChanges]) -> Decorator:
    """Call the function for each object that is there when the operator starts."""
    return _registers("resume", resource, options)


def field(*resource: str, **options: Unpack[OfChanges]) -> Decorator:
    """Call the function when a field differs, from its first value on."""
    if options.get("field") is None:
        raise TypeError("kopf.on.field needs a field, as field='spec.size'")
    return _registers("field", resource, options)


def event(*resource: str, **options: Unpack[OfObjects]) -> Decorator:
    """Call the function for what happens to an object, without retries; see the page for what is merged."""
    return _registers("event", resource, options)


def timer(*resource: str, **options: Unpack[OfTasks]) -> Decorator:
    """Call the function for each object again and again."""
    return _registers("timer", resource, options)


def daemon(*resource: str, **options: Unpack[OfTasks]) -> Decorator:
    """Run the function for each object as long as that is there."""
    return _registers("daemon", resource, options)


def index(*resource: str, **options: Unpack[OfObjects]) -> Decorator:
    """Keep what the function returns for each object, by key, in a keyword argument of all handlers."""
    return _registers("index", resource, options)


def validate(*resource: str, **options: Unpack[OfReviews]) -> Decorator:
    """Call the function on admission: an AdmissionError denies the request."""
    return _registers("validate", resource, options)


def mutate(*resource: str, **options: Unpack[OfReviews]) -> Decorator:
    """Call the function on admission: what it puts into `patch` changes the object."""
    return _registers("mutate", resource, options)


def startup(**options: Unpack[Common]) -> Decorator:
    """Call the function before any object is handled; if it fails for good, the operator ends."""
    return _registers("startup", None, options)


def cleanup(**options: Unpack[Common]) -> Decorator:
    """Call the function after the last object was handled."""
    return _registers("cleanup", None, options)


def probe(**options: Unpack[Common]) -> Decorator:
    """Report what the function returns at the liveness endpoint, under its ID."""
    return _registers("probe", None, options)


def login(**_: object) -> NoReturn:
    """Raise NotOffered: credentials are read from the kubeconfig or the service account."""
    raise NotOffered(
        "kopf.on.login is not offered: take the handler away. Credentials come from the kubeconfig (exec "
        "plugins and their refresh included) or the service account; kopf.operator(config=...) takes others"
    )
