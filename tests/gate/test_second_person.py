"""Approvals by a second person, for every kind that takes approvals: records, membership, and less protection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest

from apis.cloud import FleetRollout
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.approvals.admission import Refused, Write, deletion_of, record_of
from internal.approvals.counted import NOT_SERVED, ApprovalView, subject_of
from internal.approvals.judge import Judgement, Recorder, judge
from internal.approvals.records import Identity, Record, signed
from internal.approvals.reported import reported
from internal.approvals.rules import RECORD, REQUIRED, ApprovalRules, Policy
from internal.cloud.approvals import INSTANCE, ROLLOUT, SUBRESOURCE
from internal.cosmos.approvals import RULES as NODE_SET
from internal.tenancy.shared.approvals import RULES as REGISTRY
from manager.console.rollout_view import planned_waves

KEY = Recorder(key=b"k" * 32, user="system:serviceaccount:ctrlruntime-system:manager")
WANTED = {"group": "approvers", "otherThanAuthor": True}
MEMBER = ("approvers", "system:authenticated")
RULES = {
    "TenantRegistry": REGISTRY,
    "Instance": INSTANCE,
    "FleetRollout": ROLLOUT,
    "CosmosFullNode": NODE_SET,
}
EVERY_APPROVAL = [
    (kind, annotation) for kind, rules in RULES.items() for annotation in sorted(rules.annotations)
]
WEAKER: dict[str, list[dict[str, Any]]] = {
    "TenantRegistry": [
        {"deletionProtection": False},
        {"deletionGuard": {"maxDeletePercent": 100}},
        {"deletionGuard": {"allowEmpty": True}},
    ],
    "Instance": [
        {"deletionProtection": False},
        {"deletionPolicy": "Orphan"},
        {"debug": {"enableDeletionProtection": False}},
        {"terraformRuns": {"approval": "Automatic"}},
        {"upgradePolicy": {"allowDowngrade": True}},
    ],
    "FleetRollout": [
        {"waves": [{"name": "all", "approval": "Automatic"}]},
        {"waves": [{"name": "all"}]},
    ],
    "CosmosFullNode": [{"deletionProtection": False}, {"deletions": {"maxWithState": 9}}],
}
NOBODY: list[Any] = [
    None,
    {"group": "everyone"},
    {"group": "approvers", "furtherGroups": ["everyone"], "otherThanAuthor": True},
    {"group": "approvers"},
]
LESS = [
    (kind, change)
    for kind, changes in WEAKER.items()
    for change in [*changes, *({REQUIRED: each} for each in NOBODY)]
]


@dataclass
class Server:
    """One object, as an API server stores it behind the webhook of a manager."""

    kind: str
    recorder: Recorder = KEY
    name: str = "one"
    found: dict[str, Any] | None = None

    @property
    def rules(self) -> ApprovalRules:
        return RULES[self.kind]

    def create(self, user: str, groups: tuple[str, ...] = (), **spec: object) -> None:
        base: dict[str, Any] = {REQUIRED: WANTED, "size": 1}
        if self.kind == "FleetRollout":
            base["waves"] = [{"name": "all", "approval": "Manual"}]
        if self.kind == "Instance":
            base["terraformRuns"] = {"approval": "Manual"}
        new = {"metadata": {"name": self.name, "namespace": "bank"}, "spec": {**base, **spec}}
        self._write(new, user, groups)
        assert self.found is not None
        self.found["metadata"] |= {"uid": f"uid-{self.name}", "generation": 1}

    def update(self, user: str, groups: tuple[str, ...] = (), **spec: object) -> None:
        """Change the spec, through admission."""
        self._write(self._with(spec=spec), user, groups)

    def annotate(self, user: str, groups: tuple[str, ...] = (), **annotations: str | None) -> None:
        self._write(self._with(annotations), user, groups)

    def past(self, annotations: Mapping[str, str | None] | None = None, **spec: object) -> None:
        """Write while no webhook answers."""
        self.found = self._with(annotations, spec)

    def delete(self, user: str) -> None:
        text = deletion_of(
            self._request(self.stored, self.stored, user, ()), self.rules, self.recorder
        )
        if text is not None:  # the manager writes it, through admission
            self._write(self._with({RECORD: text}), self.recorder.user, ())
        self.stored["metadata"]["deletionTimestamp"] = "2026-03-01T00:00:00Z"

    @property
    def stored(self) -> dict[str, Any]:
        assert self.found is not None
        return self.found

    @property
    def record(self) -> str:
        return str(self.stored["metadata"]["annotations"][RECORD])

    def judged(self, recorder: Recorder | None = None) -> Judgement:
        """What counts; the manager stores what is in force."""
        found = self.stored
        status = found.get("status")
        verdict = judge(
            subject_of(f"{self.kind}.example.com", found["metadata"], found["spec"], status),
            self.rules,
            recorder or self.recorder,
        )
        found["status"] = {}
        if verdict.protection is not None:
            text = orjson.dumps(verdict.protection).decode()
            found["status"]["approvals"] = {"protection": text, "generation": verdict.since}
        return verdict

    def _with(
        self,
        annotations: Mapping[str, str | None] | None = None,
        spec: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        found = orjson.loads(orjson.dumps(self.stored))
        texts = {**found["metadata"].get("annotations", {}), **(annotations or {})}
        found["metadata"]["annotations"] = {k: v for k, v in texts.items() if v is not None}
        changed = {**found["spec"], **(spec or {})}
        changed = {name: value for name, value in changed.items() if value is not None}
        if changed != found["spec"]:
            found["metadata"]["generation"] += 1
        return {**found, "spec": changed}

    def _request(
        self, new: dict[str, Any], old: dict[str, Any] | None, user: str, groups: tuple[str, ...]
    ) -> Write:
        return Write(
            new=new, old=old, kind=f"{self.kind}.example.com", namespace="bank", name=self.name,
            user=user, groups=groups, at=1,
        )  # fmt: skip

    def _write(self, new: dict[str, Any], user: str, groups: tuple[str, ...]) -> None:
        text = record_of(self._request(new, self.found, user, groups), self.rules, self.recorder)
        texts = new["metadata"].setdefault("annotations", {})
        texts.pop(RECORD, None)
        if text is not None:
            texts[RECORD] = text
        self.found = new


def approved(
    kind: str, annotation: str, *, by: str = "bob", item: str = "0123456789abcdef"
) -> Server:
    """An object of alice's with an approval by another member."""
    server = Server(kind)
    server.create("alice", MEMBER)
    server.judged()
    server.annotate(by, MEMBER, **{annotation: item})
    return server


@pytest.mark.criterion("S-P2")
@pytest.mark.parametrize(("kind", "annotation"), EVERY_APPROVAL)
def test_only_another_person_of_the_group_approves(kind: str, annotation: str) -> None:
    server = Server(kind)
    server.create("alice", MEMBER)
    for user, groups, why in (
        ("alice", MEMBER, "is the author of the spec"),
        ("carol", ("system:authenticated",), "is none"),
        ("carol", (), "is none"),
        ("system:serviceaccount:bank:robot", MEMBER, "is none"),
        (KEY.user, MEMBER, "is none"),
        ("system:admin", MEMBER, "is none"),
    ):
        with pytest.raises(Refused, match=why):
            server.annotate(user, groups, **{annotation: "x"})
    server.annotate("bob", MEMBER, **{annotation: "x"})
    verdict = server.judged()
    assert verdict.annotations[annotation] == "x"
    assert [(each.by, each.item) for each in verdict.counted] == [("bob", "x")]
    assert not verdict.refusals
    without = server.judged(NOT_SERVED)
    assert annotation not in without.annotations
    assert "run the manager with --webhooks" in without.refusals[0]


@pytest.mark.criterion("S-P2")
@pytest.mark.parametrize(("kind", "annotation"), EVERY_APPROVAL)
def test_who_requested_a_deletion_does_not_approve_it(kind: str, annotation: str) -> None:
    server = Server(kind)
    server.create("alice", MEMBER)
    server.delete("bob")
    server.delete("dave")  # the first request counts
    with pytest.raises(Refused, match="'bob' is who requested the deletion"):
        server.annotate("bob", MEMBER, **{annotation: "x"})
    server.annotate("dave", MEMBER, **{annotation: "x"})
    assert server.judged().annotations[annotation] == "x"


FORGERIES: dict[str, Callable[[Server, str], str]] = {}


def forgery(why: str) -> Callable[[Callable[[Server, str], None]], Callable[[Server, str], None]]:
    """Add a way to have an approval that no second person gave, and why it does not count."""

    def add(made: Callable[[Server, str], None]) -> Callable[[Server, str], None]:
        def forge(server: Server, annotation: str) -> str:
            made(server, annotation)
            return why

        FORGERIES[made.__name__] = forge
        return made

    return add


@forgery("no record of who gave it")
def while_no_webhook_answers(server: Server, annotation: str) -> None:
    server.past({annotation: "other"})


@forgery("none that admission wrote")
def record_by_hand(server: Server, annotation: str) -> None:
    payload, _, signature = server.record.rpartition(" ")
    text = payload.replace("0123456789abcdef", "other")
    server.past({annotation: "other", RECORD: f"{text} {signature}"})


@forgery("none that admission wrote")
def record_without_signature(server: Server, annotation: str) -> None:
    server.past({annotation: "other", RECORD: "{}"})


@forgery("none that admission wrote")
def record_of_another_object(server: Server, annotation: str) -> None:
    source = Server(server.kind, name="two")
    source.create("alice", MEMBER)
    source.annotate("bob", MEMBER, **{annotation: "other"})
    server.past({annotation: "other", RECORD: source.record})


@forgery("none that admission wrote")
def record_of_a_former_object_of_the_name(server: Server, annotation: str) -> None:
    text = approved(server.kind, annotation, item="other").record
    server.past({annotation: "other", RECORD: text})
    server.stored["metadata"]["uid"] = "another"


@forgery("none that admission wrote")
def record_with_another_key(server: Server, annotation: str) -> None:
    source = Server(server.kind, replace(KEY, key=b"o" * 32))
    source.create("alice", MEMBER)
    source.annotate("bob", MEMBER, **{annotation: "other"})
    server.past({annotation: "other", RECORD: source.record})


@forgery("no record of who gave it")
def stored_manifest_is_applied(server: Server, annotation: str) -> None:
    stored = dict(server.stored["metadata"]["annotations"])
    server.annotate("alice", MEMBER, **{annotation: None})
    server.annotate("carol", (), **{RECORD: stored[RECORD]})
    server.past({annotation: stored[annotation]})


@forgery("the spec")
def spec_is_changed_past_admission(server: Server, _annotation: str) -> None:
    server.past(size=2)


@forgery("who requested the deletion is not on record")
def deletion_past_admission(server: Server, _annotation: str) -> None:
    server.stored["metadata"]["deletionTimestamp"] = "2026-03-01T00:00:00Z"


@pytest.mark.criterion("S-P1")
@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
@pytest.mark.parametrize(("kind", "annotation"), EVERY_APPROVAL)
def test_a_forged_record_is_reported_and_not_followed(
    kind: str, annotation: str, forge: Callable[[Server, str], str]
) -> None:
    server = approved(kind, annotation)
    why = forge(server, annotation)
    verdict = server.judged()
    assert annotation not in verdict.annotations
    assert not verdict.counted
    assert any(why in each and annotation in each for each in verdict.refusals)


@pytest.mark.criterion("S-P1")
def test_what_the_record_says_outlives_other_writes_and_waves_are_approved_one_by_one() -> None:
    server = Server("FleetRollout")
    server.create("alice", MEMBER)
    (waves,) = ROLLOUT.listed
    server.annotate("bob", MEMBER, **{waves: "one=d"})
    server.annotate("carol", (), **{"note": "hello", RECORD: "mine"})
    server.annotate("dave", MEMBER, **{waves: "one=d,two=d"})
    server.past({waves: "one=d,two=d,three=d"})
    verdict = server.judged()
    assert verdict.annotations[waves] == "one=d,two=d"
    assert [each.by for each in verdict.counted] == ["bob", "dave"]


@pytest.mark.criterion("S-P1")
def test_the_mark_of_the_manager_counts_on_what_it_made_and_that_of_others_does_not() -> None:
    (mark,) = SUBRESOURCE.of_manager
    whole = Judgement(Policy(("approvers",)))
    new = {"metadata": {"name": "a", "annotations": {mark: "uid"}}, "spec": {}}
    old = {"metadata": {"name": "a", "annotations": {}}, "spec": {}}
    write = Write(
        new=new, old=old, kind="K.g", namespace="n", name="a", user=KEY.user, groups=(), at=1, whole=whole,
    )  # fmt: skip
    assert '"given":{"' in str(record_of(write, SUBRESOURCE, KEY))
    with pytest.raises(Refused, match="'carol' is none"):
        record_of(replace(write, user="carol"), SUBRESOURCE, KEY)


def stored(kind: str, uid: str, **fields: Mapping[str, Any]) -> Entry:
    """One object as the cache has it."""
    manifest: dict[str, Any] = {"apiVersion": "x/v1", "kind": kind, **fields}
    head = {"name": "a", "namespace": "bank", "uid": uid, "generation": 1, "resourceVersion": "1"}
    manifest["metadata"] = {**head, **fields.get("metadata", {})}
    return EntryDecoder(FleetRollout.gvk()).decode_manifest(manifest)


INSTEAD: dict[str, tuple[Entry | None, str]] = {
    "it is there": (stored("Instance", "one", spec={REQUIRED: WANTED}), "approvers"),
    "it is gone": (None, "approvers"),
    "the part names another one": (stored("Instance", "two", spec={}), "approvers"),
    "one of its name has another group": (
        stored("Instance", "two", spec={REQUIRED: {"group": "everyone"}}),
        "approvers",
    ),
    "it needs none any more": (stored("Instance", "one", spec={}), ""),
    "it has another group": (
        stored("Instance", "one", spec={REQUIRED: {"group": "board"}}),
        "board",
    ),
}


@pytest.mark.criterion("S-P2")
@pytest.mark.parametrize("kept", ["status", "record"])
@pytest.mark.parametrize("case", INSTEAD)
def test_the_policy_of_a_part_outlives_its_whole(case: str, kept: str) -> None:
    whole: list[Entry | None] = [stored("Instance", "one", spec={REQUIRED: WANTED})]
    view = ApprovalView("InstanceTerraform.g", SUBRESOURCE, lambda: KEY, lambda _: whole[0])
    view.whole_view = ApprovalView("Instance.g", INSTANCE, lambda: KEY)
    approval = {"annotations": {"cloud.ctrlruntime.dev/approved-plan": "0123456789abcdef"}}
    known = view.judgement(stored("InstanceTerraform", "part", metadata=approval))
    assert known is not None
    protection = orjson.dumps(known.protection).decode()
    instead, group = INSTEAD[case]
    identity = Identity("InstanceTerraform.g", "bank", "a", "part")
    text = signed(Record(identity, protection=known.protection), KEY.key)
    part = (
        stored(
            "InstanceTerraform",
            "part",
            metadata=approval,
            status={"approvals": {"protection": protection}},
        )
        if kept == "status"
        else stored(
            "InstanceTerraform",
            "part",
            metadata={"annotations": {**approval["annotations"], RECORD: text}},
        )
    )
    whole[0] = instead
    found = view.judgement(part)
    assert found is not None
    assert (found.policy.groups if found.policy else ()) == ((group,) if group else ())
    assert view.counted(part).annotations.keys().isdisjoint(approval["annotations"]) is bool(group)
    assert (found.protection is None) is not bool(group)


@pytest.mark.criterion("S-P2")
def test_a_part_whose_status_is_lost_with_its_whole_gone_has_no_approval_that_counts() -> None:
    """Its record shows that there was a policy; a whole with one makes it known again, one without does not."""
    whole: list[Entry | None] = [None]
    view = ApprovalView("InstanceTerraform.g", SUBRESOURCE, lambda: KEY, lambda _: whole[0])
    view.whole_view = ApprovalView("Instance.g", INSTANCE, lambda: KEY)
    plan = {"cloud.ctrlruntime.dev/approved-plan": "0123456789abcdef"}
    assert view.counted(
        stored("InstanceTerraform", "part", metadata={"annotations": plan})
    ).annotations
    wiped = {"annotations": {**plan, RECORD: "of a former time"}}
    found = view.judgement(stored("InstanceTerraform", "part", metadata=wiped))
    assert found is not None
    assert "a group that is not on record" in found.refusals[0]
    status = {"approvals": {"protection": orjson.dumps(found.protection).decode()}}
    part = stored("InstanceTerraform", "part", metadata=wiped, status=status)
    for spec, groups in (({}, ("",)), ({REQUIRED: WANTED}, ("approvers",))):
        whole[0] = stored("Instance", "new", spec=spec)
        judged = view.judgement(part)
        assert judged is not None
        assert judged.policy is not None
        assert judged.policy.groups == groups
        assert not judged.annotations.keys() & plan.keys()


@pytest.mark.criterion("S-P2")
@pytest.mark.parametrize(("user", "counts"), [("alice", False), ("bob", False), ("carol", True)])
def test_the_author_of_a_whole_that_is_gone_is_no_other_person(user: str, counts: bool) -> None:
    """Alice wrote the Instance, Bob requested its deletion, and its finalizers were taken off by hand."""
    instance = Server("Instance")
    instance.create("alice", MEMBER)
    instance.delete("bob")
    head = instance.stored["metadata"]
    whole = [stored("Instance", head["uid"], metadata=head, spec=instance.stored["spec"])]
    kind = "InstanceTerraform.example.com"
    view = ApprovalView(kind, SUBRESOURCE, lambda: KEY, lambda _: next(iter(whole), None))
    view.whole_view = ApprovalView("Instance.example.com", INSTANCE, lambda: KEY)
    plan, part = {"cloud.ctrlruntime.dev/approved-plan": "0123456789abcdef"}, {"name": "a"}
    known = view.judgement(stored("InstanceTerraform", "part"))
    assert known is not None
    status = {"approvals": {"protection": orjson.dumps(known.protection).decode()}}
    write = Write(
        new={"metadata": part, "spec": {}}, old=None, kind=kind, namespace="bank", name="a",
        user=KEY.user, groups=(), at=1,
        whole=Judgement(Policy(("approvers",), other_than_author=True)),
    )  # fmt: skip
    metadata = {"namespace": "bank", "uid": "part", "generation": 1, **part}
    made = {"metadata": {**metadata, "annotations": {RECORD: record_of(write, SUBRESOURCE, KEY)}}}
    given = {"metadata": {**metadata, "annotations": plan}, "spec": {}}
    text = record_of(
        replace(write, new=given, old={**made, "spec": {}}, user=user, groups=MEMBER),
        SUBRESOURCE,
        KEY,
    )
    whole.clear()
    annotations = {"annotations": {**plan, RECORD: text}}
    found = view.judgement(
        stored("InstanceTerraform", "part", metadata=annotations, spec={}, status=status)
    )
    assert found is not None
    assert [each.by for each in found.counted] == ([user] if counts else []), found.refusals


@pytest.mark.criterion("S-P3")
@pytest.mark.parametrize(("kind", "change"), LESS)
def test_less_protection_takes_a_member_and_is_held_where_it_came_past_admission(
    kind: str, change: dict[str, Any]
) -> None:
    server = Server(kind)
    server.create("alice", MEMBER)
    before = server.judged().protection
    with pytest.raises(Refused, match=r"is changed by a member of the group 'approvers'"):
        server.update("carol", ("everyone",), **change)
    with pytest.raises(Refused, match="is changed by a member"):
        server.update("system:serviceaccount:bank:robot", MEMBER, **change)
    server.annotate(KEY.user, finalizer="added")  # a record made with an object has no UID of it
    server.past(**change)
    server.stored["status"] = {}  # what admission recorded counts, for a reader without the key too
    assert server.judged(NOT_SERVED).protection == before
    server.stored["status"] = {}
    with pytest.raises(Refused, match="is changed by a member"):
        server.update("carol", ("everyone",), **{**change, REQUIRED: {"group": "others"}})
    verdict = server.judged()
    assert verdict.protection == before
    assert "past admission" in verdict.refusals[0]
    assert server.rules.protection(verdict.spec) == before
    server.annotate("bob", MEMBER, note="unrelated")  # consents to nothing
    assert server.judged().protection == before
    server.past(**{name: _original(kind).get(name) for name in change})
    assert not server.judged().refusals
    server.update("bob", MEMBER, **change)
    after = server.judged()
    assert not after.refusals
    assert after.protection != before


def _original(kind: str) -> dict[str, Any]:
    server = Server(kind)
    server.create("alice", MEMBER)
    spec: dict[str, Any] = server.stored["spec"]
    return spec


@pytest.mark.criterion("S-P3")
@pytest.mark.parametrize("kind", RULES)
def test_a_consent_counts_once(kind: str) -> None:
    """A stored record with the consent of a former time does not lower the protection again."""
    server = Server(kind)
    server.create("alice", MEMBER)
    server.judged()
    server.update("bob", MEMBER, **{REQUIRED: None})
    consent = server.record
    assert server.judged().policy is None
    server.update("alice", MEMBER, **{REQUIRED: WANTED})
    assert server.judged().policy is not None
    server.past({RECORD: consent}, **{REQUIRED: None})
    verdict = server.judged()
    assert verdict.policy is not None
    assert "past admission" in verdict.refusals[0]


@pytest.mark.criterion("S-P1")
def test_the_page_of_a_rollout_names_who_approved_what_it_shows() -> None:
    given = [{"value": "early=old", "by": "eve"}, {"value": "all=d", "by": "bob"}]
    entry = EntryDecoder(FleetRollout.gvk()).decode_manifest(
        {
            "metadata": {"name": "release", "namespace": "bank"},
            "spec": {"waves": [{"name": "early"}, {"name": "all", "approval": "Manual"}]},
            "status": {"approvalDigest": "d", "approvals": {"given": given}},
        }
    )
    waves = planned_waves(entry, {"waves": [], "wave": "all"})
    assert [each["approval"] for each in waves] == ["Automatic", "Manual, by bob"]


@pytest.mark.criterion("S-P2")
@pytest.mark.parametrize(("kind", "annotation"), EVERY_APPROVAL)
def test_a_reader_without_the_key_counts_what_the_manager_reported(
    kind: str, annotation: str
) -> None:
    """As `manager plan` has it: an approval counts once it is in the status, and no less protection is in force."""
    rules, value = RULES[kind], "0123456789abcdef"
    spec = {REQUIRED: WANTED}
    protection = orjson.dumps(rules.protection(spec)).decode()
    given = {"annotation": annotation, "value": value, "by": "bob", "at": "2026-01-01T00:00:00Z"}
    condition = {"type": "ApprovalsCount", "status": "True", "reason": "Counted", "message": ""}
    refusal = {
        **condition,
        "status": "False",
        "message": f"Not in force: {annotation}={value} does not count: 'alice' is the author.",
    }

    def seen(
        spec: object, *, given: object = (), condition: Mapping[str, Any] = condition
    ) -> tuple[bool, str, object]:
        manifest = {
            "apiVersion": "x/v1",
            "kind": kind,
            "metadata": {
                "name": "a",
                "uid": "u",
                "resourceVersion": "1",
                "generation": 2,
                "annotations": {annotation: value, RECORD: "forged"},
            },
            "spec": spec,
            "status": {
                "approvals": {"protection": protection, "given": given},
                "conditions": [
                    {
                        **condition,
                        "observedGeneration": 2,
                        "lastTransitionTime": "2026-01-01T00:00:00Z",
                    }
                ],
            },
        }
        decoder = EntryDecoder(FleetRollout.gvk())
        found, why = reported(decoder.decode_manifest(manifest), rules)
        return annotation in found.annotations, why, found.field("spec")

    assert seen(spec, given=[given]) == (True, "", spec)
    counts, why, _ = seen(spec)
    assert not counts
    assert "was not judged by the manager yet" in why
    counts, why, _ = seen(spec, given=[given], condition=refusal)
    assert not counts
    assert "'alice' is the author" in why
    for weaker in WEAKER[kind]:
        counts, why, in_force = seen({**spec, **weaker})
        assert rules.protection(in_force) == rules.protection(spec)
        assert "an approval does not count" in why
