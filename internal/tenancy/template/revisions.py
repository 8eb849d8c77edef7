"""Recorded content of templates with a rollout: ControllerRevisions that belong to the template."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from apis.tenancy import TenantTemplate
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.store import Store
from ctrlruntime.client.errors import APIError
from ctrlruntime.gate import Cause
from ctrlruntime.memo import VersionMemo
from ctrlruntime.resources import OWNER, Action, Desired, Owner, SetPolicy, reconcile_set, revision
from internal.tenancy.shared.deps import Writers
from internal.tenancy.shared.labels import TEMPLATE, kinds_of
from internal.tenancy.shared.naming import LONGEST_NAME, label_value
from internal.tenancy.sync.tenants import Blueprint

CONTROLLER_REVISION: Final[RESTMapping] = BUILTIN[
    GroupVersionKind("apps", "v1", "ControllerRevision")
]
TEMPLATE_INDEX: Final = "template"
"""Index of revisions: the template."""
HISTORY_LIMIT: Final = 10
"""Revisions that are kept of a template besides those in use, as many as of a StatefulSet by default."""


@dataclass(frozen=True, slots=True)
class RevisionWrite:
    """A revision to record, with its number in the history."""

    version: str
    number: int


@dataclass(frozen=True, slots=True)
class WantedRevisions:
    """The content of a template that has to be recorded before its tenants change.

    `earlier` is content that its tenants have, `in_use` are the versions that are kept in any case. With
    `required`, no tenant changes before all of it is recorded.
    """

    template: Entry
    present: Blueprint
    earlier: Mapping[str, Blueprint] = field(default_factory=dict)
    in_use: frozenset[str] = frozenset()
    required: bool = False

    def content(self, version: str) -> Blueprint:
        """Return the content of one of the versions. Raises KeyError."""
        return self.present if version == self.present.revision else self.earlier[version]


def plan_history(
    recorded: Mapping[str, int], target: str, earlier: Set[str], in_use: Set[str]
) -> tuple[list[RevisionWrite], list[str]]:
    """Return the revisions to write, and the versions to delete. Pure.

    `recorded` are the numbers by version. The target has the highest number, as of a Deployment.
    """
    numbers = dict(recorded)
    writes: list[RevisionWrite] = []
    for version in [*sorted(set(earlier) - set(recorded) - {target}), target]:
        highest = max(numbers.values(), default=0)
        if version not in numbers or numbers[version] < highest:
            numbers[version] = highest + 1
            writes.append(RevisionWrite(version, highest + 1))
    newest = sorted(numbers, key=lambda each: -numbers[each])
    return writes, [name for name in newest[HISTORY_LIMIT:] if name not in in_use]


@dataclass(slots=True)
class TemplateRevisions:
    """Records the content of templates, and reads it back."""

    store: Store
    templates: Store
    writers: Writers
    _read: VersionMemo[tuple[str, str], Blueprint | None] = field(default_factory=VersionMemo)
    _lost: dict[Key, Entry] = field(default_factory=dict)
    """Revisions that the cache has no more, as they were: deleted, or without the label that it selects by."""

    def recorded(self, template: Entry) -> dict[str, Blueprint]:
        """Return the recorded content of a template by version; what was changed by hand is left out."""
        found: dict[str, Blueprint] = {}
        for entry in self._entries(template):
            blueprint = self._blueprint(entry, template)
            if blueprint is not None:
                found[blueprint.revision] = blueprint
        return found

    async def record(self, wanted: WantedRevisions) -> str:
        """Write what is not recorded yet and delete the oldest. Return what prevents it."""
        try:
            return await self._record(wanted, Owner.of(wanted.template))
        except APIError as error:
            return f"its content cannot be recorded: {error.message}"

    async def _record(self, wanted: WantedRevisions, owner: Owner) -> str:
        reclaimed = await self._reclaim(wanted.template, owner)
        recorded = [*reclaimed, *self._recorded(wanted.template)]
        numbers = {blueprint.revision: number for number, blueprint in recorded}
        writes, deletes = plan_history(
            numbers, wanted.present.revision, wanted.earlier.keys(), wanted.in_use
        )
        content = [(wanted.content(write.version), write.number) for write in writes]
        written = {write.version for write in writes} | set(deletes)
        content += [(each, number) for number, each in recorded if each.revision not in written]
        oldest = {revision_name(wanted.template.name, version) for version in deletes}
        result = await reconcile_set(
            self.writers.control,
            self._entries(wanted.template),
            [_desired(blueprint, number, wanted.template) for blueprint, number in content],
            owner,
            SetPolicy(
                delete=lambda entry: entry.name in oldest,
                only_when_complete=True,
                cause=Cause.RETENTION,
            ),
        )
        result.raise_first()
        in_the_way = [
            f"a ControllerRevision {desired.name!r} is in the way: {outcome.conflict}"
            for desired, outcome in result.conflicts
        ]
        return next(iter(in_the_way), "")

    def forget(self, entry: Entry) -> None:
        """Note that the cache has a revision no more."""
        self._read.forget(entry.key)
        namespace, template = _template_of(entry)
        if self.templates.get(template, namespace=namespace) is not None:
            self._lost[entry.key] = entry

    def _recorded(self, template: Entry) -> list[tuple[int, Blueprint]]:
        """Return what is recorded of a template, each with its number; of what was just lost, too."""
        there = self._entries(template)
        names = {entry.name for entry in there}
        lost = [each for each in self._lost_of(template) if each.name not in names]
        found = [(entry, content_of(entry, template.name)) for entry in lost]
        found += [(entry, self._blueprint(entry, template)) for entry in there]
        return [(number_of(entry), content) for entry, content in found if content is not None]

    async def _reclaim(self, template: Entry, owner: Owner) -> list[tuple[int, Blueprint]]:
        """Put the label back on revisions of a template that have lost it. Return those."""
        found: list[tuple[int, Blueprint]] = []
        for entry in self._lost_of(template):
            content, number = content_of(entry, template.name), number_of(entry)
            there = self.store.get(entry.name, namespace=entry.namespace)
            if content is not None and there is None:
                desired = _desired(content, number, template)
                outcome = await self.writers.control.reclaim(desired, owner)
                if outcome is not None and outcome.action is Action.UPDATED:
                    found.append((number, content))
            self._lost.pop(entry.key, None)
        return found

    def _lost_of(self, template: Entry) -> list[Entry]:
        return [each for each in self._lost.values() if _template_of(each) == template.key]

    def _entries(self, template: Entry) -> list[Entry]:
        owner = Owner.of(template)
        return [
            entry
            for entry in self.store.by_index(
                TEMPLATE_INDEX, f"{template.namespace}/{template.name}"
            )
            if entry.deletion_timestamp is None and self.writers.control.holds(entry, owner)
        ]

    def _blueprint(self, entry: Entry, template: Entry) -> Blueprint | None:
        version = f"{entry.uid}/{entry.resource_version}"
        return self._read.compute(entry.key, version, lambda: content_of(entry, template.name))


def templates_of(entry: Entry) -> list[str]:
    """Index function of revisions: `namespace/name` of the template, by any record of it that is left."""
    namespace, name = _template_of(entry)
    return [f"{namespace}/{name}"] if name else []


def _template_of(entry: Entry) -> Key:
    """Return the template that a revision is of; its name is empty if none is recorded."""
    kind = TenantTemplate.gvk()
    for reference in entry.owners:
        if reference.kind == kind.kind and reference.controller:
            return entry.namespace, reference.name
    prefix = f"{kind.group_kind}/{entry.namespace}/"
    recorded = entry.annotations.get(OWNER, "")
    return entry.namespace, recorded.removeprefix(prefix) if recorded.startswith(prefix) else ""


def revision_name(template: str, version: str) -> str:
    """Return the name of a template's revision. `version` has eight digits, so no two pairs share a name."""
    name = f"{template}-{version}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(template.encode()).hexdigest()[:16]
    return f"{template[:200].rstrip('-.')}-{digest}-{version}"


def number_of(entry: Entry) -> int:
    """Return the place of a revision in the history; 0 if it has none."""
    number = entry.field("revision")
    return number if isinstance(number, int) else 0


def content_of(entry: Entry, template: str) -> Blueprint | None:
    """Return the content that a revision records; None if it is not what its name and hash say."""
    recorded = recorded_lists(entry.name, entry.field("data"), template)
    return None if recorded is None else blueprint_of(template, recorded[1], recorded[0])


def recorded_lists(name: str, data: object, template: str) -> tuple[str, Manifest] | None:
    """Return version and lists of a revision of that name; None if its name is not that of its data."""
    lists = data.get("spec") if isinstance(data, dict) else None
    if not isinstance(lists, dict):
        return None
    version = revision(lists)
    return (version, lists) if name == revision_name(template, version) else None


def blueprint_of(template: str, lists: Manifest, version: str) -> Blueprint | None:
    """Return a template's content from its lists; None if they cannot be read."""
    gvk = TenantTemplate.gvk()
    manifest: Manifest = {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": {"name": template},
        "spec": {**lists, "registryId": "any"},
    }
    try:
        kinds = kinds_of(TenantTemplate.from_manifest(manifest))
    except ValidationError:
        return None
    return Blueprint(template, 0, lists, kinds, version)


def _desired(content: Blueprint, number: int, template: Entry) -> Desired:
    gvk = CONTROLLER_REVISION.gvk
    manifest: Manifest = {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": {
            "name": revision_name(template.name, content.revision),
            "namespace": template.namespace,
            "labels": {TEMPLATE: label_value(template.name)},
        },
        "data": {"spec": content.lists},
        "revision": number,
    }
    return Desired(mapping=CONTROLLER_REVISION, manifest=manifest, force_own_fields=True)
