"""What admission records of approvals, and what it refuses. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ctrlruntime.api.kinds import Manifest
from internal.approvals.counted import subject_of
from internal.approvals.judge import Judgement, Recorder, is_person, protection_in_force
from internal.approvals.records import Author, Consent, Given, Identity, Record, signed, verified
from internal.approvals.rules import RECORD, REQUIRED, ApprovalRules, Policy, Protection, digest_of

UNRECORDED: Final = "who approves cannot be recorded now"


class Refused(ValueError):
    """The request is refused; the message has the reason and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A creation or an update, as admission has it."""

    new: Manifest
    old: Manifest | None
    kind: str
    namespace: str
    name: str
    user: str
    groups: tuple[str, ...]
    at: int
    """Seconds since 1970."""
    whole: Judgement | None = None
    """Of a part, whose approvals count by its whole; None: its own spec names them."""


def record_of(write: Write, rules: ApprovalRules, recorder: Recorder) -> str | None:
    """Return the text of the record that the object is to have; None: none. Raises Refused."""
    new, old = write.new, write.old or {}
    before = _in_force(write, rules, recorder)
    wanted = rules.protection(new.get("spec"))
    policy, protection = Policy.of((before or wanted)[REQUIRED]), before
    if write.whole is not None:
        policy, protection = write.whole.policy, write.whole.protection
    if policy is None:
        return None
    known = _old_record(write, recorder)
    spec = digest_of(new.get("spec"))
    author = known.author
    if write.old is None or spec != digest_of(old.get("spec")):
        author = Author(write.user, spec)
    consent = known.consent
    if before is not None and rules.protection(old.get("spec")) != wanted:
        consent = _consent(write, before, wanted, policy, recorder)
        protection = wanted
    given = _approvals(write, rules, known, recorder, policy, author)
    if not recorder.key:
        return annotations_of(old).get(RECORD)
    metadata = (write.old or new).get("metadata") or {}
    identity = Identity.of(write.kind, metadata, write.namespace, write.name)
    deletion = _deletion(write, known, identity, recorder)
    if protection is None and write.whole is None:
        protection = wanted
    record = Record(identity, author, given, consent, deletion, protection)
    return signed(record, recorder.key)


def deletion_of(write: Write, rules: ApprovalRules, recorder: Recorder) -> str | None:
    """Return the text of the record of an object whose deletion is requested; None: it stays as it is.

    The first request counts, unless it is not on record.
    """
    old = write.old or {}
    before = _in_force(write, rules, recorder)
    policy = None if before is None else Policy.of(before[REQUIRED])
    if write.whole is not None:
        policy = write.whole.policy
    if policy is None or not policy.other_than_author or not recorder.key:
        return None
    known = _old_record(write, recorder)
    if (old.get("metadata") or {}).get("deletionTimestamp") and known.deletion is not None:
        return None
    asked = Author(write.user, digest_of(old.get("spec")))
    if known.deletion == asked:
        return None
    return signed(msgspec.structs.replace(known, deletion=asked), recorder.key)


def annotations_of(manifest: Manifest) -> Mapping[str, str]:
    """Return the annotations of an object, which may have none."""
    return (manifest.get("metadata") or {}).get("annotations") or {}


def _in_force(write: Write, rules: ApprovalRules, recorder: Recorder) -> Protection | None:
    """Return the protection that is in force of an object as it is; None if it has no approvers, or is new, or a part."""
    if write.old is None or write.whole is not None:
        return None
    metadata, spec = write.old.get("metadata") or {}, write.old.get("spec")
    stored = subject_of(write.kind, metadata, spec, write.old.get("status"))
    known, _since = protection_in_force(stored, recorder)
    found = rules.protection(spec) if known is None else known
    return found if found.get(REQUIRED) is not None else None


def _old_record(write: Write, recorder: Recorder) -> Record:
    """Return what is on record of the object as it is."""
    metadata = (write.old or {}).get("metadata") or {}
    identity = Identity.of(write.kind, metadata, write.namespace, write.name)
    found = None
    if recorder.key and write.old is not None:
        text = annotations_of(write.old).get(RECORD)
        found = verified(text, recorder.key, identity, metadata.get("generation") or 0)
    return Record(identity) if found is None else msgspec.structs.replace(found, of=identity)


def _consent(
    write: Write, before: Protection, wanted: Protection, policy: Policy, recorder: Recorder
) -> Consent | None:
    """Return who consents to another protection; None where the one in force is put back."""
    if before == wanted:
        return None
    groups = policy.membership(write.groups)
    changed = ", ".join(
        sorted(f"spec.{each}" for each in before if before[each] != wanted.get(each))
    )
    if not groups or not is_person(write.user) or write.user == recorder.user:
        raise Refused(
            f"{changed} decides what needs an approval, and is changed by a member of {policy} alone; "
            f"{write.user!r} is none: leave it as it is, or have a member change it"
        )
    if not recorder.key:
        raise Refused(f"{changed}: {UNRECORDED}: {recorder.trouble}")
    metadata = (write.old or {}).get("metadata") or {}
    return Consent(
        write.user,
        write.at,
        groups,
        digest_of(before),
        digest_of(wanted),
        metadata.get("generation") or 0,
    )


def _approvals(
    write: Write,
    rules: ApprovalRules,
    known: Record,
    recorder: Recorder,
    policy: Policy,
    author: Author | None,
) -> dict[str, dict[str, Given]]:
    """Return who gave each approval. One that is there already keeps its record, if it has one."""
    before, after = annotations_of(write.old or {}), annotations_of(write.new)
    found: dict[str, dict[str, Given]] = {}
    for annotation in sorted(rules.annotations & after.keys()):
        there = frozenset(rules.items(annotation, before.get(annotation)))
        for item in rules.items(annotation, after[annotation]):
            given = known.given.get(annotation, {}).get(item)
            if item not in there:
                given = _given(write, rules, annotation, recorder, policy, author)
            if given is not None:
                found.setdefault(annotation, {})[item] = given
    return found


def _given(
    write: Write,
    rules: ApprovalRules,
    annotation: str,
    recorder: Recorder,
    policy: Policy,
    author: Author | None,
) -> Given | None:
    """Return the record of a new approval; None for one that comes with the object. Raises Refused."""
    if write.old is None:
        return None  # a manifest of a backup has approvals of another object
    groups = policy.membership(write.groups)
    own = annotation in rules.of_manager and write.user == recorder.user != ""
    if not own:
        if not groups or not is_person(write.user) or write.user == recorder.user:
            raise Refused(
                f"{annotation}: an approval has to be by a member of {policy}, and {write.user!r} is none: "
                "have a member give it"
            )
        deletion = (
            write.old["metadata"].get("deletionTimestamp") and _old_record(write, recorder).deletion
        )
        for what, person in (
            ("the author of the spec", author),
            ("who requested the deletion", deletion),
        ):
            if policy.other_than_author and person and person.user == write.user:
                raise Refused(
                    f"{annotation}: {write.user!r} is {what}, and the approval has to be by another person: have "
                    f"another member of {policy} give it"
                )
    if not recorder.key:
        raise Refused(f"{annotation}: {UNRECORDED}: {recorder.trouble}")
    return Given(write.user, write.at, groups, digest_of(write.new.get("spec")))


def _deletion(write: Write, known: Record, identity: Identity, recorder: Recorder) -> Author | None:
    """Return who requested the deletion: the manager alone, whose webhook saw the request, may bring that."""
    if write.user != recorder.user or not recorder.user:
        return known.deletion
    text = annotations_of(write.new).get(RECORD)
    metadata = (write.old or {}).get("metadata") or {}
    brought = verified(text, recorder.key, identity, metadata.get("generation") or 0)
    return known.deletion if brought is None else brought.deletion
