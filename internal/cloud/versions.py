"""Versions of the workload, compared as Semantic Versioning 2.0 says. Pure."""

import semver


def is_newer(version: str, than: str) -> bool:
    """Whether `version` comes after `than`; False if either is no version.

    A release candidate is newer than the release before its own and older than its own. `5.2` is
    `5.2.0`, and a leading `v` does not count.
    """
    one, other = parse(version), parse(than)
    return one is not None and other is not None and one.compare(other) > 0


def parse(text: str) -> semver.Version | None:
    """Return the version, or None for a text that is none, such as the name of a branch."""
    try:
        return semver.Version.parse(text.removeprefix("v"), optional_minor_and_patch=True)
    except ValueError:
        return None
