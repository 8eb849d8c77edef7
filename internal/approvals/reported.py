"""What counts of an object as its status reports it, for readers that have no key of the records. Pure."""

from __future__ import annotations

from typing import Final

import msgspec
import orjson

from ctrlruntime.api.conditions import conditions_of, find_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.json import Json
from internal.approvals.counted import COUNT, STATUS, subject_of
from internal.approvals.judge import LONGEST, Recorder, protection_in_force
from internal.approvals.rules import REQUIRED, ApprovalRules

NOT_COUNTED: Final = "an approval does not count: {}"


def reported(entry: Entry, rules: ApprovalRules) -> tuple[Entry, str]:
    """Return an object as far as it counts by its status, and why the rest does not; "" if all counts.

    An approval that the manager has not judged yet does not count yet. Less protection than the one in force is not
    in force.
    """
    spec, status = entry.field("spec"), entry.field("status") or {}
    approvals: Json = status.get(STATUS) or {}
    kind = f"{entry.gvk.kind}.{entry.gvk.group}"
    subject = subject_of(kind, entry.metadata(), spec, status)
    known, _since = protection_in_force(subject, Recorder())
    wanted = rules.protection(spec)
    if (known or wanted)[REQUIRED] is None:
        return entry, ""
    condition = find_condition(conditions_of(status), COUNT)
    judged = condition is not None and condition.observed_generation == entry.generation
    refused = condition.message if condition is not None and condition.status == "False" else ""
    counted = {(each.get("annotation"), each.get("value")) for each in approvals.get("given") or ()}
    annotations = dict(entry.annotations)
    missing = []
    for name in sorted(rules.annotations & annotations.keys()):
        kept = [
            item
            for item in rules.items(name, annotations[name])
            if (name, item) in counted
            and (judged or name not in rules.of_spec)
            and f"{name}={item[:LONGEST]} does not count" not in refused
        ]
        if len(kept) < len(rules.items(name, annotations[name])):
            missing.append(name)
        annotations[name] = ",".join(kept)
        if not kept:
            del annotations[name]
    fields = entry.fields
    if known is not None and known != wanted:
        fields = {**fields, "spec": msgspec.Raw(orjson.dumps(rules.restored(spec, known)))}
        missing.append(
            ", ".join(f"spec.{name}" for name in known if known[name] != wanted.get(name))
        )
    why = refused or f"{', '.join(missing)} was not judged by the manager yet"
    found = msgspec.structs.replace(entry, annotations=annotations, fields=fields)
    return found, NOT_COUNTED.format(why) if missing or refused else ""
