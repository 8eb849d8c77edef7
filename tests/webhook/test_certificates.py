"""Certificates that follow one another, on a clock that is set."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.webhook.certificates import (
    CertificateSet,
    UnusableSecret,
    due,
    following,
)
from ctrlruntime.webhook.rotation_options import RotationOptions
from ctrlruntime.webhook.tls import CertificateError, ServingTLS
from tests.webhook.handshakes import Clock, accepts

HOSTS = ("hooks.system.svc", "hooks.system.svc.cluster.local")
OPTIONS = RotationOptions()


def made(clock: Clock, current: CertificateSet | None = None) -> CertificateSet:
    return following(current, HOSTS, clock(), OPTIONS)


@pytest.fixture
def clock() -> Clock:
    """Today, so that handshakes in the test hold."""
    return Clock(datetime.now(UTC))


def test_the_first_set_is_for_the_names_of_the_service_and_nothing_is_due(clock: Clock) -> None:
    first = made(clock)
    assert first.hosts == set(HOSTS)
    assert first.previous == first.crosses == ()
    assert made(clock, first) is first
    clock.advance(59)
    assert made(clock, first) is first
    assert due(first, OPTIONS) > clock()


def test_a_serving_certificate_is_replaced_a_month_before_its_end(clock: Clock) -> None:
    first = made(clock)
    clock.advance(60)
    assert due(first, OPTIONS) <= clock()
    second = made(clock, first)
    assert second.authority is first.authority
    assert second.serving.certificate.serial_number != first.serving.certificate.serial_number
    assert second.bundle == first.bundle
    left = second.serving.certificate.not_valid_after_utc - clock()
    assert timedelta(days=89) < left <= timedelta(days=90)


def test_an_authority_is_followed_by_another_that_it_vouches_for(
    clock: Clock, tmp_path: Path
) -> None:
    clock.advance(-245)
    first = made(clock)
    clock.advance(245)
    second = made(clock, first)
    assert second.previous == (first.authority.certificate,)
    key = second.serving.key_pem
    for bundle in (first.bundle, second.bundle):
        assert accepts(bundle, second.chain, key, HOSTS[0], str(tmp_path))
    leaf = first.serving
    renewed = following(None, HOSTS, clock(), OPTIONS)  # nobody it is known to
    assert not accepts(
        first.bundle, renewed.chain, renewed.serving.key_pem, HOSTS[0], str(tmp_path)
    )
    assert leaf.certificate.serial_number != second.serving.certificate.serial_number

    clock.advance(0.9)
    assert made(clock, second) is second
    clock.advance(0.1)
    third = made(clock, second)
    assert third.serving is second.serving
    assert (third.previous, third.crosses) == ((), ())
    assert third.bundle != second.bundle
    assert accepts(third.bundle, third.chain, key, HOSTS[0], str(tmp_path))
    assert due(third, OPTIONS) > clock()


def test_two_rotations_within_one_overlap_keep_everybody(tmp_path: Path) -> None:
    options = RotationOptions(
        authority_lifetime=timedelta(days=100),
        authority_renewal=timedelta(days=90),
        serving_lifetime=timedelta(days=80),
        serving_renewal=timedelta(days=70),
        overlap=timedelta(days=50),
    )
    clock = Clock(datetime.now(UTC) - timedelta(days=20))
    sets: list[CertificateSet] = [following(None, HOSTS, clock(), options)]
    for _ in range(2):
        clock.advance(10)
        sets.append(following(sets[-1], HOSTS, clock(), options))
    last = sets[-1]
    assert len(last.previous) == len(last.crosses) == 2
    for older in sets:
        assert accepts(older.bundle, last.chain, last.serving.key_pem, HOSTS[0], str(tmp_path))


def test_other_names_bring_another_certificate_of_the_same_authority(clock: Clock) -> None:
    first = made(clock)
    second = following(first, ("else.system.svc",), clock(), OPTIONS)
    assert second.authority is first.authority
    assert second.hosts == {"else.system.svc"}


def test_after_the_end_of_an_authority_there_is_a_new_beginning(clock: Clock) -> None:
    first = made(clock)
    clock.advance(366)
    second = made(clock, first)
    assert second.previous == ()
    assert second.authority.certificate.subject != first.authority.certificate.subject


def test_a_set_survives_its_secret(clock: Clock) -> None:
    clock.advance(-245)
    first = made(clock)
    clock.advance(245)
    rotated = made(clock, first)
    again = CertificateSet.from_data(rotated.data())
    assert again.data() == rotated.data()
    assert made(clock, again) is again


def test_a_secret_that_does_not_fit_together_is_reported_without_its_content(clock: Clock) -> None:
    one, other = made(clock).data(), made(clock).data()
    wrong: list[tuple[Any, str]] = [
        (None, "no ca.crt"),
        ({}, "no ca.crt"),
        ({**one, "ca.key": ""}, "no certificate or key"),
        ({**one, "tls.crt": base64.b64encode(b"x").decode()}, "no certificate or key"),
        ({**one, "tls.key": other["tls.key"]}, "tls.crt and tls.key do not belong"),
        ({**one, "ca.key": other["ca.key"]}, "ca.crt and ca.key do not belong"),
        ({**one, "ca.crt": other["ca.crt"], "ca.key": other["ca.key"]}, "not signed"),
    ]
    for data, says in wrong:
        with pytest.raises(UnusableSecret, match=says) as told:
            CertificateSet.from_data(data)
        assert told.value.__cause__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"authority_renewal": timedelta(days=400)},
        {"serving_renewal": timedelta(days=90)},
        {"serving_lifetime": timedelta(days=121)},
        {"overlap": timedelta(days=120)},
    ],
)
def test_times_that_would_leave_a_gap_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"_renewal|overlap"):
        RotationOptions(**wrong)


@pytest.mark.criterion("WH-09")
def test_a_pair_that_does_not_fit_is_refused_and_the_one_before_stays(clock: Clock) -> None:
    one, other = made(clock), made(clock)
    tls = ServingTLS()
    assert not tls.loaded
    with pytest.raises(CertificateError, match="cannot be served"):
        tls.load(one.chain, other.serving.key_pem)
    assert not tls.loaded
    assert tls.load(one.chain, one.serving.key_pem)
    assert not tls.load(one.chain, one.serving.key_pem)
    with pytest.raises(CertificateError):
        tls.load(b"nothing", b"at all")
    assert tls.certificate == one.chain
