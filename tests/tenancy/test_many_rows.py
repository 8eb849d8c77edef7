"""Whoever writes rows decides how many there are, and not how long the event loop stands still (S-F3)."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise

import pytest

from apis.tenancy import Tenant, TenantRegistryStatus
from ctrlruntime.api.conditions import list_sentences
from ctrlruntime.cache.entry import EntryDecoder
from internal.tenancy.registry.status import removal_condition
from internal.tenancy.registry.teardown import Fate, teardown_status
from internal.tenancy.rows.row import Reading, Row, RowReader
from internal.tenancy.shared.naming import tenant_name
from internal.tenancy.shared.slices import (
    MANY,
    SLICE,
    at_once,
    beside_loop,
    in_turns,
    let_go,
    sort_slices,
)
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.departures import DeleteReason, Replacement
from internal.tenancy.sync.plan import plan
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template
from internal.tenancy.sync.replacements import Awaited
from tests.support.counted_lines import lines
from tests.tenancy.test_plan import row, spec
from tests.tenancy.test_replacements import EARLY, OLD, OPEN, fleet, hosted, reading, step

pytestmark = pytest.mark.criterion("S-F3")
ROWS = 10_000
KINDS: dict[str, Callable[[str], Row]] = {
    "active": lambda uid: row(uid),
    "inactive": lambda uid: row(uid, "0"),
    "in doubt": lambda uid: row(uid, "perhaps"),
    "illegal": lambda uid: row(f"_{uid}"),
    "twice": lambda uid: row(f"t{int(uid[1:]) // 2}"),
}


def reader(kind: str) -> RowReader:
    """Return a reader that has taken so many rows, in no order."""
    uids = [f"t{number}" for number in range(ROWS)]
    random.Random(7).shuffle(uids)
    found = RowReader(spec())
    for uid in uids:
        found.take(KINDS[kind](uid))
    return found


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of some work."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


@pytest.mark.parametrize("number", [0, 1, SLICE, SLICE + 1, 5 * SLICE + 3])
def test_texts_are_sorted_in_slices_as_at_once(number: int) -> None:
    texts = [str(random.Random(place).randrange(number)) for place in range(number)]
    assert at_once(sort_slices(texts)) == sorted(texts)


@pytest.mark.parametrize("kind", KINDS)
async def test_rows_are_sorted_in_as_many_turns_as_there_are_slices(kind: str) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    found = await in_turns(reader(kind).slices())
    counting.cancel()
    assert turns >= 2 * (ROWS // 2 // SLICE)
    assert found == reader(kind).reading()
    assert found.total == ROWS


def test_tenants_that_stay_cost_a_plan_no_more_each_however_many_there_are() -> None:
    """10,000 took 3.2 s: for each one all uids were gathered again."""
    rows = reader("active").reading()
    there = [
        ExistingTenant(
            name=tenant_name(each.uid, "web"),
            uid=each.uid,
            template="web",
            version="1",
            variables=each.variables,
            state=TenantState.READY,
        )
        for each in rows.active
    ]
    assert seconds(lambda: plan(rows, [Template("web", "1")], there)) < 1.5


RENAMED: dict[str, tuple[Callable[[int], Row], Callable[[int], Row]]] = {
    "equal": (lambda n: row(f"t{n:04}"), lambda n: row(f"u{n:04}")),
    "the uid in the host": (
        lambda n: hosted(f"t{n:04}", f"t{n:04}"),
        lambda n: hosted(f"u{n:04}", f"u{n:04}"),
    ),
    "one host": (lambda n: hosted(f"t{n:04}", "h"), lambda n: hosted(f"u{n:04}", "h")),
    "one row has the host": (
        lambda n: hosted(f"t{n:04}", "h"),
        lambda n: hosted(f"u{n:04}", "h" if n == 0 else f"h{n}"),
    ),
    "all but one in doubt": (
        lambda n: hosted(f"t{n:04}", "h"),
        lambda n: hosted(f"u{n:04}", "h", "perhaps" if n else "1"),
    ),
}


def plans(kind: str, count: int) -> Iterator[tuple[Reading, list[Template], list[ExistingTenant]]]:
    """Yield what is planned once all uids are others, then with what was recorded, then without a template."""
    before, after = RENAMED[kind]
    existing = fleet(*(before(number) for number in range(count)))
    rows = reading(*(after(number) for number in range(count)))
    yield rows, [OLD], existing
    yield rows, [OLD], step(plan(rows, [OLD], existing, OPEN), existing)
    yield rows, [], existing
    chained = [
        replace(tenant, replaced_by=frozenset({later.name}), handing_over=True)
        for tenant, later in pairwise(existing)
    ]
    yield rows, [Template("other", "1", EARLY)], [*chained, existing[-1]]


@pytest.mark.parametrize("kind", RENAMED)
def test_a_tenant_costs_a_plan_no_more_however_many_look_like_it(kind: str) -> None:
    """Each leaver was compared with each row of its host or its values: 10,000 took some four minutes."""
    few, many = (
        [lines(partial(plan, *given, OPEN)) for given in plans(kind, count)] for count in (100, 300)
    )
    assert [more / less < 3.3 for less, more in zip(few, many, strict=True)] == [True] * 4


def test_a_message_of_many_sentences_takes_no_longer_than_one_of_some() -> None:
    """20,000 took 7.5 s: all were joined, then all but one, and so on."""
    many = [f"tenant 't{number}' was refused: its quota is used up" for number in range(20_000)]
    assert seconds(lambda: list_sentences("Head", many)) < 0.5
    shown = list_sentences("Head", many)
    assert shown.startswith("Head: tenant 't0' was refused")
    assert shown.count(";") + int(shown.rpartition("and ")[2].split()[0]) == 20_000


def test_only_the_sentences_that_are_shown_are_made() -> None:
    made = 0

    class Watched(Awaited):
        def __getattribute__(self, name: str) -> object:
            nonlocal made
            made += name == "name"
            return super().__getattribute__(name)

    waiting = [
        Replacement(
            tenant=f"t{number:05}",
            reason=DeleteReason.ROW_GONE,
            by=("x",),
            awaited=(Watched("x", None),),
        )
        for number in range(ROWS)
    ]
    found = removal_condition(waiting)
    assert found.message.startswith(f"{ROWS} tenants stay until others take its place: 't00000'")
    assert 0 < made < 100


async def test_what_is_let_go_is_freed_in_slices() -> None:
    held: list[object] = [object() for _ in range(3 * SLICE)]
    freeing = asyncio.create_task(let_go(held))
    await asyncio.sleep(0)
    assert len(held) == 2 * SLICE
    await freeing
    assert held == []


@pytest.mark.parametrize("count", [MANY - 1, MANY])
async def test_many_items_are_worked_on_beside_the_loop(count: int) -> None:
    beside = await beside_loop(count, threading.get_ident) != threading.get_ident()
    assert beside == (count >= MANY)


def test_problems_are_counted_once_and_named_as_before() -> None:
    found = Reading(invalid=reader("in doubt").reading().invalid)
    [sentence] = found.problems(2)
    assert found.invalid_rows == ROWS
    assert sentence.startswith(
        f"{ROWS} rows with UnknownActivation (uid 't0' 'perhaps', uid 't1' 'perhaps', {ROWS - 2} more)"
    )


def test_a_teardown_with_as_many_refusals_as_tenants_names_the_first_of_them() -> None:
    """5,000 took 3 s: each tenant was compared with each refusal."""
    decoder = EntryDecoder(Tenant.gvk())
    tenants = [
        decoder.decode_manifest({"metadata": {"name": f"t{number:04}", "namespace": "a"}})
        for number in range(5_000)
    ]
    refused = [f"{each.name} (its deletion was refused: no)" for each in tenants]
    now = datetime(2030, 1, 1, tzinfo=UTC)

    def status(refused: list[str]) -> TenantRegistryStatus:
        given = (TenantRegistryStatus(), Fate.DELETE, tenants, refused)
        return teardown_status(*given, waiting={}, generation=1, now=now)

    assert seconds(lambda: status(refused)) < 1.0
    message = status(refused[1:]).conditions[0].message
    assert message.endswith("t0003 (its deletion was refused: no); and 4997 more.")
    shown = status([refused[4]]).conditions[0].message
    assert "t0004 (its deletion was refused: no); t0000 (it is being deleted); t0001" in shown
