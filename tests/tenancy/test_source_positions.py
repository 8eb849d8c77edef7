"""How far a source was read outlives the source: see also the registries of test_postgresql_registry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from internal.tenancy.sources import Sources
from internal.tenancy.sources.postgresql.position import Position
from internal.tenancy.sources.postgresql.source import PostgreSQLSettings, PostgreSQLSource

pytestmark = pytest.mark.criterion("G-T8")
SETTINGS = PostgreSQLSettings(
    host="db.example", username="reader", password="old", database="shop", table="tenants"
)
PLACE = Position("cluster", timeline=2, octets=100)


async def test_g_t8_the_position_outlives_a_rotated_password_any_settings_and_a_restart() -> None:
    sources = Sources()
    first = await sources.get("registry", SETTINGS)
    assert isinstance(first, PostgreSQLSource)
    first.read_up_to = PLACE
    for settings in (
        replace(SETTINGS, password="new"),
        replace(SETTINGS, host="replica.example", page_size=7),
    ):
        later = await sources.get("registry", settings)
        assert isinstance(later, PostgreSQLSource)
        assert later is not first
        assert later.read_up_to == PLACE
    other = await sources.get("other", SETTINGS)
    assert isinstance(other, PostgreSQLSource)
    assert other.read_up_to is None
    position = sources.position("registry")
    await sources.close()
    restarted = await Sources().get("registry", SETTINGS, positions=lambda: [position])
    assert isinstance(restarted, PostgreSQLSource)
    assert restarted.read_up_to == PLACE


async def test_g_t8_of_several_positions_the_furthest_of_each_system_counts() -> None:
    """Tenants were written at different times, some while the rows were in another database."""
    further, promoted = replace(PLACE, octets=200), replace(PLACE, timeline=3, octets=150)
    other = Position("other", timeline=9, octets=900)
    known = [str(each) for each in (further, PLACE, promoted, other, further)]
    source = await Sources().get("registry", SETTINGS, positions=lambda: ["?", *known])
    assert isinstance(source, PostgreSQLSource)
    assert source.read_up_to == promoted
    assert source.read_before("other") == other
    assert source.read_before("third") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cluster",
        "cluster/1",
        "cluster/x/1",
        "cluster/1/-1",
        "/1/1",
        f"a/1/{'9' * 5000}",
        "a/٣/٣",
    ],
)
def test_g_t8_a_position_that_cannot_be_read_counts_for_nothing(text: str) -> None:
    assert Position.parse(text) is None
    assert Position.parse(str(PLACE)) == PLACE
