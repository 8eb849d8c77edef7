"""A name belongs to the instance that holds it, or else to the one that was there first."""

from __future__ import annotations

import pytest

from apis.cloud import Instance
from internal.cloud.instance.domains import taken
from tests.support.counted_lines import lines


def instance(name: str, since: int, wanted: list[str], held: list[str]) -> Instance:
    first, *custom = wanted
    return Instance.from_manifest(
        {
            "metadata": {
                "name": name,
                "namespace": "n",
                "uid": name,
                "creationTimestamp": f"2026-01-0{since}T00:00:00Z",
            },
            "spec": {
                "version": "5.1.0",
                "domain": first,
                "customDomains": [{"dnsName": each} for each in custom],
            },
            "status": {"domains": held},
        }
    )


@pytest.mark.parametrize(
    ("held", "other_since", "other_held", "holder"),
    [
        ([], 1, [], "n/other"),
        ([], 3, [], ""),
        ([], 3, ["b.example"], "n/other"),
        (["b.example"], 1, ["b.example"], ""),
    ],
)
def test_who_holds_a_name_has_it_and_else_who_came_first(
    held: list[str], other_since: int, other_held: list[str], holder: str
) -> None:
    own = instance("own", 2, ["a.example", "b.example"], held)
    found = taken(own, [instance("other", other_since, ["b.example"], other_held)])
    assert (found.holder if found else "") == holder
    assert found is None or found.domain == "b.example"


@pytest.mark.criterion("S-F3")
def test_ten_times_the_names_are_ten_times_the_work() -> None:
    """All names of the others were collected for each: two instances with 10,000 stopped the loop for minutes."""

    def work(count: int) -> int:
        names = [f"a{number}.example" for number in range(count)]
        own = instance("own", 1, names, [])
        others = [instance(f"o{n}", 2, names, []) for n in range(3)]
        return lines(lambda: taken(own, others))

    assert work(1_000) < 15 * work(100)
