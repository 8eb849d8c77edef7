"""CustomResourceDefinitions: from a definition to a served kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.discovery import version_rank
from ctrlruntime.envtest.server.kinds import CUSTOM_VERBS, Kind, ScalePaths
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Record

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"


def served_kind(definition: Manifest) -> Kind | None:
    """Return the kind a definition stands for; None where it serves no version."""
    spec = definition["spec"]
    names = spec["names"]
    served = [v for v in spec["versions"] if v.get("served")]
    if not served:
        return None
    schemas = {v["name"]: v for v in spec["versions"]}
    storage = next(v["name"] for v in spec["versions"] if v.get("storage"))
    ordered = sorted((v["name"] for v in served), key=version_rank)
    declared = [v.get("subresources") or {} for v in spec["versions"]]
    present = [n for n in ("scale", "status") if any(n in d for d in declared)]
    namespaced = spec["scope"] == "Namespaced"
    return Kind(
        group=spec["group"],
        kind=names["kind"],
        plural=names["plural"],
        versions=tuple(ordered),
        storage_version=storage,
        namespaced=namespaced,
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", ""),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(present),
        scale=_scale(declared),
        unconditional_update=False,
        verbs=CUSTOM_VERBS,
        fields=("metadata.name", "metadata.namespace") if namespaced else ("metadata.name",),
        custom=True,
        schemas=schemas,
        definition=definition,
    )


def _scale(declared: Iterable[dict[str, Any]]) -> ScalePaths | None:
    for subresources in declared:
        if scale := subresources.get("scale"):
            return ScalePaths(
                spec=scale["specReplicasPath"].lstrip("."),
                status=scale["statusReplicasPath"].lstrip("."),
                selector=(scale.get("labelSelectorPath") or "").lstrip("."),
            )
    return None


class Definitions:
    """Keeps the catalog in step with the stored definitions."""

    def __init__(self, state: State) -> None:
        self._state = state

    def establish(self, record: Record) -> None:
        """After a definition was stored: names accepted, established, served at once."""
        obj = record.load()
        conflict = self._name_conflict(obj)
        status = obj.setdefault("status", {})
        now = self._state.now()
        before = record.obj.get("status")
        _set_names(status, obj, conflict, now)
        storage = next(v["name"] for v in obj["spec"]["versions"] if v.get("storage"))
        stored = status.setdefault("storedVersions", [])
        if storage not in stored:
            stored.append(storage)
        if not obj["metadata"].get("deletionTimestamp"):
            finalizers = obj["metadata"].setdefault("finalizers", [])
            if FINALIZER not in finalizers:
                finalizers.append(FINALIZER)
        same_metadata = obj["metadata"] == record.obj["metadata"]
        if status != before or not same_metadata:
            bucket = self._state.storage.bucket(DEFINITIONS)
            record = self._state.storage.update(bucket, obj, record)
        if conflict:
            return
        self._serve(record.obj)

    def _serve(self, definition: Manifest) -> None:
        spec = definition["spec"]
        kind = served_kind(definition)
        if kind is None:
            self._state.catalog.remove(spec["group"], spec["names"]["plural"])
        else:
            self._state.catalog.put(kind)

    def _name_conflict(self, obj: Manifest) -> tuple[str, str] | None:
        """Reason and message where another definition of the group has a name; the last counts."""
        spec = obj["spec"]
        names = spec["names"]
        resources: set[str] = set()
        kinds: set[str] = set()
        for other in self._state.catalog:
            if other.group == spec["group"] and other.plural != names["plural"]:
                resources |= {other.plural, other.singular_name, *other.short_names}
                kinds |= {other.kind, other.list_name}
        wanted = [
            ("PluralConflict", [names["plural"]], resources),
            ("SingularConflict", [names.get("singular")], resources),
            ("ShortNamesConflict", names.get("shortNames") or [], resources),
            ("KindConflict", [names["kind"]], kinds),
            ("ListKindConflict", [names.get("listKind")], kinds),
        ]
        found = None
        for reason, given, taken in wanted:
            if used := [f'"{name}" is already in use' for name in given if name in taken]:
                found = reason, used[0] if len(used) == 1 else f"[{', '.join(used)}]"
        return found

    def withdraw(self, definition: Manifest) -> None:
        """After the definition is gone."""
        spec = definition["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        kind = self._state.catalog.resource(group, plural)
        mine = definition["metadata"]["uid"]
        if kind is None or not kind.definition or kind.definition["metadata"]["uid"] != mine:
            return
        self._state.catalog.remove(group, plural)
        self._accept_rivals(group)

    def _accept_rivals(self, group: str) -> None:
        """Names have become free; another definition of the group may have waited for them."""
        for record in list(self._state.storage.bucket(DEFINITIONS).scan()):
            conditions = (record.obj.get("status") or {}).get("conditions") or ()
            if record.obj["spec"]["group"] == group and any(
                c["type"] == "NamesAccepted" and c["status"] == "False" for c in conditions
            ):
                self.establish(record)

    def clean(self, record: Record, remove: Callable[[Kind, Record], object]) -> bool:
        """Delete the objects of a definition that is being deleted; True once none is left."""
        spec = record.obj["spec"]
        kind = self._state.catalog.resource(spec["group"], spec["names"]["plural"])
        if kind is None or not kind.custom:
            return True
        bucket = self._state.bucket(kind)
        for item in list(bucket.scan()):
            if not item.obj["metadata"].get("deletionTimestamp"):
                remove(kind, item)
        return len(bucket) == 0


def deprecation(kind: Kind, version: str) -> str:
    """Return the warning for a deprecated version; empty for others."""
    entry = kind.version_entry(version)
    if not entry.get("deprecated"):
        return ""
    if given := entry.get("deprecationWarning"):
        return str(given)
    text = f"{kind.api_version(version)} {kind.kind} is deprecated"
    better = [
        name
        for name in kind.versions
        if version_rank(name) < version_rank(version)
        and not kind.version_entry(name).get("deprecated")
    ]
    return f"{text}; use {kind.api_version(better[0])} {kind.kind}" if better else text


def _set_names(
    status: dict[str, Any], obj: Manifest, conflict: tuple[str, str] | None, now: str
) -> None:
    names = obj["spec"]["names"]
    if conflict is None:
        status["acceptedNames"] = dict(names)
    conditions = status.setdefault("conditions", [])
    if conflict is None:
        _condition(conditions, now, "NamesAccepted", "True", "NoConflicts", "no conflicts found")
        _condition(
            conditions,
            now,
            "Established",
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        )
    else:
        _condition(conditions, now, "NamesAccepted", "False", *conflict)
        if not any(c["type"] == "Established" for c in conditions):
            text = "not all names are accepted"
            _condition(conditions, now, "Established", "False", "NotAccepted", text)
    if obj["metadata"].get("deletionTimestamp"):
        text = "CustomResource deletion is in progress"
        _condition(conditions, now, "Terminating", "True", "InstanceDeletionInProgress", text)


def _condition(
    conditions: list[dict[str, Any]], now: str, name: str, status: str, reason: str, text: str
) -> None:
    found = next((c for c in conditions if c["type"] == name), None)
    if found is None:
        found = {"type": name, "status": "", "lastTransitionTime": now}
        conditions.append(found)
    if found["status"] != status:
        found["status"], found["lastTransitionTime"] = status, now
    found["reason"], found["message"] = reason, text
