"""Which approvals of an object count, and what of its spec is in force. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import orjson

from ctrlruntime.json import Json
from internal.approvals.records import Given, Identity, Record, stated, verified
from internal.approvals.rules import RECORD, REQUIRED, ApprovalRules, Policy, Protection, digest_of

LONGEST: Final = 63
"""Characters of an approval that a message repeats."""


@dataclass(frozen=True, slots=True)
class Recorder:
    """What is known in this process of the webhook that records approvals."""

    key: bytes = b""
    """Empty: nothing recorded can be verified."""
    trouble: str = ""
    """Why there is no key, and what to do."""
    user: str = ""
    """The manager's own account; empty while it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An object as it is stored."""

    identity: Identity
    generation: int
    annotations: Mapping[str, str]
    spec: Json
    protection: str = ""
    """What its status has as the protection in force."""
    since: int = 0
    """Since which generation that is in force."""
    deleting: bool = False

    @property
    def command(self) -> str:
        """The beginning of a command that annotates the object."""
        kind, place = self.identity.kind.lower(), self.identity.namespace
        return f"kubectl annotate {kind} {self.identity.name}{f' -n {place}' if place else ''}"


@dataclass(frozen=True, slots=True)
class Counted:
    """An approval that counts."""

    annotation: str
    item: str
    by: str
    at: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """What counts of an object."""

    policy: Policy | None = None
    """Whose approvals count; None: those of everyone who may write them."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations without approvals that do not count."""
    spec: Json = None
    """The spec that is in force; None: the one that is stored."""
    counted: tuple[Counted, ...] = ()
    refusals: tuple[str, ...] = ()
    """Why others do not count, and what to do, one sentence each."""
    protection: Protection | None = None
    """What the status is to have as the protection in force; None: nothing."""
    since: int = 0
    """Since which generation that is in force."""


def judge(subject: Subject, rules: ApprovalRules, recorder: Recorder) -> Judgement:
    """Decide which approvals of an object count."""
    record = None
    if recorder.key:
        text = subject.annotations.get(RECORD)
        record = verified(text, recorder.key, subject.identity, subject.generation)
    wanted = rules.protection(subject.spec)
    known, known_since = protection_in_force(subject, recorder)
    if known is None and wanted[REQUIRED] is None:
        return Judgement(annotations=subject.annotations)
    refusals: list[str] = []
    in_force, since, spec = wanted, subject.generation, None
    if known is not None and known == wanted:
        since = known_since
    elif known is not None and not _consented(record, known, wanted, known_since):
        in_force, since = known, known_since
        spec = rules.restored(subject.spec, known)
        refusals.append(_lowered(known, wanted))
    policy = Policy.of(in_force[REQUIRED])
    if policy is None:
        return Judgement(annotations=subject.annotations)
    checks = _Checks(subject, rules, recorder, record, policy, subject, record)
    verdict = checks.verdict()
    return replace(
        verdict,
        spec=spec,
        refusals=(*refusals, *verdict.refusals),
        protection=in_force,
        since=since,
    )


def judge_part(
    subject: Subject,
    rules: ApprovalRules,
    recorder: Recorder,
    whole: Subject,
    policy: Policy,
    authors: Collection[str] = (),
) -> Judgement:
    """Decide which approvals of a part count, whose whole has the policy and the author.

    `authors`: on record of a whole that is gone.
    """
    found = [
        verified(each.annotations.get(RECORD), recorder.key, each.identity, each.generation)
        if recorder.key
        else None
        for each in (subject, whole)
    ]
    checks = _Checks(subject, rules, recorder, found[0], policy, whole, found[1], authors)
    return checks.verdict()


def authors_of(whole: Subject, recorder: Recorder) -> list[str]:
    """Return who is on record as the author of a spec, and as who requested the deletion."""
    text = whole.annotations.get(RECORD)
    found = verified(text, recorder.key, whole.identity, whole.generation) if recorder.key else None
    known = () if found is None else (found.author, found.deletion)
    return sorted({each.user for each in known if each is not None})


def known_protection(text: str) -> Protection | None:
    """Return the protection that a status has; None if there is none."""
    if not text:
        return None
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {REQUIRED: {}}  # no approval counts


def protection_in_force(subject: Subject, recorder: Recorder) -> tuple[Protection | None, int]:
    """Return the protection that a status has, and since which generation; where that is lost, what admission recorded."""
    known = known_protection(subject.protection)
    if known is not None:
        return known, subject.since
    text, identity = subject.annotations.get(RECORD), subject.identity
    if recorder.key:
        record = verified(text, recorder.key, identity, subject.generation)
    else:
        record = stated(text, identity)
    return (None if record is None else record.protection), subject.generation


def _consented(record: Record | None, known: Protection, wanted: Protection, since: int) -> bool:
    """Whether a member of the group in force has changed the protection, since it is in force."""
    policy, consent = Policy.of(known.get(REQUIRED)), record.consent if record else None
    if policy is None:
        return True
    return (
        consent is not None
        and consent.before == digest_of(known)
        and consent.after == digest_of(wanted)
        and consent.generation >= since
        and is_person(consent.user)
        and bool(policy.membership(consent.groups))
    )


def is_person(user: str) -> bool:
    """Whether a user may be a person: service accounts and components of Kubernetes are none."""
    return bool(user) and not user.startswith("system:")


def _lowered(known: Protection, wanted: Protection) -> str:
    changed = sorted(f"spec.{name}" for name in known if known[name] != wanted.get(name))
    policy = Policy.of(known.get(REQUIRED))
    return (
        f"{', '.join(changed)} was changed without the consent of a member of {policy}, past admission: the former "
        f"value stays in force. Put it back ({_shown(known, changed)}); then a member may change it"
    )


def _shown(known: Protection, changed: list[str]) -> str:
    former = {name: known[name] for name in known if f"spec.{name}" in changed}
    return orjson.dumps(former).decode()


@dataclass(frozen=True, slots=True)
class _Checks:
    """Checks the approvals of one object."""

    subject: Subject
    rules: ApprovalRules
    recorder: Recorder
    record: Record | None
    policy: Policy
    whole: Subject
    """The object whose author counts; for most the same."""
    record_of_whole: Record | None
    authors: Collection[str] = ()
    """Others whose approval does not count where it has to be another person's."""

    def verdict(self) -> Judgement:
        """Return what counts."""
        annotations, counted, refusals = dict(self.subject.annotations), [], []
        for annotation in sorted(self.rules.annotations & annotations.keys()):
            kept = []
            for item in self.rules.items(annotation, annotations[annotation]):
                problem = self.problem(annotation, item)
                if problem:
                    refusals.append(problem)
                    continue
                kept.append(item)
                given = self.given(annotation, item)
                if given is not None and given.user != self.recorder.user:
                    counted.append(Counted(annotation, item, given.user, given.at))
            if kept:
                annotations[annotation] = ",".join(kept)
            else:
                del annotations[annotation]
        return Judgement(self.policy, annotations, None, tuple(counted), tuple(refusals))

    def given(self, annotation: str, item: str) -> Given | None:
        """Return who gave an approval, as it was recorded."""
        return None if self.record is None else self.record.given.get(annotation, {}).get(item)

    def problem(self, annotation: str, item: str) -> str:
        """Return why an approval does not count, and what to do; empty if it counts."""
        why = next(self._faults(annotation, item), "")
        if not why:
            return ""
        shown = f"{annotation}={item[:LONGEST]}"
        remedy = f"have a member of {self.policy} approve it anew, after `{self.subject.command} {annotation}-`"
        return f"{shown} does not count: {why}; {self.recorder.trouble or remedy}"

    def _faults(self, annotation: str, item: str) -> Iterator[str]:
        if self.recorder.trouble:
            yield f"it needs a member of {self.policy}, and no webhook of this manager records who gave it"
            return
        given = self.given(annotation, item)
        if given is None:
            yield self._unrecorded()
            return
        if annotation in self.rules.of_manager and given.user == self.recorder.user != "":
            return
        if given.user == self.recorder.user or not is_person(given.user):
            yield f"{given.user!r}, who gave it, is an account of a program, not a person"
        elif not self.policy.membership(given.groups):
            yield f"{given.user!r}, who gave it, is no member"
        elif annotation in self.rules.of_spec and given.spec != digest_of(self.subject.spec):
            yield f"the spec was changed since {given.user!r} gave it"
        elif self.policy.other_than_author:
            yield from self._authorship(given.user)

    def _unrecorded(self) -> str:
        if self.record is None and RECORD in self.subject.annotations:
            return (
                f"the annotation {RECORD} is none that admission wrote for this object: it was written by hand, "
                "copied, or signed with another key"
            )
        return "admission has no record of who gave it: it was written while no webhook answered, or with the object"

    def _authorship(self, user: str) -> Iterator[str]:
        author = None if self.record_of_whole is None else self.record_of_whole.author
        if author is None or author.spec != digest_of(self.whole.spec):
            yield (
                "the author of the spec is not on record, as it was changed past admission, and may be the same "
                "person (any change of the spec through admission records its author)"
            )
        elif author.user == user or user in self.authors:
            yield f"{user!r} gave it and is the author of the spec, and the approver has to be another person"
        if not self.whole.deleting:
            return
        deletion = None if self.record_of_whole is None else self.record_of_whole.deletion
        if deletion is None:
            yield (
                "who requested the deletion is not on record, and may be the same person (request it once more: "
                f"`kubectl delete {self.whole.identity.kind.lower()} {self.whole.identity.name} "
                f"-n {self.whole.identity.namespace} --wait=false`)"
            )
        elif deletion.user == user:
            yield f"{user!r} gave it and requested the deletion, and the approver has to be another person"
