"""Instances as they stand in the cache, and what keeps one from being worked on. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from apis.cloud import Instance
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.error_status import unreadable
from ctrlruntime.rollout import BadWindow, ChangeKind
from internal.cloud.change_holds import windows_of_instance
from internal.cloud.instance.bundles import BundleMissing, Bundles
from internal.cloud.instance.status import Hindrance
from internal.cloud.release_assignment import (
    forged_assignment,
    recorded_assignment,
    with_assigned_version,
)
from internal.cloud.terraform_types import TerraformTypes, UnknownType
from internal.cloud.version_policy import version_problem

LONGEST_NAME: Final = 63
"""An instance's name is the value of a label."""


def read(entry: Entry) -> tuple[Instance, Hindrance | None]:
    """Return the instance in the version that counts; see `read_written` for the rest."""
    instance, flaw = read_written(entry)
    return with_assigned_version(instance), flaw


def read_written(entry: Entry) -> tuple[Instance, Hindrance | None]:
    """Return the instance as it is written, or one without what cannot be read together with what is wrong with it."""
    try:
        return entry.typed(Instance), None
    except ValidationError as error:
        flaw = Hindrance(
            reason="InvalidSpec",
            message=shorten(f"The instance cannot be read: {unreadable(error)}"),
        )
    bare = {**entry.readable(), "spec": {"version": "unknown"}}
    try:
        return Instance.from_manifest(bare), flaw
    except ValidationError:
        return Instance.from_manifest({**bare, "status": {}}), flaw


def _unknown_version(instance: Instance) -> str:
    """Return why an instance without a known version waits that may have been restored without its status.

    It may run a version that a rollout assigned, and the spec's would be a downgrade.
    """
    forged = "" if instance.status.version else forged_assignment(instance)
    if not forged:
        return ""
    return (
        f"{forged}. Nothing is deployed until then. If it was restored from a backup, write the version that it runs "
        f"into spec.version before that."
    )


def _version_problem(instance: Instance, entry: Entry, runs: str) -> str:
    """Return why the version that counts may not follow the one that runs; a rollback of a rollout may."""
    spec = instance.spec
    assignment = recorded_assignment(instance)
    back = assignment is not None and assignment.change.kind is ChangeKind.ROLLBACK
    if back and assignment is not None and assignment.version == spec.wanted_version:
        return ""
    return version_problem(spec.upgrade_policy, runs, spec.wanted_version, entry.annotations)


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What must hold before an instance is worked on."""

    conflict: Callable[[Instance], Hindrance | None]
    """Whether another instance has a name that this one wants."""
    bundles: Bundles
    types: TerraformTypes = field(default_factory=TerraformTypes)
    """What the types of infrastructure stand for."""

    def check(self, instance: Instance, entry: Entry, runs: str) -> tuple[Hindrance | None, str]:
        """Return what keeps an instance of which the version `runs` from being worked on, and the revision of its bundle."""
        if len(instance.metadata.name or "") > LONGEST_NAME:
            message = f"The name is longer than {LONGEST_NAME} characters: make another instance."
            return Hindrance(reason="NameTooLong", message=message), ""
        try:
            windows_of_instance(entry)
        except BadWindow as error:
            return Hindrance(reason="InvalidSpec", message=f"{error}."), ""
        problem = _unknown_version(instance)
        if problem:
            return Hindrance(reason="AssignmentNotRecorded", message=problem), ""
        problem = _version_problem(instance, entry, runs)
        if problem:
            return Hindrance(reason="VersionRefused", message=f"{problem}."), ""
        found = self.conflict(instance)
        if found is not None:
            return found, ""
        try:
            self.types.settings_of(instance)
        except UnknownType as error:
            return Hindrance(reason="UnknownTerraformType", message=f"{error}."), ""
        try:
            return None, self.bundles.revision(instance)
        except BundleMissing as error:
            return Hindrance(reason="BundleMissing", message=str(error)), ""
