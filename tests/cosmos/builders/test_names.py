"""Names and labels, whatever users call things."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from internal.cosmos import labels as label_keys
from internal.cosmos.fullnode.metadata import image_tag
from internal.cosmos.names import to_host, to_label_key, to_label_value, to_name, trim_middle

LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
HOST = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=300))
def test_any_text_makes_a_label(text: str) -> None:
    value = to_label_value(text)
    assert len(value) <= 63
    assert LABEL.fullmatch(value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES, st.integers(0, 9999))
def test_any_name_of_a_set_makes_names_of_services(name: str, ordinal: int) -> None:
    for made in (
        label_keys.p2p_service_name(name, ordinal),
        label_keys.privval_service_name(name, ordinal),
        label_keys.rpc_service_name(name),
        to_host(label_keys.pod_name(name, ordinal)),
    ):
        assert len(made) <= 63
        assert HOST.fullmatch(made)


def test_names_that_fit_stay_as_they_are() -> None:
    assert label_keys.pod_name("gaia", 3) == "gaia-3"
    assert label_keys.claim_name("gaia", 3) == "pvc-gaia-3"
    assert label_keys.node_key_name("gaia", 3) == "gaia-3-node-key"
    assert label_keys.p2p_service_name("gaia", 3) == "gaia-p2p-3"
    assert label_keys.privval_service_name("gaia", 3) == "gaia-privval-3"
    assert label_keys.rpc_service_name("gaia") == "gaia-rpc"
    assert label_keys.account_name("gaia") == "gaia-vc-sa"
    assert label_keys.role_name("gaia") == "gaia-vc-r"
    assert label_keys.role_binding_name("gaia") == "gaia-vc-rb"


@pytest.mark.criterion("COSMOS-A2-7")
def test_names_lose_their_middle_and_stay_apart() -> None:
    assert trim_middle("short", 63) == "short"
    long = [f"{'a' * 40}{middle}{'b' * 40}-7" for middle in ("x", "y")]
    trimmed = [to_label_value(each) for each in long]
    assert len(set(trimmed)) == 2
    for each in trimmed:
        assert len(each) == 63
        assert each.startswith("aaaa")
        assert each.endswith("bbb-7")
    assert len(to_name("a" * 300)) == 253


@pytest.mark.criterion("COSMOS-A2-7")
def test_names_keep_only_what_names_may_have() -> None:
    assert to_name("A_b c/d.e-1") == "Abcd.e-1"
    assert to_host("7.Up_dated") == "n7-updated"
    assert to_label_value("main net!") == "main-net"
    assert to_label_key("example.com/some key") == "example.com/some-key"
    assert to_label_key("k" * 70).startswith("kkk")
    assert len(to_label_key("example.com/" + "k" * 70).partition("/")[2]) == 63


@pytest.mark.criterion("COSMOS-A10-473")
@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("gaia", "latest"),
        ("gaia:v1", "v1"),
        ("localhost:5000/gaia", "latest"),
        ("localhost:5000/gaia:v2", "v2"),
        ("gaia:v3@sha256:0123456789abcdef", "v3"),
        ("gaia@sha256:0123456789abcdef", "0123456789ab"),
    ],
)
def test_the_version_is_the_tag_of_the_image(image: str, tag: str) -> None:
    assert image_tag(image) == tag
