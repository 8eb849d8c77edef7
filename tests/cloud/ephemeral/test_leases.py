"""The rules of leases and names."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.cloud import Instance
from internal.cloud import leases
from internal.cloud.ephemeral import NoName, current_branch, manifest_of, sanitized
from internal.cloud.leases import (
    EPHEMERAL,
    LEASE_TIME,
    LeaseUnreadable,
    is_ephemeral,
    lease_end,
    lease_of,
    with_lease,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ephemeral(end: datetime | None = None, *, done: bool = True, **spec: object) -> Instance:
    manifest = manifest_of("mine", "default", "5.1.0", end or NOW + timedelta(days=1), {})
    manifest["spec"] |= spec
    made = Instance.from_manifest(manifest)
    made.status.version = "5.1.0" if done else ""
    return made


@pytest.mark.criterion("SG-77")
@settings(deadline=None)
@given(st.dictionaries(st.text(), st.text()), st.integers(0, 7_000_000_000))
def test_what_the_setter_writes_the_getter_reads(features: dict[str, str], seconds: int) -> None:
    end = datetime.fromtimestamp(seconds, UTC)
    made = with_lease(features, end)
    assert (EPHEMERAL, LEASE_TIME) == ("ephemeral_instance", "ephemeral_instance_lease_time")
    assert is_ephemeral(made)
    assert lease_end(made) == end
    assert features.keys() <= made.keys()


@pytest.mark.criterion("SG-77")
@pytest.mark.parametrize("text", ["soon", "1e9", "2026-03-01", "9" * 30])
def test_what_is_said_of_an_unreadable_lease_names_key_and_value(text: str) -> None:
    with pytest.raises(LeaseUnreadable) as caught:
        lease_end({LEASE_TIME: text})
    assert LEASE_TIME in str(caught.value)
    assert text in str(caught.value)
    told = lease_of(ephemeral(instanceFeatures={EPHEMERAL: "true", LEASE_TIME: text}), NOW)
    assert not told.delete
    assert text in told.message


@pytest.mark.criterion("SG-77")
def test_extended_by_four_days_at_a_time() -> None:
    end = NOW + timedelta(days=1)
    assert leases.extended(ephemeral(), timedelta(days=4), NOW) == end + timedelta(days=4)
    for by in (timedelta(days=4, seconds=1), timedelta(0), -timedelta(days=1)):
        with pytest.raises(leases.LeaseRefused, match="4 days at a time"):
            leases.extended(ephemeral(), by, NOW)


@pytest.mark.criterion("SG-77")
def test_reduced_to_now_at_most() -> None:
    assert leases.reduced(ephemeral(), timedelta(hours=1), NOW) == NOW + timedelta(hours=23)
    assert leases.reduced(ephemeral(), timedelta(days=9), NOW) == NOW
    assert leases.expired_now(ephemeral(), NOW) == NOW


@pytest.mark.criterion("SG-77")
def test_what_is_refused() -> None:
    plain = ephemeral(instanceFeatures={})
    cases = [
        (plain, "not ephemeral"),
        (ephemeral(done=False), "not completed"),
        (ephemeral(NOW), "ended at 2026-03-01T12:00:00Z"),
    ]
    for found, said in cases:
        with pytest.raises(leases.LeaseRefused, match=said):
            leases.extended(found, timedelta(days=1), NOW)
        with pytest.raises(leases.LeaseRefused, match=said):
            leases.reduced(found, timedelta(hours=1), NOW)
        with pytest.raises(leases.LeaseRefused, match=said):
            leases.expired_now(found, NOW)


@pytest.mark.criterion("SG-77")
def test_the_end_of_a_lease() -> None:
    assert lease_of(ephemeral(), NOW).look_again == 86400
    assert lease_of(ephemeral(NOW), NOW).delete
    protected = lease_of(ephemeral(NOW, debug={"enableDeletionProtection": True}), NOW)
    assert not protected.delete
    assert "enableDeletionProtection" in protected.message
    for on in (True, False):
        given = ephemeral(NOW, deletionProtection=on, debug={"enableDeletionProtection": not on})
        assert lease_of(given, NOW).delete is not on
    base = {"deletionProtection": True, "debug": {"enableDeletionProtection": True}}
    made = Instance.from_manifest(manifest_of("mine", "default", "5.1.0", NOW, base))
    assert lease_of(made, NOW).delete
    assert lease_of(ephemeral(instanceFeatures={LEASE_TIME: "1"}), NOW).delete is False


@settings(deadline=None)
@given(st.text())
def test_a_name_is_a_name(branch: str) -> None:
    try:
        name = sanitized(branch)
    except NoName:
        return
    assert 0 < len(name) <= 30
    assert name[0].isalpha()
    assert name[-1] != "-"
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
    assert sanitized(name) == name


def test_the_name_of_a_branch(tmp_path: Path) -> None:
    assert (
        sanitized("Feature/ABC_search+more-and-more-of-it-all") == "feature-abc-search-more-and-mo"
    )
    with pytest.raises(NoName, match="--name"):
        current_branch(tmp_path)
    subprocess.run(["git", "init", "-q", "-b", "my/branch", str(tmp_path)], check=True)
    assert current_branch(tmp_path) == "my/branch"
