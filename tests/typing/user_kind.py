"""A user's kind, as mypy --strict sees it with the pydantic plugin: never run, only checked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, assert_type

from pydantic import Field

from ctrlruntime.api import (
    CEL,
    ApiModel,
    Condition,
    Conditions,
    Duration,
    GroupVersionKind,
    Immutable,
    IntOrString,
    KindRef,
    ListMap,
    Manifest,
    Nullable,
    ObjectMeta,
    PrintColumn,
    Quantity,
    Resource,
    RESTMapping,
    Scale,
    meta,
    set_condition,
)


class Port(ApiModel):
    name: str
    number: IntOrString


class WebsiteSpec(ApiModel, rules=(CEL("self.replicas < 100"),)):
    image: Annotated[str, Immutable()]
    replicas: Annotated[int, Field(ge=0)] = 1
    ports: Annotated[list[Port], ListMap("name")] = Field(default_factory=list)
    note: str | None = None
    owner: Nullable[str] = None
    timeout: Duration = timedelta(seconds=30)
    memory: Quantity | None = None


class WebsiteStatus(ApiModel):
    ready: Annotated[int, PrintColumn()] = 0
    conditions: Conditions = Field(default_factory=list)


class Website(
    Resource[WebsiteSpec, WebsiteStatus],
    group="example.com",
    version="v1",
    plural="websites",
    scope="Namespaced",
    short_names=("ws",),
    print_columns=(PrintColumn("Age", ".metadata.creationTimestamp", "date"),),
    scale=Scale(),
):
    """A website."""


class Plain(Resource[WebsiteSpec], group="example.com", version="v1"):
    """A kind without a status."""


def use() -> None:
    site = Website(metadata=ObjectMeta(name="x"), spec=WebsiteSpec(image="nginx"))
    assert_type(site.spec, WebsiteSpec)
    assert_type(site.status, WebsiteStatus)
    assert_type(site.spec.replicas, int)
    assert_type(site.spec.note, str | None)
    assert_type(site.spec.owner, str | None)
    assert_type(site.spec.ports[0].number, int | str)
    assert_type(site.spec.timeout, timedelta)
    assert_type(site.metadata.labels, dict[str, str])
    assert_type(Website.from_manifest(b"{}"), Website)
    assert_type(site.to_manifest(), Manifest)
    assert_type(Website.gvk(), GroupVersionKind)
    assert_type(Website.mapping(), RESTMapping)
    condition = Condition(type="Ready", status="True", reason="Up")
    assert_type(set_condition(site.status.conditions, condition, datetime.now(UTC)), bool)
    assert_type(meta.set_controller_reference(site, {"kind": "ConfigMap"}), bool)
    refs: list[KindRef] = [Website, Plain, Website.gvk(), Website.mapping()]
    site.spec.replicas = "many"  # type: ignore[assignment]
    WebsiteSpec(replicas=1)  # type: ignore[call-arg]
    site.spec.nothing  # type: ignore[attr-defined]  # noqa: B018
    del refs
