"""The status of a tenant: counts, lists and every condition on both paths."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import TenantStatus
from ctrlruntime.api.conditions import LONGEST_MESSAGE, find_condition
from ctrlruntime.client.errors import Invalid, NotFound
from internal.tenancy.shared.outcome import (
    DEPENDENCY_ERROR,
    MOST_LISTED,
    Failure,
    Outcome,
    State,
    redact,
    refusal,
    refuse,
    summarize,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def status(*outcomes: Outcome, previous: TenantStatus | None = None) -> TenantStatus:
    return summarize(previous or TenantStatus(), outcomes, 1, NOW)


def reasons(found: TenantStatus) -> dict[str, tuple[str, str]]:
    return {item.type: (item.status, item.reason) for item in found.conditions}


def one(state: State, name: str = "a", message: str = "") -> Outcome:
    return Outcome(name, state, f"ConfigMap/ns/{name}@{name}", message)


HEALTHY = {
    "Ready": ("True", "Reconciled"),
    "Progressing": ("False", "ReconcileComplete"),
    "Conflicted": ("False", "NoConflict"),
    "Degraded": ("False", "Healthy"),
}


@pytest.mark.criterion("STATUS-CONDITIONS")
@pytest.mark.parametrize(
    ("states", "changed"),
    [
        ([State.READY], {}),
        ([], {}),
        (
            [State.WAITING, State.BLOCKED],
            {
                "Ready": ("False", "NotAllResourcesReady"),
                "Progressing": ("True", "Reconciling"),
            },
        ),
        (
            [State.READY, State.FAILED, State.SKIPPED],
            {"Ready": ("False", "ResourcesFailed"), "Degraded": ("True", "ResourceFailures")},
        ),
        (
            [State.CONFLICTED],
            {
                "Ready": ("False", "ResourcesConflicted"),
                "Conflicted": ("True", "ResourceConflict"),
                "Degraded": ("True", "ResourceConflicts"),
            },
        ),
        (
            [State.CONFLICTED, State.FAILED],
            {
                "Ready": ("False", "ResourcesFailedAndConflicted"),
                "Conflicted": ("True", "ResourceConflict"),
                "Degraded": ("True", "ResourceFailuresAndConflicts"),
            },
        ),
    ],
)
def test_conditions(states: list[State], changed: dict[str, tuple[str, str]]) -> None:
    found = status(*[one(state, f"r{i}") for i, state in enumerate(states)])
    assert reasons(found) == HEALTHY | changed


@pytest.mark.criterion("STATUS-DEGRADED")
def test_starting_up_is_not_degraded_but_losing_readiness_is_until_it_is_back() -> None:
    starting = status(one(State.WAITING))
    assert reasons(starting)["Degraded"] == ("False", "Healthy")
    ready = status(one(State.READY), previous=starting)
    fallen = status(one(State.WAITING), previous=ready)
    assert reasons(fallen)["Degraded"] == ("True", "ResourcesNotReady")
    assert reasons(status(one(State.WAITING), previous=fallen)) == reasons(fallen)
    assert reasons(status(one(State.READY), previous=fallen)) == HEALTHY
    renewed = summarize(ready, [one(State.WAITING)], 2, NOW)
    assert reasons(renewed)["Degraded"] == ("False", "Healthy")


@pytest.mark.criterion("STATUS-REFUSED")
def test_a_tenant_that_cannot_be_worked_on_keeps_its_last_counts() -> None:
    ready = status(one(State.READY))
    failure = Failure(DEPENDENCY_ERROR, "circular dependency detected: a -> a", "DependencyCycle")
    found = refuse(ready, failure, 2, NOW)
    assert reasons(found)["Ready"] == ("False", "DependencyError")
    assert reasons(found)["Degraded"] == ("True", "DependencyCycle")
    assert found.applied_resources == ready.applied_resources
    assert found.ready_resources == 1


OUTCOMES = st.lists(
    st.builds(
        Outcome,
        st.text(alphabet="abcdef", min_size=1, max_size=4),
        st.sampled_from(State),
        st.sampled_from(["", "ConfigMap/ns/a@a", "Secret/ns/b@b"]),
        st.text(max_size=400),
    ),
    max_size=40,
    unique_by=lambda outcome: outcome.id,
)


@pytest.mark.criterion("STATUS-STABLE")
@given(OUTCOMES)
def test_equal_outcomes_in_any_order_give_an_equal_status_that_is_not_written_again(
    outcomes: list[Outcome],
) -> None:
    first = summarize(TenantStatus(), outcomes, 1, NOW)
    assert summarize(first, outcomes[::-1], 1, NOW + timedelta(hours=1)) == first
    assert first.applied_resources == sorted({item.key for item in outcomes if item.key})


@pytest.mark.criterion("STATUS-COUNTS")
@given(OUTCOMES)
def test_every_resource_is_counted_once_and_messages_are_bounded(outcomes: list[Outcome]) -> None:
    found = summarize(TenantStatus(), outcomes, 1, NOW)
    by_state = {state: sum(item.state is state for item in outcomes) for state in State}
    assert found.desired_resources == sum(by_state.values()) == len(outcomes)
    assert found.ready_resources == by_state[State.READY]
    assert found.failed_resources == by_state[State.FAILED]
    assert found.skipped_resources == len(found.skipped_resource_ids) == by_state[State.SKIPPED]
    assert all(len(item.message) <= LONGEST_MESSAGE for item in found.conditions)


@pytest.mark.criterion("STATUS-SKIPPED")
def test_skipped_ids_are_cleared_after_recovery() -> None:
    failing = status(one(State.FAILED), one(State.SKIPPED, "b"))
    assert failing.skipped_resource_ids == ["b"]
    assert (
        status(one(State.READY), one(State.READY, "b"), previous=failing).skipped_resource_ids == []
    )


@pytest.mark.criterion("STATUS-MESSAGES")
def test_messages_name_what_is_wrong() -> None:
    found = status(one(State.CONFLICTED, "app", "field .spec.replicas is managed by kubectl-edit"))
    ready = find_condition(found.conditions, "Ready")
    assert ready is not None
    assert ready.message == (
        "0 of 1 resources are ready, 1 conflicted: app (field .spec.replicas is managed by "
        "kubectl-edit)."
    )


@pytest.mark.criterion("SENSITIVE")
def test_a_servers_message_is_cleared_of_everything_it_may_quote() -> None:
    message = 'Invalid value: "hunter2-x": bad; aHVudGVyMg== and hunter2'
    shown = redact(message, {"password": "hunter2", "empty": ""})
    assert "hunter2" not in shown
    assert "aHVudGVyMg" not in shown
    assert redact(message, {}) == message


@pytest.mark.criterion("RESOURCE-PHASES")
def test_each_resource_has_a_phase_and_reports_what_it_waits_for() -> None:
    outcomes = [
        one(State.READY, "available"),
        one(State.WAITING, "progressing"),
        Outcome("pending", State.WAITING, pending=True, message="the namespace 'x' is not there"),
        Outcome("blocked", State.BLOCKED, waits_for=("progressing",)),
        one(State.FAILED, "failed", "no"),
        one(State.CONFLICTED, "conflicted", "it belongs to somebody else"),
        Outcome("skipped", State.SKIPPED, waits_for=("failed",)),
    ]
    found = {each.id: each for each in status(*outcomes).resources}
    assert {name: each.phase.value.lower() for name, each in found.items()} == {
        **{name: name for name in found},
        "conflicted": "failed",
    }
    assert found["blocked"].waits_for == ["progressing"]
    assert found["skipped"].waits_for == ["failed"]
    assert found["conflicted"].message == "it belongs to somebody else"


@pytest.mark.criterion("RESOURCE-PHASES")
def test_what_was_available_is_degraded_until_the_content_changes() -> None:
    ready = status(one(State.READY))
    fallen = status(one(State.WAITING), previous=ready)
    assert fallen.resources[0].phase == "Degraded"
    assert status(one(State.WAITING), previous=fallen).resources[0].phase == "Degraded"
    renewed = summarize(fallen, [one(State.WAITING)], 2, NOW)
    assert renewed.resources[0].phase == "Progressing"


@pytest.mark.criterion("STATUS-SIZE")
def test_a_tenant_of_six_resources_has_less_than_2_kib_of_status() -> None:
    names = ("namespace", "config", "database-secret", "database", "web", "ingress")
    healthy = status(*[one(State.READY, name) for name in names])
    starting = status(*[one(State.WAITING, name, "0 of 1 replicas are ready") for name in names])
    for found in (healthy, starting):
        assert len(orjson.dumps(found.to_wire())) < 2048


@pytest.mark.criterion("STATUS-SIZE")
def test_of_many_resources_those_in_trouble_are_listed() -> None:
    names = [f"r{number:03}" for number in range(200)]
    outcomes = [one(State.READY, name) for name in names[:150]]
    outcomes += [one(State.FAILED, name, "x" * 5000) for name in names[150:160]]
    found = status(*outcomes).resources
    assert len(found) == MOST_LISTED
    assert [each.id for each in found[:10]] == names[150:160]
    assert all(len(each.message) <= 200 for each in found)


@pytest.mark.parametrize("hidden", ["", "secret"])
def test_a_refusal_for_a_namespace_that_is_not_there_ends_with_what_to_do(hidden: str) -> None:
    details = {"kind": "namespaces", "name": "late"}
    error = NotFound('namespaces "late" not found', reason="NotFound", details=details)
    assert refusal(error, {"v": hidden}).endswith("; make that namespace, or name another one")
    assert "make that" not in refusal(NotFound("x", details={"kind": "pods"}), {})


@pytest.mark.criterion("IMMUTABLE")
def test_a_refusal_shows_what_is_wrong_and_not_the_long_value() -> None:
    text = f"Invalid value: {{{'x' * 5000}}}: field is immutable"
    details = {
        "causes": [{"field": "spec.template", "reason": "FieldValueInvalid", "message": text}]
    }
    error = Invalid(f'Job.batch "a" is invalid: spec.template: {text}', details=details)
    wanted = 'Job.batch "a" is invalid: spec.template: Invalid value: …: field is immutable'
    assert refusal(error, {}) == wanted
    assert refusal(Invalid("short: Invalid value: 1: no", details={}), {}).endswith("1: no")
