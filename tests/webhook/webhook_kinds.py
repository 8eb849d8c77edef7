"""A kind with two versions, defaults and validators; the group is the test's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

from pydantic import Field

from ctrlruntime.api import ApiModel, Conditions, Resource
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.errors import Conflict
from ctrlruntime.webhook import AdmissionOptions, Review, defaults, validates


class Port(ApiModel):
    """A port."""

    name: str
    """Its name."""
    number: int = 80
    """Its number."""


class WebsiteSpec(ApiModel):
    """What a website is."""

    title: str = "untitled"
    """What people read."""
    tier: str | None = None
    """small or large."""
    port: int = 80
    """Where it listens."""
    admin_port: int = 81
    """Where its administration listens."""
    ports: list[Port] = Field(default_factory=list)
    """Further ports."""


class WebsiteStatus(ApiModel):
    """How it is."""

    conditions: Conditions = Field(default_factory=list)
    """What is known of it."""


class OldSpec(ApiModel):
    """The same, as it was described before: one text for title and tier."""

    headline: str = "untitled"
    """Title and tier."""
    port: int = 80
    """Where it listens."""


class Websites(NamedTuple):
    """The classes of one group."""

    current: Any
    old: Any

    def manifest(self, name: str = "shop", *, version: str = "v1", **spec: object) -> Manifest:
        group = self.current.gvk().group
        return {
            "apiVersion": f"{group}/{version}",
            "kind": "Website",
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }


def websites(  # noqa: C901 - two classes with all that they declare
    group: str = "sites.example.com", options: AdmissionOptions | None = None
) -> Websites:
    """The kind in a group of its own, so that tests on one server do not meet."""

    class Website(Resource[WebsiteSpec, WebsiteStatus], group=group, version="v1"):
        """A website."""

        admission: ClassVar = options or AdmissionOptions()

        @defaults
        def fill_in(self, review: Review[Website]) -> None:
            self.spec.tier = self.spec.tier or "small"
            for port in self.spec.ports:
                port.name = port.name.lower()
            if self.spec.title == "crash the defaulter":
                raise RuntimeError("a mistake")

        @validates("create", "update")
        async def check(self, review: Review[Website]) -> None:
            if self.spec.port == self.spec.admin_port:
                review.invalid("spec.adminPort", self.spec.admin_port, "must differ from port")
            if self.spec.tier not in ("small", "large"):
                review.not_supported("spec.tier", self.spec.tier, ["small", "large"])
            if self.spec.tier == "large":
                review.warn("large websites cost more")
            _misbehave(self.spec.title)

        @validates("update")
        def keep_title(self, review: Review[Website]) -> None:
            if review.old is not None and self.spec.title != review.old.spec.title:
                review.forbidden("spec.title", "is written once")

        @validates("delete")
        def keep(self, review: Review[Website]) -> None:
            assert review.old is not None
            if self.metadata.annotations.get("keep") == "yes":
                raise ValueError(f"{self.metadata.name} is to be kept")

    class OldWebsite(
        Resource[OldSpec, WebsiteStatus],
        group=group,
        version="v1alpha1",
        kind="Website",
        storage=False,
    ):
        """A website, as it was described before."""

        def to_hub(self) -> Website:
            _misbehave(self.spec.headline)
            title, _, tier = self.spec.headline.partition("/")
            if self.metadata.annotations.get("unconvertible") == "yes":
                raise ValueError(f"{self.metadata.name} is not to be converted")
            spec = WebsiteSpec(title=title, port=self.spec.port, tier=tier or None)
            return Website(metadata=self.metadata, spec=spec, status=self.status)

        @classmethod
        def from_hub(cls, hub: Website) -> Self:
            headline = f"{hub.spec.title}/{hub.spec.tier}" if hub.spec.tier else hub.spec.title
            spec = OldSpec(headline=headline, port=hub.spec.port)
            return cls(spec=spec, status=hub.status)

    return Websites(Website, OldWebsite)


def _misbehave(title: str) -> None:
    if title == "crash":
        raise RuntimeError("a mistake of the author's")
    if title == "conflict":
        raise Conflict("this name was promised to another", details={"name": "another"})


def operations(patch: Sequence[Any]) -> list[str]:
    return [f"{item['op']} {item['path']}" for item in patch]
