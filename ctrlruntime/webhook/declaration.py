"""Admission declared on a model: decorators for its methods, options of its webhooks.

    class Website(Resource[WebsiteSpec, WebsiteStatus], group="example.com", version="v1"):
        admission: ClassVar = AdmissionOptions(failure_policy="Ignore")

        @defaults
        def fill_in(self, review: Review[Website]) -> None:
            self.spec.tier = self.spec.tier or "small"

        @validates("create", "update")
        def check_ports(self, review: Review[Website]) -> None:
            if self.spec.port == self.spec.admin_port:
                review.invalid("spec.adminPort", self.spec.admin_port, "must differ from port")

``manager.webhooks.register(Website)`` serves it, and the generator writes its configurations.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, overload

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.resource import Resource
from ctrlruntime.webhook.review import Review, Step
from ctrlruntime.webhook.validating import OPERATIONS

__all__ = [
    "AdmissionOptions",
    "Declared",
    "check_path",
    "declared_by",
    "defaults",
    "mutating_path",
    "validates",
    "validating_path",
]

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_ATTRIBUTE = "__admission__"
_PATH = re.compile(r"^((/[a-zA-Z0-9-_]+)+|/)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionOptions:
    """How the API server calls a kind's webhooks; a class attribute ``admission`` of the model.

    ``failure_policy`` decides requests while no manager answers. ``while_deleting``: validators are
    asked about updates of objects that are being deleted too.
    """

    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent"
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    timeout_seconds: int = 10
    reinvocation_policy: Literal["Never", "IfNeeded"] | None = None
    namespace_selector: Mapping[str, Any] = field(default_factory=dict)
    object_selector: Mapping[str, Any] = field(default_factory=dict)
    match_conditions: tuple[Mapping[str, str], ...] = ()
    while_deleting: bool = False


@dataclass(frozen=True, slots=True)
class _Role:
    defaulting: bool
    operations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """The admission of one kind."""

    options: AdmissionOptions
    defaulters: tuple[Step, ...]
    validators: Mapping[str, tuple[Step, ...]]
    defaulted: tuple[str, ...]
    """The operations that defaulters are asked on."""


@overload
def defaults(function: FunctionT, /) -> FunctionT: ...
@overload
def defaults(*operations: str) -> Callable[[FunctionT], FunctionT]: ...
def defaults(*given: Any) -> Any:
    """Mark a defaulter: called with the object and its Review on ``create`` and ``update``, or on the operations named."""
    if len(given) == 1 and callable(given[0]):
        return _mark(given[0], _Role(True, ("CREATE", "UPDATE")))
    role = _Role(True, _operations(given, ("CREATE", "UPDATE")))
    return lambda function: _mark(function, role)


def validates(*operations: str) -> Callable[[FunctionT], FunctionT]:
    """Mark a validator: called with the object and its Review on the operations named."""
    role = _Role(False, _operations(operations, OPERATIONS))
    return lambda function: _mark(function, role)


def _operations(given: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.upper() for name in given) or ("CREATE", "UPDATE")
    wrong = [name for name in names if name not in known]
    if wrong:
        raise ValueError(f"operations here are {', '.join(known)}, not {', '.join(wrong)}")
    return names


def _mark(function: FunctionT, role: _Role) -> FunctionT:
    setattr(function, _ATTRIBUTE, role)
    return function


def declared_by(
    kind: type[Resource[Any, Any]] | None,
    steps: Sequence[Callable[..., Any]] = (),
    options: AdmissionOptions | None = None,
) -> Declared:
    """Return what the methods of ``kind`` and further ``steps``, marked by the same decorators, declare.

    Raises ValueError for a step that is not marked.
    """
    marked = [*_methods(kind), *_marked(steps)]
    validators: dict[str, list[Step]] = {}
    for role, step in marked:
        for operation in () if role.defaulting else role.operations:
            validators.setdefault(operation, []).append(step)
    if options is None:
        options = getattr(kind, "admission", None) or AdmissionOptions()
    defaulting = [(role, step) for role, step in marked if role.defaulting]
    return Declared(
        options,
        tuple(_only(role.operations, step) for role, step in defaulting),
        {name: tuple(validators[name]) for name in OPERATIONS if name in validators},
        tuple(o for o in OPERATIONS if any(o in role.operations for role, _ in defaulting)),
    )


def _methods(kind: type[Resource[Any, Any]] | None) -> Iterator[tuple[_Role, Step]]:
    """Yield the marked methods, in the order of their definition, those of base classes first."""
    found: dict[str, Any] = {}
    for cls in reversed(kind.__mro__ if kind is not None else ()):
        # A copy: to look at what pydantic has put there may build the model.
        for name, value in list(vars(cls).items()):
            if isinstance(getattr(value, _ATTRIBUTE, None), _Role) or name in found:
                found[name] = value
    for value in found.values():
        role = getattr(value, _ATTRIBUTE, None)
        if isinstance(role, _Role):
            yield role, value


def _marked(steps: Sequence[Callable[..., Any]]) -> Iterator[tuple[_Role, Step]]:
    for step in steps:
        role = getattr(step, _ATTRIBUTE, None)
        if not isinstance(role, _Role):
            raise ValueError(f"{step!r} is neither marked with @defaults nor with @validates")
        yield role, step


def _only(operations: tuple[str, ...], step: Step) -> Step:
    def asked(obj: object, review: Review[Any]) -> Awaitable[None] | None:
        return step(obj, review) if review.operation in operations else None

    return asked


def mutating_path(gvk: GroupVersionKind) -> str:
    """``/mutate-example-com-v1-website``."""
    return f"/mutate-{_dashed(gvk)}"


def validating_path(gvk: GroupVersionKind) -> str:
    """``/validate-example-com-v1-website``."""
    return f"/validate-{_dashed(gvk)}"


def _dashed(gvk: GroupVersionKind) -> str:
    return f"{gvk.group.replace('.', '-')}-{gvk.version}-{gvk.kind.lower()}"


def check_path(path: str) -> str:
    """Return the path itself. Raises ValueError for one that a webhook cannot have."""
    if not _PATH.fullmatch(path):
        raise ValueError(
            f"webhook path {path!r}: it is made of letters, digits, dashes and underscores between "
            "slashes, such as /validate-website"
        )
    return path
