"""Which changes of version an instance's policy permits: their direction and distance. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import semver

from apis.cloud import UpgradePolicy
from internal.cloud.bulk import parse
from internal.cloud.labels import ALLOW_VERSION


def version_problem(
    policy: UpgradePolicy, before: str, after: str, annotations: Mapping[str, str]
) -> str:
    """Return why an instance may not change from the version `before` to `after`, and what to do; empty if it may.

    The order is that of semantic versions: `5.2` and `v5.2.0` are `5.2.0`, a prerelease comes before its release,
    and build metadata does not count. An annotation that names `after` permits it.
    """
    if not before or before == after or annotations.get(ALLOW_VERSION) == after:
        return ""
    problem = _problem(policy, parse(before), parse(after), before, after)
    return f"{problem}, or annotate the instance with {ALLOW_VERSION}={after}" if problem else ""


def _problem(
    policy: UpgradePolicy,
    old: semver.Version | None,
    new: semver.Version | None,
    before: str,
    after: str,
) -> str:
    if old is None:
        return ""
    if new is None:
        return f"{after!r} is no semantic version, and {before} runs: write one such as {before}"
    if new.compare(old) < 0 and not policy.allow_downgrade:
        return f"{after} is older than {before}, which runs: write {before} or a newer version"
    most = policy.max_minor_step
    if most is not None and new.compare(old) > 0 and _is_too_far(old, new, most):
        return f"{after} is more than {most} minor versions after {before}: go there in steps"
    return ""


def _is_too_far(old: semver.Version, new: semver.Version, most: int) -> bool:
    """Return whether a step is too long. The last minor version of a major one is unknown: after it comes x.0."""
    if new.major == old.major:
        return bool(new.minor - old.minor > most)
    return bool(new.major > old.major + 1 or new.minor >= most)
