"""What is counted of a Tenant as it is stored, whatever that is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.events import CreateEvent
from ctrlruntime.queue import Request
from internal.tenancy.shared.tally import Counts, Tally, TenantState
from internal.tenancy.shared.tenant_counts import TenantCounting, group, state_of

READY = {
    "observedGeneration": 3,
    "conditions": [{"type": "Ready", "status": "True", "reason": "AllReady"}],
}
SPEC = {"registryId": "r", "templateRef": "t", "templateRevision": "9", "variables": {"a": "b"}}


def entry(**fields: object) -> Entry:
    decoder = EntryDecoder(GroupVersionKind("tenancy.ctrlruntime.dev", "v1", "Tenant"))
    metadata = {"name": "a", "namespace": "default", "generation": 3}
    return decoder.decode_manifest({"metadata": metadata, **fields})


def test_a_tenant_counts_for_its_registry_and_its_template() -> None:
    tally, changed = Tally(), []
    counting = TenantCounting(tally, lambda kind, request: changed.append((kind, request)))
    counting(CreateEvent(entry(spec=SPEC, status=READY)))
    assert sorted(changed) == [
        ("registry", Request("r", namespace="default")),
        ("template", Request("t", namespace="default")),
    ]
    for kind, name in (("registry", "r"), ("template", "t")):
        found = tally.counts(group(kind, "default", name, managed=False), "9")
        assert found == Counts(total=1, ready=1, failed=0, updated=1)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"spec": None, "status": None},
        {"spec": [1], "status": "text"},
        {"spec": {"registryId": 5}, "status": {"observedGeneration": "3", "conditions": None}},
    ],
)
def test_what_is_no_tenant_counts_as_pending(fields: dict[str, Any]) -> None:
    tally = Tally()
    TenantCounting(tally, lambda _kind, _request: None)(CreateEvent(entry(**fields)))
    assert state_of(entry(**fields)) is TenantState.PENDING


STEP = st.tuples(
    st.sampled_from("abcd"),
    st.none() | st.tuples(st.sampled_from(["r1", "r2"]), st.sampled_from(TenantState)),
)


@given(st.lists(STEP))
def test_counts_equal_a_recount(steps: list[tuple[str, tuple[str, TenantState] | None]]) -> None:
    tally, model = Tally(), dict[str, tuple[str, TenantState]]()
    for member, value in steps:
        before = {group: tally.counts(group) for group in ("r1", "r2")}
        if value is None:
            model.pop(member, None)
            changed = tally.remove(member)
        else:
            model[member] = value
            changed = tally.put(member, (value[0],), value[1])
        for name in ("r1", "r2"):
            states = Counter(state for owner, state in model.values() if owner == name)
            counts = tally.counts(name)
            assert counts == Counts(
                states.total(), states[TenantState.READY], states[TenantState.FAILED]
            )
            assert name in changed or counts == before[name]
