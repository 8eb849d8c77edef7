"""The decision on removal: a table of cases, and properties that hold for all inputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import DeletionPolicy
from ctrlruntime.api.kinds import GroupKind
from internal.tenancy.shared.naming import ResourceKey
from internal.tenancy.shared.outcome import State
from internal.tenancy.tenant.removal_decisions import (
    Action,
    Decision,
    Intent,
    LiveObject,
    Place,
    Reason,
    SpecResource,
    Wanted,
    decide,
    pending,
    place_of,
)
from internal.tenancy.tenant.removal_view import still_there

KIND = GroupKind("", "ConfigMap")
DELETE, RETAIN = DeletionPolicy.DELETE, DeletionPolicy.RETAIN


def key(name: str, id_: str) -> ResourceKey:
    return ResourceKey(KIND, "default", name, id_)


def live(name: str, id_: str, **fields: object) -> LiveObject:
    given: dict[str, Any] = {"policy": DELETE, **fields}
    return LiveObject(key=key(name, id_), **given)


def resource(id_: str, name: str | None = None, state: State | None = State.READY) -> SpecResource:
    return SpecResource(id=id_, key=None if name is None else key(name, id_), state=state)


def wanted(*resources: SpecResource, intent: Intent = Intent.KEEP, retained: str = "") -> Wanted:
    return Wanted(intent=intent, resources=resources, retained=frozenset(retained.split()))


def one(
    given_wanted: Wanted, item: LiveObject, applied: Iterable[ResourceKey] = ()
) -> tuple[Action, Reason]:
    (decision,) = decide(given_wanted, [item], applied)
    return decision.action, decision.reason


GONE = wanted(intent=Intent.DELETE)


@pytest.mark.criterion("H-A2", "H-A3", "H-A7")
@pytest.mark.parametrize(
    ("spec", "item", "expected"),
    [
        # The tenant stays.
        (wanted(resource("x", "x")), live("x", "x"), (Action.KEEP, Reason.WANTED)),
        (wanted(resource("y", "x")), live("x", "x"), (Action.KEEP, Reason.WANTED)),
        (wanted(), live("x", "x"), (Action.DELETE, Reason.NOT_IN_TEMPLATE)),
        (wanted(), live("x", "x", policy=RETAIN), (Action.RELEASE, Reason.RETAINED)),
        (wanted(retained="x"), live("x", "x"), (Action.RELEASE, Reason.RETAINED)),
        (wanted(), live("x", "x", policy=None), (Action.RELEASE, Reason.NO_POLICY)),
        (wanted(), live("x", ""), (Action.KEEP, Reason.UNKNOWN_RESOURCE)),
        (wanted(), live("x", "x", foreign=True), (Action.KEEP, Reason.FOREIGN)),
        (wanted(), live("x", "x", protected=True), (Action.KEEP, Reason.PROTECTED)),
        (GONE, live("x", "x", protected=True), (Action.KEEP, Reason.PROTECTED)),
        (wanted(), live("x", "x", written=False), (Action.KEEP, Reason.NOT_WRITTEN)),
        (wanted(), live("x", "x", released=True), (Action.KEEP, Reason.ALREADY_RELEASED)),
        (
            wanted(),
            live("x", "x", terminating_since="2026-01-01T00:00:00Z"),
            (Action.WAIT, Reason.FINALIZERS_REMAIN),
        ),
        # It cannot be rendered: it has no name at present.
        (wanted(resource("x")), live("x", "x"), (Action.KEEP, Reason.NOT_RENDERED)),
        (wanted(resource("x")), live("x", "x", policy=RETAIN), (Action.KEEP, Reason.NOT_RENDERED)),
        # It has another name.
        (wanted(resource("x", "new")), live("x", "x"), (Action.DELETE, Reason.REPLACED)),
        *(
            (
                wanted(resource("x", "new", state)),
                live("x", "x"),
                (Action.WAIT, Reason.REPLACEMENT_NOT_READY),
            )
            for state in [*State, None]
            if state is not State.READY
        ),
        # The tenant goes.
        (GONE, live("x", "x"), (Action.DELETE, Reason.TENANT_DELETED)),
        (GONE, live("x", "x", policy=RETAIN), (Action.RELEASE, Reason.RETAINED)),
        (GONE, live("x", ""), (Action.RELEASE, Reason.UNKNOWN_RESOURCE)),
        (GONE, live("x", "x", referenced=False), (Action.RELEASE, Reason.REFERENCE_REMOVED)),
        (GONE, live("x", "x", foreign=True), (Action.KEEP, Reason.FOREIGN)),
        (
            wanted(resource("x"), intent=Intent.DELETE, retained="x"),
            live("x", "x"),
            (Action.RELEASE, Reason.RETAINED),
        ),
        (
            wanted(intent=Intent.ORPHAN),
            live("x", "x"),
            (Action.RELEASE, Reason.TENANT_ORPHANED),
        ),
        (
            wanted(intent=Intent.UNINSTALL),
            live("x", "x"),
            (Action.RELEASE, Reason.DEFINITION_REMOVED),
        ),
    ],
)
def test_h_a2_each_case_has_one_answer(
    spec: Wanted, item: LiveObject, expected: tuple[Action, Reason]
) -> None:
    assert one(spec, item) == expected


def pruning(*resources: SpecResource, intent: Intent = Intent.KEEP, retained: str = "") -> Wanted:
    return replace(wanted(*resources, intent=intent, retained=retained), prune=True)


COPY: dict[str, Any] = {"written": False}


@pytest.mark.criterion("RO-FREEZE")
def test_prune_waits_for_a_freeze_and_holds_nothing_else() -> None:
    """What is kept back does not block the removal of what its resource depends on."""
    spec = replace(pruning(resource("x", "x")), prune_hold="ChangeFreeze 'audit' holds all changes")
    copied = live("copy", "x", **COPY)
    (decision,) = decide(spec, [copied], ())
    assert (decision.action, decision.reason) == (Action.WAIT, Reason.FROZEN)
    assert "'audit'" in decision.message
    assert one(spec, live("copy", "x", written=False, policy=RETAIN))[0] is Action.KEEP
    old = live("y", "y")
    found = {item.key.name: item.action for item in decide(spec, [copied, old], ())}
    assert found == {"copy": Action.WAIT, "y": Action.DELETE}
    above = SpecResource(id="x", key=key("x", "x"), state=State.READY, depends_on=("base",))
    renamed = replace(spec, resources=(above, resource("base", "new")))
    base = live("old", "base")
    found = {item.key.name: item.action for item in decide(renamed, [copied, base], ())}
    assert found == {"copy": Action.WAIT, "old": Action.DELETE}
    assert still_there(decide(spec, [copied], ())) == set(), "it is not taken for its resource"


@pytest.mark.parametrize(
    ("spec", "item", "expected"),
    [
        (pruning(), live("x", ""), (Action.DELETE, Reason.PRUNED)),
        (pruning(), live("copy", "x", **COPY), (Action.DELETE, Reason.PRUNED)),
        (pruning(resource("x", "x")), live("copy", "x", **COPY), (Action.DELETE, Reason.PRUNED)),
        (wanted(resource("x", "x")), live("copy", "x", **COPY), (Action.KEEP, Reason.NOT_WRITTEN)),
        # What is wanted, or not the tenant's.
        (pruning(resource("x", "x")), live("x", "x"), (Action.KEEP, Reason.WANTED)),
        (pruning(resource("x", "x")), live("x", "x", **COPY), (Action.KEEP, Reason.NOT_WRITTEN)),
        (pruning(), live("x", "", foreign=True), (Action.KEEP, Reason.FOREIGN)),
        (pruning(), live("x", "", protected=True), (Action.KEEP, Reason.PROTECTED)),
        (pruning(), live("x", "", released=True), (Action.KEEP, Reason.ALREADY_RELEASED)),
        (pruning(), live("x", "", recorded=False), (Action.KEEP, Reason.UNKNOWN_RESOURCE)),
        # Policies.
        (pruning(), live("x", "", policy=RETAIN), (Action.KEEP, Reason.UNKNOWN_RESOURCE)),
        (pruning(), live("x", "", policy=None), (Action.KEEP, Reason.UNKNOWN_RESOURCE)),
        (
            pruning(retained="x"),
            live("copy", "x", **COPY),
            (Action.KEEP, Reason.NOT_WRITTEN),
        ),
        # It may be the one that is meant.
        (pruning(resource("x")), live("copy", "x", **COPY), (Action.KEEP, Reason.NOT_WRITTEN)),
        (
            pruning(resource("x", "x", State.FAILED)),
            live("copy", "x", **COPY),
            (Action.KEEP, Reason.NOT_WRITTEN),
        ),
        (pruning(resource("y")), live("x", ""), (Action.KEEP, Reason.UNKNOWN_RESOURCE)),
        (
            pruning(resource("x", "x"), resource("y")),
            live("copy", "x", **COPY),
            (Action.KEEP, Reason.NOT_WRITTEN),
        ),
        # The tenant goes.
        (pruning(intent=Intent.DELETE), live("x", "", **COPY), (Action.KEEP, Reason.NOT_WRITTEN)),
        (pruning(intent=Intent.DELETE), live("x", ""), (Action.RELEASE, Reason.UNKNOWN_RESOURCE)),
    ],
)
def test_prune_deletes_what_no_resource_wants_and_in_doubt_keeps_it(
    spec: Wanted, item: LiveObject, expected: tuple[Action, Reason]
) -> None:
    assert one(spec, item) == expected


@pytest.mark.criterion("H-A2")
def test_h_a2_an_id_changed_by_hand_does_not_lose_the_wish_of_the_spec() -> None:
    """The status knows which resource the object is, whatever is written on it."""
    edited = live("x", "other")
    spec = wanted(retained="pvc", intent=Intent.DELETE)
    assert one(spec, edited, applied=[key("x", "pvc")]) == (Action.RELEASE, Reason.RETAINED)


@pytest.mark.criterion("H-A7")
def test_h_a7_a_refused_delete_holds_its_dependencies_and_nothing_else() -> None:
    spec = Wanted(
        intent=Intent.DELETE,
        resources=(
            SpecResource(id="app", depends_on=("config",)),
            SpecResource(id="config"),
            SpecResource(id="other"),
        ),
    )
    objects = [live(name, name) for name in ("app", "config", "other")]
    refused = {place_of(key("app", "app")): "no"}
    found = {item.key.id: item for item in decide(spec, objects, (), refused=refused)}
    assert (found["app"].action, found["app"].reason) == (Action.WAIT, Reason.DELETION_REFUSED)
    assert found["app"].message == "its deletion was refused: no"
    assert found["config"].reason is Reason.DEPENDENTS_REMAIN
    assert found["other"].action is Action.DELETE


@pytest.mark.criterion("DX-10")
def test_objects_of_a_cycle_do_not_wait_for_each_other_when_the_tenant_goes() -> None:
    resources = [
        SpecResource(id="a", depends_on=("b",)),
        SpecResource(id="b", depends_on=("a", "base")),
        SpecResource(id="base"),
    ]
    spec = wanted(*resources, intent=Intent.DELETE)
    decisions = decide(spec, [live(name, name) for name in ("a", "b", "base")], ())
    assert {each.key.id: each.action for each in decisions} == {
        "a": Action.DELETE,
        "b": Action.DELETE,
        "base": Action.WAIT,
    }


@pytest.mark.criterion("H-A6")
def test_h_a6_a_kind_that_cannot_be_read_is_not_taken_for_gone() -> None:
    (found,) = decide(GONE, [], [key("x", "x")], unreadable={("", KIND): "it cannot be watched"})
    assert (found.action, found.reason) == (Action.WAIT, Reason.KIND_UNREADABLE)


@pytest.mark.criterion("H-A6")
def test_h_a6_what_holds_an_object_is_named() -> None:
    item = live(
        "x", "x", terminating_since="2026-01-01T00:00:00Z", finalizers=("example.com/slow",)
    )
    (found,) = decide(GONE, [item], ())
    assert found.message == (
        "it is being deleted since 2026-01-01T00:00:00Z; finalizers remaining: example.com/slow"
    )


NAMES = st.sampled_from(["a", "b", "c"])
IDS = st.sampled_from(["", "p", "q", "r"])
objects = st.lists(
    st.builds(
        lambda name, id_, **fields: LiveObject(key=key(name, id_), **fields),
        NAMES,
        IDS,
        foreign=st.booleans(),
        protected=st.booleans(),
        written=st.booleans(),
        released=st.booleans(),
        policy=st.sampled_from([None, DELETE, RETAIN]),
        referenced=st.booleans(),
        terminating_since=st.sampled_from(["", "2026-01-01T00:00:00Z"]),
    ),
    max_size=3,
    unique_by=lambda item: item.place,
)
resources = st.lists(
    st.builds(
        lambda id_, name, state, needs: SpecResource(
            id=id_,
            key=None if name is None else key(name, id_),
            state=state,
            depends_on=tuple(sorted(needs)),
        ),
        st.sampled_from(["p", "q", "r"]),
        st.none() | NAMES,
        st.none() | st.sampled_from(list(State)),
        st.sets(st.sampled_from(["p", "q", "r"]), max_size=2),
    ),
    max_size=3,
    unique_by=lambda item: item.id,
)
wishes = st.builds(
    Wanted,
    intent=st.sampled_from(list(Intent)),
    resources=resources.map(tuple),
    retained=st.frozensets(st.sampled_from(["p", "q", "r"])),
)
applied_keys = st.lists(st.builds(key, NAMES, st.sampled_from(["p", "q", "r"])), max_size=3)
refusals = st.dictionaries(NAMES.map(lambda name: place_of(key(name, ""))), st.just("no"))


@pytest.mark.criterion("H-A2", "H-A3", "H-A7", "H-A9")
@given(spec=wishes, items=objects, applied=applied_keys, refused=refusals)
def test_h_a2_in_doubt_nothing_is_deleted(
    spec: Wanted,
    items: list[LiveObject],
    applied: list[ResourceKey],
    refused: dict[Place, str],
) -> None:
    decisions = decide(spec, items, applied, refused=refused)
    by_id = {item.id: item for item in spec.resources}
    deleted = {place_of(item.key) for item in decisions if item.action is Action.DELETE}
    for item in items:
        if item.place not in deleted:
            continue
        ids = {item.key.id} | {each.id for each in applied if place_of(each) == item.place}
        ids.discard("")
        assert ids, "which resource it is is known"
        assert not item.foreign
        assert not item.protected
        assert item.written
        assert not item.released
        assert item.policy is DELETE
        assert ids.isdisjoint(spec.retained)
        assert not item.terminating_since
        assert item.place not in refused
        assert spec.intent in {Intent.KEEP, Intent.DELETE}
        if spec.intent is Intent.KEEP:
            assert item.place not in {place_of(r.key) for r in by_id.values() if r.key is not None}
            successors = [by_id[name] for name in ids if name in by_id]
            assert all(each.key is not None for each in successors)
            assert all(each.state is State.READY for each in successors)
        else:
            assert item.referenced


@pytest.mark.criterion("H-A2")
@given(spec=wishes, items=objects, applied=applied_keys)
def test_h_a2_every_object_gets_one_answer_whatever_the_order(
    spec: Wanted, items: list[LiveObject], applied: list[ResourceKey]
) -> None:
    decisions = decide(spec, items, applied)
    assert sorted(item.key for item in decisions) == sorted(item.key for item in items)
    assert decide(spec, items[::-1], applied[::-1]) == decisions


@pytest.mark.criterion("H-A2")
@given(spec=wishes, items=objects, applied=applied_keys)
def test_h_a2_where_all_is_wanted_by_a_tenant_that_stays_nothing_is_decided(
    spec: Wanted, items: list[LiveObject], applied: list[ResourceKey]
) -> None:
    """The reconciler asks for no decision then: neither a status nor an event may miss one."""
    places = {place_of(item.key) for item in spec.resources if item.key is not None}
    items = [item for item in items if item.place in places]
    decisions = decide(replace(spec, intent=Intent.KEEP), items, applied)
    assert {item.action for item in decisions} <= {Action.KEEP}
    assert still_there(decisions) == set()


@pytest.mark.criterion("H-A6")
@given(spec=wishes, items=objects, applied=applied_keys)
def test_h_a6_what_waits_reports_why_and_carrying_out_comes_to_an_end(
    spec: Wanted, items: list[LiveObject], applied: list[ResourceKey]
) -> None:
    """Objects that are deleted go, those that are released carry the mark: nothing is left to do."""
    there = list(items)
    decisions: tuple[Decision, ...] = ()
    for _ in range(len(items) + 1):
        decisions = decide(spec, there, applied)
        assert all(item.message for item in decisions if item.action is Action.WAIT)
        gone = {place_of(item.key) for item in decisions if item.action is Action.DELETE}
        freed = {place_of(item.key) for item in decisions if item.action is Action.RELEASE}
        there = [
            LiveObject(key=item.key, released=True) if item.place in freed else item
            for item in there
            if item.place not in gone
        ]
    assert {item.action for item in decisions} <= {Action.KEEP, Action.WAIT}
    held = {item.reason for item in pending(decisions)}
    acyclic = all(name < item.id for item in spec.resources for name in item.depends_on)
    if acyclic and Reason.FINALIZERS_REMAIN not in held:
        assert held <= {Reason.REPLACEMENT_NOT_READY}
