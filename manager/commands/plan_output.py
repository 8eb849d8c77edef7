"""How `manager plan` prints a plan: text, JSON, and Markdown for a pull request."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

from ctrlruntime.api.printable import printable
from ctrlruntime.resources.change_plan import Affected, ChangePlan, Group, Verb, Wording
from ctrlruntime.resources.field_changes import FieldChange

NAMED = 10
"""Rows or instances that a line names."""
LONGEST_VALUE = 200
_VERBS = {
    Verb.CREATE: "to create",
    Verb.UPDATE: "to change",
    Verb.REPLACE: "to replace",
    Verb.DELETE: "to delete",
    Verb.RELEASE: "to release",
}


def text(plan: ChangePlan) -> str:
    """Return the plan for a terminal."""
    lines = [f"{_subject(plan)}: {_count(plan.total, plan.wording.unit)}", ""]
    for group in plan.groups:
        lines += [_head(group), *(f"    {line}" for line in _diff(group)), ""]
    unit, failing = plan.wording.unit, plan.wording.failing
    lines += _affected("Held:", plan.held, unit)
    lines += _affected(f"{failing}:", plan.failures, unit)
    lines += [f"Note: {note}" for note in plan.notes]
    return printable("\n".join([*lines, summary(plan)]) + "\n")


def markdown(plan: ChangePlan) -> str:
    """Return the plan as a comment of a pull request."""
    lines = [f"### Plan of {_escaped(_subject(plan))}", "", summary(plan), ""]
    for group in plan.groups:
        lines += ["<details>", f"<summary>{_escaped(_head(group))}</summary>", ""]
        if group.changes:
            lines += ["```diff", *_diff(group), "```", ""]
        lines += ["</details>", ""]
    for title, found in (("Held", plan.held), (plan.wording.failing, plan.failures)):
        if found:
            lines += [
                f"**{title}**",
                "",
                *(f"- {_escaped(_sentence(each, plan.wording.unit))}" for each in found),
                "",
            ]
    lines += [f"> {_escaped(note)}" for note in plan.notes]
    return printable("\n".join(lines).rstrip() + "\n")


def as_json(plan: ChangePlan) -> str:
    """Return the plan for programs, with all objects of each group."""
    made = {
        _camel(plan.wording.subject): plan.name,
        "namespace": plan.namespace,
        f"{plan.wording.unit}s": plan.total,
        "counts": {verb.value: plan.count(verb) for verb in Verb},
        "writes": plan.writes,
        "groups": [_group(each, plan.wording) for each in plan.groups],
        "held": [_of_affected(each, plan.wording) for each in plan.held],
        "failures": [_of_affected(each, plan.wording) for each in plan.failures],
        "notes": plan.notes,
    }
    return json.dumps(made, indent=2) + "\n"


def summary(plan: ChangePlan) -> str:
    """Return the counts in one line."""
    if plan.is_empty:
        return "No changes."
    counts = [f"{plan.count(verb):,} {words}" for verb, words in _VERBS.items() if plan.count(verb)]
    counts += [
        f"{sum(item.count or 1 for item in found):,} {words}"
        for found, words in ((plan.held, "held"), (plan.failures, "failing"))
        if found
    ]
    return f"Plan: {', '.join(counts)}; {_count(plan.writes, 'write')}."


def _subject(plan: ChangePlan) -> str:
    return f"{plan.wording.subject} {plan.namespace}/{plan.name}"


def _camel(kind: str) -> str:
    return kind[:1].lower() + kind[1:]


def _head(group: Group) -> str:
    resource = f" {group.resource}" if group.resource else ""
    template = f" of template {group.template}" if group.template else ""
    reason = f" ({group.reason})" if group.reason else ""
    return (
        f"{group.verb} {group.kind}{resource}{template}{reason}: "
        f"{_shared(group)}{_confirmation(group)}"
    )


def _shared(group: Group) -> str:
    example = group.example.name if group.example is not None else group.members[0].name
    number = len(group.members)
    if number == 1:
        return example
    return f"{number:,} share this, for example {example}"


def _confirmation(group: Group) -> str:
    if group.refusal:
        return f" [refused by a dry run: {group.refusal}]"
    return " [confirmed by a dry run]" if group.confirmed else ""


def _diff(group: Group) -> Iterator[str]:
    """Yield the changes, one line each; longer texts line by line."""
    for change in group.changes:
        if group.verb is Verb.CREATE and not change.path:
            yield from (f"+ {line}" for line in _yaml(change.after))
        elif change.restored:
            yield f"~ {change.path}: changed by another writer; set back to {_short(change.after)}"
        elif _is_long(change):
            yield f"  {change.path}:"
            yield from _lines(str(change.before or ""), str(change.after or ""))
        else:
            yield from _both(change)


def _yaml(manifest: object) -> list[str]:
    import yaml

    return str(yaml.safe_dump(manifest, sort_keys=False)).splitlines()


def _is_long(change: FieldChange) -> bool:
    texts = (change.before, change.after)
    return any(isinstance(each, str) and "\n" in each for each in texts)


def _lines(before: str, after: str) -> Iterator[str]:
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm=""):
        if not line.startswith(("---", "+++")):
            yield line


def _both(change: FieldChange) -> Iterator[str]:
    if change.before is not None:
        yield f"- {change.path}: {_short(change.before)}"
    if change.after is not None:
        yield f"+ {change.path}: {_short(change.after)}"


def _short(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= LONGEST_VALUE else f"{shown[:LONGEST_VALUE]}…"


def _affected(title: str, found: list[Affected], unit: str) -> list[str]:
    return [title, *(f"  {_sentence(each, unit)}" for each in found), ""] if found else []


def _sentence(item: Affected, unit: str) -> str:
    place = " ".join(filter(None, (item.template, item.resource)))
    units = ""
    if item.units:
        more = f", {len(item.units) - NAMED:,} more" if len(item.units) > NAMED else ""
        units = f" ({_count(len(item.units), unit)}: {', '.join(item.units[:NAMED])}{more})"
    return f"{place}: {item.message}{units}" if place else f"{item.message}{units}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _escaped(line: str) -> str:
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _group(group: Group, wording: Wording) -> dict[str, Any]:
    return {
        "verb": group.verb.value,
        "kind": str(group.kind),
        "template": group.template,
        "resource": group.resource,
        "reason": group.reason,
        "count": len(group.members),
        "changes": [
            {
                "path": change.path,
                "before": change.before,
                "after": change.after,
                "restored": change.restored,
            }
            for change in group.changes
        ],
        "confirmed": group.confirmed,
        "refusal": group.refusal,
        "members": [
            {wording.owner: each.owner, "namespace": each.namespace, "name": each.name}
            for each in group.members
        ],
    }


def _of_affected(item: Affected, wording: Wording) -> dict[str, Any]:
    return {
        "template": item.template,
        "resource": item.resource,
        "message": item.message,
        "count": item.count,
        f"{wording.key}s": item.units,
    }
