"""Claims of numbered instances: they grow, they are kept, and what cannot be changed is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.scalars import Quantity
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError
from ctrlruntime.client.transport import Response
from ctrlruntime.envtest import Environment
from ctrlruntime.json import Json
from ctrlruntime.resources import Control, Owner
from internal.cosmos.workload.claims import (
    STORAGE_CLASS,
    Claim,
    ClaimControl,
    ClaimProgress,
    Immutable,
    Source,
    StorageClasses,
    fitted,
    fresh,
)
from internal.cosmos.workload.sizes import in_short, requested_size
from tests.resources.ordinal_factories import CLAIM, MANAGER, OWNER, claim, existing

SNAPSHOT: Manifest = {
    "apiGroup": "snapshot.storage.k8s.io",
    "kind": "VolumeSnapshot",
    "name": "yesterday",
}
BOUND: Manifest = {"phase": "Bound", "capacity": {"storage": "10Gi"}}


@pytest.mark.parametrize(
    ("given_sizes", "more", "expected"),
    [
        (("10Gi",), {}, "10Gi"),
        (("10Gi", None, None, "20Gi"), {}, "20Gi"),
        (("30Gi", None, None, "20Gi"), {}, "20Gi"),
        (("10Gi", "50Gi", "20Gi"), {}, "51Gi"),
        (("10Gi", "50Gi", "20Gi"), {"max_size": "50Gi"}, "50Gi"),
        (("10Gi", "50Gi", "20Gi"), {"max_size": "1Ti"}, "51Gi"),
        (("10Gi", "50Gi", "60Gi"), {"max_size": "55Gi"}, "60Gi"),
        (("10Gi", None, "20Gi"), {}, "20Gi"),
        (("30Gi", None, "20Gi"), {}, "30Gi"),
        (("10Gi", None, None), {"requested": "20Gi"}, "20Gi"),
        (("10Gi", None, "15Gi", "90Gi"), {"requested": "20Gi"}, "20Gi"),
        (("1024Mi",), {}, "1Gi"),
        (("100G",), {}, "100G"),
        (("1", "100"), {"requested": "1"}, "102"),
        (("1", "99"), {"requested": "1"}, "101"),
    ],
)
def test_the_size_to_request(
    given_sizes: tuple[str, ...], more: dict[str, str], expected: str
) -> None:
    assert requested_size(*given_sizes, **more) == expected


@pytest.mark.parametrize("wrong", ["", "big", "10 Gi", "20%"])
def test_what_is_no_quantity_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        requested_size("1Gi", wrong, "1Gi")


SIZES = st.integers(1, 10**15).map(str)


@pytest.mark.criterion("COSMOS-A2-29")
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SIZES, st.none() | SIZES, st.none() | SIZES, SIZES, st.none() | SIZES)
def test_a_claim_never_shrinks(
    template: str, scaled: str | None, capacity: str | None, requested: str, limit: str | None
) -> None:
    size = requested_size(template, scaled, capacity, requested=requested, max_size=limit)
    value = Quantity(size).value
    assert value >= max(int(template), int(requested), int(capacity or 0))
    if scaled and limit is None:
        assert value >= int(scaled)
    if limit:
        assert value <= max(int(template), int(requested), int(capacity or 0), int(limit))
    again = requested_size(template, scaled, capacity, requested=size, max_size=limit)
    assert again == size


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**18))
def test_a_size_has_one_text(size: int) -> None:
    text = in_short(Quantity(size).value)
    assert Quantity(text).value == size
    assert in_short(Quantity(text).value) == text


class TestFit:
    @pytest.mark.criterion("COSMOS-A2-33")
    def test_the_source_is_given_at_creation_and_is_no_part_of_the_revision(self) -> None:
        made = fresh(Claim(desired=claim(0), source=Source(SNAPSHOT, "10Gi")))
        assert made.manifest["spec"]["dataSource"] == SNAPSHOT
        assert made.revision == fresh(Claim(desired=claim(0))).revision
        other = Source({**SNAPSHOT, "name": "today"}, "99Gi")
        fit = fitted(Claim(desired=claim(0), source=other), existing(made, status=BOUND))
        assert fit.desired.manifest["spec"] == made.manifest["spec"]
        assert fit.desired.revision == made.revision

    @pytest.mark.criterion("COSMOS-A2-29")
    def test_a_source_gives_the_size_and_the_template_is_reached_once_bound(self) -> None:
        wanted = Claim(desired=claim(0, "30Gi"), source=Source(SNAPSHOT, "20Gi"))
        made = fresh(wanted)
        waits = fitted(wanted, existing(made, status={"phase": "Pending"}))
        assert (waits.desired.revision, waits.waits) == (made.revision, True)
        grown = fitted(wanted, existing(made, status=BOUND))
        assert grown.grows
        assert grown.desired.manifest["spec"]["resources"]["requests"]["storage"] == "30Gi"

    def test_it_is_not_shrunk(self) -> None:
        there = existing(fresh(Claim(desired=claim(0, "30Gi"))), status=BOUND)
        fit = fitted(Claim(desired=claim(0, "5Gi")), there)
        assert fit.desired.manifest["spec"]["resources"]["requests"]["storage"] == "30Gi"
        assert not fit.grows

    def test_a_volume_that_is_larger_than_asked_for_is_enough(self) -> None:
        """Providers round up: that is no reason to ask them for what they gave."""
        large = {"phase": "Bound", "capacity": {"storage": "16Gi"}}
        there = existing(fresh(Claim(desired=claim(0, "10Gi"))), status=large)
        fit = fitted(Claim(desired=claim(0, "12Gi")), there, lambda _name: False)
        assert (fit.grows, fit.waits, fit.refused) == (False, False, False)

    @pytest.mark.criterion("COSMOS-A2-32")
    def test_what_cannot_be_changed_is_kept_and_reported(self) -> None:
        there = existing(fresh(Claim(desired=claim(0))), status=BOUND)
        wanted = claim(
            0,
            spec={
                "storageClassName": "slow",
                "accessModes": ["ReadWriteMany"],
                "volumeMode": "Block",
            },
        )
        fit = fitted(Claim(desired=wanted), there)
        assert [tuple(each) for each in fit.immutable] == [
            ("data-set-0", "spec.accessModes", ["ReadWriteMany"], ["ReadWriteOnce"]),
            ("data-set-0", "spec.storageClassName", "slow", "fast"),
            ("data-set-0", "spec.volumeMode", "Block", None),
        ]
        assert fit.desired.revision == fresh(Claim(desired=claim(0))).revision

    def test_a_class_that_does_not_allow_growth_is_reported(self) -> None:
        there = existing(fresh(Claim(desired=claim(0))), status=BOUND)
        asked: list[str] = []

        def expandable(name: str) -> bool:
            asked.append(name)
            return False

        fit = fitted(Claim(desired=claim(0, "20Gi")), there, expandable)
        assert (fit.refused, fit.grows, asked) == (True, False, ["fast"])
        assert fit.desired.revision == fresh(Claim(desired=claim(0))).revision

    def test_a_larger_size_is_never_taken_for_a_change_of_the_builder(self) -> None:
        made = fresh(Claim(desired=claim(0, inputs="same")))
        fit = fitted(
            Claim(desired=claim(0, inputs="same"), scaled="20Gi"), existing(made, status=BOUND)
        )
        assert fit.desired.inputs != made.inputs


@dataclass
class Harness:
    admin: Client
    cache: Cache
    control: ClaimControl
    owner: Owner
    asked: list[str] = field(default_factory=list)

    async def run(self, claims: Iterable[Claim], *, retain: bool = False) -> ClaimProgress:
        self.asked.clear()
        current = self.cache.entries(CLAIM, "default")
        return await self.control.reconcile(claims, current, self.owner, retain=retain)

    async def bound(self, *numbers: int, size: str = "10Gi") -> None:
        for number in numbers:
            name = f"data-set-{number}"
            status = {"phase": "Bound", "capacity": {"storage": size}}
            await self.admin.patch_status(CLAIM, name, {"status": status}, namespace="default")
            await self.cache.refresh(CLAIM, name, namespace="default")

    async def spec(self, number: int) -> Json:
        return (await self.admin.get(CLAIM, f"data-set-{number}", namespace="default"))["spec"]

    async def __call__(self, call: Call, execute: Execute) -> Response:
        self.asked.append(call.verb)
        return await execute(call)


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with Environment() as env, Client.connect(env.config("manager")) as client:
        admin = env.client("admin")
        for name, grows in (("fast", True), ("fixed", False)):
            manifest = {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": "example.com/disks",
                "allowVolumeExpansion": grows,
            }
            await admin.create(manifest)
        metadata = {"name": "set", "namespace": "default"}
        made: Manifest = await admin.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        )
        owner = replace(OWNER, uid=made["metadata"]["uid"])
        harness = Harness(admin, Cache(client), ClaimControl(None), owner)  # type: ignore[arg-type]
        harness.cache = Cache(client.intercepted(harness))
        harness.cache.declare(CLAIM, track_manager=MANAGER)
        harness.cache.declare(STORAGE_CLASS)
        await harness.cache.start()
        await harness.cache.wait_synced(60.0)
        control = Control(harness.cache, field_manager=MANAGER)
        harness.control = ClaimControl(control, classes=StorageClasses(harness.cache))
        yield harness
        await harness.cache.stop()


def claims(
    *numbers: int,
    size: str = "10Gi",
    source: Source | None = None,
    scaled: str | None = None,
    max_size: str | None = None,
) -> list[Claim]:
    return [
        Claim(desired=claim(number, size), source=source, scaled=scaled, max_size=max_size)
        for number in numbers
    ]


async def test_the_life_of_claims(harness: Harness) -> None:
    source = Source(SNAPSHOT, "10Gi")
    made = await harness.run(claims(0, 1, source=source))
    assert (made.created, made.requeue) == (["data-set-0", "data-set-1"], True)
    assert (await harness.spec(0))["dataSource"] == SNAPSHOT
    assert (await harness.run(claims(0, 1)), harness.asked) == (ClaimProgress(), [])

    waiting = await harness.run(claims(0, 1, size="20Gi"))
    assert (waiting, harness.asked) == (ClaimProgress(requeue=True), [])
    await harness.bound(0, 1)
    grown = await harness.run(claims(0, 1, size="20Gi"))
    assert grown.resized == ["data-set-0", "data-set-1"]
    assert not grown.errors
    spec = await harness.spec(0)
    assert spec["resources"]["requests"]["storage"] == "20Gi"
    assert spec["dataSource"] == SNAPSHOT
    await harness.bound(0, 1, size="20Gi")
    assert (await harness.run(claims(0, 1, size="5Gi")), harness.asked) == (ClaimProgress(), [])

    kept = await harness.run(claims(0), retain=True)
    assert (kept, harness.asked) == (ClaimProgress(retained=["data-set-1"]), [])
    gone = await harness.run([])
    assert gone.deleted == ["data-set-1", "data-set-0"]


async def test_what_grew_is_asked_for_once(harness: Harness) -> None:
    """Up to the ceiling, padding included."""
    await harness.run(claims(0))
    await harness.bound(0)
    scaled = claims(0, scaled="15Gi", max_size="15Gi")
    assert (await harness.run(scaled)).resized == ["data-set-0"]
    assert (await harness.spec(0))["resources"]["requests"]["storage"] == "15Gi"
    growing = {"data-set-0": "has 10Gi, not 15Gi"}
    assert (await harness.run(scaled), harness.asked) == (ClaimProgress(growing=growing), [])
    await harness.bound(0, size="15Gi")
    assert (await harness.run(scaled), harness.asked) == (ClaimProgress(), [])
    less = Immutable("data-set-0", "spec.resources.requests.storage", "10Gi", "15Gi")
    assert (await harness.run(claims(0)), harness.asked) == (ClaimProgress(immutable=[less]), [])


async def test_a_class_that_cannot_grow_is_reported_without_a_write(harness: Harness) -> None:
    fixed = Claim(desired=claim(0, spec={"storageClassName": "fixed"}))
    await harness.run([fixed])
    await harness.bound(0)
    told = await harness.run([replace(fixed, scaled="20Gi")])
    assert (told, harness.asked) == (ClaimProgress(cannot_expand=["data-set-0"]), [])


@pytest.mark.criterion("N-A14")
async def test_a_class_that_is_not_there_is_named_until_the_claim_is_bound(
    harness: Harness,
) -> None:
    of_none = Claim(desired=claim(0, spec={"storageClassName": "none"}))
    await harness.run([of_none, *claims(1)])
    found = await harness.run([of_none, *claims(1)])
    assert found.unbound == {"data-set-0": "none"}
    await harness.bound(0)
    assert (await harness.run([of_none, *claims(1)])).unbound == {}


@pytest.mark.criterion("COSMOS-A2-31")
async def test_a_claim_waits_for_its_source_and_others_do_not(harness: Harness) -> None:
    without = replace(claims(0)[0], waiting="there is no snapshot yet")
    made = await harness.run([without, *claims(1)])
    assert made.waiting == {"data-set-0": "there is no snapshot yet"}
    assert (made.created, made.requeue) == (["data-set-1"], True)
    await harness.run(claims(0, 1))
    assert (await harness.run([without, *claims(1)])).deleted == []


async def test_what_fails_stops_nothing_else(harness: Harness) -> None:
    bad = claim(0)
    bad.manifest["spec"]["accessModes"] = ["Sometimes"]
    made = await harness.run([Claim(desired=replace(bad, revision="")), *claims(1)])
    assert made.created == ["data-set-1"]
    assert all(isinstance(error, APIError) for error in made.errors)
    assert len(made.errors) == 1


@pytest.mark.criterion("COSMOS-A10-38")
async def test_labels_change_and_what_cannot_is_reported(harness: Harness) -> None:
    await harness.run(claims(0))
    wanted = claim(0, spec={"storageClassName": "slow"})
    wanted.manifest["metadata"]["labels"] = {"colour": "blue"}
    told = await harness.run([Claim(desired=replace(wanted, revision=""))])
    assert (told.updated, told.errors) == (["data-set-0"], [])
    assert [each.field for each in told.immutable] == ["spec.storageClassName"]
    assert (await harness.spec(0))["storageClassName"] == "fast"


async def test_a_claim_enlarged_by_hand_stays_so_and_still_grows(harness: Harness) -> None:
    await harness.run(claims(0))
    await harness.bound(0)
    size = {"spec": {"resources": {"requests": {"storage": "12Gi"}}}}
    await harness.admin.patch(
        CLAIM, "data-set-0", size, namespace="default", field_manager="somebody"
    )
    await harness.cache.refresh(CLAIM, "data-set-0", namespace="default")
    assert (await harness.run(claims(0))).conflicts == []
    assert (await harness.spec(0))["resources"]["requests"]["storage"] == "12Gi"
    less = Immutable("data-set-0", "spec.resources.requests.storage", "10Gi", "12Gi")
    growing = {"data-set-0": "has 10Gi, not 12Gi"}
    expected = ClaimProgress(immutable=[less], growing=growing)
    assert (await harness.run(claims(0)), harness.asked) == (expected, [])
    grown = await harness.run(claims(0, size="20Gi"))
    assert (grown.resized, grown.conflicts) == (["data-set-0"], [])
    assert (await harness.spec(0))["resources"]["requests"]["storage"] == "20Gi"


async def test_claims_of_others_are_reported_and_left_alone(harness: Harness) -> None:
    await harness.run(claims(0, 1))
    other = Harness(
        harness.admin, harness.cache, harness.control, replace(OWNER, name="other", uid="x")
    )
    told = await other.run([Claim(desired=claim(0, spec={"storageClassName": "slow"}))])
    assert [foreign.holder for foreign in told.conflicts] == ["ConfigMap/default/set"]
    assert (told.deleted, told.immutable) == ([], [])
