"""Objects as far as they count: without approvals that do not, and with the spec that is in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import msgspec
import orjson

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.json import Json
from ctrlruntime.memo import VersionMemo
from internal.approvals.judge import (
    Judgement,
    Recorder,
    Subject,
    authors_of,
    judge,
    judge_part,
    protection_in_force,
)
from internal.approvals.records import Identity
from internal.approvals.rules import RECORD, REQUIRED, ApprovalRules, Policy

NOT_SERVED: Final = Recorder(
    trouble="run the manager with --webhooks, and install its webhook configurations (config/with-webhooks)"
)
"""Of a manager that serves no webhooks."""
REMEMBERED: Final = 1000
"""Objects of a kind whose judgement is remembered."""
COUNT: Final = "ApprovalsCount"
"""Condition: False while an approval does not count, or less protection was written past admission."""
STATUS: Final = "approvals"
"""The field of the status that has what is in force."""
WHOLE: Final = "of"
"""In the protection of a part: the UID of the whole that it is from."""
AUTHORS: Final = "authors"
"""In the protection of a part: who wrote the spec of the whole and requested its deletion, if others have to approve."""


class Entries(Protocol):
    """Objects as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


def subject_of(
    kind: str, metadata: Mapping[str, Json], spec: Json, status: Mapping[str, Json] | None
) -> Subject:
    """Return an object as the rules of approvals see it."""
    known = (status or {}).get(STATUS) or {}
    return Subject(
        identity=Identity.of(kind, metadata),
        generation=metadata.get("generation") or 0,
        annotations=metadata.get("annotations") or {},
        spec=spec,
        protection=str(known.get("protection") or ""),
        since=known.get("generation") or 0,
        deleting=bool(metadata.get("deletionTimestamp")),
    )


@dataclass(slots=True)
class ApprovalView:
    """What counts of the objects of one kind."""

    kind: str
    """Kind and group, such as `Instance.cloud.ctrlruntime.dev`."""
    rules: ApprovalRules
    recorder: Callable[[], Recorder] = lambda: NOT_SERVED
    """What is known now of the webhook that records approvals."""
    whole: Callable[[Entry], Entry | None] | None = None
    """Of parts, the object whose policy counts; None: their own does."""
    whole_view: ApprovalView | None = None
    """What counts of those objects."""
    _known: VersionMemo[Key, tuple[Recorder, Entry]] = field(
        default_factory=lambda: VersionMemo(REMEMBERED)
    )

    def judgement(self, entry: Entry) -> Judgement | None:
        """Return what counts of an object; None for one that needs no approvers."""
        if self.whole is not None:
            return self._judgement_of_part(entry)
        if not _is_concerned(entry):
            return None
        return judge(self.subject(entry), self.rules, self.recorder())

    def _judgement_of_part(self, entry: Entry) -> Judgement | None:
        """Judge by the policy of the whole, or by the one on record once that whole is gone, or is another one.

        A part that has a record of admission had a policy. If that is lost with the status while there is no whole, no
        approval counts until a whole has one again.
        """
        if self.whole is None or self.whole_view is None:
            return None
        subject = around = self.subject(entry)
        protection, _since = protection_in_force(subject, self.recorder())
        whole = self.whole(entry)
        if whole is None and protection is None and RECORD in entry.annotations:
            protection = {REQUIRED: {}}
        if whole is not None and (protection or {}).get(WHOLE, whole.uid) == whole.uid:
            verdict = self.whole_view.judgement(whole)
            if (
                verdict is not None
                and verdict.policy is not None
                and verdict.protection is not None
            ):
                around = self.whole_view.subject(whole)
                protection = {REQUIRED: verdict.protection[REQUIRED], WHOLE: whole.uid}
                if verdict.policy.other_than_author:
                    protection[AUTHORS] = list(authors_of(around, self.recorder()))
            elif protection is None:
                return None
            elif WHOLE in protection:
                return Judgement(annotations=entry.annotations)
        policy = None if protection is None else Policy.of(protection.get(REQUIRED))
        if policy is None:
            return None
        known = protection.get(AUTHORS) if protection is not None and around is subject else None
        authors = [str(each) for each in known] if isinstance(known, list) else []
        found = judge_part(subject, self.rules, self.recorder(), around, policy, authors)
        return replace(found, protection=protection)

    def counted(self, entry: Entry) -> Entry:
        """Return the object as far as it counts."""
        if self.whole is not None:
            if entry.annotations.keys().isdisjoint(self.rules.annotations):
                return entry
            part = self.judgement(entry)
            if part is None:
                return entry
            return msgspec.structs.replace(entry, annotations=dict(part.annotations))
        if not _is_concerned(entry):
            return entry
        recorder = self.recorder()
        known = self._known.get(entry.key, entry.resource_version)
        if known is not None and known[0] is recorder and known[1].uid == entry.uid:
            return known[1]
        found = judge(self.subject(entry), self.rules, recorder)
        fields = entry.fields
        if found.spec is not None:
            fields = {**fields, "spec": msgspec.Raw(orjson.dumps(found.spec))}
        made = msgspec.structs.replace(entry, annotations=dict(found.annotations), fields=fields)
        self._known.put(entry.key, entry.resource_version, (recorder, made))
        return made

    def subject(self, entry: Entry) -> Subject:
        """Return an object as the rules see it."""
        return subject_of(self.kind, entry.metadata(), entry.field("spec"), entry.field("status"))


def _is_concerned(entry: Entry) -> bool:
    """Whether an object may need approvers, without decoding it."""
    if RECORD in entry.annotations:
        return True
    spec, status = entry.fields.get("spec"), entry.fields.get("status")
    return (spec is not None and _REQUIRED in bytes(memoryview(spec))) or (
        status is not None and _PROTECTION in bytes(memoryview(status))
    )


_REQUIRED: Final = f'"{REQUIRED}"'.encode()
_PROTECTION: Final = b'"protection"'


@dataclass(frozen=True, slots=True)
class CountedEntries:
    """Objects of the cache as far as they count."""

    entries: Entries
    view: ApprovalView

    def get(self, name: str, *, namespace: str) -> Entry | None:
        """Return one of them; None if there is none."""
        entry = self.entries.get(name, namespace=namespace)
        return None if entry is None else self.view.counted(entry)
