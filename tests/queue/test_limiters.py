"""Retry delays."""

from __future__ import annotations

import pytest

from ctrlruntime.queue.limiters import Bucket, FastSlow, ItemExponential, MaxOf, WithMaxWait
from ctrlruntime.queue.request import Request

from .clock import Clock

A, B = Request("a", namespace="default"), Request("b", namespace="default")


@pytest.mark.criterion("WQ-13")
def test_exponential_doubles_from_5_ms_to_1000_s_and_forgets() -> None:
    limiter = ItemExponential()
    delays = [limiter.when(A) for _ in range(20)]
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[17] == 0.005 * 2**17
    assert delays[18:] == [1000.0, 1000.0]
    assert limiter.when(B) == 0.005
    assert limiter.retries(A) == 20
    limiter.forget(A)
    assert limiter.when(A) == 0.005


@pytest.mark.criterion("WQ-14")
def test_two_thousand_failures_do_not_overflow() -> None:
    limiter = ItemExponential()
    assert [limiter.when(A) for _ in range(2000)][-1] == 1000.0


@pytest.mark.criterion("WQ-15")
def test_max_of_takes_the_longest_and_forwards_forget() -> None:
    first, second = ItemExponential(base=1.0), FastSlow(fast=3.0, slow=10.0, attempts=2)
    limiter = MaxOf(first, second)
    assert [limiter.when(A) for _ in range(5)] == [3.0, 3.0, 10.0, 10.0, 16.0]
    assert limiter.retries(A) == 5
    limiter.forget(A)
    assert first.retries(A) == second.retries(A) == 0


@pytest.mark.criterion("WQ-16")
def test_fast_slow_switches_after_the_attempts() -> None:
    limiter = FastSlow(fast=0.1, slow=10.0, attempts=3)
    assert [limiter.when(A) for _ in range(5)] == [0.1, 0.1, 0.1, 10.0, 10.0]
    limiter.forget(A)
    assert limiter.when(A) == 0.1


def test_bucket_reserves_tokens_for_all_items() -> None:
    clock = Clock()
    limiter = Bucket(qps=10, burst=2, clock=clock)
    assert [limiter.when(request) for request in (A, B, A, B)] == pytest.approx([0, 0, 0.1, 0.2])
    clock.advance(100)
    assert limiter.when(A) == 0.0


@pytest.mark.criterion("LV-8")
def test_the_burst_limit_of_a_bucket_holds_after_any_silence() -> None:
    clock = Clock()
    limiter = Bucket(qps=10, burst=3, clock=clock)
    for _ in range(3):
        clock.advance(1_000)
        delays = [limiter.when(request) for request in (A, B, A, B, A)]
        assert delays == pytest.approx([0, 0, 0, 0.1, 0.2])


def test_max_wait_bounds_another_limiter() -> None:
    limiter = WithMaxWait(ItemExponential(), 300.0)
    assert [limiter.when(A) for _ in range(30)][-1] == 300.0
    limiter.forget(A)
    assert limiter.retries(A) == 0


def test_max_of_needs_a_limiter() -> None:
    with pytest.raises(ValueError, match="at least one"):
        MaxOf()
