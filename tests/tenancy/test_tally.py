"""Counts of tenants equal a recount after any sequence of events."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from internal.tenancy.shared.tally import Counts, Tally, TenantState

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
        for group in ("r1", "r2"):
            states = Counter(state for owner, state in model.values() if owner == group)
            counts = tally.counts(group)
            assert counts == Counts(
                states.total(), states[TenantState.READY], states[TenantState.FAILED]
            )
            assert group in changed or counts == before[group]
