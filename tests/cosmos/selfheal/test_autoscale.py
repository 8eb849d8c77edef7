"""Whether a disk is to grow, and to what size."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from apis.cosmos import PVCAutoScale, PVCAutoScaleRequest
from ctrlruntime.api.scalars import Quantity
from internal.cosmos.selfheal.autoscale import Disk, Verdict, decide, increased
from internal.cosmos.workload.sizes import requested_size

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def policy(
    threshold: int = 80, increase: str = "20%", ceiling: str | None = None, cooldown: int = 21600
) -> PVCAutoScale:
    return PVCAutoScale(
        used_space_percentage=threshold,
        increase_quantity=increase,
        max_size=None if ceiling is None else Quantity(ceiling),
        cooldown_seconds=cooldown,
    )


def disk(percent: int = 90, capacity: str = "100Gi", *, expandable: bool | None = True) -> Disk:
    return Disk("pvc-hub-0", percent, Quantity(capacity), "standard", expandable)


def request(size: str, *, hours: float = 24) -> PVCAutoScaleRequest:
    at = NOW - timedelta(hours=hours)
    return PVCAutoScaleRequest(requested_size=Quantity(size), requested_at=at)


@pytest.mark.criterion("COSMOS-A5-1")
@pytest.mark.parametrize(
    ("percent", "verdict"),
    [(0, Verdict.HAS_ROOM), (79, Verdict.HAS_ROOM), (80, Verdict.GROWS), (100, Verdict.GROWS)],
)
def test_the_threshold_itself_is_full(percent: int, verdict: Verdict) -> None:
    assert decide(disk(percent), policy(), None, NOW).verdict is verdict


@pytest.mark.criterion("COSMOS-A5-1")
@pytest.mark.parametrize(
    ("capacity", "increase", "size"),
    [
        ("100Gi", "20%", "120Gi"),
        ("100Gi", "100Gi", "200Gi"),
        ("100Gi", "1%", "101Gi"),
        ("1Gi", "50%", "1536Mi"),
        ("100G", "20%", "120G"),
        ("100Gi", "1.5Gi", "103936Mi"),
        ("999", "10%", "1099"),
        ("995", "10%", "1095"),
        ("100Gi", "100%", "200Gi"),
        ("100Gi", "300%", "400Gi"),
    ],
)
def test_the_new_size(capacity: str, increase: str, size: str) -> None:
    found = decide(disk(capacity=capacity), policy(increase=increase), None, NOW)
    assert (found.verdict, found.size) == (Verdict.GROWS, size)


@pytest.mark.parametrize("increase", ["0%", "0", "0Gi", "-5Gi", "20 %", "much", "", "%"])
def test_an_increase_that_is_none_is_reported(increase: str) -> None:
    given = policy().model_copy(update={"increase_quantity": increase})
    found = decide(disk(), given, None, NOW)
    assert (found.verdict, found.size) == (Verdict.INVALID, None)
    assert found.detail
    with pytest.raises(ValueError, match=r"increaseQuantity|not a quantity"):
        increased(Decimal(100), increase)


class TestCeiling:
    @pytest.mark.parametrize("capacity", ["110Gi", "111Gi"])
    def test_at_or_above_it_nothing_is_asked_for(self, capacity: str) -> None:
        found = decide(disk(capacity=capacity), policy(ceiling="110Gi"), None, NOW)
        assert found.verdict is Verdict.AT_CEILING

    @pytest.mark.criterion("COSMOS-A5-3")
    def test_the_size_is_cut_to_it(self) -> None:
        found = decide(disk(), policy(ceiling="110Gi"), None, NOW)
        assert found.size == "110Gi"

    @pytest.mark.criterion("D5-3")
    @pytest.mark.parametrize("hours", [0, 24], ids=["at once", "after the cooldown"])
    def test_it_is_compared_with_what_was_asked_for_after_the_cut(self, hours: float) -> None:
        asked = request("110Gi", hours=hours)
        found = decide(disk(), policy(ceiling="110Gi", cooldown=0), asked, NOW)
        assert found.verdict is Verdict.REQUESTED

    @pytest.mark.criterion("COSMOS-A5-3")
    @pytest.mark.parametrize("ceiling", ["120Gi", "121Gi", "122Gi", "130Gi"])
    def test_what_file_systems_need_never_passes_it(self, ceiling: str) -> None:
        found = decide(disk(), policy(ceiling=ceiling), None, NOW)
        assert found.size == "120Gi"
        claim = requested_size("100Gi", found.size, "100Gi", requested="100Gi", max_size=ceiling)
        padded = Quantity("120Gi").value * Decimal("1.02")
        assert Quantity(claim).value == min(padded.to_integral_value(), Quantity(ceiling).value)


class TestRequest:
    @pytest.mark.criterion("COSMOS-A5-4")
    @pytest.mark.parametrize("size", ["120Gi", "125Gi"])
    def test_what_was_asked_for_is_not_asked_for_again(self, size: str) -> None:
        assert decide(disk(), policy(), request(size), NOW).verdict is Verdict.REQUESTED

    def test_a_claim_that_grew_and_filled_up_is_asked_to_grow_again(self) -> None:
        found = decide(disk(capacity="125Gi"), policy(), request("120Gi"), NOW)
        assert (found.verdict, found.size) == (Verdict.GROWS, "150Gi")

    @pytest.mark.parametrize(
        ("hours", "verdict"),
        [(-1, Verdict.COOLING), (0, Verdict.COOLING), (5.99, Verdict.COOLING), (6, Verdict.GROWS)],
    )
    def test_not_before_the_cooldown_is_over(self, hours: float, verdict: Verdict) -> None:
        found = decide(disk(capacity="122Gi"), policy(), request("120Gi", hours=hours), NOW)
        assert found.verdict is verdict

    def test_the_cooldown_can_be_chosen(self) -> None:
        asked = request("120Gi", hours=0.5)
        assert decide(disk(capacity="122Gi"), policy(cooldown=1800), asked, NOW).size
        assert not decide(disk(capacity="122Gi"), policy(cooldown=1801), asked, NOW).size

    def test_a_request_that_is_not_met_yet_is_not_topped_within_the_cooldown(self) -> None:
        asked = request("120Gi", hours=1)
        found = decide(disk(), policy(increase="50%"), asked, NOW)
        assert found.verdict is Verdict.COOLING
        later = decide(disk(), policy(increase="50%"), request("120Gi", hours=7), NOW)
        assert later.size == "150Gi"


class TestStorageClass:
    def test_one_that_cannot_expand_is_reported_and_not_asked(self) -> None:
        found = decide(disk(expandable=False), policy(), None, NOW)
        assert (found.verdict, found.size) == (Verdict.CANNOT_EXPAND, None)
        assert "allowVolumeExpansion" in found.detail

    def test_an_unknown_one_is_tried(self) -> None:
        assert decide(disk(expandable=None), policy(), None, NOW).verdict is Verdict.GROWS

    def test_it_does_not_matter_while_there_is_room(self) -> None:
        assert decide(disk(10, expandable=False), policy(), None, NOW).verdict is Verdict.HAS_ROOM


@pytest.mark.criterion("COSMOS-A5-7", "COSMOS-A10-380")
def test_each_disk_has_a_size_of_its_own() -> None:
    sizes = [decide(disk(capacity=size), policy(), None, NOW).size for size in ("50Gi", "100Gi")]
    assert sizes == ["60Gi", "120Gi"]
