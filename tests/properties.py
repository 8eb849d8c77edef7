"""What hypothesis is told for all properties: how long an example takes is nothing that it judges."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

PROFILE = "suite"


def use() -> None:
    """A busy machine makes examples slow, not wrong; and it is busy while the suite runs."""
    settings.register_profile(PROFILE, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(PROFILE)
