"""What makes a kind a subresource of an instance: its task, its inputs, its place in the order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from apis.cloud import Instance, TaskStatus, TerraformSettings
from ctrlruntime.api import ApiModel, Resource
from internal.cloud.tasks.task import TaskDefinition
from internal.named_secrets import NamedKey

R = TypeVar("R", bound=Resource[Any, TaskStatus])


class ObjectStrategy(StrEnum):
    """How many objects of a kind an instance has, and what becomes of them when their inputs change."""

    UPDATE = "update"
    """One object with the instance's name, which is updated."""
    ONE_PER_UPGRADE = "onePerUpgrade"
    """One object for each change of the version, which is never updated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """What a subresource may build on besides the instance's own spec."""

    version: str
    """Version that the workload should run now; the old one while an upgrade is under way."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs of the subresources before it; later ones win."""
    outputs_secret_name: str = ""
    """Secret with the outputs of the infrastructure that must not be seen."""
    bundle_revision: str = ""
    """Hash over the contents of the bundle's ConfigMaps."""
    terraform: TerraformSettings | None = None
    """The Terraform settings of the instance with those of its type; None: those of the spec count."""


def _no_secrets(_resource: object) -> Sequence[NamedKey]:
    return ()


def _no_names(_resource: object) -> Sequence[str]:
    return ()


def _no_version(_resource: object) -> str | None:
    return None


def _no_refusal(_resource: object, _wanted: ApiModel) -> str:
    return ""


def _defined(_resource: object) -> float | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource(Generic[R]):
    """One type of subresource. A wiring module makes one; nothing else has to know of it."""

    kind: type[R]
    definition: TaskDefinition
    desired: Callable[[Instance, Upstream], ApiModel | None]
    """The spec that the instance wants; None: it wants none of this kind. Pure."""
    strategy: ObjectStrategy = ObjectStrategy.UPDATE
    refusal: Callable[[R, ApiModel], str] = _no_refusal
    """Why the object that is there may not get the spec that is wanted, and what to do; empty: it may."""
    deploys_version: bool = False
    """Whether it runs the version that its spec names, and replaces what a failed upgrade left."""
    version: Callable[[R], str | None] = _no_version
    """The version of the application that the spec names; None: it names none."""
    after: tuple[str, ...] = ()
    """Kinds that have to be ready for their current inputs first."""
    annotations: frozenset[str] = frozenset()
    """Annotations of the instance that are inputs of this task too."""
    secrets: Callable[[R], Sequence[NamedKey]] = _no_secrets
    """Keys of Secrets that the task may read, and what for."""
    record_of: type[Resource[Any, TaskStatus]] | None = None
    """The subresource of the same instance whose record its runs are given; None: itself."""
    config_maps: Callable[[R], Sequence[str]] = _no_names
    """ConfigMaps that the task may read."""
    period: Callable[[R], float | None] = _defined
    """Seconds of the period that the spec requests; None: the definition's."""
    checks_drift: bool = False
    """Whether its task can look for drift, as the instance's spec.driftDetection requests."""
    plans: bool = False
    """Whether its task plans first, so that the instance's spec.terraformRuns counts."""
    gates: bool = True
    """Whether the instance is ready only when this is."""
